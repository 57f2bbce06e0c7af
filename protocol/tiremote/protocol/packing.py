"""Values to msgpack and back, with the extension types that msgpack lacks.

1 array ``[dtype, shape, order, buffer or nil, access, writeable, coding]``, 2 handle ``[kind, id, meta]``,
3 scalar ``[dtype, bytes]``, 4 tuple (its items), 5 name ``[unit or nil, dotted name]``. Array bytes are never
copied through msgpack: a descriptor points to the buffer frame that holds them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any

import msgpack
import numpy as np

from tiremote.protocol.dtypes import dtype_of, name_of
from tiremote.protocol.errors import PayloadTooLarge, ProtocolError, UnsupportedType
from tiremote.protocol.plain import MAX_DEPTH, check_plain, load
from tiremote.protocol.results import Limits
from tiremote.protocol.values import ArrayDescriptor, Handle, Name, WireArray, wire_array

ARRAY, HANDLE, SCALAR, TUPLE, NAME = 1, 2, 3, 4, 5

Buffer = Any  # bytes, memoryview or zmq.Frame: whatever memoryview() takes

_LIMITS = Limits()

#: How deep in a header the values of a receipt may lie: what it leaves of `MAX_DEPTH` is theirs.
_RECEIPT_DEPTH = 8

#: What msgpack carries by itself.
_PLAIN: tuple[Any, ...] = (bool, int, float, str, bytes, list, dict)


#: A packer's first buffer: its default of 1 MiB costs more to get than most headers to pack.
_BUFFER_BYTES = 1024


def pack(value: Any, buffers: list[Buffer], codings: Sequence[str] = ()) -> bytes:
    """Packs a value, appending the bytes of every array in it to ``buffers``. Raises `UnsupportedType`.

    ``codings``: those by which arrays may be made smaller.
    """
    _check(value, 0)
    return _dump(value, _extension_packer(buffers, codings))


def _check(value: Any, depth: int) -> None:
    try:
        check_plain(value, depth)
    except ProtocolError as error:  # our own caller's value, not a peer's
        raise UnsupportedType(error.message) from None


def _dump(value: Any, default: Callable[[Any], Any] | None = None, strict: bool = True) -> bytes:
    try:
        return bytes(msgpack.Packer(default=default, strict_types=strict, buf_size=_BUFFER_BYTES).pack(value))
    except OverflowError:
        raise UnsupportedType("an int of over 64 bits does not travel") from None
    except (ValueError, TypeError) as error:
        raise UnsupportedType(f"a value does not travel: {error}") from None


def _extension_packer(buffers: list[Buffer], codings: Sequence[str]) -> Callable[[Any], Any]:
    def default(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            value = wire_array(value)
        if isinstance(value, WireArray):
            value = value.coded(codings)
            number = None
            if value.data is not None:
                number = len(buffers)
                buffers.append(value.data)
            d = value.descriptor
            coding = [] if d.coding is None else [d.coding]
            return _ext(ARRAY, [d.dtype, list(d.shape), d.order, number, d.access, d.writeable, *coding])
        if isinstance(value, Handle):
            _check(value.meta, 0)
            return _ext(HANDLE, [value.kind, value.id, value.meta])
        if isinstance(value, np.generic):
            return _ext(SCALAR, [name_of(value.dtype), value.astype(value.dtype.newbyteorder("<")).tobytes()])
        if isinstance(value, tuple):
            return msgpack.ExtType(TUPLE, _dump(list(value), default))
        if isinstance(value, Name):
            return _ext(NAME, [value.unit, value.name])
        if is_dataclass(value) and not isinstance(value, type):
            fields = all_fields(value)
            _check(fields, _RECEIPT_DEPTH)
            return fields
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
    # Not strict: the tuples of a handle's meta are plain arrays, for every language.
    return msgpack.ExtType(code, _dump(content, strict=False))


_COMPARED = (bool, int, float, str)


_FIELDS: dict[type, tuple[tuple[str, Any, Callable[[Any], Any]], ...]] = {}


def _fields_of(cls: type[Any]) -> tuple[tuple[str, Any, Callable[[Any], Any]], ...]:
    """Name, default, and what its value is packed as."""

    def default(f: Field[Any]) -> Any:
        return f.default_factory() if f.default_factory is not MISSING else f.default

    known = _FIELDS.get(cls)
    if known is None:
        known = _FIELDS[cls] = tuple((f.name, default(f), _packed_as(str(f.type))) for f in fields(cls))
    return known


def _packed_as(annotation: str) -> Callable[[Any], Any]:
    # In a user's own value a tuple is not the same as a list; the tuples of our messages are plain arrays.
    if annotation == "Any":
        return lambda value: value
    if annotation == "tuple[Any, ...]":
        return list
    return _listed


def _listed(value: Any) -> Any:
    return [_listed(one) for one in value] if type(value) is tuple else value


def all_fields(value: Any) -> dict[str, Any]:
    """Every field of a dataclass, ready to be packed: what a worker tells has to be whole for every language."""
    return {name: packed_as(getattr(value, name)) for name, _, packed_as in _fields_of(type(value))}


def fields_set(message: Any) -> dict[str, Any]:
    """The fields of a dataclass that differ from their defaults, ready to be packed."""
    return {
        name: packed_as(value)
        for name, default, packed_as in _fields_of(type(message))
        for value in (getattr(message, name),)
        if not _is_default(value, default)
    }


def _is_default(value: Any, default: Any) -> bool:
    if value is default or type(value) is not type(default):
        return value is default
    # Of tuples and maps only the empty ones: an array in one has no truth value.
    return bool(value == default) if type(value) in _COMPARED else not value and not default


def unpack(header: Buffer, buffers: Sequence[Buffer] = (), limits: Limits | None = None) -> Any:
    """The value of a header; arrays in it point into ``buffers``. Raises `ProtocolError`, `UnsupportedType`."""
    limits = limits or _LIMITS
    size = memoryview(header).nbytes
    if size > limits.header_bytes:
        raise PayloadTooLarge(
            f"a header of {size} bytes came, at most {limits.header_bytes} are taken",
            size=size,
            limit=limits.header_bytes,
        )
    return _unpack(header, _Came(buffers, limits), 0)


class _Came:
    """The buffers of a message, and how many bytes its coded arrays may still be."""

    __slots__ = ("_left", "_limits", "buffers")

    def __init__(self, buffers: Sequence[Buffer], limits: Limits) -> None:
        self.buffers = buffers
        self._limits = limits
        self._left = limits.session_bytes

    def take_coded(self, descriptor: ArrayDescriptor) -> None:
        """Raises `PayloadTooLarge` for what would be too much when it is decoded."""
        size, most = descriptor.nbytes, min(self._limits.buffer_bytes, self._left)
        if size > most:
            raise PayloadTooLarge(
                f"a coded array of {size} bytes came, at most {most} are taken here: send flat ranges",
                size=size,
                limit=most,
            )
        self._left -= size


def _unpack(data: Buffer, came: _Came, depth: int) -> Any:
    if depth > MAX_DEPTH:
        raise ProtocolError(f"a value is nested more than {MAX_DEPTH} deep")

    def ext_hook(code: int, content: bytes) -> Any:
        if code == TUPLE:
            return tuple(_expect(_unpack(content, came, depth + 1), "a tuple's content"))
        read = _EXTENSIONS.get(code)
        if read is None:
            raise ProtocolError(f"unknown extension type {code}; known are {ARRAY} to {NAME}")
        return read(_expect(load(content), f"the content of extension type {code}"), came)

    return load(data, ext_hook)


def _expect(value: Any, what: str) -> list[Any]:
    if not isinstance(value, list):
        raise ProtocolError(f"{what} is a msgpack array, not {type(value).__name__}")
    return value


def _read_array(content: list[Any], came: _Came) -> WireArray:
    if not 4 <= len(content) <= 7 or not isinstance(content[1], list):
        raise ProtocolError("an array is [dtype, shape, order, buffer or nil, access?, writeable?, coding?]")
    dtype, shape, order, number, *rest = content
    descriptor = ArrayDescriptor(
        dtype=dtype,
        shape=tuple(shape),
        order=order,
        buffer=number,
        access=rest[0] if rest else "inout",
        writeable=rest[1] if len(rest) > 1 else True,
        coding=rest[2] if len(rest) > 2 else None,
    )
    buffers = came.buffers
    if number is None:
        return WireArray(descriptor, None)
    if number >= len(buffers):
        raise ProtocolError(f"an array points to buffer {number}, but {len(buffers)} buffers came")
    array = WireArray(descriptor, buffers[number])
    if descriptor.coding is not None:
        came.take_coded(descriptor)
        return array
    size = memoryview(buffers[number]).nbytes
    if size != descriptor.nbytes:
        array.view()  # raises, with both sizes
    return array


def _read_handle(content: list[Any], _: _Came) -> Handle:
    if len(content) not in (2, 3):
        raise ProtocolError("a handle is [kind, id, meta?]")
    return Handle(kind=content[0], id=content[1], meta=content[2] if len(content) > 2 else {})


def _read_scalar(content: list[Any], _: _Came) -> Any:
    if len(content) != 2 or not isinstance(content[1], bytes):
        raise ProtocolError("a scalar is [dtype, bytes]")
    dtype = dtype_of(content[0])
    if len(content[1]) != dtype.itemsize:
        raise ProtocolError(f"a scalar of dtype {content[0]} is {dtype.itemsize} bytes, not {len(content[1])}")
    if content[0] == "bool" and content[1] not in (b"\0", b"\1"):
        raise ProtocolError("a scalar of dtype bool is one byte, 0 or 1")
    return np.frombuffer(content[1], dtype)[0]


def _read_name(content: list[Any], _: _Came) -> Name:
    if len(content) != 2:
        raise ProtocolError("a name is [unit or nil, dotted name]")
    return Name(unit=content[0], name=content[1])


_EXTENSIONS: dict[int, Callable[[list[Any], _Came], Any]] = {
    ARRAY: _read_array,
    HANDLE: _read_handle,
    SCALAR: _read_scalar,
    NAME: _read_name,
}
