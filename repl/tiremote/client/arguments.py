"""What a call is given, made ready to travel; and what it wrote, put back into the caller's arrays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

import numpy as np

from tiremote.client.exchange import Exchange
from tiremote.client.remote import Remote
from tiremote.client.transfer import discard, fetch_into, held, send_from
from tiremote.protocol.dtypes import name_of
from tiremote.protocol.errors import KernelArgumentError, UnsupportedType
from tiremote.protocol.messages import Alloc
from tiremote.protocol.values import Access, Handle, Name, Ref, WireArray, wire_array

Key = int | str


@dataclass(frozen=True, slots=True)
class In:
    """An argument that the kernel only reads: never sent back."""

    array: Any


@dataclass(frozen=True, slots=True)
class Out:
    """An argument that the kernel only writes, and wholly: its bytes are not sent there."""

    array: Any


@dataclass(frozen=True, slots=True)
class InOut:
    """An argument that is sent, and comes back where it changed: what a bare array means too."""

    array: Any


_ACCESS: Mapping[type, Access] = {In: "in", Out: "out", InOut: "inout"}
_PLAIN = (type(None), bool, int, float, str, bytes, bytearray, memoryview, np.generic, Handle, Name, WireArray)


@dataclass(frozen=True, slots=True)
class _Loan:
    """An array that waits on the worker for the call, and where it comes back to."""

    handle: Handle
    array: np.ndarray
    access: Access


@dataclass(slots=True)
class PackedCall:
    """Arguments as `Run` takes them. ``write_back`` what came, then ``return_loans``; always ``drop_loans``."""

    exchange: Exchange
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    #: Remote things among the arguments must not be garbage-collected, and so released, before the call is done.
    kept: tuple[Any, ...] = ()
    _arrays: dict[Key, np.ndarray] = field(default_factory=dict)
    _loans: dict[Any, _Loan] = field(default_factory=dict)

    def write_back(self, written: Sequence[tuple[Key, WireArray]]) -> None:
        """Puts what the call changed into the caller's arrays, whatever their layout."""
        for key, wire in written:
            array = self._arrays.get(key)
            if array is not None and wire.data is not None:
                array[...] = wire.view()

    @property
    def has_loans(self) -> bool:
        """Whether arrays wait on the worker, so that `return_loans` has something to wait for."""
        return bool(self._loans)

    def return_loans(self) -> None:
        """Fetches what waited there back into the caller's arrays."""
        for loan in self._loans.values():
            array = loan.array
            if loan.access == "in" or not array.flags.writeable:
                continue
            if array.flags.c_contiguous:
                fetch_into(self.exchange, loan.handle, array.reshape(-1))
            else:
                came = np.empty(array.shape, array.dtype)
                fetch_into(self.exchange, loan.handle, came.reshape(-1))
                array[...] = came

    def drop_loans(self) -> None:
        """Gives the worker's memory back, without waiting."""
        if self._loans:
            discard(self.exchange, *(loan.handle for loan in self._loans.values()))
            self._loans.clear()


def pack_call(
    exchange: Exchange,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    *,
    names: Sequence[str] = (),
    snapshot: bool = False,
) -> PackedCall:
    """Makes arguments ready; ``snapshot``: arrays are copied, because the caller goes on meanwhile.

    ``names`` are a kernel's parameters, where the callee is known to be a kernel.

    Arrays above the worker's limit for one buffer, and such as are passed twice, are uploaded first, which waits.
    Raises `UnsupportedType` and `KernelArgumentError`, naming the argument, before anything is sent.
    """
    values: dict[Key, Any] = dict(enumerate(args))
    values.update(kwargs)
    access: dict[Key, Access] = {}
    for key, value in values.items():
        access[key] = _ACCESS.get(type(value), "inout")
        values[key] = _as_array(value.array if type(value) in _ACCESS else value, key)
    call = PackedCall(exchange, kept=tuple(values.values()))
    _check_all(exchange, values, names)
    memories = Counter(_memory(value) for value in values.values() if isinstance(value, np.ndarray) and value.size)
    try:
        for key, value in values.items():
            if not isinstance(value, np.ndarray):
                values[key] = _packed(value, call, snapshot)
                continue
            twice = memories[_memory(value)] > 1 and value.flags.writeable
            if twice or value.nbytes > exchange.limits.buffer_bytes:
                values[key] = _lend(value, access[key], call)
            else:
                call._arrays[key] = value
                values[key] = _wire(value, access[key], snapshot)
    except BaseException:
        call.drop_loans()
        raise
    call.args = tuple(values[number] for number in range(len(args)))
    call.kwargs = {name: values[name] for name in kwargs}
    return call


def _memory(array: np.ndarray) -> Any:
    return array.__array_interface__["data"][0], array.shape, array.strides, array.dtype.str


