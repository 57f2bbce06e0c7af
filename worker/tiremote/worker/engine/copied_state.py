"""A version of its own beside what is loaded: it begins with copies of what the loaded one's arrays and objects hold.

What stands for what is decided as in a reload: the same path, the same declaration.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from tiremote.protocol.errors import TiremoteError
from tiremote.worker.engine.arrays import Arrays
from tiremote.worker.engine.declarations import is_array, parts
from tiremote.worker.engine.likeness import UNKNOWN, copy_of, same
from tiremote.worker.engine.pairing import Pair, attributes, find_pairs, is_unit_object
from tiremote.worker.engine.places import arrays_in, why_not_copied

if TYPE_CHECKING:
    from tiremote.worker.engine.runtime import TaichiRuntime
    from tiremote.worker.engine.unit import LoadedUnit


@dataclass(slots=True)
class Copied:
    """``stands``: ids of what is loaded to what stands for it in the copy. ``contents``: what arrays of the copy hold,
    by identity. ``warnings``: what begins as declared, and why."""

    stands: dict[int, Any] = field(default_factory=dict)
    contents: dict[int, np.ndarray] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)


def copy_state(
    loaded: LoadedUnit,
    copy: LoadedUnit,
    read: dict[int, np.ndarray],
    elsewhere: Container[int],
    arrays: Arrays,
    runtime: TaichiRuntime,
) -> Copied:
    """Fills the arrays and objects of ``copy``.

    ``read``: contents of loaded arrays by identity, added to here. ``elsewhere``: ids of what other units hold.
    """
    names = copy.own & loaded.own & loaded.namespace.keys()
    pairs = find_pairs(loaded.namespace, copy.namespace, names, runtime)
    copied = Copied()
    for pair in pairs.arrays:
        for mine, theirs in parts(pair.old, pair.new, runtime):
            copied.stands[id(mine)] = theirs
            _copy_array(mine, theirs, read, copied, arrays, runtime)
    for pair in pairs.objects:
        copied.stands[id(pair.old)] = pair.new
    for pair in pairs.objects:
        _copy_attributes(pair, loaded, copied, runtime)
    unlike = set(pairs.unlike)
    for path, array in arrays_in(copy.namespace, [name for name in copy.own if name in copy.namespace], runtime):
        if is_array(array, runtime) and id(array) not in copied.contents and id(array) not in elsewhere:
            copied.warnings.append(f"{path} begins as declared: {_why(path, array, unlike, runtime)}")
    return copied


def _copy_array(
    mine: Any,
    theirs: Any,
    read: dict[int, np.ndarray],
    copied: Copied,
    arrays: Arrays,
    runtime: TaichiRuntime,
) -> None:
    is_field = runtime.is_field(mine)
    if runtime.is_struct_field(mine) or (is_field and why_not_copied(mine, runtime) is not None):
        return
    try:
        if id(mine) not in read:
            read[id(mine)] = arrays.read(mine)
        arrays.write(theirs, read[id(mine)])
    except TiremoteError:
        # Of a type that cannot be read, such as a quantised one.
        return
    copied.contents[id(theirs)] = read[id(mine)]


def _why(path: str, array: Any, unlike: set[str], runtime: TaichiRuntime) -> str:
    if path in unlike:
        return "what is loaded declares it otherwise"
    return why_not_copied(array, runtime) or "what is loaded has none like it"


def _copy_attributes(pair: Pair, loaded: LoadedUnit, copied: Copied, runtime: TaichiRuntime) -> None:
    """As a reload merges objects: a value goes on unless the text begins with another now."""
    known = loaded.initial.get(id(pair.old))
    initial = known.values if known is not None and known.owner() is pair.old else {}
    mine, theirs = attributes(pair.old), attributes(pair.new)
    for name, value in mine.items():
        new = theirs.get(name, UNKNOWN)
        if name not in theirs and name in initial:
            continue
        if is_array(value, runtime) or is_unit_object(value) or is_array(new, runtime) or is_unit_object(new):
            if name not in theirs and id(value) not in copied.stands:
                copied.warnings.append(f"{pair.path}.{name} is not there: no text declares it")
            continue
        if name in theirs and not (same(initial[name], new, runtime) if name in initial else type(value) is type(new)):
            continue
        copy = copy_of(value, runtime)
        if copy is not UNKNOWN:
            theirs[name] = copy
        elif not callable(value) and type(value) not in (list, tuple, dict):
            copied.warnings.append(f"{pair.path}.{name} begins as declared: a {type(value).__name__} cannot be copied")
