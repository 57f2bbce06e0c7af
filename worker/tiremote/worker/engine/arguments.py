"""Calls: from received values to what a kernel or a function takes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from tiremote.protocol.errors import KernelArgumentError
from tiremote.protocol.values import Handle, Name, Ref, WireArray
from tiremote.worker.engine.argpacks import why_arrays_are_mixed_up
from tiremote.worker.engine.converters import Converter, converter
from tiremote.worker.engine.lending import Key, Lending, inside, original
from tiremote.worker.engine.runtime_arrays import ArrayRuntime
from tiremote.worker.engine.scalars import Mismatch
from tiremote.worker.engine.signature import ArrayType, PackType, ParameterType, TemplateType

if TYPE_CHECKING:
    from tiremote.worker.engine.runtime import TaichiRuntime


class BoundCall:
    """A call whose arguments were checked and converted. ``launch`` it once, then ask what was ``written``."""

    __slots__ = ("_lending", "kernel", "named", "parameters", "target", "templates", "values")

    def __init__(
        self,
        target: Callable[..., Any],
        values: Sequence[Any],
        named: Mapping[str, Any],
        lending: Lending,
        *,
        kernel: Any = None,
        templates: Mapping[str, Any] | None = None,
        parameters: Sequence[Parameter] = (),
    ) -> None:
        self.target = target
        self.values = values
        self.named = named
        #: The ``Kernel`` object that is launched, and its template arguments by parameter; None and none of a function.
        self.kernel = kernel
        self.templates = templates or {}
        #: Of a kernel, one for each of the values.
        self.parameters = parameters
        self._lending = lending

    @property
    def takes(self) -> list[ParameterType]:
        """The types of a kernel's parameters, one for each of the values; none of a function."""
        return [each.takes for each in self.parameters]

    def launch(self) -> Any:
        """Calls the target; what it raises is not changed. On a GPU the work may still run afterwards."""
        return self.target(*self.values, **self.named)

    def lent(self) -> dict[Key, np.ndarray]:
        """The copies of array arguments that the target may write, whether it did or not."""
        return dict(self._lending.copies())

    def written(self) -> dict[Key, np.ndarray]:
        """The arrays that changed, by position, by keyword or by the path inside one; the device is synced before.

        ``out`` arrays are always among them, ``in`` arrays never. Raises `KernelArgumentError` where an array
        was written that must not be.
        """
        return self._lending.written()


def _none_kept(ref: Ref) -> Any:
    raise AssertionError(f"nothing was said about what {ref} stands for")


def bind_call(
    runtime: TaichiRuntime,
    target: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    shown: str,
    resolve: Callable[[Ref], Any],
) -> BoundCall:
    """Checks and converts the arguments of whatever can be called, as they came; ``shown`` names it.

    ``resolve`` gives what a handle or a name among them stands for. Raises `KernelArgumentError`.
    """
    if runtime.is_kernel(target) or runtime.is_bound_kernel(target) or runtime.is_gradient(target):
        return bind(runtime, target, args, kwargs, resolve)
    if runtime.is_for_kernels_alone(target):
        raise KernelArgumentError(f"{shown} is a func, which only kernels can call: call a kernel that uses it")
    if callable(target):
        return bind_function(target, args, kwargs, resolve)
    raise KernelArgumentError(
        f"{shown} is a {type(target).__name__}, which cannot be called: call a function of the source that returns it"
    )


# Kernels ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Parameter:
    """What a kernel takes, and what makes it of a value."""

    name: str
    takes: ParameterType
    convert: Converter


_PREPARED: WeakKeyDictionary[Any, tuple[Parameter, ...]] = WeakKeyDictionary()


def _prepared(kernel: Any, runtime: ArrayRuntime) -> tuple[Parameter, ...]:
    found = _PREPARED.get(kernel)
    if found is None:
        kinds = runtime.parameter_types(kernel)
        launched = sum(not isinstance(kind, TemplateType) for _, kind in kinds)
        if launched > runtime.max_arguments:
            raise KernelArgumentError(
                f"{kernel.func.__name__}() has {launched} parameters, but one launch takes "
                f"{runtime.max_arguments} at most: put numbers together into vectors or an ndarray"
            )
        mixed_up = why_arrays_are_mixed_up(kinds)
        if mixed_up is not None:
            raise KernelArgumentError(f"{kernel.func.__name__}() cannot be called: {mixed_up}")
        found = _PREPARED[kernel] = tuple(Parameter(name, kind, converter(kind, runtime)) for name, kind in kinds)
    return found


