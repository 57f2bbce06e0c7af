"""Plain Python state as bytes, from one engine to the next: values with what refers to what, and no guess.

What a text makes goes by its landmark, what a library has by its name, arrays by a number: their contents go apart.
Only types are carried of which it is known that nothing is hidden in them; anything else is `NotMovable`. The two
processes are one session's and run the same code: nobody else's bytes are read here.
"""

from __future__ import annotations

import collections
import datetime
import decimal
import enum
import fractions
import functools
import io
import pathlib
import pickle
import pkgutil
import random
import re
import sys
import types
import uuid
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tiremote.worker.engine.landmarks import Landmarks, NotMovable
from tiremote.worker.engine.likeness import UNKNOWN
from tiremote.worker.engine.pairing import MODULE_PREFIX, attributes, is_unit_object
from tiremote.worker.engine.unit import LoadedUnit, Unit

if TYPE_CHECKING:
    from tiremote.worker.engine.runtime import TaichiRuntime

_PROTOCOL: Final = 5
#: What pickle itself takes apart, item by item.
_BUILT_IN: Final = frozenset(
    {bool, int, float, complex, str, bytes, bytearray, type(None), list, tuple, dict, set, frozenset}
)
#: What pickle makes again exactly as it was.
_KNOWN: Final = (
    complex, slice, range, type(Ellipsis), type(NotImplemented), types.SimpleNamespace, types.GenericAlias,
    collections.deque, collections.OrderedDict, collections.defaultdict, collections.Counter,
    datetime.date, datetime.time, datetime.datetime, datetime.timedelta, datetime.timezone,
    decimal.Decimal, fractions.Fraction, uuid.UUID, re.Pattern, functools.partial, random.Random,
    pathlib.PurePosixPath, pathlib.PureWindowsPath, pathlib.PosixPath, np.ufunc,
    np.random.Generator, np.random.RandomState, np.random.PCG64, np.random.PCG64DXSM, np.random.MT19937,
    np.random.Philox, np.random.SFC64, np.random.SeedSequence,
)  # fmt: skip
_OWN: Final = ("tiremote.protocol.", "tiremote.worker.link", "tiremote.worker.engine.call_types")
#: By these a class says that its objects are carried in its own way: by code that would run here.
_HOOKS: Final = (
    "__reduce__", "__reduce_ex__", "__getstate__", "__setstate__", "__getnewargs__", "__getnewargs_ex__", "__new__",
)  # fmt: skip
#: These run when a container of that class is filled, and may put in something else than it held.
_FILLS: Final = ("__setitem__", "append", "extend", "__iter__", "items")


class Writer:
    """Writes values one after the other; what is one thing in two of them stays one.

    ``arrays`` numbers the NumPy arrays that it meets, ``made`` has Taichi's arrays that no text has made, by identity.
    """

    def __init__(self, landmarks: Landmarks, made: Mapping[int, int], units: Mapping[str, LoadedUnit]) -> None:
        self._units = units
        self._buffer = io.BytesIO()
        self._pickler = _Pickler(self._buffer, self._reference, self._object)
        self._landmarks = landmarks
        self._made = made
        self._current = {id(loaded): unit for unit, loaded in units.items()}
        self._modules = {id(loaded.module): unit for unit, loaded in units.items()}
        #: Objects of units' classes, in the order in which they were met, and of each its class.
        self.objects: list[Any] = []
        self._object_numbers: dict[int, int] = {}
        self.arrays: list[np.ndarray] = []
        self._array_numbers: dict[int, int] = {}
        self._runtime: TaichiRuntime = landmarks.runtime

    def write(self, value: Any, what: str) -> None:
        """Raises `NotMovable` that says what stands in ``what``."""
        try:
            self._pickler.dump(value)
        except NotMovable as error:
            raise NotMovable(f"{what} holds {error}") from None
        except RecursionError:
            raise NotMovable(f"{what} is nested too deeply") from None
        except (pickle.PicklingError, TypeError, AttributeError, ValueError) as error:
            raise NotMovable(f"{what} cannot be carried over ({error})") from None

    def bytes(self) -> bytes:
        """All that was written."""
        return self._buffer.getvalue()

    def object_class(self, value: Any) -> int:
        """The landmark of an object's class. Raises `NotMovable`."""
        number = self._landmarks.number(type(value))
        if number is None:
            raise NotMovable(f"an object of {type(value).__qualname__}, a class that is no name of any unit")
        return number

    def _reference(self, value: Any) -> tuple[Any, ...] | None:
        kind = type(value)
        if kind in _BUILT_IN:
            return None
        if kind is np.ndarray:
            return ("array", self._array(value))
        mark = self._landmarks.number(value)
        if mark is not None:
            return ("landmark", mark)
        if value is UNKNOWN:
            return ("unknown",)
        if kind is Unit:
            return ("unit", self._unit(value))
        if id(value) in self._modules:
            return ("module of", self._modules[id(value)])
        if id(value) in self._made:
            return ("made", self._made[id(value)])
        if is_plain_object(value):
            number = self._object(value)
            return None if _is_found_by_value(kind) else ("object", number)
        if value is _object_that_is_there:
            return ("objects", None)
        if (name := self._runtime.primitive_name(value)) is not None:
            return ("primitive", name)
        if isinstance(value, type) or kind in (types.ModuleType, types.FunctionType):
            return _global(value)
        return None if _is_of_unit(kind) else _named(value)

    def _array(self, value: np.ndarray) -> int:
        number = self._array_numbers.get(id(value))
        if number is None:
            number = self._array_numbers[id(value)] = len(self.arrays)
            self.arrays.append(value)
        return number

    def _object(self, value: Any) -> int:
        number = self._object_numbers.get(id(value))
        if number is None:
            self.object_class(value)
            number = self._object_numbers[id(value)] = len(self.objects)
            self.objects.append(value)
        return number

    def _unit(self, value: Unit) -> str:
        unit = self._current.get(id(value._loaded))
        if unit is None:
            raise NotMovable(f"version {value._loaded.version} of unit {value._loaded.unit!r}, which was replaced")
        return unit


