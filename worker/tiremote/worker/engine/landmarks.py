"""What a text makes by being executed, and is found again where the same text is executed in another process.

Functions, classes, kernels, fields, ndarrays, blocks and types: each is known by the way to it from a unit's names.
What holds them (lists, objects, plain values) is data, which `estate` carries.
"""

from __future__ import annotations

import functools
import types
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tiremote.worker.engine.class_code import class_code
from tiremote.worker.engine.declarations import ancestors, declaration, is_array, members
from tiremote.worker.engine.pairing import MODULE_PREFIX, attributes, is_unit_object
from tiremote.worker.engine.unit import GIVEN, module_name

if TYPE_CHECKING:
    from tiremote.worker.engine.runtime import TaichiRuntime
    from tiremote.worker.engine.unit import LoadedUnit

_MOST_VALUES: Final = 200_000
#: As in `pairing`: longer lists hold data.
_LONGEST: Final = 10_000

#: One step of a way: what kind it is, and its name, number or key.
Step = tuple[str, Any]
Way = tuple[Step, ...]


class NotMovable(Exception):
    """Something that this session holds cannot be carried into another process as it is: why, for people."""


@dataclass(frozen=True, slots=True)
class Landmark:
    """``signature`` is the same wherever the text is executed; ``nodes`` are the blocks above a field's members, by
    numbers that hold in one process only."""

    unit: str
    way: Way
    signature: tuple[Any, ...]
    nodes: tuple[tuple[int, ...], ...] = ()

    def __str__(self) -> str:
        return f"{self.unit}.{shown(self.way)}"


class Landmarks:
    """All of a session's landmarks, found by walking from the names of its units."""

    def __init__(self, units: Mapping[str, LoadedUnit], runtime: TaichiRuntime) -> None:
        self.runtime = self._runtime = runtime
        self._units = units
        self._modules = {module_name(loaded.source) for loaded in units.values()}
        self._namespaces = {id(loaded.namespace) for loaded in units.values()}
        self._numbers: dict[int, int] = {}
        self.all: list[Landmark] = []
        self.values: list[Any] = []
        #: The ways to objects of units' classes.
        self.objects: dict[int, tuple[str, Way]] = {}
        self._seen: dict[int, Any] = {}
        self._explore()

    def number(self, value: object) -> int | None:
        """Which landmark this is, None where it is none."""
        return self._numbers.get(id(value))

    def is_seen(self, value: object) -> bool:
        """Whether the walk has met it."""
        return id(value) in self._seen

    def _explore(self) -> None:
        waiting: deque[tuple[str, Way, Any]] = deque()
        # What a text binds itself is known by that name, not by one that another unit has for it.
        for own in (True, False):
            for unit, loaded in self._units.items():
                for name, value in list(loaded.namespace.items()):
                    if (name in loaded.own) is own and is_data_name(name):
                        waiting.append((unit, (("name", name),), value))
        while waiting:
            unit, way, value = waiting.popleft()
            if id(value) in self._seen:
                continue
            if len(self._seen) > _MOST_VALUES:
                raise NotMovable(f"there are more than {_MOST_VALUES:,} values behind its names")
            for step, inner in self._visit(unit, way, value):
                waiting.append((unit, (*way, step), inner))

    def _visit(self, unit: str, way: Way, value: Any) -> Iterator[tuple[Step, Any]]:
        """Notes a value; gives what is inside."""
        kind = type(value)
        if kind in (list, tuple):
            self._seen[id(value)] = value
            if len(value) <= _LONGEST:
                yield from ((("item", number), each) for number, each in enumerate(value))
        elif kind is dict:
            self._seen[id(value)] = value
            if len(value) <= _LONGEST:
                yield from ((("key", key), each) for key, each in value.items() if type(key) in (str, int, bool))
        elif is_unit_object(value):
            self._seen[id(value)] = value
            self.objects[id(value)] = (unit, way)
            yield from ((("attribute", name), each) for name, each in attributes(value).items())
        elif kind is types.MethodType:
            self._seen[id(value)] = value
            yield ("self", None), value.__self__
        else:
            signature = signature_of(value, self._runtime)
            if signature is None or not self._is_current(value):
                return
            if isinstance(value, functools._lru_cache_wrapper) and value.cache_info()[:2] != (0, 0):
                raise NotMovable(f"{Landmark(unit, way, signature)} has a cache, which cannot be read")
            self._seen[id(value)] = value
            self._numbers[id(value)] = len(self.all)
            self.all.append(Landmark(unit, way, signature, node_numbers(value, self._runtime)))
            self.values.append(value)
            yield from inside(value, self._runtime)

    def _is_current(self, value: Any) -> bool:
        """Whether a unit's text, as it is now, has made it."""
        if self._runtime.is_kernel(value) or self._runtime.is_func(value):
            value = self._runtime.python_function(value)
        if isinstance(value, functools._lru_cache_wrapper):
            value = value.__wrapped__
        if type(value) is types.FunctionType:
            return id(value.__globals__) in self._namespaces
        return not isinstance(value, type) or value.__module__ in self._modules


