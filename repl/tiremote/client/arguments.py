"""What a call is given, made ready to travel; and what it wrote, put back into the caller's arrays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tiremote.client.access import ACCESS
from tiremote.client.exchange import Exchange
from tiremote.client.remote import Remote
from tiremote.client.tensors import TensorLoan, has_gradient, lend_tensor
from tiremote.client.transfer import discard, fetch_into, held, send_from
from tiremote.client.travelling import is_indexable, is_too_wide, travelling
from tiremote.protocol.dtypes import name_of
from tiremote.protocol.errors import KernelArgumentError
from tiremote.protocol.messages import Alloc
from tiremote.protocol.receipts import Parameter
from tiremote.protocol.values import Access, Handle, Ref, WireArray

#: A position or a keyword, or the path to what is inside of an argument, such as ``0.mass`` or ``state.x``.
Key = int | str

#: Of a sequence for a vector or a matrix: more than any has, and a ``range`` may be of thousands of millions.
_MOST_NUMBERS = 1 << 12


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
    _tensors: list[TensorLoan] = field(default_factory=list)
    #: How often each memory is passed.
    _memories: Counter[Any] = field(default_factory=Counter)

    def write_back(self, written: Sequence[tuple[Key, WireArray]]) -> None:
        """Puts what the call changed into the caller's arrays, whatever their layout."""
        for key, wire in written:
            array = self._arrays.get(key)
            if array is not None and wire.data is not None:
                array[...] = wire.view()

    @property
    def has_loans(self) -> bool:
        """Whether arrays wait on the worker, so that `return_loans` has something to wait for."""
        return bool(self._loans or self._tensors)

    def return_loans(self) -> None:
        """Fetches what waited there back into the caller's arrays."""
        for tensor in self._tensors:
            tensor.bring_back()
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
        if self.has_loans:
            handles = [loan.handle for loan in self._loans.values()] + [loan.handle for loan in self._tensors]
            discard(self.exchange, *handles)
            self._loans.clear()
            self._tensors.clear()


def travels_by_parameter(value: Any) -> bool:
    """Whether it depends on what a kernel's parameter takes how this goes there, or whether it does."""
    return has_gradient(value, "ndarray") or is_indexable(value)


def pack_call(
    exchange: Exchange,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    *,
    parameters: Sequence[Parameter] = (),
    snapshot: bool = False,
) -> PackedCall:
    """Makes arguments ready; ``snapshot``: arrays are copied, because the caller goes on meanwhile.

    ``parameters`` are a kernel's, where the callee is known to be a kernel. To that a tensor that requires a gradient
    goes as an ndarray with one, and for its vectors and matrices any sequence goes as a list.

    Arrays above the worker's limit for one buffer, and such as are passed twice, are uploaded first, which waits.
    Raises `UnsupportedType` and `KernelArgumentError`, naming the argument, before anything is sent.
    """
    given: dict[Key, Any] = dict(enumerate(args))
    given.update(kwargs)
    access: dict[Key, Access] = {key: ACCESS.get(type(value), "inout") for key, value in given.items()}
    takes: dict[Key, str] = {number: each.takes for number, each in enumerate(parameters)}
    takes.update({each.name: each.takes for each in parameters})
    values: dict[Key, Any] = {}
    tensors: dict[Key, Any] = {}
    for key, value in given.items():
        whole = value.array if type(value) in ACCESS else value
        if parameters and is_too_wide(whole):
            names = [each.name for each in parameters]
            raise _too_wide(key if isinstance(key, str) else names[key] if key < len(names) else None)
        whole = _listed(whole, takes.get(key, ""))
        if has_gradient(value, takes.get(key, "")):
            tensors[key] = value
        values[key] = travelling(whole, f"argument {key!r}", exchange)
    call = PackedCall(exchange, kept=tuple(given.values()))
    try:
        lent: dict[int, TensorLoan | None] = {}
        for key, tensor in tensors.items():
            # One that is passed twice is one array there as well.
            if id(tensor) not in lent:
                loan = lent[id(tensor)] = lend_tensor(tensor, f"argument {key!r}", takes[key], exchange)
                call._tensors += [loan] if loan is not None else []
            loan = lent[id(tensor)]
            if loan is not None:
                values[key] = loan.handle
        call._memories.update(_memory(array) for value in values.values() for array in _arrays_in(value) if array.size)
        for key, value in values.items():
            values[key] = _packed(value, key, access[key], call, snapshot)
    except BaseException:
        call.drop_loans()
        raise
    call.args = tuple(values[number] for number in range(len(args)))
    call.kwargs = {name: values[name] for name in kwargs}
    return call


def _too_wide(parameter: str | None) -> KernelArgumentError:
    return KernelArgumentError(
        f"parameter {parameter!r} got an integer of over 64 bits, which no type of Taichi holds", parameter=parameter
    )


def _listed(value: Any, takes: str) -> Any:
    """Its numbers, where a kernel takes a vector or a matrix and a sequence came that does not travel itself."""
    if takes.startswith(("vector(", "matrix(")) and is_indexable(value) and len(value) <= _MOST_NUMBERS:
        return [value[number] for number in range(len(value))]
    return value


def _arrays_in(value: Any) -> Iterator[np.ndarray]:
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, list | tuple | dict):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _arrays_in(item)


def _memory(array: np.ndarray) -> Any:
    return array.__array_interface__["data"][0], array.shape, array.strides, array.dtype.str


def _packed(value: Any, key: Key | None, access: Access, call: PackedCall, snapshot: bool) -> Any:
    """``key`` None: it is inside of something that no path leads into, and is not written back."""
    if isinstance(value, Remote):
        target: Ref = value._target
        return target
    if isinstance(value, np.ndarray):
        return _packed_array(value, key, "in" if key is None else access, call, snapshot)
    if isinstance(value, list | tuple):
        items = [_packed(item, _inside(key, number), access, call, snapshot) for number, item in enumerate(value)]
        return tuple(items) if isinstance(value, tuple) else items
    if isinstance(value, dict):
        return {name: _packed(item, _inside(key, name), access, call, snapshot) for name, item in value.items()}
    return value


def _inside(key: Key | None, part: Any) -> str | None:
    """The path to an item; None where its name would make it ambiguous."""
    named = isinstance(part, str) and part.isidentifier()
    return f"{key}.{part}" if key is not None and (named or type(part) is int) else None


def _packed_array(
    array: np.ndarray, key: Key | None, access: Access, call: PackedCall, snapshot: bool
) -> WireArray | Handle:
    twice = call._memories[_memory(array)] > 1 and array.flags.writeable
    if twice or array.nbytes > call.exchange.limits.buffer_bytes:
        return _lend(array, access, call)
    if key is not None:
        call._arrays[key] = array
    wire = call.exchange.thrift.compression.sent(array, access=access)
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
