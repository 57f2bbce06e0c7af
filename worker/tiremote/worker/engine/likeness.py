"""Whether two values are certainly the same, and copies of values that can be compared later. Unsure is no."""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from tiremote.worker.engine.runtime import TaichiRuntime

_SCALARS = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis), np.generic)
_MOST_ITEMS = 10_000
_MOST_BYTES = 1 << 20
_DEEPEST = 8


def is_a(value: object, kinds: type | tuple[type, ...]) -> bool:
    """`isinstance` that asks nothing of the value: a user's ``__getattribute__`` may raise."""
    return issubclass(type(value), kinds)


class Unlike:
    """What nothing is like: stands for a value of which no copy can be made."""


UNKNOWN: Final = Unlike()


def same(old: Any, new: Any, runtime: TaichiRuntime, depth: int = 0) -> bool:
    """Equal by type and value."""
    if old is new:
        return True
    if type(old) is not type(new) or depth > _DEEPEST:
        return False
    if is_a(new, _SCALARS):
        return _same_scalar(old, new)
    if type(new) in (list, tuple):
        return (
            len(old) == len(new) <= _MOST_ITEMS
            and all(same(a, b, runtime, depth + 1) for a, b in zip(old, new, strict=True))
        )  # fmt: skip
    if type(new) is dict:
        return (
            len(old) == len(new) <= _MOST_ITEMS
            and list(old) == list(new)
            and all(same(old[key], new[key], runtime, depth + 1) for key in new)
        )
    if type(new) in (set, frozenset):
        return all(is_a(each, _SCALARS) for each in (*old, *new)) and bool(old == new)
    if type(new) is np.ndarray:
        return (
            old.dtype == new.dtype
            and old.shape == new.shape
            and not new.dtype.hasobject
            and new.nbytes <= _MOST_BYTES
            and old.tobytes() == new.tobytes()
        )
    if is_a(new, (types.ModuleType, type, types.FunctionType)):
        return False
    return runtime.same_value(old, new)


def copy_of(value: Any, runtime: TaichiRuntime, depth: int = 0) -> Any:
    """A copy that later changes do not reach, to be compared by `same`; `UNKNOWN` where that cannot be."""
    if is_a(value, _SCALARS):
        return value
    if depth > _DEEPEST:
        return UNKNOWN
    if type(value) in (list, tuple) and len(value) <= _MOST_ITEMS:
        items = [copy_of(each, runtime, depth + 1) for each in value]
        return UNKNOWN if any(each is UNKNOWN for each in items) else type(value)(items)
    if type(value) is dict and len(value) <= _MOST_ITEMS:
        copied = {key: copy_of(each, runtime, depth + 1) for key, each in value.items()}
        plain = all(is_a(key, _SCALARS) for key in copied)
        return copied if plain and not any(each is UNKNOWN for each in copied.values()) else UNKNOWN
    if type(value) in (set, frozenset) and all(is_a(each, _SCALARS) for each in value):
        return type(value)(value)
    if type(value) is np.ndarray and value.nbytes <= _MOST_BYTES and not value.dtype.hasobject:
        return value.copy()
    return runtime.copy_value(value, UNKNOWN)


def _same_scalar(old: Any, new: Any) -> bool:
    # repr tells 0.0 from -0.0 and finds nan like nan; a str or bytes may be long.
    if is_a(new, (float, complex, np.generic)):
        return repr(old) == repr(new)
    return bool(old == new)
