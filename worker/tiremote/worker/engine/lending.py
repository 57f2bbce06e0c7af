"""Array arguments: copies that a call runs on, and what of them goes back where.

A kernel never runs on a message's own memory, because Taichi writes through read-only views: an array argument
is copied, and afterwards the copy is compared with what came.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from tiremote.protocol.dtypes import dtype_of
from tiremote.protocol.errors import KernelArgumentError
from tiremote.protocol.values import Handle, Name, Ref, WireArray
from tiremote.worker.engine.writes import certainly_written

#: The position or the keyword of an argument, or a path to what is inside of it, such as ``0.mass`` or ``state.x``.
Key = int | str

#: What is compared at a time: small enough to stay in a cache, and to end soon where the start differs.
_BLOCK = 1 << 20


def original(came: WireArray) -> np.ndarray:
    """What came, read-only and without a copy; zeros for ``out``. Raises `ProtocolError`."""
    if came.data is not None or came.descriptor.access != "out":
        return came.view()
    # Zeros of one element, seen as the whole shape: checked before anything of that size is allocated.
    return np.broadcast_to(np.zeros((), dtype=dtype_of(came.descriptor.dtype)), came.descriptor.shape)


def scratch_copy(came: WireArray) -> np.ndarray:
    """A C-contiguous copy of its own."""
    if came.data is None and came.descriptor.access == "out":
        return np.zeros(came.descriptor.shape, dtype=dtype_of(came.descriptor.dtype))
    return np.array(came.view(), order="C", copy=True)


def same_bytes(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether two arrays of one shape and dtype hold the same bits (NaNs compare equal to themselves)."""
    if not one.flags.c_contiguous or not other.flags.c_contiguous:
        bits = f"u{one.dtype.itemsize}"
        return bool(np.array_equal(one.view(bits), other.view(bits)))
    mine, theirs = one.reshape(-1).view(np.uint8), other.reshape(-1).view(np.uint8)
    for start in range(0, mine.size, _BLOCK):
        if not np.array_equal(mine[start : start + _BLOCK], theirs[start : start + _BLOCK]):
            return False
    return True


@dataclass(frozen=True, slots=True, eq=False)
class _Lent:
    """A copy that the call runs on, and what it has to be brought back to."""

    key: Key
    #: ``x``, or ``state.x`` for what is inside a parameter.
    parameter: str
    scratch: np.ndarray
    came: WireArray | np.ndarray


class Lending:
    """The copies of one call. Arguments are as they came: ``resolve`` gives what handles and names stand for."""

    __slots__ = ("_lent", "resolve")

    def __init__(self, resolve: Callable[[Ref], Any]) -> None:
        self.resolve = resolve
        self._lent: list[_Lent] = []

    def copies(self) -> Iterator[tuple[Key, np.ndarray]]:
        """The copies of array arguments that the call may write, whether it did or not."""
        return ((each.key, each.scratch) for each in self._lent if isinstance(each.came, WireArray))

    def to_kernel(self, value: WireArray, key: Key, parameter: str, function: Callable[..., Any]) -> np.ndarray:
        """What a kernel made of ``function`` runs on.

        Raises `KernelArgumentError` where it is sure to write what must not be written.
        """
        descriptor = value.descriptor
        if not descriptor.writeable and descriptor.access != "in":
            _refuse_certain_write(parameter, function)
        scratch = scratch_copy(value)
        if descriptor.access != "in":
            self._lent.append(_Lent(key, parameter, scratch, value))
        return scratch

    def kept_to_kernel(self, value: np.ndarray, key: Key, parameter: str, function: Callable[..., Any]) -> np.ndarray:
        """A host array that stays on the worker: the kernel runs on its own memory where Taichi can."""
        if value.flags.c_contiguous and value.flags.writeable:
            return value
        if not value.flags.writeable:
            _refuse_certain_write(parameter, function)
        scratch = np.array(value, dtype=value.dtype.newbyteorder("="), order="C", copy=True)
        self._lent.append(_Lent(key, parameter, scratch, value))
        return scratch

    def to_read(self, value: Any) -> Any:
        """What is only looked at: arrays over the message, also inside lists, tuples and dicts."""
        if isinstance(value, Handle | Name):
            return self.resolve(value)
        if type(value) is WireArray:
            return original(value)
        if type(value) in (list, tuple):
            return type(value)(self.to_read(each) for each in value)
        if type(value) is dict:
            return {key: self.to_read(each) for key, each in value.items()}
        return value

    def to_function(self, value: Any, key: Key) -> Any:
        """What a Python function is given: private arrays that it may write, also inside lists, tuples and dicts."""
        if isinstance(value, Handle | Name):
            return self.resolve(value)
        if type(value) in (list, tuple):
            return type(value)(self.to_function(each, inside(key, number)) for number, each in enumerate(value))
        if type(value) is dict:
            return {name: self.to_function(each, inside(key, name)) for name, each in value.items()}
        if type(value) is not WireArray:
            return value
        scratch = scratch_copy(value)
        if value.descriptor.access != "in":
            self._lent.append(_Lent(key, str(key), scratch, value))
            if not value.descriptor.writeable:
                # The function sees a read-only array, as it would have at home; a kernel inside writes through.
                seen = scratch.view()
                seen.flags.writeable = False
                return seen
        return scratch

    def written(self) -> dict[Key, np.ndarray]:
        """The arrays that changed, by their keys; the device is synced before.

        ``out`` arrays are always among them, ``in`` arrays never. Raises `KernelArgumentError` where an array
        was written that must not be.
        """
        changed: dict[Key, np.ndarray] = {}
        for lent in self._lent:
            if isinstance(lent.came, np.ndarray):
                _return_to_kept(lent, lent.came)
                continue
            descriptor = lent.came.descriptor
            if descriptor.access == "out":
                changed[lent.key] = lent.scratch
            elif descriptor.access == "inout" and not same_bytes(lent.scratch, original(lent.came)):
                if not descriptor.writeable:
                    raise _read_only_error(lent.parameter, "was written")
                changed[lent.key] = lent.scratch
        return changed


def inside(key: Key, part: Any) -> str:
    """The key of what is inside an argument: a member, or an item by its number."""
    return f"{key}.{part}"


def _return_to_kept(lent: _Lent, kept: np.ndarray) -> None:
    if not same_bytes(lent.scratch, kept):
        if not kept.flags.writeable:
            raise _read_only_error(lent.parameter, "was written")
        np.copyto(kept, lent.scratch)


def _refuse_certain_write(parameter: str, function: Callable[..., Any]) -> None:
    if parameter in certainly_written(function):
        raise _read_only_error(parameter, "is written")


def _read_only_error(parameter: str, what: str) -> KernelArgumentError:
    return KernelArgumentError(
        f"parameter {parameter!r} {what} by the call, but the array passed is read-only; "
        "the caller's array was not changed: pass a writeable copy, or In(array) to drop what is written",
        parameter=parameter.partition(".")[0],
    )
