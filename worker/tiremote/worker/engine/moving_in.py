"""A session arrives in this engine: its texts are loaded anew, and then everything is as it was in the last one."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tiremote.protocol.errors import TiremoteError
from tiremote.worker.engine.arrays import Arrays
from tiremote.worker.engine.call_types import Argument, TemplateArgument
from tiremote.worker.engine.carriers import Carriers
from tiremote.worker.engine.estate import Reader, new_numpy
from tiremote.worker.engine.holdings import Holdings
from tiremote.worker.engine.keeping import Initial
from tiremote.worker.engine.landmarks import (
    Landmark,
    NotMovable,
    follow,
    is_data_name,
    node_numbers,
    signature_of,
)
from tiremote.worker.engine.loader import KernelLoader
from tiremote.worker.engine.moving_out import Blueprint, Instance, Inventory, Place, class_data
from tiremote.worker.engine.pairing import attributes
from tiremote.worker.engine.places import arrays_in
from tiremote.worker.engine.surroundings import Surroundings
from tiremote.worker.engine.unit import LoadedUnit, Unit
from tiremote.worker.engine.unit_reports import UnitReports
from tiremote.worker.engine.whereabouts import Whereabouts

if TYPE_CHECKING:
    from tiremote.worker.engine.runtime import TaichiRuntime


class MovingIn:
    """``build``, then ``begin``, ``take`` for each piece, and ``settle``. Each raises `NotMovable` where this session
    would be another than it was; the engine is of no use then."""

    def __init__(
        self,
        runtime: TaichiRuntime,
        loader: KernelLoader,
        holdings: Holdings,
        arrays: Arrays,
        carriers: Carriers,
        surroundings: Surroundings,
        reports: UnitReports,
        whereabouts: Whereabouts,
    ) -> None:
        self._runtime = runtime
        self._loader = loader
        self._holdings = holdings
        self._arrays = arrays
        self._carriers = carriers
        self._surroundings = surroundings
        self._reports = reports
        self._whereabouts = whereabouts
        self._instances: tuple[Instance, ...] = ()

    def build(self, blueprint: Blueprint, *, thorough: bool) -> None:
        """Loads the texts; ``thorough``: and does what the first calls would have to wait for."""
        try:
            self._loader.resume({each.unit: (each.version, each.text) for each in blueprint.units})
        except TiremoteError as error:
            raise NotMovable(f"its texts do not load again: {error.message}") from None
        self._instances = blueprint.instances
        if thorough:
            self.warm_up()
            for unit in self._loader:
                loaded = self._loader.loaded(unit)
                names = [name for name in loaded.own if name in loaded.namespace]
                for _, value in arrays_in(loaded.namespace, names, self._runtime):
                    with contextlib.suppress(TiremoteError):
                        self._carriers.locate(value)

    def warm_up(self) -> None:
        """Compiles what was compiled in the last engine and is not yet in this one."""
        for instance in self._instances:
            # It is compiled at its next call, where that comes.
            with contextlib.suppress(Exception):
                arguments = [self._at(each) if isinstance(each, Place) else each for each in instance.arguments]
                self._loader.compile_for(self._at(instance.kernel), arguments)

    def _at(self, place: Place) -> Any:
        return follow(place.way, self._loader.loaded(place.unit).namespace, self._runtime)

    def begin(self, inventory: Inventory, data: bytes) -> None:
        """Finds all that the estate refers to, and makes arrays that no text makes."""
        self._inventory, self._data = inventory, data
        units = {unit: self._loader.loaded(unit) for unit in self._loader}
        for unit, state in inventory.units.items():
            loaded = units.get(unit)
            imports = {} if loaded is None else {name: frozenset(taken) for name, taken in loaded.imports.items()}
            if loaded is None or (loaded.uses, imports) != (state.uses, state.imports):
                raise NotMovable(f"{unit} takes names from other units as they were loaded then, and not as they are")
        self._landmarks = [self._find(each, units) for each in inventory.landmarks]
        self._check_blocks()
        self._objects = self._find_objects(units)
        self._numpy = [new_numpy(layout) for layout in inventory.layouts]
        self._made = [self._make(how) for how in inventory.made]
        self._targets = [self._target(kind, number) for kind, number in inventory.arrays]
        self._carriers.clear(self._targets)

    def take(self, number: int, data: Any) -> None:
        """One piece of an array."""
        piece = self._inventory.pieces[number]
        self._carriers.write(self._targets[piece.array], piece, data)

    def settle(self) -> None:
        """Everything is there: has names, objects and handles stand for it."""
        reader = Reader(self._data, self._reference)
        units = {unit: self._loader.loaded(unit) for unit in self._inventory.units}
        names, initial, calls = {}, {}, {}
        for unit, state in self._inventory.units.items():
            names[unit] = {name: reader.read() for name in state.names}
            initial[unit] = reader.read()
            calls[unit] = reader.read()
        code = [
            (value, reader.read())
            for value, landmark in zip(self._landmarks, self._inventory.landmarks, strict=True)
            if landmark.signature[0] in ("function", "class")
        ]
        held = [reader.read() for _ in range(self._inventory.handles)]
        told = reader.read()
        random_states = reader.read()
        states = [(each, reader.read()) for each in self._objects]
        for array, layout in zip(self._numpy, self._inventory.layouts, strict=True):
            array.flags.writeable = layout[3]
        # From here on nothing is read any more, so that nothing can go wrong half-way.
        for unit, loaded in units.items():
            _set_names(loaded.namespace, names[unit])
            loaded.initial.clear()
            loaded.initial.update(_initial(initial[unit]))
            loaded.calls.clear()
            loaded.calls.update({name: _weak(call) for name, call in calls[unit].items()})
        for value, state in code:
            _set_code(value, state)
        for value, state in states:
            mine = attributes(value)
            mine.clear()
            mine.update(state)
        self._loader.count_from(self._inventory.versions)
        for holding, value in held:
            self._holdings.adopt(holding, value)
        self._holdings.inherit(self._inventory.generations)
        self._reports.resume(*told[0])
        self._whereabouts.resume(told[1])
        self._surroundings.set_random_states(random_states)
        # Its seed is one that a move has chosen: no next one begins with the session's own again.
        self._runtime.baked.draws |= self._inventory.draws
        self._check_surroundings()
        self._forget_what_is_compiled_in()
        # Nothing here may keep anything alive.
        del self._inventory, self._data, self._landmarks, self._objects, self._numpy, self._made, self._targets

    # ------------------------------------------------------------ what the estate refers to

    def _find(self, landmark: Landmark, units: Mapping[str, LoadedUnit]) -> Any:
        try:
            value = follow(landmark.way, units[landmark.unit].namespace, self._runtime)
        except (LookupError, AttributeError, TypeError, ValueError):
            raise NotMovable(f"{landmark} is not there where its text has just been loaded") from None
        if signature_of(value, self._runtime) != landmark.signature:
            raise NotMovable(f"{landmark} is another where its text has just been loaded")
        return value

    def _check_blocks(self) -> None:
        """Whether what lay in one block does, and nothing else."""
        there: dict[int, int] = {}
        back: dict[int, int] = {}
        seen: set[int] = set()
        for value, landmark in zip(self._landmarks, self._inventory.landmarks, strict=True):
            if id(value) in seen:
                raise NotMovable(f"{landmark} and another are one where their text has just been loaded")
            seen.add(id(value))
            for old, new in zip(landmark.nodes, node_numbers(value, self._runtime), strict=True):
                for before, after in zip(old, new, strict=True):
                    if there.setdefault(before, after) != after or back.setdefault(after, before) != before:
                        raise NotMovable(f"{landmark} lies in another block where its text has just been loaded")

    def _find_objects(self, units: Mapping[str, LoadedUnit]) -> list[Any]:
        found: list[Any] = []
        taken: set[int] = set()
        for number, way in self._inventory.objects:
            cls = self._landmarks[number]
            value = None
            if way is not None:
                try:
                    value = follow(way[1], units[way[0]].namespace, self._runtime)
                except (LookupError, AttributeError, TypeError, ValueError):
                    value = None
            # Compiled kernels know an object that is there already.
            if type(value) is not cls or id(value) in taken:
                value = object.__new__(cls)
            taken.add(id(value))
            found.append(value)
        return found

    def _make(self, how: Any) -> Any:
        make = self._arrays.create_ndarray if how.kind == "ndarray" else self._arrays.create_field
        try:
            return make(how.dtype, how.shape, how.element_shape, how.needs_grad)
        except TiremoteError as error:
            raise NotMovable(error.message) from None

    def _target(self, kind: str, number: int) -> Any:
        match kind:
            case "landmark":
                return self._landmarks[number]
            case "array":
                return self._numpy[number]
            case "made":
                return self._made[number]
        return self._made[number].grad

    def _reference(self, kind: str, what: Any) -> Any:
        match kind:
            case "landmark":
                return self._landmarks[what]
            case "object":
                return self._objects[what]
            case "array":
                return self._numpy[what]
            case "made":
                return self._made[what]
            case "unit":
                return Unit(self._loader.loaded(what))
            case "objects":
                return self._objects.__getitem__
            case "module of":
                return self._loader.loaded(what).module
        return self._runtime.dtype_object(what)

    # ------------------------------------------------------------ at the end

    def _check_surroundings(self) -> None:
        now = self._surroundings.facts()
        for name, value in self._inventory.facts.items():
            if now.get(name) != value:
                raise NotMovable(f"{name} is not what it is in a new process")

    def _forget_what_is_compiled_in(self) -> None:
        for kernel in self._runtime.every_kernel():
            if not self._runtime.baked.is_current(kernel):
                self._runtime.baked.forget(kernel)


def _set_names(namespace: dict[str, Any], names: Mapping[str, Any]) -> None:
    for name in [name for name in namespace if is_data_name(name) and name not in names]:
        del namespace[name]
    namespace.update(names)


def _set_code(value: Any, state: Any) -> None:
    if isinstance(value, type):
        if state is not None:
            for name in class_data(value).keys() - state.keys():
                type.__delattr__(value, name)
            for name, each in state.items():
                type.__setattr__(value, name, each)
        return
    value.__defaults__, value.__kwdefaults__, own, cells = state
    vars(value).clear()
    vars(value).update(own)
    for cell, content in zip(value.__closure__ or (), cells, strict=True):
        if content is not None:
            cell.cell_contents = content[0]


def _initial(pairs: Sequence[tuple[Any, dict[str, Any]]]) -> dict[int, Initial]:
    return {id(owner): Initial(weakref.ref(owner), values) for owner, values in pairs}


def _weak(call: Sequence[tuple[bool, Any]]) -> tuple[Argument, ...]:
    return tuple(TemplateArgument(weakref.ref(each)) if is_held else each for is_held, each in call)
