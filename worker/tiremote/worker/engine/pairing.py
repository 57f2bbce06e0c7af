"""Which fields, ndarrays and objects of a new version stand for which of the old one: same name, same declaration."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tiremote.worker.engine.declarations import ancestors, declaration, is_array, is_sparse, leaves, members, parts

if TYPE_CHECKING:
    from tiremote.worker.engine.runtime import TaichiRuntime

#: How every unit's module is named (`unit.module_name`): what tells its classes from those of libraries.
MODULE_PREFIX = "tiremote unit ["
#: Longer lists hold data, not fields, and the walk has to end.
_LONGEST = 10_000
_MOST_VALUES = 200_000
_DEEPEST = 12


@dataclass(frozen=True, slots=True, eq=False)
class Pair:
    """``path`` is how the text reaches it: ``x``, ``layers[0]``, ``sim.grid.mass``."""

    path: str
    old: Any
    new: Any


@dataclass(slots=True)
class Pairs:
    """``nodes``: ids of new SNodes to the old ones. ``unlike``: paths of arrays that were declared differently."""

    arrays: list[Pair] = field(default_factory=list)
    objects: list[Pair] = field(default_factory=list)
    trees: list[Pair] = field(default_factory=list)
    unlike: list[str] = field(default_factory=list)
    nodes: dict[int, Any] = field(default_factory=dict)


def find_pairs(old: Mapping[str, Any], new: Mapping[str, Any], names: Collection[str], runtime: TaichiRuntime) -> Pairs:
    """Goes through the names that both have, and the lists, dicts and objects behind them."""
    walk = _Walk(runtime)
    # Names first: an array that an object or a list refers to as well is known by its own name.
    ordered = sorted(names, key=lambda name: not is_array(new[name], runtime))
    for name in ordered:
        walk.pair(name, old[name], new[name], 0)
    pairs = walk.pairs
    _settle_blocks(pairs, runtime)
    return pairs


def is_unit_object(value: object) -> bool:
    """Whether this is an instance of a class that some unit's text defines, with attributes of its own."""
    cls = type(value)
    return (
        str(cls.__dict__.get("__module__", "")).startswith(MODULE_PREFIX)
        and not issubclass(cls, type)
        and hasattr(cls, "__dictoffset__")
        and cls.__dictoffset__ != 0
    )


def attributes(value: Any) -> dict[str, Any]:
    """An object's own attributes, whatever its class does when it is asked for one."""
    return object.__getattribute__(value, "__dict__")  # type: ignore[no-any-return]


def _same_class(old: type, new: type) -> bool:
    unit = str(new.__module__).rpartition("] v")[0]
    return old.__qualname__ == new.__qualname__ and str(old.__module__).rpartition("] v")[0] == unit