def signature_of(value: Any, runtime: TaichiRuntime) -> tuple[Any, ...] | None:
    """What tells a landmark from another at the same place; None for what is none."""
    if is_array(value, runtime):
        declared = declaration(value, runtime)
        return ("array", "unplaced" if declared is None else repr(declared))
    if runtime.is_kernel(value) or runtime.is_func(value):
        function = runtime.python_function(value)
        kind = "kernel" if runtime.is_kernel(value) else "func"
        return (kind, function.__qualname__, function.__code__.co_firstlineno)
    if type(value) is types.FunctionType:
        return ("function", value.__qualname__, value.__code__.co_firstlineno, value.__code__.co_name)
    if isinstance(value, type) and str(value.__dict__.get("__module__", "")).startswith(MODULE_PREFIX):
        return ("class", value.__qualname__, class_code(value, runtime))
    if isinstance(value, functools._lru_cache_wrapper) and type(value.__wrapped__) is types.FunctionType:
        return ("cache", signature_of(value.__wrapped__, runtime))
    if runtime.is_snode(value):
        return ("block", str(value.ptr.type), tuple(map(int, value.shape)))
    if runtime.is_snode_tree(value) or type(value) is runtime.fields_builder_class():
        return (type(value).__name__,)
    if runtime.is_struct_type(value):
        return ("struct type", tuple(value.members))
    if runtime.is_type(value):
        return ("type", str(value.to_string()))
    if type(value).__module__.startswith(f"{runtime.name}.types"):
        # An annotation such as ti.types.ndarray(...): nothing of it changes.
        return ("annotation", type(value).__name__)
    return None


def node_numbers(value: Any, runtime: TaichiRuntime) -> tuple[tuple[int, ...], ...]:
    """Of each member of a field, the blocks above it; of a block that itself."""
    if runtime.is_snode(value):
        return ((int(value.ptr.id),),)
    if not runtime.is_field(value):
        return ()
    nodes = [member.ptr.snode() for _, member in members(value, runtime)]
    return tuple(tuple(int(each.id) for each in ancestors(node)) for node in nodes if node is not None)


def inside(value: Any, runtime: TaichiRuntime) -> Iterator[tuple[Step, Any]]:
    """What a landmark holds, with the step to it."""
    if is_array(value, runtime):
        if runtime.is_struct_field(value):
            yield from ((("member", name), each) for name, each in value.field_dict.items() if each is not None)
        for kind in ("grad", "dual"):
            other = getattr(value, kind, None)
            if other is not None:
                yield (kind, None), other
    elif runtime.is_kernel(value) or runtime.is_func(value):
        yield ("function", None), runtime.python_function(value)
    elif type(value) is types.FunctionType:
        for number, cell in enumerate(value.__closure__ or ()):
            if not is_empty(cell):
                yield ("cell", number), cell.cell_contents
        yield from ((("default", number), each) for number, each in enumerate(value.__defaults__ or ()))
        yield from ((("keyword", name), each) for name, each in (value.__kwdefaults__ or {}).items())
        yield from ((("dict", name), each) for name, each in vars(value).items())
    elif isinstance(value, functools._lru_cache_wrapper):
        yield ("cached", None), value.__wrapped__
    elif isinstance(value, type):
        for name, each in vars(value).items():
            yield from _parts(name, each)


def _parts(name: str, value: Any) -> Iterator[tuple[Step, Any]]:
    if isinstance(value, staticmethod | classmethod):
        yield ("wrapped", name), value.__func__
    elif isinstance(value, property):
        for part in ("fget", "fset", "fdel"):
            function = getattr(value, part)
            if function is not None:
                yield (part, name), function
    elif not name.startswith("__") or type(value) is types.FunctionType:
        yield ("class", name), value


def follow(way: Way, namespace: Mapping[str, Any], runtime: TaichiRuntime) -> Any:
    """Where a way leads. Raises `LookupError`, `AttributeError`, `TypeError` or `ValueError` where it leads nowhere."""
    value: Any = namespace
    for kind, what in way:
        match kind:
            case "name" | "item" | "key":
                value = value[what]
            case "attribute":
                value = attributes(value)[what]
            case "self":
                value = value.__self__
            case "member":
                value = value.field_dict[what]
            case "grad" | "dual":
                value = getattr(value, kind)
            case "function":
                value = runtime.python_function(value)
            case "cell":
                value = value.__closure__[what].cell_contents
            case "default":
                value = value.__defaults__[what]
            case "keyword":
                value = value.__kwdefaults__[what]
            case "dict" | "class":
                value = vars(value)[what]
            case "cached":
                value = value.__wrapped__
            case "wrapped":
                value = vars(value)[what].__func__
            case "fget" | "fset" | "fdel":
                value = getattr(vars(value)[what], kind)
    return value


def is_data_name(name: str) -> bool:
    """Whether a name of a namespace is the text's own, and not there in every unit."""
    return name not in GIVEN and not (name.startswith("__") and name.endswith("__"))


def is_empty(cell: types.CellType) -> bool:
    """Whether the variable in it has no value yet."""
    try:
        cell.cell_contents  # noqa: B018 -- raises where there is none
    except ValueError:
        return True
    return False


def shown(way: Way) -> str:
    """A way as a reader would write it."""
    text = ""
    for kind, what in way:
        if kind in ("item", "key"):
            text += f"[{what!r}]"
        elif what is None:
            text += "" if kind in ("function", "self", "cached") else f".{kind}"
        elif kind in ("cell", "default"):
            text += f".{kind} {what}"
        else:
            text += f".{what}" if text else str(what)
    return text
