"""Values to msgpack and back, with the extension types that msgpack lacks.

1 array ``[dtype, shape, order, buffer or nil, access, writeable]``, 2 handle ``[kind, id, meta]``,
3 scalar ``[dtype, bytes]``, 4 tuple (its items), 5 name ``[unit or nil, dotted name]``. Array bytes are never
copied through msgpack: a descriptor points to the buffer frame that holds them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from typing import Any, cast

import msgpack
import numpy as np

from tiremote.protocol.dtypes import dtype_of, name_of
from tiremote.protocol.errors import PayloadTooLarge, ProtocolError, TiremoteError, UnsupportedType
from tiremote.protocol.results import Limits
from tiremote.protocol.values import ArrayDescriptor, Handle, Name, WireArray, wire_array

ARRAY, HANDLE, SCALAR, TUPLE, NAME = 1, 2, 3, 4, 5

#: Deeper values are refused. Each level of a tuple is decoded from a copy of its bytes: the depth bounds that cost.
MAX_DEPTH = 32

Buffer = Any  # bytes, memoryview or zmq.Frame: whatever memoryview() takes


#: What msgpack carries by itself.
_PLAIN: tuple[Any, ...] = (bool, int, float, str, bytes, list, dict)


def pack(value: Any, buffers: list[Buffer]) -> bytes:
    """Packs a value, appending the bytes of every array in it to ``buffers``. Raises `UnsupportedType`."""
    packer = msgpack.Packer(default=_extension_packer(buffers), strict_types=True, use_bin_type=True)
    try:
        return bytes(packer.pack(value))
    except (OverflowError, ValueError, RecursionError) as error:
        reason = "an int of over 64 bits" if isinstance(error, OverflowError) else f"a value ({error})"
        raise UnsupportedType(f"{reason} does not travel") from None


def _extension_packer(buffers: list[Buffer]) -> Callable[[Any], Any]:
    def default(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            value = wire_array(value)
        if isinstance(value, WireArray):
            number = None
            if value.data is not None:
                number = len(buffers)
                buffers.append(value.data)
            d = value.descriptor
            return _ext(ARRAY, [d.dtype, list(d.shape), d.order, number, d.access, d.writeable])
        if isinstance(value, Handle):
            return _ext(HANDLE, [value.kind, value.id, value.meta])
        if isinstance(value, np.generic):
            return _ext(SCALAR, [name_of(value.dtype), value.astype(value.dtype.newbyteorder("<")).tobytes()])
        if isinstance(value, tuple):
            return msgpack.ExtType(TUPLE, pack(list(value), buffers))
        if isinstance(value, Name):
            return _ext(NAME, [value.unit, value.name])
        if is_dataclass(value) and not isinstance(value, type):
            return fields_set(value)
        for plain in _PLAIN:
            # strict_types sends subclasses here (an IntEnum, an OrderedDict): they travel as what they are.
            if isinstance(value, plain):
                return plain(value)
        if isinstance(value, bytearray | memoryview):
            return bytes(value)
        raise UnsupportedType(
            f"a value of type {type(value).__name__} does not travel; the wire carries None, bool, int, float, str, "
            "bytes, list, tuple, dict, NumPy arrays and scalars, and handles"
        )

    return default


def _ext(code: int, content: list[Any]) -> msgpack.ExtType:
    return msgpack.ExtType(code, msgpack.packb(content, use_bin_type=True))


#: Kinds that are compared with a field's default: an array has no truth value.
_COMPARED = (bool, int, float, str)


@cache
def _fields_of(cls: Hashable) -> tuple[tuple[str, Any, bool], ...]:
    """Name, default, and whether the field holds a user's values, in which a tuple is not the same as a list."""

    def default(f: Field[Any]) -> Any:
        return f.default_factory() if f.default_factory is not MISSING else f.default

    return tuple((f.name, default(f), "Any" in str(f.type)) for f in fields(cast(Any, cls)))


def fields_set(message: Any) -> dict[str, Any]:
    """The fields of a dataclass that differ from their defaults, ready to be packed."""
    header = {}
    for name, default, holds_values in _fields_of(type(message)):
        value = getattr(message, name)
        if value is default or (type(value) in _COMPARED and type(value) is type(default) and value == default):
            continue
        if isinstance(value, tuple | dict) and not value and not default:
            continue
        if type(value) is tuple:
            value = list(value) if holds_values else _listed(value)
        header[name] = value
    return header


