"""Plain Taichi programs. A worker is sent their texts, and a local process imports them."""

from __future__ import annotations

from pathlib import Path


def text_of(name: str) -> str:
    """The source of one."""
    return Path(__file__).with_name(f"{name}.py").read_text(encoding="utf-8")
