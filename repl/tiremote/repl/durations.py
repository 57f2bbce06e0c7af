"""Times, to be read."""

from __future__ import annotations


def duration(seconds: float) -> str:
    """``0.41 s``, ``12 s``, ``3 min 20 s``, ``5 h 2 min``."""
    if seconds < 10:
        return f"{seconds:.2f} s"
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = int(seconds // 60)
    if minutes < 60:
        return f"{minutes} min {int(seconds % 60)} s"
    return f"{minutes // 60} h {minutes % 60} min"
