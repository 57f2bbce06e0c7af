"""The handles that a request names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tiremote.protocol.values import Handle


def handles_in(*values: Any) -> Iterator[Handle]:
    """Those among the values, and inside lists, tuples and dicts of them, however deep."""
    waiting = list(values)
    while waiting:
        value = waiting.pop()
        if isinstance(value, Handle):
            yield value
        elif isinstance(value, list | tuple):
            waiting.extend(value)
        elif isinstance(value, dict):
            waiting.extend(value.values())
