"""How far two results are from one another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from tiremote.protocol.comparison import Difference
from tiremote.protocol.dtypes import name_of
from tiremote.protocol.errors import UnsupportedType
from tiremote.worker.engine.lending import same_bytes
from tiremote.worker.engine.results import Kept

#: Elements that are compared at a time, so that no large array is made besides the two.
_PIECE: Final = 1 << 20
#: Leaves of a returned value: a longer list is told as a whole.
_MOST_LEAVES: Final = 100


def array_difference(name: str, before: np.ndarray, after: np.ndarray) -> Difference:
    """Of two arrays; with a ``note`` and no numbers where dtype or shape differ."""
    if before.dtype != after.dtype or before.shape != after.shape:
        shown = [f"{_dtype(each)} {each.shape}" for each in (before, after)]
        return Difference(name=name, same_bits=False, note=f"{shown[0]} before, {shown[1]} after")
    told = Difference(name=name, same_bits=True, dtype=_dtype(before), shape=before.shape)
    one, other = (np.ascontiguousarray(each).reshape(-1) for each in (before, after))
    largest, relative, place = 0.0, 0.0, -1
    nans = [0, 0]
    for start in range(0, one.size, _PIECE):
        mine, theirs = one[start : start + _PIECE], other[start : start + _PIECE]
        if mine.dtype.kind == "f":
            nans = [count + int(np.isnan(each).sum()) for count, each in zip(nans, (mine, theirs), strict=True)]
        if np.array_equal(mine, theirs):
            continue
        distance = _distance(mine, theirs)
        here = int(distance.argmax())
        if distance[here] > largest:
            largest, place = float(distance[here]), start + here
        relative = max(relative, _relative(mine, theirs, distance))
    found = place >= 0
    return Difference(
        name=told.name,
        same_bits=same_bytes(one, other),
        dtype=told.dtype,
        shape=told.shape,
        max_abs=largest,
        max_rel=relative,
        at=tuple(map(int, np.unravel_index(place, before.shape))) if found else None,
        before=one[place].item() if found else None,
        after=other[place].item() if found else None,
        nan_before=nans[0],
        nan_after=nans[1],
    )


def _distance(mine: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    """|a - b| of each: exact for integers of any width, infinite where one alone is NaN."""
    if mine.dtype.kind == "b":
        return np.asarray(mine != theirs, np.float64)
    if mine.dtype.kind in "iu":
        # Modulo 2**64 the difference of the larger and the smaller is right also where it leaves their type.
        larger, smaller = np.maximum(mine, theirs), np.minimum(mine, theirs)
        wide: np.ndarray = np.subtract(larger.astype(np.uint64), smaller.astype(np.uint64))
        return wide
    with np.errstate(invalid="ignore", over="ignore"):
        apart: np.ndarray = np.abs(mine.astype(np.float64) - theirs.astype(np.float64))
    lonely = np.isnan(mine) != np.isnan(theirs)
    # Both NaN, or the same infinity: no difference.
    apart[np.isnan(apart)] = 0.0
    apart[lonely] = np.inf
    return apart


def _relative(mine: np.ndarray, theirs: np.ndarray, distance: np.ndarray) -> float:
    apart = distance.astype(np.float64)
    scale = np.maximum(np.abs(mine.astype(np.float64)), np.abs(theirs.astype(np.float64)))
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = apart / scale
    ratio[apart == 0] = 0.0
    ratio[np.isinf(apart)] = np.inf
    return float(ratio.max(initial=0.0))


def value_differences(name: str, before: Any, after: Any) -> list[Difference]:
    """Of two returned values, as `to_plain` gives them: one for each number or array in them."""
    found: list[Difference] = []
    _compare(name, before, after, found)
    if len(found) > _MOST_LEAVES:
        same = all(each.same_bits for each in found)
        return [
            Difference(name=name, same_bits=same, note=f"{len(found)} values, {'' if same else 'not '}all the same")
        ]
    return found


def _compare(name: str, before: Any, after: Any, found: list[Difference]) -> None:
    if isinstance(before, (list, tuple)) and type(before) is type(after) and len(before) == len(after):
        for number, (mine, theirs) in enumerate(zip(before, after, strict=True)):
            _compare(f"{name}[{number}]", mine, theirs, found)
    elif isinstance(before, dict) and isinstance(after, dict) and before.keys() == after.keys():
        for key in before:
            _compare(f"{name}[{key!r}]", before[key], after[key], found)
    else:
        found.append(_leaf(name, before, after))


def _leaf(name: str, before: Any, after: Any) -> Difference:
    if isinstance(before, Kept) or isinstance(after, Kept):
        kinds = [type(each.value if isinstance(each, Kept) else each).__name__ for each in (before, after)]
        return Difference(
            name=name, same_bits=kinds[0] == kinds[1], note=f"not compared: {' and '.join(dict.fromkeys(kinds))}"
        )
    if _is_number(before) and _is_number(after) and type(before) is type(after):
        mine, theirs = _as_array(before), _as_array(after)
        if mine is not None and theirs is not None:
            return array_difference(name, mine, theirs)
    same = type(before) is type(after) and bool(before == after)
    if before is None and after is None:
        return Difference(name=name, same_bits=True, note="None")
    shown = "the same" if same else f"{_short(before)} before, {_short(after)} after"
    return Difference(name=name, same_bits=same, note=shown)


def _is_number(value: Any) -> bool:
    return isinstance(value, (bool, int, float, np.generic, np.ndarray))


def _as_array(value: Any) -> np.ndarray | None:
    array = np.asarray(value)
    return array if array.dtype.kind in "biuf" else None


def _dtype(array: np.ndarray) -> str:
    try:
        return name_of(array.dtype)
    except UnsupportedType:
        return str(array.dtype)


def _short(value: Any) -> str:
    if isinstance(value, (Mapping, Sequence)) and not isinstance(value, (str, bytes)):
        return f"{type(value).__name__} of {len(value)}"
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