def _wire(array: np.ndarray, access: Access, snapshot: bool) -> WireArray:
    wire = wire_array(array, access=access)
    if snapshot and wire.data is not None:
        return WireArray(wire.descriptor, bytes(wire.data))
    return wire


def _lend(array: np.ndarray, access: Access, call: PackedCall) -> Handle:
    memory = _memory(array)
    loan = call._loans.get(memory)
    if loan is None:
        handle = held(call.exchange, Alloc(id="", kind="array", dtype=name_of(array.dtype), shape=array.shape))
        loan = call._loans[memory] = _Loan(handle, array, access)
        if access != "out":
            send_from(call.exchange, handle, array)
    elif loan.access != access:
        # One array, read through one parameter and written through another: it comes back.
        call._loans[memory] = _Loan(loan.handle, array, "inout")
        if loan.access == "out":
            send_from(call.exchange, loan.handle, array)
    return loan.handle


def _as_array(value: Any, key: Key) -> Any:
    """A tensor of torch as the NumPy array over its memory; anything else as it is."""
    if type(value).__module__.partition(".")[0] != "torch" or not hasattr(value, "detach"):
        return value
    if value.device.type != "cpu":
        raise UnsupportedType(f"{_name(key)} is a tensor on {value.device}: pass .cpu() of it")
    try:
        array: np.ndarray = value.detach().numpy()
    except (TypeError, RuntimeError) as error:
        raise UnsupportedType(f"{_name(key)} is a tensor that NumPy does not take: {error}") from None
    return array


def _check_all(exchange: Exchange, values: Mapping[Key, Any], names: Sequence[str]) -> None:
    for key, value in values.items():
        parameter = key if isinstance(key, str) else names[key] if key < len(names) else None
        if names and _is_too_wide(value):
            raise KernelArgumentError(
                f"parameter {parameter!r} got an integer of over 64 bits, which no type of Taichi holds",
                parameter=parameter,
            )
        _check(exchange, value, _name(key))


def _is_too_wide(value: Any) -> bool:
    return isinstance(value, int) and not -(2**63) <= value < 2**64


def _check(exchange: Exchange, value: Any, name: str) -> None:
    if isinstance(value, np.ndarray):
        try:
            name_of(value.dtype)
        except UnsupportedType as error:
            raise UnsupportedType(f"{name}: {error.message}") from None
        if isinstance(value, np.ma.MaskedArray):
            raise UnsupportedType(f"{name} is a masked array: pass .filled(...) of it, or its data and mask")
    elif isinstance(value, Remote):
        if value._exchange is not exchange:
            raise KernelArgumentError(f"{name} belongs to another session: fetch it there, and send it here")
    elif isinstance(value, np.generic):
        try:
            name_of(value.dtype)
        except UnsupportedType as error:
            raise UnsupportedType(f"{name}: {error.message}") from None
    elif _is_too_wide(value):
        raise UnsupportedType(f"{name} is an integer of over 64 bits, which does not travel: send it as text")
    elif isinstance(value, _PLAIN):
        return
    elif isinstance(value, list | tuple):
        for number, item in enumerate(value):
            _check(exchange, item, f"{name}[{number}]")
    elif isinstance(value, dict):
        for item_key, item in value.items():
            _check(exchange, item, f"{name}[{item_key!r}]")
    elif _is_struct(value):
        for each in fields(value):
            _check(exchange, getattr(value, each.name), f"{name}.{each.name}")
    elif type(value) in _ACCESS:
        raise UnsupportedType(f"{name} is {type(value).__name__}(...) inside another value: it is for whole arguments")
    else:
        hint = ": pass numpy.asarray(...) of it" if hasattr(value, "__array__") else ""
        raise UnsupportedType(
            f"{name} is of type {type(value).__name__}, which does not travel: None, numbers, str, bytes, "
            f"NumPy arrays, lists, tuples, dicts and remote things do{hint}"
        )


def _packed(value: Any, call: PackedCall, snapshot: bool) -> Any:
    if isinstance(value, Remote):
        target: Ref = value._target
        return target
    if isinstance(value, np.ndarray):
        # Inside a list nothing is written back.
        if value.nbytes > call.exchange.limits.buffer_bytes:
            return _lend(value, "in", call)
        return _wire(value, "in", snapshot)
    if isinstance(value, list):
        return [_packed(item, call, snapshot) for item in value]
    if isinstance(value, tuple):
        return tuple(_packed(item, call, snapshot) for item in value)
    if isinstance(value, dict):
        return {key: _packed(item, call, snapshot) for key, item in value.items()}
    if _is_struct(value):
        return {each.name: _packed(getattr(value, each.name), call, snapshot) for each in fields(value)}
    return value


def _is_struct(value: Any) -> bool:
    return is_dataclass(value) and not isinstance(value, type) and type(value) not in _ACCESS


def _name(key: Key) -> str:
    return f"argument {key}" if isinstance(key, int) else f"argument {key!r}"