class Reader:
    """Reads what a `Writer` has written. ``find(kind, what)`` gives what a reference stands for."""

    def __init__(self, data: bytes, find: Callable[[str, Any], Any]) -> None:
        self._unpickler = _Unpickler(io.BytesIO(data), find)

    def read(self) -> Any:
        """The next value. Raises `NotMovable`."""
        try:
            return self._unpickler.load()
        except Exception as error:
            # Objects' own code may run here, such as what two of them are compared by.
            raise NotMovable(f"something that it holds is not made again ({type(error).__name__}: {error})") from None


class _Pickler(pickle.Pickler):
    def __init__(
        self, buffer: io.BytesIO, reference: Callable[[Any], tuple[Any, ...] | None], number: Callable[[Any], int]
    ) -> None:
        super().__init__(buffer, _PROTOCOL)
        self._reference = reference
        self._number = number

    def persistent_id(self, value: Any) -> Any:
        return self._reference(value)

    def reducer_override(self, value: Any) -> Any:
        kind = type(value)
        if isinstance(value, np.void) and value.base is not None:
            raise NotMovable("a row of an array, which shares its memory")
        if kind in _KNOWN or issubclass(kind, np.generic | np.dtype) or kind.__module__.startswith(_OWN):
            return NotImplemented
        if isinstance(value, enum.Enum) and _is_of_unit(kind):
            # Flags that are put together have a value, and no name of their own.
            return (getattr, (kind, value.name)) if value.name in kind.__members__ else (kind, (value.value,))
        if kind is types.MethodType:
            # Not by its name, which may be that of another method of the object.
            return bound_method, (value.__func__, value.__self__)
        if kind is types.BuiltinMethodType:
            return _builtin_method(value)
        if is_plain_object(value):
            # In a set or dict it is found by what it holds, so that has to be there first.
            return _object_that_is_there, (self._number(value),), object_state(value)
        if _is_matrix(kind):
            # Not by its class: some runtimes make none without its numbers.
            return object.__new__, (kind,), vars(value)
        if _is_of_unit(kind):
            _check_hooks(value)
            return NotImplemented
        raise NotMovable(_described(value))


class _Unpickler(pickle.Unpickler):
    def __init__(self, buffer: io.BytesIO, find: Callable[[str, Any], Any]) -> None:
        super().__init__(buffer)
        self._find = find

    def persistent_load(self, reference: Any) -> Any:
        kind, *what = reference
        match kind:
            case "unknown":
                return UNKNOWN
            case "global":
                return pkgutil.resolve_name(f"{what[0]}:{what[1]}")
            case "module":
                return pkgutil.resolve_name(what[0])
        return self._find(kind, what[0])


def is_plain_object(value: Any) -> bool:
    """Whether all there is to it are its class, which a unit's text defines, and its attributes."""
    if not is_unit_object(value):
        return False
    for cls in type(value).__mro__:
        if cls is object or str(cls.__module__) in ("abc", "typing"):
            continue
        if not _is_of_unit(cls) or cls.__dict__.get("__slots__"):
            return False
    return not isinstance(value, enum.Enum)


def numpy_layout(array: np.ndarray, what: str) -> tuple[Any, ...]:
    """dtype, shape, the axes from the slowest on, and whether it may be written to. Raises `NotMovable`."""
    if array.dtype.hasobject:
        raise NotMovable(f"{what} holds an array of Python objects")
    axes = sorted(range(array.ndim), key=lambda axis: (-abs(array.strides[axis]), axis))
    if not array.transpose(axes).flags.c_contiguous:
        raise NotMovable(f"{what} holds an array that is a view with gaps")
    return (array.dtype, array.shape, tuple(axes), bool(array.flags.writeable))