class _Walk:
    def __init__(self, runtime: TaichiRuntime) -> None:
        self._runtime = runtime
        self.pairs = Pairs()
        self._seen: set[tuple[int, int]] = set()
        self._old: set[int] = set()
        self._new: set[int] = set()

    def pair(self, path: str, old: Any, new: Any, depth: int) -> None:
        if old is new and not is_unit_object(new):
            return
        if (id(old), id(new)) in self._seen or len(self._seen) > _MOST_VALUES or depth > _DEEPEST:
            return
        runtime = self._runtime
        if is_array(old, runtime) or is_array(new, runtime):
            self._seen.add((id(old), id(new)))
            self._arrays(path, old, new)
        elif is_unit_object(old) and is_unit_object(new):
            self._seen.add((id(old), id(new)))
            if _same_class(type(old), type(new)) and self._free(old, new):
                self.pairs.objects.append(Pair(path, old, new))
                mine, theirs = attributes(old), attributes(new)
                for name in mine.keys() & theirs.keys():
                    self.pair(f"{path}.{name}", mine[name], theirs[name], depth + 1)
        elif runtime.is_snode_tree(old) and runtime.is_snode_tree(new):
            self.pairs.trees.append(Pair(path, old, new))
        else:
            self._containers(path, old, new, depth)

    def _containers(self, path: str, old: Any, new: Any, depth: int) -> None:
        if type(old) is not type(new) or type(new) not in (list, tuple, dict) or len(new) > _LONGEST:
            return
        self._seen.add((id(old), id(new)))
        if isinstance(new, dict):
            for key in new:
                if isinstance(key, str | int) and key in old:
                    self.pair(f"{path}[{key!r}]", old[key], new[key], depth + 1)
            return
        for number, (mine, theirs) in enumerate(zip(old, new, strict=False)):
            self.pair(f"{path}[{number}]", mine, theirs, depth + 1)

    def _arrays(self, path: str, old: Any, new: Any) -> None:
        runtime = self._runtime
        was = declaration(old, runtime) if is_array(old, runtime) else None
        now = declaration(new, runtime) if is_array(new, runtime) else None
        if was is not None and runtime.is_field(old) and not self._is_allocated(old):
            # Its block was never completed: nothing is in it.
            return
        if was is not None and was == now:
            if self._free(old, new):
                self.pairs.arrays.append(Pair(path, old, new))
        elif was is not None:
            self.pairs.unlike.append(path)

    def _is_allocated(self, field: Any) -> bool:
        placed = [member for where, member in members(field, self._runtime) if where.startswith("primal")]
        return all(self._runtime.trees.is_allocated(member) for member in placed)

    def _free(self, old: Any, new: Any) -> bool:
        """Whether neither stands for another already: one never becomes two."""
        if id(old) in self._old or id(new) in self._new:
            return False
        for mine, theirs in parts(old, new, self._runtime) if is_array(new, self._runtime) else [(old, new)]:
            self._old.add(id(mine))
            self._new.add(id(theirs))
        return True


def _settle_blocks(pairs: Pairs, runtime: TaichiRuntime) -> None:
    """Lets go of fields whose blocks do not fit together: two that shared a cell and do not any more, or the other way
    round, and those of a sparse tree of which not all stay."""
    fields = [pair for pair in pairs.arrays if runtime.is_field(pair.new)]
    while True:
        nodes, bad = _matched(fields, runtime)
        kept = [pair for pair in fields if pair not in bad]
        if len(kept) == len(fields):
            break
        fields = kept
    pairs.nodes = nodes
    stays = {id(pair) for pair in fields}
    for pair in list(pairs.arrays):
        if runtime.is_field(pair.new) and id(pair) not in stays:
            pairs.arrays.remove(pair)
            pairs.unlike.append(pair.path)


def _matched(fields: list[Pair], runtime: TaichiRuntime) -> tuple[dict[int, Any], set[Pair]]:
    nodes: dict[int, Any] = {}
    back: dict[int, int] = {}
    users: dict[int, set[Pair]] = {}
    bad: set[Pair] = set()
    places: set[int] = set()
    sparse: dict[int, tuple[Any, set[Pair]]] = {}
    for pair in fields:
        for (_, mine), (_, theirs) in zip(members(pair.old, runtime), members(pair.new, runtime), strict=True):
            was, now = mine.ptr.snode(), theirs.ptr.snode()
            if now is None or was is None:
                continue
            places.add(int(now.id))
            above = ancestors(now)
            for before, after in zip(ancestors(was), above, strict=True):
                partner, other = nodes.setdefault(after.id, before), back.setdefault(before.id, after.id)
                if partner.id != before.id or other != after.id:
                    bad |= {pair} | users.get(after.id, set()) | users.get(other, set())
                users.setdefault(after.id, set()).add(pair)
            if is_sparse(now):
                sparse.setdefault(above[-1].id, (above[-1], set()))[1].add(pair)
    for top, within in sparse.values():
        if not places.issuperset(leaves(top)):
            bad |= within
    return nodes, bad
