"""Calls: from received values to what a kernel or a function takes, and back to the arrays that it wrote.

A kernel never runs on a message's own memory, because Taichi writes through read-only views: an array argument
is copied, and afterwards the copy is compared with what came.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from tiremote.protocol.dtypes import dtype_of
from tiremote.protocol.errors import KernelArgumentError
from tiremote.protocol.values import WireArray
from tiremote.worker.engine.converters import Converter, converter
from tiremote.worker.engine.runtime_arrays import ArrayRuntime
from tiremote.worker.engine.scalars import Mismatch
from tiremote.worker.engine.signature import ArrayType, ParameterType, TemplateType
from tiremote.worker.engine.writes import certainly_written

if TYPE_CHECKING:
    from tiremote.worker.engine.runtime import TaichiRuntime

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


@dataclass(frozen=True, slots=True, eq=False)
class _Lent:
    """A copy that the call runs on, and what it has to be brought back to."""

    key: int | str
    parameter: str
    scratch: np.ndarray
    came: WireArray | np.ndarray


class BoundCall:
    """A call whose arguments were checked and converted. ``launch`` it once, then ask what was ``written``."""

    __slots__ = ("_lent", "named", "target", "values")

    def __init__(
        self, target: Callable[..., Any], values: Sequence[Any], named: Mapping[str, Any], lent: Sequence[_Lent]
    ) -> None:
        self.target = target
        self.values = values
        self.named = named
        self._lent = lent

    def launch(self) -> Any:
        """Calls the target; what it raises is not changed. On a GPU the work may still run afterwards."""
        return self.target(*self.values, **self.named)

    def lent(self) -> dict[int | str, np.ndarray]:
        """The copies of array arguments that the target may write, whether it did or not."""
        return {each.key: each.scratch for each in self._lent if isinstance(each.came, WireArray)}

    def written(self) -> dict[int | str, np.ndarray]:
        """The arrays that changed, by position or by the name they were passed under; the device is synced before.

        ``out`` arrays are always among them, ``in`` arrays never. Raises `KernelArgumentError` where an array
        was written that must not be.
        """
        changed: dict[int | str, np.ndarray] = {}
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


def _return_to_kept(lent: _Lent, kept: np.ndarray) -> None:
    if not same_bytes(lent.scratch, kept):
        if not kept.flags.writeable:
            raise _read_only_error(lent.parameter, "was written")
        np.copyto(kept, lent.scratch)


def _read_only_error(parameter: str, what: str) -> KernelArgumentError:
    return KernelArgumentError(
        f"parameter {parameter!r} {what} by the call, but the array passed is read-only; "
        "the caller's array was not changed: pass a writeable copy, or In(array) to drop what is written",
        parameter=parameter,
    )


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


def bind_call(
    runtime: TaichiRuntime, target: Any, args: Sequence[Any], kwargs: Mapping[str, Any], shown: str
) -> BoundCall:
    """Checks and converts the arguments of whatever can be called. Raises `KernelArgumentError`; ``shown`` names it."""
    if runtime.is_kernel(target) or runtime.is_bound_kernel(target) or runtime.is_gradient(target):
        return bind(runtime, target, args, kwargs)
    if callable(target):
        return bind_function(target, args, kwargs)
    raise KernelArgumentError(
        f"{shown} is a {type(target).__name__}, which cannot be called: call a function of the source that returns it"
    )


# Kernels ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Parameter:
    name: str
    takes: ParameterType
    convert: Converter
    is_array: bool


_PREPARED: WeakKeyDictionary[Any, tuple[_Parameter, ...]] = WeakKeyDictionary()


def _prepared(kernel: Any, runtime: ArrayRuntime) -> tuple[_Parameter, ...]:
    found = _PREPARED.get(kernel)
    if found is None:
        kinds = runtime.parameter_types(kernel)
        launched = sum(not isinstance(kind, TemplateType) for _, kind in kinds)
        if launched > runtime.max_arguments:
            raise KernelArgumentError(
                f"{kernel.func.__name__}() has {launched} parameters, but one launch takes "
                f"{runtime.max_arguments} at most: put numbers together into vectors or an ndarray"
            )
        found = _PREPARED[kernel] = tuple(
            _Parameter(name, kind, converter(kind, runtime), isinstance(kind, ArrayType)) for name, kind in kinds
        )
    return found


def bind(runtime: ArrayRuntime, kernel: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> BoundCall:
    """Checks and converts the arguments of a kernel, of its ``grad``, or of one got from an instance.

    Raises `KernelArgumentError`, with the parameter at fault, before anything is launched or written.
    """
    behind, skipped = runtime.kernel_behind(kernel)
    parameters = _prepared(behind, runtime)
    if skipped:
        parameters = parameters[skipped:]
    keys: Sequence[int | str]
    if kwargs or len(args) != len(parameters):
        values, keys = _in_order(behind.func.__name__, parameters, args, kwargs)
    else:
        values, keys = list(args), range(len(args))
    lent: list[_Lent] = []
    for position, parameter in enumerate(parameters):
        value = values[position]
        try:
            if type(value) is WireArray:
                values[position] = _lend(value, parameter, keys[position], lent, behind)
            elif type(value) is np.ndarray and parameter.is_array:
                values[position] = _kept(value, parameter, keys[position], lent, behind)
            else:
                values[position] = parameter.convert(value)
        except Mismatch as error:
            raise _refusal(parameter, error) from None
    return BoundCall(kernel, values, {}, lent)


def _lend(value: WireArray, parameter: _Parameter, key: int | str, lent: list[_Lent], kernel: Any) -> Any:
    converted = parameter.convert(original(value))  # refuses before anything is copied
    if not parameter.is_array:
        return converted
    descriptor = value.descriptor
    if not descriptor.writeable and descriptor.access != "in":
        _refuse_certain_write(parameter.name, kernel.func)
    scratch = scratch_copy(value)
    if descriptor.access != "in":
        lent.append(_Lent(key, parameter.name, scratch, value))
    return scratch


def _kept(value: np.ndarray, parameter: _Parameter, key: int | str, lent: list[_Lent], kernel: Any) -> np.ndarray:
    """A host array that stays on the worker: the kernel runs on its own memory where Taichi can."""
    parameter.convert(value)
    if value.flags.c_contiguous and value.flags.writeable:
        return value
    if not value.flags.writeable:
        _refuse_certain_write(parameter.name, kernel.func)
    scratch = np.array(value, dtype=value.dtype.newbyteorder("="), order="C", copy=True)
    lent.append(_Lent(key, parameter.name, scratch, value))
    return scratch


def _refuse_certain_write(parameter: str, function: Callable[..., Any]) -> None:
    if parameter in certainly_written(function):
        raise _read_only_error(parameter, "is written")


def _refusal(parameter: _Parameter, error: Mismatch) -> KernelArgumentError:
    where = f" at {error.inside.lstrip('.')}" if error.inside else ""
    return KernelArgumentError(
        f"parameter {parameter.name!r} takes {parameter.takes}, but {error.came} came{where}: {error.hint}",
        parameter=parameter.name,
    )


def _in_order(
    name: str, parameters: Sequence[_Parameter], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[list[Any], list[int | str]]:
    """Positional and named values as one list, and the key each was passed under."""
    signature = ", ".join(f"{each.name}: {each.takes}" for each in parameters)
    if len(args) > len(parameters):
        takes = f"{len(parameters)} argument{'' if len(parameters) == 1 else 's'}"
        raise KernelArgumentError(f"{name}() takes {takes} ({signature}), but {len(args) + len(kwargs)} came")
    values: list[Any] = list(args)
    keys: list[int | str] = list(range(len(args)))
    positions = {each.name: i for i, each in enumerate(parameters)}
    for key in kwargs:
        if key not in positions:
            raise KernelArgumentError(f"{name}() has no parameter {key!r}; it takes ({signature})", parameter=key)
        if positions[key] < len(args):
            raise KernelArgumentError(
                f"{name}() got parameter {key!r} twice, by position and by name: pass it once", parameter=key
            )
    for each in parameters[len(args) :]:
        if each.name not in kwargs:
            raise KernelArgumentError(
                f"{name}() needs parameter {each.name!r} ({each.takes}), which did not come; it takes ({signature})",
                parameter=each.name,
            )
        values.append(kwargs[each.name])
        keys.append(each.name)
    return values, keys


# Python functions, classes and methods ------------------------------------------------------------------------


def bind_function(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> BoundCall:
    """Checks the arguments of a plain callable by its signature; arrays become private copies that it may write.

    Raises `KernelArgumentError`. A callable without a signature (some built-ins) is called unchecked.
    """
    lent: list[_Lent] = []
    try:
        signature = inspect.signature(function)
    except (ValueError, TypeError):
        signature = None
    if signature is not None:
        try:
            signature.bind(*args, **kwargs)
        except TypeError as error:
            name = getattr(function, "__name__", type(function).__name__)
            raise KernelArgumentError(f"{name}(): {error}; it takes {_signature_text(signature)}") from None
    values = [_private(value, key, lent) for key, value in enumerate(args)]
    named = {key: _private(value, key, lent) for key, value in kwargs.items()}
    return BoundCall(function, values, named, lent)


def _private(value: Any, key: int | str, lent: list[_Lent]) -> Any:
    if type(value) is not WireArray:
        return value
    scratch = scratch_copy(value)
    if value.descriptor.access != "in":
        lent.append(_Lent(key, str(key), scratch, value))
        if not value.descriptor.writeable:
            # The function sees a read-only array, as it would have at home; a kernel inside writes through.
            seen = scratch.view()
            seen.flags.writeable = False
            return seen
    return scratch


def _signature_text(signature: inspect.Signature) -> str:
    return str(signature.replace(return_annotation=inspect.Signature.empty))