def new_numpy(layout: Sequence[Any]) -> np.ndarray:
    """A new array of that layout, which may be written to."""
    dtype, shape, axes, _ = layout
    made = np.empty([shape[axis] for axis in axes], dtype)
    return made.transpose(np.argsort(axes)) if axes else made


def raw(array: np.ndarray) -> np.ndarray:
    """Its bytes as they lie in memory, of one axis: a view, of an array with the layout of `numpy_layout`."""
    axes = sorted(range(array.ndim), key=lambda axis: (-abs(array.strides[axis]), axis))
    return array.transpose(axes).reshape(-1).view(np.uint8)


def check_alone(arrays: Sequence[np.ndarray]) -> None:
    """Raises `NotMovable` where two of the arrays share memory, or where one lies in memory of something else."""
    spans = []
    for array in arrays:
        base: Any = array
        while type(base) is np.ndarray and base.base is not None:
            base = base.base
        if type(base) not in (np.ndarray, bytes):
            raise NotMovable(f"an array lies in the memory of a {type(base).__name__}")
        begin = array.__array_interface__["data"][0]
        spans.append((begin, begin + array.nbytes))
    spans.sort()
    if any(after[0] < before[1] for before, after in pairwise(spans)):
        raise NotMovable("two arrays share their memory")


def _is_of_unit(cls: type) -> bool:
    return str(cls.__dict__.get("__module__", "")).startswith(MODULE_PREFIX)


def _is_matrix(kind: type) -> bool:
    return kind.__name__ in ("Matrix", "Vector") and kind.__module__.endswith(".lang.matrix")


def _is_found_by_value(kind: type) -> bool:
    how: Any = kind.__hash__
    return how is not None and how is not object.__hash__


def _object_that_is_there(number: int) -> Any:
    raise AssertionError(f"a reader has its own for object {number}")


def bound_method(function: Any, owner: Any) -> types.MethodType:
    """A function as a method of an object."""
    return types.MethodType(function, owner)


def _builtin_method(value: Any) -> tuple[Any, ...]:
    owner, name = value.__self__, value.__name__
    if owner is None or getattr(owner, name, None) != value:
        raise NotMovable(f"{name}, a method of Python that its object has something else for")
    return getattr, (owner, name)


def _check_hooks(value: Any) -> None:
    kind = type(value)
    if isinstance(value, BaseException | np.ndarray):
        # An exception's frames and causes would be lost, and memory that an array shares.
        raise NotMovable(f"an object of {kind.__qualname__}")
    hooks: tuple[str, ...] = _HOOKS
    if isinstance(value, list | dict | set | frozenset | collections.deque):
        # All but plain lists and dicts are made by calling their class.
        is_called = not isinstance(value, list | dict) or kind.__base__ not in (list, dict)
        hooks += (*_FILLS, "__init__") if is_called else _FILLS
    for cls in kind.__mro__:
        found = [name for name in hooks if name in vars(cls)] if _is_of_unit(cls) else []
        # A named tuple's are made by Python.
        if found and not (issubclass(cls, tuple) and hasattr(cls, "_make")):
            raise NotMovable(f"an object of {kind.__qualname__}, which has a {found[0]} of its own")


def _global(value: Any) -> tuple[Any, ...]:
    """A reference to a module, class or function of a library. Raises `NotMovable`."""
    if type(value) is types.ModuleType:
        if sys.modules.get(value.__name__) is value:
            return ("module", value.__name__)
        raise NotMovable(f"the module {value.__name__}, which is not that of this name any more")
    found = _named(value)
    if found is None:
        raise NotMovable(_described(value))
    return found


def _named(value: Any) -> tuple[Any, ...] | None:
    """A reference to what a library has under a name of its own; None for anything else."""
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if isinstance(module, str) and isinstance(name, str) and not module.startswith(MODULE_PREFIX):
        try:
            found = functools.reduce(getattr, name.split("."), sys.modules.get(module))
        except AttributeError:
            found = None
        if found is value:
            return ("global", module, name)
    # One of a kind, such as `dataclasses.MISSING`.
    module = type(value).__module__
    for name, each in list(vars(sys.modules.get(module, types)).items()):
        if each is value:
            return ("global", module, name)
    return None


def _described(value: Any) -> str:
    if type(value) is types.FunctionType:
        return f"{value.__qualname__}, a function that was made in a call or belongs to a version that was replaced"
    if isinstance(value, type):
        return f"the class {value.__qualname__}, which was made in a call or belongs to a version that was replaced"
    kind = type(value)
    place = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
    return f"a {place}{kind.__qualname__}"


def object_state(value: Any) -> dict[str, Any]:
    """The attributes of a plain object."""
    return dict(attributes(value))
