"""By which name each array is known outside: one name for each, however it was reached, and as things are now.

What a text binds is known by its name there, everything else by its handle. A run may bind names anew and a load may
drop them: nothing is taken for true that was not looked up since.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from tiremote.protocol.errors import UnknownName
from tiremote.protocol.values import Handle, Name, Ref
from tiremote.worker.engine.declarations import is_array
from tiremote.worker.engine.places import arrays_in, is_whole, reach, things_in

if TYPE_CHECKING:
    from tiremote.worker.engine.holdings import Holdings
    from tiremote.worker.engine.loader import KernelLoader
    from tiremote.worker.engine.runtime import TaichiRuntime


class Whereabouts:
    """Names of what the units and handles of a session hold; ``holdings`` are kept in step with it."""

    def __init__(self, runtime: TaichiRuntime, loader: KernelLoader, holdings: Holdings) -> None:
        self._runtime = runtime
        self._loader = loader
        self._holdings = holdings
        #: The id of a thing to the name that led to it last.
        self._found: dict[int, Name] = {}
        #: Names that the front was told.
        self._told: set[Name] = set()
        #: What those led to before the load that is under way changed anything; None: it has not, or is not watched.
        self._before: dict[Name, weakref.ref[Any]] | None = None
        self._watches = False
        loader.before_change = self._before_change

    def place_of(self, value: Any, called: Ref | None = None) -> Name | None:
        """The name in a unit's text of an array, a gradient or an object, None where none leads to it.

        ``called``: how it was reached, for what lies where nobody looks.
        """
        known = self._found.get(id(value))
        if known is not None and self._at(known) is value:
            return known
        found = self._find(value)
        if found is None and isinstance(called, Name):
            name = self._given(called)
            found = name if self._at(name) is value else None
        if found is None:
            self._found.pop(id(value), None)
        else:
            self._found[id(value)] = found
        return found

    def _find(self, value: Any) -> Name | None:
        for unit, path, each in self._things():
            if each is value:
                return Name(unit=unit, name=path)
            if getattr(each, "grad", None) is value and is_array(each, self._runtime):
                return Name(unit=unit, name=f"{path}.grad")
        return None

    def _given(self, called: Name) -> Name:
        return Name(unit=self._loader.loaded(called.unit).unit, name=called.name)

    def name_for(self, target: Ref, value: Any) -> Ref:
        """What the front knows an array by that a request calls ``target``."""
        held = self._holdings.of(value)
        if held is not None:
            self.settle(held.handle)
            held = self._holdings.holding(held.handle)
            if held.place is None:
                return _bare(held.handle)
        name = self.place_of(value, target) if held is None else held.place
        if name is None and isinstance(target, Name):
            # Behind a property, say, which makes another each time.
            name = self._given(target)
        if name is None:
            raise AssertionError("what has no handle was called by a name")
        other = self._holdings.at(name)
        if other is not None:
            self.settle(other)
        self._told.add(name)
        return name

    def tell(self, name: Name) -> None:
        """The front knows something by this name."""
        self._told.add(name)

    def told(self) -> set[Name]:
        """All names that the front knows, for `resume`."""
        return set(self._told)

    def resume(self, told: set[Name]) -> None:
        """The front knows these names from another engine."""
        self._told |= told

    def settle(self, handle: Handle) -> None:
        """Looks up anew where the thing of a handle is, if it was anywhere and is not there any more."""
        place, value = self._holdings.holding(handle).place, self._holdings.value(handle)
        if place is not None and self._at(place) is not value:
            self._holdings.place(handle, self.place_of(value))

    def settle_all(self) -> None:
        """After names were bound anew or dropped."""
        for handle in self._holdings.all():
            self.settle(handle)

    def arrays(self) -> Iterator[tuple[str, str, Any]]:
        """(unit, path, array) of every field, ndarray and NumPy array that a unit's text leads to, each once."""
        for unit, path, value in self._things():
            if is_whole(value, self._runtime):
                self._found[id(value)] = Name(unit=unit, name=path)
                yield unit, path, value

    def fields_of(self, unit: str) -> tuple[str, ...]:
        """The names that lead to a unit's fields and ndarrays."""
        loaded = self._loader.loaded(unit)
        names = [name for name in loaded.own if name in loaded.namespace]
        return tuple(
            path for path, value in arrays_in(loaded.namespace, names, self._runtime) if is_array(value, self._runtime)
        )

    # ------------------------------------------------------------ loads

    @contextlib.contextmanager
    def watched_load(self, gone: list[Ref]) -> Iterator[None]:
        """Brings handles in step with the load in this block, whatever comes of it.

        ``gone`` gets the names that the front knows and that lead to another thing then, or to none. Loads outside of
        such a block, with which a session comes to this engine, change nothing of what the front knows.
        """
        self._watches = True
        try:
            yield
        finally:
            self._watches = False
            before, self._before = self._before, None
            if before is not None:
                gone += self._after_change(before)

    def _before_change(self) -> None:
        """Notes what the names that the front knows lead to."""
        if self._watches:
            self._before = {name: weakref.ref(value) for name in self._told if (value := self._at(name)) is not None}

    def _after_change(self, before: Mapping[Name, weakref.ref[Any]]) -> list[Name]:
        self.settle_all()
        gone = []
        for name in list(self._told):
            was = before.get(name)
            value = None if was is None else was()
            if value is None or self._at(name) is not value:
                gone.append(name)
                self._told.discard(name)
        self._found.clear()
        return gone

    # ------------------------------------------------------------ inside

    def _at(self, name: Name) -> Any:
        if name.unit not in self._loader:
            return None
        try:
            return reach(self._loader.loaded(name.unit).namespace, name.name, self._runtime)
        except UnknownName:
            return None

    def _things(self) -> Iterator[tuple[str, str, Any]]:
        seen: set[int] = set()
        for unit in self._loader:
            loaded = self._loader.loaded(unit)
            names = [name for name in loaded.own if name in loaded.namespace]
            for path, value in things_in(loaded.namespace, names, self._runtime):
                if id(value) not in seen:
                    seen.add(id(value))
                    yield unit, path, value


def _bare(handle: Handle) -> Handle:
    """What a handle is compared by: the front has the rest."""
    return Handle(kind=handle.kind, id=handle.id)
