"""What a runtime gets wrong without a word on some backends: refused there, or done in another way.

Measured on Vulkan and read in the runtimes' sources: gradients of ndarrays stay zeros; bools in memory are all False,
or end the process; values in an argument pack are another's; of a NumPy array what a kernel leaves alone is zeros or
garbage where it reads nothing of it; an element that Python sets is lost to a launch before that still runs; the last
bytes of a new ndarray are another's where their number is no multiple of four.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tiremote.protocol.dtypes import name_of
from tiremote.protocol.errors import Refused
from tiremote.worker.engine.signature import ArrayType, MatrixType, PackType, ParameterType, StructType
from tiremote.worker.runtimes import GRAPHICS

if TYPE_CHECKING:
    from tiremote.worker.engine.runtime import TaichiRuntime


def install(runtime: TaichiRuntime, arch: str) -> None:
    """For a process whose runtime has come up on ``arch``, once."""
    guard = BackendGuard(runtime, arch)
    kernel_class = runtime.kernel_class
    if guard.refuses():
        kernel_class.ensure_compiled = guard.before_launch(kernel_class.ensure_compiled)
    if "NumPy arrays" in guard.faults:
        kernel_class.launch_kernel = guard.on_ndarrays(kernel_class.launch_kernel)
    if "bools" in guard.faults:
        runtime.impl.create_field_member = guard.before_field(runtime.impl.create_field_member)
    if arch in GRAPHICS:
        ndarray = runtime.lang("_ndarray").Ndarray
        ndarray._pad_key = _synced(ndarray._pad_key, runtime)
        matrices = runtime.lang("matrix")
        for cls in (runtime.lang("_ndarray").ScalarNdarray, matrices.VectorNdarray, matrices.MatrixNdarray):
            cls.__init__ = _zeroed(cls.__init__, runtime)


def _synced(original: Callable[[Any, Any], Any], runtime: TaichiRuntime) -> Callable[[Any, Any], Any]:
    """Has Python wait for what runs before it reads or writes an element."""

    @functools.wraps(original)
    def pad_key(array: Any, key: Any) -> Any:
        runtime.sync()
        return original(array, key)

    return pad_key


def _zeroed(make: Callable[..., None], runtime: TaichiRuntime) -> Callable[..., None]:
    """Has a new ndarray filled where the driver, which fills words, leaves its last bytes."""

    @functools.wraps(make)
    def __init__(array: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807 - it is that
        make(array, *args, **kwargs)
        if runtime.array_meta(array).nbytes % 4:
            state = runtime.state
            # No tape or forward mode records it.
            before, state.grad_replaced = state.grad_replaced, True
            try:
                array.fill(0)
            finally:
                state.grad_replaced = before

    return __init__


class BackendGuard:
    """What one runtime gets wrong on one backend. ``faults`` are those of graphics backends, where this is one."""

    def __init__(self, runtime: TaichiRuntime, arch: str) -> None:
        self._runtime = runtime
        self._arch = arch
        self._differentiates = arch in runtime.layout.ndarray_gradients
        self._modes = runtime.core.AutodiffMode
        self.faults = runtime.layout.graphics_faults if arch in GRAPHICS else frozenset()

    def refuses(self) -> bool:
        """Whether there is a launch that is refused."""
        return not self._differentiates or bool(self.faults)

    def check(self, kernel: Any, args: Sequence[Any]) -> None:
        """Raises `Refused` for the launch of a ``Kernel`` object that would be wrong."""
        runtime = self._runtime
        if not self._differentiates and not self._is_own(kernel) and self._is_differentiated(kernel):
            for parameter, value in zip(runtime.parameters(kernel), args, strict=False):
                if self._has_gradient(value):
                    raise Refused(
                        f"{kernel.func.__name__}() cannot be differentiated for {parameter.name!r}: on {self._arch} "
                        f"{runtime.name} leaves the gradients of ndarrays at zero; use fields for what has a gradient, "
                        f"or a session on {' or '.join(sorted(runtime.layout.ndarray_gradients))}"
                    )
        if not self.faults:
            return
        for name, kind in runtime.parameter_types(kernel):
            if "argument packs" in self.faults and isinstance(kind, PackType) and kind.what == "argpack":
                raise Refused(
                    f"parameter {name!r} of {kernel.func.__name__}() is an argument pack, and on {self._arch} "
                    f"{runtime.name} mixes up what is in one: use separate parameters"
                )
            if "bools" in self.faults and _has_stored_bool(kind):
                raise self._bools(f"parameter {name!r} of {kernel.func.__name__}()")
        if "bools" in self.faults:
            self._check_bools(kernel, args)

    def _check_bools(self, kernel: Any, args: Sequence[Any]) -> None:
        for parameter, value in zip(self._runtime.parameters(kernel), args, strict=False):
            if self._has_bools(value):
                own = self._is_own(kernel)
                raise self._bools("an array" if own else f"parameter {parameter.name!r} of {kernel.func.__name__}()")
        for kind in kernel.return_type or ():
            if _has_stored_bool(self._runtime.parameter_type(kind)):
                raise self._bools(f"what {kernel.func.__name__}() returns")

    def before_field(self, create: Callable[..., Any]) -> Callable[..., Any]:
        """Has fields of bools refused with `Refused` by what makes the members of fields."""

        @functools.wraps(create)
        def create_field_member(dtype: Any, *args: Any, **kwargs: Any) -> Any:
            if self._is_bool(dtype):
                raise self._bools("a field")
            return create(dtype, *args, **kwargs)

        return create_field_member

    def before_launch(self, ensure_compiled: Callable[..., Any]) -> Callable[..., Any]:
        """Has launches checked by what all of them go through."""

        @functools.wraps(ensure_compiled)
        def checked(kernel: Any, *args: Any) -> Any:
            self.check(kernel, args)
            return ensure_compiled(kernel, *args)

        return checked

    def on_ndarrays(self, launch: Callable[..., Any]) -> Callable[..., Any]:
        """Has a launch run on ndarrays in the place of NumPy arrays, which hold the same before and after."""
        first = self._runtime.layout.launched[1]

        @functools.wraps(launch)
        def launch_kernel(kernel: Any, *given: Any, **more: Any) -> Any:
            lent: list[tuple[np.ndarray, Any]] = []
            # ``given`` is without the kernel, and what comes before the arguments counts from there.
            args = self._on_ndarrays(kernel, given[first:], lent)
            result = launch(kernel, *given[:first], *args, **more)
            for array, ndarray in lent:
                array[...] = ndarray.to_numpy()
            return result

        return launch_kernel

    def _on_ndarrays(self, kernel: Any, args: Sequence[Any], lent: list[tuple[np.ndarray, Any]]) -> Sequence[Any]:
        """The arguments of a launch with ndarrays for NumPy arrays; ``lent`` gets each pair."""
        if self._is_own(kernel):
            # What moves arrays there and back reads or writes all of them.
            return args
        return [
            self._on_ndarray(value, self._runtime.parameter_type(parameter.annotation), lent)
            if isinstance(value, np.ndarray) or dataclasses.is_dataclass(value)
            else value
            for parameter, value in zip(self._runtime.parameters(kernel), args, strict=True)
        ]

    def _on_ndarray(self, value: Any, kind: ParameterType, lent: list[tuple[np.ndarray, Any]]) -> Any:
        if isinstance(value, np.ndarray) and isinstance(kind, ArrayType) and value.size:
            axes = value.ndim - len(kind.element_shape or ())
            ndarray = self._runtime.make_ndarray(name_of(value.dtype), value.shape[:axes], value.shape[axes:], False)
            ndarray.from_numpy(np.array(value, order="C"))
            lent.append((value, ndarray))
            return ndarray
        if isinstance(kind, PackType) and dataclasses.is_dataclass(value):
            members = {
                name: self._on_ndarray(getattr(value, name), member, lent)
                for name, member in kind.members
                if hasattr(value, name)
            }
            return _with_members(value, members)
        return value

    def _is_own(self, kernel: Any) -> bool:
        """Whether it is no user's: the runtime's, or one of those here that copy arrays."""
        return kernel.func.__module__.partition(".")[0] in (self._runtime.name, "tiremote")

    def _is_differentiated(self, kernel: Any) -> bool:
        if kernel.autodiff_mode not in (self._modes.NONE, self._modes.VALIDATION):
            return True
        state = self._runtime.state
        return bool(state.target_tape) and not state.grad_replaced

    def _has_gradient(self, value: Any) -> bool:
        if self._runtime.is_ndarray(value):
            return value.grad is not None
        members = self._runtime.pack_values(value)
        if members is not None:
            return any(self._has_gradient(each) for each in members.values())
        # A tensor of torch.
        return getattr(value, "requires_grad", False) is True

    def _has_bools(self, value: Any) -> bool:
        if isinstance(value, np.ndarray):
            return bool(value.dtype == np.bool_)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return any(self._has_bools(getattr(value, each.name, None)) for each in dataclasses.fields(value))
        return self._runtime.is_ndarray(value) and self._runtime.array_meta(value).dtype == "bool"

    def _is_bool(self, value: Any) -> bool:
        return value is bool or value is self._runtime.dtype_object("bool")

    def _bools(self, what: str) -> Refused:
        return Refused(
            f"{what} holds bools, and on {self._arch} {self._runtime.name} has none in memory: use u8 or i32"
        )


def _with_members(value: Any, members: Mapping[str, Any]) -> Any:
    """A dataclass with other members: itself where they are what it has, else another, made without ``__init__``."""
    if all(getattr(value, name) is member for name, member in members.items()):
        return value
    made = copy.copy(value)
    for name, member in members.items():
        # It may be frozen.
        object.__setattr__(made, name, member)
    return made


def _has_stored_bool(kind: ParameterType) -> bool:
    """Whether a parameter has bools that lie in memory; one that is a bool itself goes as a number."""
    if isinstance(kind, ArrayType | MatrixType):
        return kind.dtype == "bool"
    if isinstance(kind, StructType | PackType):
        return any(_has_stored_bool(member) or str(member) == "bool" for _, member in kind.members)
    return False
