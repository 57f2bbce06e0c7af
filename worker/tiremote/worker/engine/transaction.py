"""A reload of one unit and of every other that depends on it: all of them, or none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tiremote.protocol.errors import CompileError, TiremoteError, UnknownName
from tiremote.worker.engine.building import Builder, Built
from tiremote.worker.engine.differences import changed_names
from tiremote.worker.engine.source import Source, read_source
from tiremote.worker.engine.unit import LoadedUnit, unknown

if TYPE_CHECKING:
    from tiremote.worker.engine.runtime import TaichiRuntime

#: In every namespace from the beginning.
GIVEN = frozenset({"ti", "tm", "np", "import_unit", "__builtins__"})


class Transaction:
    """Builds what is needed beside what there is. ``built`` is to be taken over, or `undo` is to be called.

    ``units`` are those that are loaded, the newest last; they are not changed.
    """

    def __init__(self, units: Mapping[str, LoadedUnit], runtime: TaichiRuntime, builder: Builder) -> None:
        self._before = units
        self._runtime = runtime
        self._builder = builder
        self._units = dict(units)
        self.built: list[Built] = []
        self.warnings: list[str] = []

    @property
    def units(self) -> dict[str, LoadedUnit]:
        """The units as they are after it, the newest last."""
        return self._units

    def owner(self, name: str, for_unit: str) -> LoadedUnit | None:
        """The newest unit that binds the name; a unit does not inherit from the version it replaces."""
        return owner_of(self._units, name, for_unit)

    def find(self, kernel_id: str) -> LoadedUnit:
        """A unit as it is now. Raises `UnknownName`."""
        found = self._units.get(kernel_id)
        if found is None:
            known = tuple(self._units)
            raise UnknownName(unknown("there is no unit", kernel_id, known), name=str(kernel_id), known=known)
        return found

    def load(self, source: Source, *, keep: bool) -> Built:
        """Builds the unit of that text, which becomes the newest, and then what depends on it."""
        self._build(source, self._before.get(source.unit), keep=keep)
        self._units[source.unit] = self._units.pop(source.unit)
        self._follow(source.unit)
        return self.built[0]

    def make_newest(self, unit: str) -> None:
        """Moves a unit to the end; others may take a name from it now."""
        self._units[unit] = self._units.pop(unit)
        self._follow(unit)

    def undo(self) -> None:
        """As if nothing had been built."""
        while self.built:
            self.built.pop().undo(self._runtime)
        self._runtime.collect()

    def _build(self, source: Source, old: LoadedUnit | None, *, keep: bool) -> None:
        built = self._builder.build(source, old, keep=keep)
        self.built.append(built)
        self._units[source.unit] = built.loaded
        built.changed = changed_names(old, built.loaded, built.kept.touched, self._changed, self._runtime)

    def _changed(self, unit: str, name: str) -> bool:
        return any(name in built.moved() for built in self.built if built.loaded.unit == unit)

    def _follow(self, first: str) -> None:
        """Builds every unit anew that took a name that is another now. Each is built once: that is enough unless units
        use one another in a circle, and then it ends."""
        done = {first}
        failed: set[str] = set()
        waiting = True
        while waiting:
            waiting = False
            for unit, loaded in list(self._units.items()):
                if unit in done or unit in failed:
                    continue
                names = self._affected(loaded)
                if not names:
                    continue
                waiting = True
                source = read_source(loaded.source.text, unit, loaded.version, loaded.source.build + 1)
                try:
                    self._build(source, loaded, keep=True)
                except TiremoteError as error:
                    if not self._only_shadowed(loaded, names):
                        raise _in_dependent(error, unit, first, names) from None
                    # It never asked for these: a newer unit has names that are also those of an older one.
                    self.warnings.append(f"{unit} goes on without {', '.join(sorted(names))} of {first}: {error}")
                    failed.add(unit)
                else:
                    done.add(unit)
        for unit in done - failed:
            if len(done) > 1 and unit != first and self._affected(self._units[first], only=unit):
                self.warnings.append(
                    f"{first} and {unit} use names of one another: {first} has those from before this load"
                )

    def _affected(self, loaded: LoadedUnit, only: str | None = None) -> set[str]:
        """The names it took, or would take now, that are not what they were."""
        found: set[str] = set()
        for name in loaded.source.names.free & self._moved():
            owner, before = self.owner(name, loaded.unit), loaded.uses.get(name)
            if only is not None and (owner is None or owner.unit != only):
                continue
            if owner is None:
                if before is not None and before[0] in self._touched_units():
                    found.add(name)
            elif before is None or before[0] != owner.unit:
                if owner.unit in self._touched_units() and not self._is_bound_at_run_time(loaded, name):
                    found.add(name)
            elif self._changed(owner.unit, name):
                found.add(name)
        for unit, names in loaded.imports.items():
            if only is not None and unit != only:
                continue
            for built in self.built:
                if built.loaded.unit == unit:
                    moved = built.moved()
                    found |= moved if None in names else {name for name in names if name in moved}
        return found

    def _moved(self) -> frozenset[str]:
        """The names that may come from elsewhere now, or be another there."""
        newest = self._units[next(reversed(self._units))]
        return newest.own.union(*(built.moved() for built in self.built)) - GIVEN

    def _touched_units(self) -> set[str]:
        newest = next(reversed(self._units), None)
        return {built.loaded.unit for built in self.built} | ({newest} if newest is not None else set())

    def _is_bound_at_run_time(self, loaded: LoadedUnit, name: str) -> bool:
        # Set from outside (``unit.name = value``): nobody else's is taken for it.
        return name in loaded.namespace and name not in loaded.uses

    def _only_shadowed(self, loaded: LoadedUnit, names: set[str]) -> bool:
        for name in names:
            owner, before = self.owner(name, loaded.unit), loaded.uses.get(name)
            if owner is None or any(name in taken or None in taken for taken in loaded.imports.values()):
                return False
            if before is not None and before[0] == owner.unit:
                return False
        return True


def owner_of(units: Mapping[str, LoadedUnit], name: str, for_unit: str) -> LoadedUnit | None:
    """The newest unit that binds the name, other than the one that asks."""
    for unit in reversed(list(units)):
        loaded = units[unit]
        if unit != for_unit and name in loaded.own and name in loaded.namespace:
            return loaded
    return None


def _in_dependent(error: TiremoteError, unit: str, first: str, names: set[str]) -> TiremoteError:
    """Says which unit does not go with the new text, where the frames cannot."""
    if isinstance(error, CompileError):
        shown = ", ".join(sorted(names))
        return CompileError(f"{error.message} (in {unit}, which uses {shown} of {first})", frames=error.frames)
    return error
