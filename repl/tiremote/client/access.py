"""Which way an array argument travels: `In`, `Out`, `InOut`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tiremote.protocol.values import Access


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


ACCESS: Mapping[type, Access] = {In: "in", Out: "out", InOut: "inout"}
