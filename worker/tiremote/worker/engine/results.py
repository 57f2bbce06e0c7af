"""Return values: plain where they can be, else `Kept` for a handle."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tiremote.protocol.dtypes import DTYPES, dtype_of, name_of
from tiremote.protocol.errors import UnsupportedType
from tiremote.protocol.plain import MAX_DEPTH as WIRE_DEPTH
from tiremote.protocol.plain import MAX_ITEMS
from tiremote.worker.engine.runtime_arrays import ArrayRuntime

#: The deepest nesting of lists, tuples and dicts: what the wire takes, less the message around it.
MAX_DEPTH = WIRE_DEPTH - 4


@dataclass(frozen=True, slots=True, eq=False)
class Kept:
    """A value that stays on the worker: the dispatch gives it a handle."""

    value: Any


def to_plain(value: Any, runtime: ArrayRuntime) -> Any:
    """None, numbers, str, bytes, NumPy arrays and scalars, lists, tuples and dicts of them; `Kept` for the rest.

    Vectors and matrices become arrays, structs dicts. Raises `UnsupportedType`, naming the place in the result,
    for what cannot travel and is of no use as a handle either: complex numbers, integers over 64 bits, arrays of
    objects, cycles.
    """
    return _plain(value, runtime, "", ())


def _plain(value: Any, runtime: ArrayRuntime, place: str, parents: tuple[int, ...]) -> Any:
    if value is None or isinstance(value, bool):
        return value
    kind = type(value)
    if kind is float or kind is str or kind is bytes:
        return value
    if isinstance(value, int):
        return _integer(value, place)
    if isinstance(value, (np.generic, np.ndarray)):
        return _numpy(value, place)
    for base in (float, str):
        if isinstance(value, base):
            return base(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    if isinstance(value, complex):
        raise _unsupported(place, "a complex number", "return its real and imaginary parts")
    matrix = runtime.matrix_values(value)
    if matrix is not None:
        return _numpy(matrix, place)
    struct = runtime.struct_values(value)
    if struct is not None:
        return {name: _plain(each, runtime, f"{place}.{name}", parents) for name, each in struct.items()}
    if isinstance(value, (list, tuple, dict)):
        return _container(value, runtime, place, parents)
    return Kept(value)


def _container(
    value: list[Any] | tuple[Any, ...] | dict[Any, Any], runtime: ArrayRuntime, place: str, parents: tuple[int, ...]
) -> Any:
    if id(value) in parents:
        raise _unsupported(place, f"a {type(value).__name__} that contains itself", "return what it holds")
    if len(parents) >= MAX_DEPTH:
        raise _unsupported(place, f"a nesting deeper than {MAX_DEPTH}", "return it in parts")
    if len(value) > MAX_ITEMS:
        raise _unsupported(place, f"a {type(value).__name__} of {len(value)} items", "return a NumPy array")
    inner = (*parents, id(value))
    if isinstance(value, dict):
        for key in value:
            if type(key) not in (str, int, bool):
                raise _unsupported(place, f"a dict with the key {key!r}", "use keys of str or int")
        return {
            _integer(key, place) if type(key) is int else key: _plain(each, runtime, f"{place}[{key!r}]", inner)
            for key, each in value.items()
        }
    items = [_plain(each, runtime, f"{place}[{i}]", inner) for i, each in enumerate(value)]
    return tuple(items) if isinstance(value, tuple) else items


def _integer(value: int, place: str) -> int:
    if -(2**63) <= value < 2**64:
        return int(value)
    raise _unsupported(place, "an integer of more than 64 bits", "return it as a str or a float")


def _numpy(value: np.generic | np.ndarray, place: str) -> np.generic | np.ndarray | str | bytes:
    if isinstance(value, (np.str_, np.bytes_)):
        return value.item()
    if isinstance(value, np.ma.MaskedArray):
        raise _unsupported(place, "a masked array", "return its .filled()")
    try:
        dtype = dtype_of(name_of(value.dtype))
    except UnsupportedType:
        what = "an array" if isinstance(value, np.ndarray) else "a scalar"
        raise _unsupported(
            place, f"{what} of {value.dtype}", f"the wire carries {', '.join(DTYPES)}: use .astype()"
        ) from None
    if isinstance(value, np.ndarray):
        return np.asarray(value).astype(dtype, copy=False)
    return value


def _unsupported(place: str, what: str, hint: str) -> UnsupportedType:
    return UnsupportedType(f"the result{' at ' + place if place else ''} is {what}, which does not travel: {hint}")
