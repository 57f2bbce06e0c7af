"""An index out of bounds as a debug session's error words it, and read out of that text again."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

_LIST = r"([-\d, ]*)"
_OURS = re.compile(rf"^index \({_LIST}\) is out of bounds: the shape is \({_LIST}\)(?:, from \({_LIST}\) on)?$")

#: What Taichi 1.7.4 says by itself: of a field, of a vector or matrix, of an ndarray (without its shape).
_TAICHIS = (
    re.compile(rf"^Accessing field \(.*\) of size \((?P<shape>{_LIST})\) with indices \((?P<index>{_LIST})\)"),
    re.compile(rf"^Out of bound access to a \[(?P<shape>{_LIST})\] matrix with index \[(?P<index>{_LIST})\]"),
    re.compile(rf"^Out of bound access to ndarray at arg \d+ with indices \[(?P<index>{_LIST})\]"),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class OutOfBounds:
    """Along each axis ``index`` should be at least that of ``first`` and less than that plus ``shape``.

    ``shape`` is empty where it was not told, ``first`` where it is all zeros.
    """

    index: tuple[int, ...]
    shape: tuple[int, ...] = ()
    first: tuple[int, ...] = ()


def message(index: Sequence[object], shape: Sequence[object], first: Sequence[object] = ()) -> str:
    """The text. What it is given may be places that are filled in later, such as ``%d``."""
    text = f"index ({_listed(index)}) is out of bounds: the shape is ({_listed(shape)})"
    return f"{text}, from ({_listed(first)}) on" if first else text


def read(text: str) -> OutOfBounds | None:
    """What an error's text tells of an index out of bounds; None where it is about something else."""
    ours = _OURS.match(text)
    if ours is not None:
        index, shape, first = (_numbers(one or "") for one in ours.groups())
        return OutOfBounds(index=index, shape=shape, first=first)
    for pattern in _TAICHIS:
        found = pattern.match(text)
        if found is not None:
            named = found.groupdict()
            return OutOfBounds(index=_numbers(named["index"]), shape=_numbers(named.get("shape", "")))
    return None


def _listed(numbers: Sequence[object]) -> str:
    return ", ".join(map(str, numbers))


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(one) for one in text.split(",") if one.strip())
