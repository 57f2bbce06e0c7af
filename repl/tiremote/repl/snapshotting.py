"""What `:snapshot` is asked for."""

from __future__ import annotations

from math import inf
from typing import Any

_UNITS = {"s": 1.0, "min": 60.0, "h": 3600.0}


def read_plan(text: str) -> dict[str, Any]:
    """What follows ``:snapshot``, as the session's `snapshot` takes it. Raises `ValueError`."""
    words = text.split()
    if not words:
        return {}
    if words == ["off"]:
        return {"every_seconds": 0.0, "every_runs": 0}
    if len(words) == 1:
        words = ["every", *words, "s"]
    if words[0] == "every" and len(words) == 3:
        try:
            number = float(words[1])
        except ValueError:
            number = -1.0
        if 0 <= number < inf and words[2] in _UNITS:
            return {"every_seconds": number * _UNITS[words[2]]}
        if number >= 1 and number.is_integer() and words[2] in ("run", "runs"):
            return {"every_runs": int(number)}
    raise ValueError(f"{text!r} is no plan: a number of seconds, every 5 min, every 100 runs, or off")
