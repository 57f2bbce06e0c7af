"""A session leaves this engine: what the next one needs to know of it, and what stands against it."""

from __future__ import annotations

import enum
import gc
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tiremote.protocol.receipts import ArrayHolding
from tiremote.protocol.values import Handle
from tiremote.worker.engine.call_types import Argument, TemplateArgument
from tiremote.worker.engine.carriers import Carriers, Piece
from tiremote.worker.engine.declarations import members
from tiremote.worker.engine.estate import Writer, check_alone, is_plain_object, numpy_layout, object_state
from tiremote.worker.engine.holdings import Holdings
from tiremote.worker.engine.keeping import Initial
from tiremote.worker.engine.landmarks import Landmark, Landmarks, NotMovable, Way, is_data_name, is_empty
from tiremote.worker.engine.loader import KernelLoader
from tiremote.worker.engine.source import living_texts
from tiremote.worker.engine.surroundings import Surroundings
from tiremote.worker.engine.unit import LoadedUnit
from tiremote.worker.engine.unit_reports import UnitReports
from tiremote.worker.engine.whereabouts import Whereabouts

if TYPE_CHECKING:
    from tiremote.worker.engine.runtime import TaichiRuntime

#: A session of which nobody asked for a seed goes on with other random numbers, not with the same once more.
_SEED_BITS: Final = 31


@dataclass(frozen=True, slots=True)
class UnitText:
    """A unit to be loaded."""

    unit: str
    version: int
    text: str


@dataclass(frozen=True, slots=True)
class Place:
    """Where a unit's text has put something."""

    unit: str
    way: Way


@dataclass(frozen=True, slots=True)
class Instance:
    """A kernel is compiled for these arguments."""

    kernel: Place
    arguments: tuple[Argument | Place, ...]


@dataclass(frozen=True, slots=True)
class Blueprint:
    """What the next engine can do before anything stands still. ``units`` in their order, the newest last."""

    units: tuple[UnitText, ...]
    instances: tuple[Instance, ...]


@dataclass(frozen=True, slots=True)
class UnitState:
    """What must be alike in the next engine for a unit to be the same there."""

    uses: Mapping[str, tuple[str, int]]
    imports: Mapping[str, frozenset[str | None]]
    #: In the order in which their values are written.
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Made:
    """An array that a request has made, and no text: how it is made again."""

    kind: str
    dtype: str
    shape: tuple[int, ...]
    element_shape: tuple[int, ...]
    needs_grad: bool


@dataclass(frozen=True, slots=True)
class Inventory:
    """What an estate's bytes refer to. ``arrays`` are those whose contents go in ``pieces``: landmarks and NumPy arrays
    by their number, arrays that were made with whether it is their gradient."""

    units: Mapping[str, UnitState]
    versions: Mapping[str, int]
    handles: int
    generations: frozenset[str]
    landmarks: tuple[Landmark, ...]
    #: Of each object the landmark of its class, and the way to it.
    objects: tuple[tuple[int, tuple[str, Any] | None], ...]
    layouts: tuple[tuple[Any, ...], ...]
    made: tuple[Made, ...]
    arrays: tuple[tuple[str, int], ...]
    pieces: tuple[Piece, ...]
    facts: Mapping[str, str]
    #: Whether a kernel has drawn random numbers, here or in an engine before this one.
    draws: bool


#: Of an argument that has no place.
_NOWHERE: Final = Place("", ())


class Estate:
    """All that a session holds at one moment: an inventory, bytes, and arrays that are read piece by piece."""

    def __init__(self, inventory: Inventory, data: bytes, arrays: list[Any], nbytes: int) -> None:
        self.inventory = inventory
        self.data = data
        self.arrays = arrays
        self.nbytes = nbytes