def bind(
    runtime: ArrayRuntime,
    kernel: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    resolve: Callable[[Ref], Any] = _none_kept,
) -> BoundCall:
    """Checks and converts the arguments of a kernel, of its ``grad``, or of one got from an instance.

    Raises `KernelArgumentError`, with the parameter at fault, before anything is launched or written.
    """
    behind, skipped = runtime.kernel_behind(kernel)
    parameters = _prepared(behind, runtime)
    if skipped:
        parameters = parameters[skipped:]
    keys: Sequence[Key]
    if kwargs or len(args) != len(parameters):
        values, keys = _in_order(behind.func.__name__, parameters, args, kwargs)
    else:
        values, keys = list(args), range(len(args))
    lending = Lending(resolve)
    for position, parameter in enumerate(parameters):
        value = values[position]
        try:
            if isinstance(value, Handle | Name):
                value = resolve(value)
            elif type(value) is WireArray:
                parameter.convert(original(value))  # refuses before anything is copied
            values[position] = parameter.convert(
                _lent(value, parameter.takes, keys[position], parameter.name, lending, behind.func)
            )
        except Mismatch as error:
            raise _refusal(parameter, error) from None
    templates = {
        each.name: value for each, value in zip(parameters, values, strict=True) if isinstance(each.takes, TemplateType)
    }
    return BoundCall(kernel, values, {}, lending, kernel=behind, templates=templates, parameters=parameters)


def _lent(
    value: Any, kind: ParameterType, key: Key, parameter: str, lending: Lending, function: Callable[..., Any]
) -> Any:
    """A value that may be converted: where arrays are taken they are copies, which may be written."""
    if isinstance(kind, ArrayType):
        if type(value) is WireArray:
            return lending.to_kernel(value, key, parameter, function)
        if type(value) is np.ndarray:
            return lending.kept_to_kernel(value, key, parameter, function)
    if isinstance(kind, PackType) and type(value) in (dict, list, tuple):
        members = dict(kind.members)
        given = value.items() if type(value) is dict else enumerate(value)
        lent = {}
        for number, (part, each) in enumerate(given):
            # Without names they are in the order of the members.
            name = part if type(value) is dict else list(members)[number] if number < len(members) else part
            whole = lending.resolve(each) if isinstance(each, Handle | Name) else each
            path = inside(key, part), f"{parameter}.{name}"
            lent[part] = _lent(whole, members[name], *path, lending, function) if name in members else None
        return lent if type(value) is dict else tuple(lent.values())
    return lending.to_read(value)


def _refusal(parameter: Parameter, error: Mismatch) -> KernelArgumentError:
    where = f" at {error.inside.lstrip('.')}" if error.inside else ""
    return KernelArgumentError(
        f"parameter {parameter.name!r} takes {parameter.takes}, but {error.came} came{where}: {error.hint}",
        parameter=parameter.name,
    )


def _in_order(
    name: str, parameters: Sequence[Parameter], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[list[Any], list[Key]]:
    """Positional and named values as one list, and the key each was passed under."""
    signature = ", ".join(f"{each.name}: {each.takes}" for each in parameters)
    if len(args) > len(parameters):
        takes = f"{len(parameters)} argument{'' if len(parameters) == 1 else 's'}"
        raise KernelArgumentError(f"{name}() takes {takes} ({signature}), but {len(args) + len(kwargs)} came")
    values: list[Any] = list(args)
    keys: list[Key] = list(range(len(args)))
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


def bind_function(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    resolve: Callable[[Ref], Any] = _none_kept,
) -> BoundCall:
    """Checks the arguments of a plain callable by its signature; arrays become private copies that it may write.

    Raises `KernelArgumentError`. A callable without a signature (some built-ins) is called unchecked.
    """
    lending = Lending(resolve)
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
    values = [lending.to_function(value, key) for key, value in enumerate(args)]
    named = {key: lending.to_function(value, key) for key, value in kwargs.items()}
    return BoundCall(function, values, named, lending)


def _signature_text(signature: inspect.Signature) -> str:
    return str(signature.replace(return_annotation=inspect.Signature.empty))
