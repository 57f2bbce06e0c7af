"""How single values are put back as they are now: the names of a namespace, an object, a list, a generator."""

from __future__ import annotations

import collections
import random
import types
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from tiremote.worker.engine.likeness import is_a
from tiremote.worker.engine.pairing import MODULE_PREFIX, attributes, is_unit_object


def random_numbers_again() -> Callable[[], None]:
    """What has Python's and NumPy's own generators give the same numbers again."""
    python, numpy = random.getstate(), np.random.get_state()

    def put_back() -> None:
        random.setstate(python)
        np.random.set_state(numpy)

    return put_back


def own_names(namespace: Mapping[str, Any]) -> dict[str, Any]:
    """The names of a namespace without those that Python puts there."""
    return {name: value for name, value in namespace.items() if not name.startswith("__")}


def content_of(cell: Any) -> list[Any]:
    """What a closure's cell holds, nothing before it is assigned."""
    try:
        return [cell.cell_contents]
    except ValueError:
        return []  # not assigned yet


def names_again(namespace: dict[str, Any]) -> Callable[[], None]:
    """What has the names of a namespace stand for what they stand for now."""
    before = own_names(namespace)

    def put_back() -> None:
        for name in own_names(namespace).keys() - before.keys():
            del namespace[name]
        namespace.update(before)

    return put_back


def again(value: Any) -> Callable[[], None] | None:
    """What puts a value back as it is now, seen by itself; None where nothing of it changes."""
    if is_a(value, list):
        items = list(value)
        return lambda: list.__setitem__(value, slice(None), items)
    for base, fill in _REFILLED:
        if is_a(value, base):
            return _refilled(value, base.clear, fill, base.copy(value))
    if is_unit_object(value) or is_a(value, types.SimpleNamespace):
        inside = attributes(value)
        return _refilled(inside, dict.clear, dict.update, dict(inside))
    if is_a(value, types.CellType):
        inner = content_of(value)
        return lambda: setattr(value, "cell_contents", inner[0]) if inner else None
    if is_a(value, type) and str(value.__module__).startswith(MODULE_PREFIX):
        return _class_again(value)
    if is_a(value, random.Random):
        stand = value.getstate()
        return lambda: value.setstate(stand)
    if is_a(value, np.random.Generator):
        state = value.bit_generator.state
        return lambda: setattr(value.bit_generator, "state", state)
    return None


#: How containers are filled, asked of their own types: a user's may have methods of its own.
_REFILLED: Final[tuple[tuple[Any, Callable[[Any, Any], None]], ...]] = (
    (dict, dict.update),
    (set, set.update),
    (collections.deque, collections.deque.extend),
    (bytearray, bytearray.extend),
)


def _refilled(
    value: Any, clear: Callable[[Any], None], fill: Callable[[Any, Any], None], items: Any
) -> Callable[[], None]:
    def put_back() -> None:
        clear(value)
        fill(value, items)

    return put_back


def _class_again(cls: type) -> Callable[[], None]:
    before = own_names(vars(cls))

    def put_back() -> None:
        for name in own_names(vars(cls)).keys() - before.keys():
            delattr(cls, name)
        for name, value in before.items():
            if vars(cls).get(name) is not value:
                setattr(cls, name, value)

    return put_back
