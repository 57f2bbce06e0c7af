"""What a call is given, made ready to travel; and what it wrote, put back into the caller's arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class In:
    """An argument that the kernel only reads: never sent back."""

    array: Any


@dataclass(frozen=True, slots=True)
class Out:
    """An argument that the kernel only writes, and wholly: its bytes are not sent there."""

    array: Any


@dataclass(frozen=True, slots=True)
class InOut:
    """An argument that is sent, and comes back where it changed: what a bare array means too."""

    array: Any