def _listed(value: Any) -> Any:
    return [_listed(one) for one in value] if type(value) is tuple else value


def unpack(header: Buffer, buffers: Sequence[Buffer] = (), limits: Limits | None = None) -> Any:
    """The value of a header; arrays in it point into ``buffers``. Raises `ProtocolError`, `UnsupportedType`."""
    limits = limits or Limits()
    size = memoryview(header).nbytes
    if size > limits.header_bytes:
        raise PayloadTooLarge(
            f"a header of {size} bytes came, at most {limits.header_bytes} are taken",
            size=size,
            limit=limits.header_bytes,
        )
    try:
        return _unpack(header, buffers, 0)
    except TiremoteError:
        raise
    except msgpack.exceptions.StackError:
        raise ProtocolError("the header is nested too deeply") from None
    except (ValueError, TypeError, msgpack.exceptions.UnpackException, RecursionError) as error:
        # Truncated, trailing bytes, invalid UTF-8, lengths beyond the buffer, unhashable keys.
        raise ProtocolError(f"the header is not one whole msgpack value: {error or type(error).__name__}") from None


def _unpack(data: Buffer, buffers: Sequence[Buffer], depth: int) -> Any:
    if depth > MAX_DEPTH:
        raise ProtocolError(f"a value is nested more than {MAX_DEPTH} deep")

    def ext_hook(code: int, content: bytes) -> Any:
        if code == TUPLE:
            items = _unpack(content, buffers, depth + 1)
            return tuple(_expect(items, "a tuple's content"))
        read = _EXTENSIONS.get(code)
        if read is None:
            raise ProtocolError(f"unknown extension type {code}; known are {ARRAY} to {NAME}")
        return read(_expect(msgpack.unpackb(content, raw=False), f"extension type {code}"), buffers)

    return msgpack.unpackb(
        data, raw=False, strict_map_key=False, ext_hook=ext_hook, max_array_len=1 << 20, max_map_len=1 << 20
    )


def _expect(value: Any, what: str) -> list[Any]:
    if not isinstance(value, list):
        raise ProtocolError(f"{what} is a msgpack array, not {type(value).__name__}")
    return value


def _read_array(content: list[Any], buffers: Sequence[Buffer]) -> WireArray:
    if not 4 <= len(content) <= 6 or not isinstance(content[1], list):
        raise ProtocolError("an array is [dtype, shape, order, buffer or nil, access?, writeable?]")
    dtype, shape, order, number, *rest = content
    descriptor = ArrayDescriptor(
        dtype=dtype,
        shape=tuple(shape),
        order=order,
        buffer=number,
        access=rest[0] if rest else "inout",
        writeable=rest[1] is not False if len(rest) > 1 else True,
    )
    if number is None:
        return WireArray(descriptor, None)
    if number >= len(buffers):
        raise ProtocolError(f"an array points to buffer {number}, but {len(buffers)} buffers came")
    array = WireArray(descriptor, buffers[number])
    size = memoryview(buffers[number]).nbytes
    if size != descriptor.nbytes:
        array.view()  # raises, with both sizes
    return array


def _read_handle(content: list[Any], _: Sequence[Buffer]) -> Handle:
    if len(content) not in (2, 3):
        raise ProtocolError("a handle is [kind, id, meta?]")
    return Handle(kind=content[0], id=content[1], meta=content[2] if len(content) > 2 else {})


def _read_scalar(content: list[Any], _: Sequence[Buffer]) -> Any:
    if len(content) != 2 or not isinstance(content[1], bytes):
        raise ProtocolError("a scalar is [dtype, bytes]")
    dtype = dtype_of(content[0])
    if len(content[1]) != dtype.itemsize:
        raise ProtocolError(f"a scalar of dtype {content[0]} is {dtype.itemsize} bytes, not {len(content[1])}")
    return np.frombuffer(content[1], dtype)[0]


def _read_name(content: list[Any], _: Sequence[Buffer]) -> Name:
    if len(content) != 2:
        raise ProtocolError("a name is [unit or nil, dotted name]")
    return Name(unit=content[0], name=content[1])


_EXTENSIONS: dict[int, Callable[[list[Any], Sequence[Buffer]], Any]] = {
    ARRAY: _read_array,
    HANDLE: _read_handle,
    SCALAR: _read_scalar,
    NAME: _read_name,
}