class MovingOut:
    """Looks at a session from the point of view of somebody who has to carry it away."""

    def __init__(
        self,
        runtime: TaichiRuntime,
        loader: KernelLoader,
        holdings: Holdings,
        carriers: Carriers,
        surroundings: Surroundings,
        reports: UnitReports,
        whereabouts: Whereabouts,
    ) -> None:
        self._runtime = runtime
        self._loader = loader
        self._holdings = holdings
        self._carriers = carriers
        self._surroundings = surroundings
        self._reports = reports
        self._whereabouts = whereabouts

    def blueprint(self) -> Blueprint:
        """What is loaded and compiled."""
        units = self._units()
        texts = tuple(UnitText(unit, loaded.version, loaded.source.text) for unit, loaded in units.items())
        return Blueprint(texts, tuple(self._instances(Landmarks(units, self._runtime))))

    def _instances(self, landmarks: Landmarks) -> Iterator[Instance]:
        for value, landmark in zip(landmarks.values, landmarks.all, strict=True):
            if landmark.signature[0] != "kernel":
                continue
            for arguments in self._runtime.baked.compiled_for(self._runtime.primal(value)):
                placed = [_placed(each, landmarks) for each in arguments]
                if _NOWHERE not in placed:
                    yield Instance(Place(landmark.unit, landmark.way), tuple(placed))

    def options(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Taichi's options for the next engine that differ from the session's. Raises `NotMovable`."""
        if not self._runtime.baked.draws:
            return {}
        if options.get("random_seed") is not None:
            raise NotMovable(
                "its kernels draw random numbers from the seed that was asked for, which would begin again"
            )
        return {"random_seed": secrets.randbits(_SEED_BITS) + 1}

    def estate(self) -> Estate:
        """Everything. Raises `NotMovable` where something cannot be carried, or may not be seen."""
        gc.collect()
        units = self._units()
        self._check_runtime(units)
        self._surroundings.check()
        landmarks = Landmarks(units, self._runtime)
        self._check_baked(units)
        made = self._made(landmarks)
        writer = Writer(landmarks, {id(value): number for number, (value, _) in enumerate(made)}, units)
        self._write(writer, landmarks, units)
        layouts = tuple(numpy_layout(array, "it") for array in writer.arrays)
        check_alone(writer.arrays)
        self._check_seen(landmarks, writer, [value for value, _ in made])
        named, nbytes = [], 0
        for key, value, what in self._carried(landmarks, writer, made):
            nbytes += self._carriers.check(value, what)
            named.append((key, value))
        arrays = [value for _, value in named]
        inventory = Inventory(
            units={unit: _state(loaded) for unit, loaded in units.items()},
            versions=self._loader.versions(),
            handles=len(self._holdings.all()),
            generations=self._holdings.generations(),
            landmarks=tuple(landmarks.all),
            objects=tuple((writer.object_class(each), landmarks.objects.get(id(each))) for each in writer.objects),
            layouts=layouts,
            made=tuple(how for _, how in made),
            arrays=tuple(key for key, _ in named),
            pieces=tuple(self._carriers.pieces(arrays)),
            facts=self._surroundings.facts(),
            draws=self._runtime.baked.draws,
        )
        return Estate(inventory, writer.bytes(), arrays, nbytes)

    def _units(self) -> dict[str, LoadedUnit]:
        return {unit: self._loader.loaded(unit) for unit in self._loader}

    def _write(self, writer: Writer, landmarks: Landmarks, units: Mapping[str, LoadedUnit]) -> None:
        for unit, loaded in units.items():
            for name in _state(loaded).names:
                writer.write(loaded.namespace[name], f"{unit}.{name}")
            writer.write(_initial(loaded.initial, landmarks), f"{unit} as it was loaded")
            writer.write({name: _strong(call) for name, call in loaded.calls.items()}, f"a call of {unit}")
        for value, landmark in zip(landmarks.values, landmarks.all, strict=True):
            if landmark.signature[0] in ("function", "class"):
                writer.write(code_state(value), str(landmark))
        for handle in self._holdings.all():
            held = self._holdings.holding(handle), self._holdings.value(handle)
            writer.write(held, f"the {handle.kind} {held[0].label or handle.id}")
        writer.write((self._reports.told(), self._whereabouts.told()), "what was told")
        writer.write(self._surroundings.random_states(), "a random number generator")
        # Writing one may meet others.
        done = 0
        while done < len(writer.objects):
            value = writer.objects[done]
            writer.write(object_state(value), f"an object of {type(value).__qualname__}")
            done += 1

    def _made(self, landmarks: Landmarks) -> list[tuple[Any, Made]]:
        found = []
        for handle in self._holdings.all():
            value = self._holdings.value(handle)
            if handle.kind in ("ndarray", "field") and landmarks.number(value) is None:
                found.append((value, self._how(value, handle, self._holdings.holding(handle))))
        return found

    def _how(self, value: Any, handle: Handle, holding: ArrayHolding) -> Made:
        if holding.place is not None:
            raise NotMovable(f"{holding.place} is kept under a handle, and no name leads to it now")
        if handle.kind == "field" and not self._runtime.is_made_here(value):
            raise NotMovable(f"the field {holding.label or handle.id} was declared by code and has no name")
        meta = self._runtime.array_meta(value)
        return Made(handle.kind, meta.dtype, meta.shape, meta.element_shape, self._runtime.has_placed_grad(value))

    def _carried(
        self, landmarks: Landmarks, writer: Writer, made: list[tuple[Any, Made]]
    ) -> Iterator[tuple[tuple[str, int], Any, str]]:
        """Every array whose contents go, by what the next engine finds it under."""
        for number, (value, landmark) in enumerate(zip(landmarks.values, landmarks.all, strict=True)):
            if landmark.signature[0] == "array" and not self._runtime.is_struct_field(value):
                if landmark.signature[1] == "unplaced":
                    # A gradient that nobody has given a place.
                    continue
                yield ("landmark", number), value, str(landmark)
        for number, array in enumerate(writer.arrays):
            yield ("array", number), array, "an array"
        for number, (value, how) in enumerate(made):
            yield ("made", number), value, "an array"
            if how.needs_grad:
                yield ("grad of made", number), value.grad, "a gradient"

    def _check_runtime(self, units: Mapping[str, LoadedUnit]) -> None:
        if self._runtime.has_unplaced_fields():
            raise NotMovable("a field has no place yet")
        current = {loaded.source.file for loaded in units.values()}
        for text in living_texts():
            if text.file not in current:
                raise NotMovable(f"version {text.version} of {text.unit}, which was replaced, is still held")
        for unit, loaded in units.items():
            if loaded.outside:
                raise NotMovable(f"{unit} {loaded.outside[0]} when it is loaded")

    def _check_baked(self, units: Mapping[str, LoadedUnit]) -> None:
        for kernel in self._runtime.every_kernel():
            mine = any(kernel.func.__globals__ is loaded.namespace for loaded in units.values())
            if mine and not self._runtime.baked.is_current(kernel):
                name = kernel.func.__qualname__
                raise NotMovable(f"{name} has values compiled in that are not what they were then")

    def _check_seen(self, landmarks: Landmarks, writer: Writer, made: list[Any]) -> None:
        """Whether nothing is there that no name and no handle leads to: somebody unseen would hold it."""
        runtime = self._runtime
        known = [*landmarks.values, *made, *self._loader.stand_ins()]
        arrays = {id(each) for each in known} | {id(each.grad) for each in known if runtime.is_ndarray(each)}
        placed = {id(member) for each in known if runtime.is_field(each) for _, member in members(each, runtime)}
        for member in runtime.trees.living_members():
            if id(member) not in placed and member.ptr.snode() is not None:
                raise NotMovable("there is a field that no name leads to")
        objects = {id(each) for each in writer.objects}
        for each in gc.get_objects():
            if runtime.is_ndarray(each) and id(each) not in arrays:
                raise NotMovable("there is an ndarray that no name leads to")
            if is_plain_object(each) and id(each) not in objects:
                raise NotMovable(f"there is an object of {type(each).__qualname__} that no name leads to")


def code_state(value: Any) -> Any:
    """What of a function or a class is not in its text."""
    if isinstance(value, type):
        return None if issubclass(value, enum.Enum) else class_data(value)
    cells = [None if is_empty(cell) else (cell.cell_contents,) for cell in value.__closure__ or ()]
    return (value.__defaults__, value.__kwdefaults__, dict(vars(value)), cells)


def class_data(cls: type) -> dict[str, Any]:
    """The attributes of a class that are no code and not Python's own."""
    return {
        name: value
        for name, value in vars(cls).items()
        if not (name.startswith("__") or name == "_abc_impl" or hasattr(type(value), "__get__"))
    }


def _state(loaded: LoadedUnit) -> UnitState:
    imports = {unit: frozenset(names) for unit, names in loaded.imports.items()}
    return UnitState(dict(loaded.uses), imports, tuple(filter(is_data_name, loaded.namespace)))


def _initial(initial: Mapping[int, Initial], landmarks: Landmarks) -> list[tuple[Any, dict[str, Any]]]:
    found = []
    for each in initial.values():
        owner = each.owner()
        if owner is not None and landmarks.is_seen(owner):
            found.append((owner, dict(each.values)))
    return found


def _strong(call: tuple[Argument, ...]) -> tuple[tuple[bool, Any], ...]:
    """A call's arguments; an object that one stands for instead of the weak reference to it."""
    found: list[tuple[bool, Any]] = []
    for each in call:
        if isinstance(each, TemplateArgument) and each.reference is not None:
            found.append((True, each.reference()))
        else:
            found.append((False, each))
    return tuple(found)


def _placed(argument: Argument, landmarks: Landmarks) -> Argument | Place:
    """An argument as another process understands it."""
    if not isinstance(argument, TemplateArgument) or argument.reference is None:
        return argument
    value = argument.reference()
    number = landmarks.number(value)
    if number is not None:
        return Place(landmarks.all[number].unit, landmarks.all[number].way)
    place = landmarks.objects.get(id(value))
    return _NOWHERE if place is None else Place(*place)
