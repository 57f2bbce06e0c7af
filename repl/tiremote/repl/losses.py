"""What is there again after an engine was lost, and what is not, to be read."""

from __future__ import annotations

from collections.abc import Sequence

from tiremote.protocol.errors import AsOf, EngineError
from tiremote.repl.durations import duration

#: Names on one line; of more the number.
_MOST = 12
#: Lines for moments from which arrays are.
_MOST_MOMENTS = 6


def loss_lines(error: EngineError) -> list[str]:
    """Lines below an error's own, none where nothing was lost with it."""
    coming = set(error.coming)
    rows: list[tuple[str, Sequence[str]]] = [
        ("loaded again", [unit for unit in error.restored if unit not in coming]),
        *_put_back([one for one in error.as_of if one.name not in coming]),
        ("still on their way", error.coming),
        ("lost", error.lost),
    ]
    return [f"  {what}: {_listed(names)}" for what, names in rows if names]


def _put_back(arrays: Sequence[AsOf]) -> list[tuple[str, Sequence[str]]]:
    """Those of one moment together, the newest first."""
    moments: dict[str, list[str]] = {}
    for one in sorted(arrays, key=lambda each: each.seconds):
        moments.setdefault(f"put back {as_of_text(one)}", []).append(one.name)
    shown = list(moments.items())
    rest = [name for _, names in shown[_MOST_MOMENTS:] for name in names]
    return [*shown[:_MOST_MOMENTS], ("put back as of earlier", rest)]


def as_of_text(as_of: AsOf) -> str:
    """``as of 3.20 s before (put)``."""
    return f"as of {duration(as_of.seconds)} before ({as_of.op})"


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _MOST
    return ", ".join(names[:_MOST]) + (f" and {more:,} more" if more > 0 else "")
