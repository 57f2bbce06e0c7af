"""State stays: what a new version declares as the one before did goes on with its contents.

Nothing of the old version is changed but its objects, and those can be put back.
"""

from __future__ import annotations

import types
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tiremote.worker.engine.declarations import is_array, members, parts
from tiremote.worker.engine.likeness import UNKNOWN, copy_of, is_a, same
from tiremote.worker.engine.pairing import Pair, Pairs, attributes, find_pairs, is_unit_object
from tiremote.worker.engine.rebinding import Rebinder

if TYPE_CHECKING:
    from tiremote.worker.engine.runtime import TaichiRuntime


@dataclass(frozen=True, slots=True)
class Initial:
    """An object, and copies of its plain attributes as its text made them."""

    owner: weakref.ref[Any]
    values: Mapping[str, Any]


@dataclass(slots=True)
class Kept:
    """What stayed, what did not (paths), and what has to be known to take it back or to tell what changed.

    ``discarded``: ids of the field members that nothing uses any more. ``touched``: ids of old objects that got another
    class or another attribute. ``initial``: ids of objects to what they began with, for the next reload.
    """

    kept: list[str] = field(default_factory=list)
    reset: list[str] = field(default_factory=list)
    discarded: set[int] = field(default_factory=set)
    touched: set[int] = field(default_factory=set)
    classes: set[str] = field(default_factory=set)
    initial: dict[int, Initial] = field(default_factory=dict)
    _before: list[tuple[Any, type, dict[str, Any]]] = field(default_factory=list)

    def note(self, value: Any) -> None:
        """Remembers an object as it is, before it is changed."""
        self._before.append((value, type(value), dict(attributes(value))))

    def undo(self) -> None:
        """Puts every old object back as it was."""
        for value, cls, before in reversed(self._before):
            object.__setattr__(value, "__class__", cls)
            now = attributes(value)
            now.clear()
            now.update(before)
        self._before.clear()

    def release(self) -> None:
        """The reload succeeded: what would take it back is let go."""
        self._before.clear()


def initial_values(namespace: Mapping[str, Any], names: frozenset[str], runtime: TaichiRuntime) -> dict[int, Initial]:
    """What the objects of a version that was just executed begin with."""
    pairs = find_pairs(namespace, namespace, [name for name in names if name in namespace], runtime)
    found = {}
    for pair in pairs.objects:
        try:
            owner = weakref.ref(pair.new)
        except TypeError:
            continue
        values = {name: copy_of(value, runtime) for name, value in attributes(pair.new).items()}
        found[id(pair.new)] = Initial(owner, values)
    return found


def keep_state(
    old: Mapping[str, Any],
    new: dict[str, Any],
    names: frozenset[str],
    before: Mapping[int, Initial],
    kept: Kept,
    runtime: TaichiRuntime,
) -> None:
    """Binds the new version's ``names`` to what stays of the old one's, and says in ``kept`` what it did.

    ``before``: the old version's initial values. Where it raises, ``kept.undo()`` puts everything back.
    """
    pairs = find_pairs(old, new, names, runtime)
    kept.initial = initial_values(new, frozenset(new), runtime)
    _Keeper(pairs, kept, before, runtime).decide(new)


class _Keeper:
    def __init__(self, pairs: Pairs, kept: Kept, before: Mapping[int, Initial], runtime: TaichiRuntime) -> None:
        self._pairs = pairs
        self._kept = kept
        self._before = before
        self._runtime = runtime
        #: Ids of new things to the old ones.
        self._stands: dict[int, Any] = {}
        #: The new things themselves, so that no id is used twice meanwhile.
        self._alive: list[Any] = []

    def decide(self, namespace: dict[str, Any]) -> None:
        kept, pairs, runtime = self._kept, self._pairs, self._runtime
        for pair in pairs.arrays:
            kept.kept.append(pair.path)
            for mine, theirs in parts(pair.old, pair.new, runtime):
                self._stand(theirs, mine)
            if runtime.is_field(pair.new):
                kept.discarded.update(id(member) for _, member in members(pair.new, runtime))
        for pair in pairs.trees:
            self._stand(pair.new, pair.old)
        kept.reset += pairs.unlike
        living = [pair for pair in pairs.objects if pair.old is pair.new or self._takes_class(pair)]
        for pair in living:
            if pair.old is not pair.new:
                self._stand(pair.new, pair.old)
        for pair in living:
            if pair.old is not pair.new:
                self._merge(pair)
        rebinder = Rebinder(self._stands, pairs.nodes, runtime)
        rebinder.namespace(namespace)
        for pair in living:
            rebinder.value(pair.old)
        self._alive.clear()
        kept.kept.sort()
        kept.reset.sort()

    def _stand(self, new: Any, old: Any) -> None:
        self._stands[id(new)] = old
        self._alive.append(new)

    def _takes_class(self, pair: Pair) -> bool:
        kept = self._kept
        kept.note(pair.old)
        if type(pair.old) is not type(pair.new):
            try:
                object.__setattr__(pair.old, "__class__", type(pair.new))
            except TypeError:
                # Slots or another base: no object of the old class can become one of the new.
                kept.reset.append(pair.path)
                return False
            kept.classes.add(type(pair.new).__qualname__)
        kept.kept.append(pair.path)
        return True

    def _merge(self, pair: Pair) -> None:
        known = self._before.get(id(pair.old))
        initial = known.values if known is not None and known.owner() is pair.old else {}
        mine, theirs = attributes(pair.old), attributes(pair.new)
        for name in self._runtime.layout.remembered:
            mine.pop(name, None)
            theirs.pop(name, None)
        merged = {name: value for name, value in mine.items() if name not in theirs and name not in initial}
        touched = any(name not in merged for name in mine.keys() - theirs.keys())
        for name, value in theirs.items():
            path = f"{pair.path}.{name}"
            if name not in mine:
                merged[name], touched = value, True
                continue
            was, now = mine[name], self._attribute(path, mine[name], value, initial.get(name, UNKNOWN))
            merged[name] = now
            stays = now is was or id(value) in self._stands or same(was, now, self._runtime)
            touched = touched or not stays
        mine.clear()
        mine.update(merged)
        made = self._kept.initial.pop(id(pair.new), None)
        if made is not None:
            self._kept.initial[id(pair.old)] = Initial(weakref.ref(pair.old), made.values)
        if touched:
            self._kept.touched.add(id(pair.old))

    def _attribute(self, path: str, old: Any, new: Any, initial: Any) -> Any:
        runtime = self._runtime
        if id(new) in self._stands or is_array(new, runtime) or is_unit_object(new):
            # A buffer that was swapped with another has the same declaration under both names.
            swapped = is_array(old, runtime) and any(old is value for value in self._stands.values())
            return old if swapped and path not in self._pairs.unlike else new
        if copy_of(old, runtime) is UNKNOWN or copy_of(new, runtime) is UNKNOWN:
            if not _is_code(new, runtime) and type(new) not in (list, tuple, dict):
                self._kept.reset.append(path)
            return new
        if initial is UNKNOWN:
            return old if type(old) is type(new) else new
        return old if same(initial, new, runtime) else new


def _is_code(value: Any, runtime: TaichiRuntime) -> bool:
    return callable(value) or is_a(value, types.ModuleType) or runtime.is_snode(value)
