"""A reload of units and of every other that depends on them: all of them, or none."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from tiremote.protocol.errors import CompileError, TiremoteError, UnknownName
from tiremote.worker.engine.build_order import dependencies_first
from tiremote.worker.engine.building import Builder, Built
from tiremote.worker.engine.differences import changed_names
from tiremote.worker.engine.source import Source, read_source
from tiremote.worker.engine.unit import GIVEN, LoadedUnit, unknown

if TYPE_CHECKING:
    from tiremote.worker.engine.runtime import TaichiRuntime


class Transaction:
    """Builds what is needed beside what there is. ``built`` is to be taken over, or `undo` is to be called.

    ``units`` are those that are loaded, the newest last; they are not changed.
    """

    def __init__(self, units: Mapping[str, LoadedUnit], runtime: TaichiRuntime, builder: Builder) -> None:
        self._before = units
        self._runtime = runtime
        self._builder = builder
        self._units = dict(units)
        self._newest: list[str] = []
        #: How many of ``built`` a unit has seen, those that were there when it was built itself.
        self._seen: dict[str, int] = {}
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

    def load(self, texts: Mapping[str, Source | None], *, keep: bool) -> None:
        """Builds these units, which become the newest, in the order given, and then what depends on them.

        One without a text only becomes newer: others may take a name from it now.
        """
        for unit, source in texts.items():
            if source is not None:
                self._build(source, self._before.get(unit), keep=keep)
            self._units[unit] = self._units.pop(unit)
            self._newest.append(unit)
        self._follow()

    def undo(self) -> None:
        """As if nothing had been built."""
        while self.built:
            self.built.pop().undo(self._runtime)
        self._runtime.collect()

    def _build(self, source: Source, old: LoadedUnit | None, *, keep: bool) -> None:
        with blamed_on(source.unit):
            built = self._builder.build(source, old, keep=keep)
        self.built.append(built)
        self._units[source.unit] = built.loaded
        # Against what it was built with: of a unit that is built twice only what came between counts.
        before, self._seen[source.unit] = self._seen.get(source.unit, 0), len(self.built)
        built.changed = changed_names(
            old, built.loaded, built.kept.touched, lambda unit, name: self._changed(unit, name, before), self._runtime
        )

    def _changed(self, unit: str, name: str, since: int) -> bool:
        return any(name in built.moved() for built in self.built[since:] if built.loaded.unit == unit)

    def _follow(self) -> None:
        """Builds every unit anew that took a name that is another now, each after those that it uses and once: that
        is enough unless units use one another in a circle, and then it ends."""
        # The last of those that were to be loaded has seen all that came before.
        done = {self._newest[-1]} & self._seen.keys()
        failed: set[str] = set()
        waiting = True
        while waiting:
            waiting = False
            for unit in dependencies_first(self._units, self._used_by):
                names = self._affected(self._units[unit]) if unit not in done | failed else set()
                if names:
                    waiting = True
                    (done if self._rebuild(self._units[unit], names) else failed).add(unit)
        self._warn_of_circles(done)

    def _rebuild(self, loaded: LoadedUnit, names: set[str]) -> bool:
        """Whether it goes with the new names; it may go on without them where it never asked for these."""
        source = read_source(loaded.source.text, loaded.unit, loaded.version, loaded.source.build + 1)
        try:
            self._build(source, loaded, keep=True)
        except TiremoteError as error:
            first = ", ".join(self._newest)
            if not self._only_shadowed(loaded, names):
                raise _in_dependent(error, loaded.unit, first, names) from None
            # A newer unit has names that are also those of an older one.
            self.warnings.append(f"{loaded.unit} goes on without {', '.join(sorted(names))} of {first}: {error}")
            return False
        return True

    def _used_by(self, unit: str) -> set[str]:
        loaded = self._units.get(unit)
        if loaded is None:
            return set()
        return {owner for owner, _ in loaded.uses.values()} | loaded.imports.keys()

    def _warn_of_circles(self, done: set[str]) -> None:
        for unit in done.intersection(self._newest) if len(done) > 1 else ():
            for other in done - {unit}:
                if self._affected(self._units[unit], only=other):
                    self.warnings.append(
                        f"{unit} and {other} use names of one another: {unit} has those from before this load"
                    )

    def _affected(self, loaded: LoadedUnit, only: str | None = None) -> set[str]:
        """The names it took, or would take now, that are not what they were when it was built."""
        since = self._seen.get(loaded.unit, 0)
        touched = {built.loaded.unit for built in self.built}.union(self._newest)
        found: set[str] = set()
        for name in loaded.source.names.free & self._moved(since):
            owner, before = self.owner(name, loaded.unit), loaded.uses.get(name)
            if only is not None and (owner is None or owner.unit != only):
                continue
            if owner is None:
                if before is not None and before[0] in touched:
                    found.add(name)
            elif before is None or before[0] != owner.unit:
                if owner.unit in touched and not self._is_bound_at_run_time(loaded, name):
                    found.add(name)
            elif self._changed(owner.unit, name, since):
                found.add(name)
        for unit, names in loaded.imports.items():
            if only is not None and unit != only:
                continue
            for built in self.built[since:]:
                if built.loaded.unit == unit:
                    moved = built.moved()
                    found |= moved if None in names else {name for name in names if name in moved}
        return found

    def _moved(self, since: int) -> frozenset[str]:
        """The names that may come from elsewhere now, or be another there."""
        newest = (self._units[unit].own for unit in self._newest)
        return frozenset().union(*newest, *(built.moved() for built in self.built[since:])) - GIVEN

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


@contextlib.contextmanager
def blamed_on(unit: str) -> Iterator[None]:
    """A `CompileError` that is raised in its block says that it is this unit's."""
    try:
        yield
    except CompileError as error:
        error.unit = error.unit or unit
        raise


def _in_dependent(error: TiremoteError, unit: str, first: str, names: set[str]) -> TiremoteError:
    """Says which unit does not go with the new text, where the frames cannot."""
    if isinstance(error, CompileError):
        shown = ", ".join(sorted(names))
        return CompileError(
            f"{error.message} (in {unit}, which uses {shown} of {first})", unit=unit, frames=error.frames
        )
    return error
