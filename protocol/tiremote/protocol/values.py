"""What travels inside a header beyond plain msgpack: arrays, handles and scalars of exact width."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any, Literal

import numpy as np

from tiremote.protocol.coding import check_coding, chosen, decoded, encoded
from tiremote.protocol.dtypes import dtype_of, name_of
from tiremote.protocol.errors import ProtocolError, UnsupportedType, shown

Order = Literal["C", "F"]
Access = Literal["in", "out", "inout"]

#: The coding of an array that comes as chunks, of which only some have their bytes (`chunks`).
CHUNKS = "chunks"

#: NumPy's own limit since 2.0.
MAX_DIMENSIONS = 64
#: What a signed 64-bit size can count.
MAX_BYTES = (1 << 63) - 1


@dataclass(frozen=True, kw_only=True, slots=True)
class ArrayDescriptor:
    """An array whose bytes are buffer number ``buffer`` of the message, or nowhere (None: ``out`` arguments).

    The bytes are the elements in C or Fortran ``order`` without gaps. ``access`` matters for the arguments of
    a call: ``in`` is never sent back, ``out`` is not sent there, ``inout`` comes back where it changed.
    ``writeable`` False: the caller's memory must not change, so a call that writes to it is refused.
    ``coding``: how the bytes are made smaller (`coding`); None: they are as they are.
    """

    dtype: str
    shape: tuple[int, ...]
    order: Order = "C"
    buffer: int | None = None
    access: Access = "inout"
    writeable: bool = True
    coding: str | None = None

    def __post_init__(self) -> None:
        itemsize = dtype_of(self.dtype).itemsize
        if len(self.shape) > MAX_DIMENSIONS or not all(type(n) is int and n >= 0 for n in self.shape):
            raise ProtocolError(f"an array's shape is at most {MAX_DIMENSIONS} sizes from 0, not {shown(self.shape)}")
        # Also where one size is 0: NumPy computes the strides of the others all the same.
        if prod(n or 1 for n in self.shape) * itemsize > MAX_BYTES:
            raise ProtocolError(f"an array of shape {shown(self.shape)} is larger than any memory")
        if self.order not in ("C", "F"):
            raise ProtocolError(f"an array's order is 'C' or 'F', not {shown(self.order)}")
        if self.access not in ("in", "out", "inout"):
            raise ProtocolError(f"an array's access is 'in', 'out' or 'inout', not {shown(self.access)}")
        if self.buffer is not None and (type(self.buffer) is not int or self.buffer < 0):
            raise ProtocolError(f"a buffer's number counts from 0, not {shown(self.buffer)}")
        if type(self.writeable) is not bool:
            raise ProtocolError(f"an array's writeable is a boolean, not {shown(self.writeable)}")
        if self.coding is not None and self.coding != CHUNKS:
            check_coding(self.coding)

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return int(dtype_of(self.dtype).itemsize)

    @property
    def nbytes(self) -> int:
        """Bytes of the whole array, decoded."""
        return prod(self.shape) * dtype_of(self.dtype).itemsize

    def view(self, buffer: Any) -> np.ndarray:
        """A read-only array over ``buffer``, without a copy, or decoded from it.

        Raises `ProtocolError` where the size is not right, or what is coded does not decode.
        """
        if self.coding == CHUNKS:
            raise ProtocolError("an array in chunks came where none is taken: put takes them")
        if self.coding is not None:
            buffer = decoded(buffer, self.itemsize, self.coding, self.nbytes)
        size = memoryview(buffer).nbytes
        if size != self.nbytes:
            raise ProtocolError(
                f"an array of shape {self.shape} and dtype {self.dtype} is {self.nbytes} bytes, "
                f"but its buffer {self.buffer} has {size}"
            )
        array = np.frombuffer(buffer, dtype=dtype_of(self.dtype)).reshape(self.shape, order=self.order)
        array.flags.writeable = False
        return array


def describe_array(array: np.ndarray, *, access: Access = "inout") -> tuple[ArrayDescriptor, np.ndarray]:
    """The descriptor (without buffer number) of any array, and a contiguous little-endian array to send.

    The second is the caller's memory where that is contiguous, else a copy. Raises `UnsupportedType`.
    """
    if isinstance(array, np.ma.MaskedArray):
        raise UnsupportedType("a masked array does not travel: send .filled(...) or its data and mask")
    name = name_of(array.dtype)
    little = np.asarray(array).astype(dtype_of(name), copy=False)
    order: Order = "F" if little.flags.f_contiguous and not little.flags.c_contiguous else "C"
    # ascontiguousarray makes a 0-d array 1-d, but that one is contiguous already.
    flat = little if little.flags.forc else np.ascontiguousarray(little)
    descriptor = ArrayDescriptor(
        dtype=name, shape=array.shape, order=order, access=access, writeable=bool(array.flags.writeable)
    )
    return descriptor, flat


@dataclass(frozen=True, kw_only=True, slots=True)
class Handle:
    """Something that is kept on the worker for this session.

    ``kind`` is ``ndarray``, ``field``, ``array`` (a host array) or ``object``. ``meta`` tells what the holder
    needs to know of it (``dtype``, ``shape``, ``element_shape``, ``type``); it is not read when it comes back.
    """

    kind: str
    id: str
    meta: dict[str, Any] = field(default_factory=dict, compare=False, hash=False)

    def __post_init__(self) -> None:
        if not isinstance(self.kind, str) or not isinstance(self.id, str) or not isinstance(self.meta, dict):
            raise ProtocolError("a handle is [kind, id, meta]: two strings and a map")


@dataclass(frozen=True, kw_only=True, slots=True)
class Name:
    """A thing by its name in a unit: ``unit`` None is the newest one; ``name`` may be dotted (``step.grad``)."""

    unit: str | None = None
    name: str

    def __post_init__(self) -> None:
        if not (self.unit is None or isinstance(self.unit, str)) or not isinstance(self.name, str):
            raise ProtocolError("a name is [unit or nil, dotted name]")

    def __str__(self) -> str:
        return self.name if self.unit is None else f"{self.unit}.{self.name}"


Ref = Handle | Name


class WireArray:
    """An array as it came or as it goes: the descriptor, and the bytes in the message's memory (None: no bytes)."""

    __slots__ = ("_view", "data", "descriptor")

    def __init__(self, descriptor: ArrayDescriptor, data: Any) -> None:
        self.descriptor = descriptor
        self.data = data
        self._view: np.ndarray | None = None

    def view(self) -> np.ndarray:
        """The array over the message's own memory, read-only. One that is coded is decoded once."""
        if self.data is None:
            raise ProtocolError("this array travelled without its bytes")
        if self.descriptor.coding is None:
            return self.descriptor.view(self.data)
        if self._view is None:
            self._view = self.descriptor.view(self.data)
        return self._view

    def copy(self) -> np.ndarray:
        """The array in memory of its own, writeable, in its order."""
        return self.view().copy(order=self.descriptor.order)

    def complete(self, data: np.ndarray) -> None:
        """The bytes of an array that came in chunks have been put together."""
        self._view = replace(self.descriptor, coding=None).view(data)

    def coded(self, codings: Sequence[str]) -> WireArray:
        """The same array by one of these codings, or as it is, where none makes it smaller by as much as it costs."""
        if not codings or self.data is None or self.descriptor.coding is not None:
            return self
        coding = chosen(self.data, self.descriptor.itemsize, codings)
        if coding is None:
            return self
        data = encoded(self.data, self.descriptor.itemsize, coding)
        return WireArray(replace(self.descriptor, coding=coding), data) if len(data) < self.descriptor.nbytes else self

    def __repr__(self) -> str:
        return f"WireArray({self.descriptor})"


def wire_array(array: np.ndarray, *, access: Access = "inout") -> WireArray:
    """Any array, ready to be encoded. Raises `UnsupportedType`."""
    descriptor, contiguous = describe_array(array, access=access)
    if access == "out":
        return WireArray(descriptor, None)
    # A byte view: zmq and msgpack take any buffer, but ``len`` has to mean bytes; F order is sent as it lies.
    flat = contiguous.reshape(-1, order="A") if contiguous.size else np.empty(0, contiguous.dtype)
    return WireArray(descriptor, flat.view(np.uint8).data)
