"""In a debug session an index is checked before it is used, and never leads outside its array.

Taichi's own check tells of an index out of bounds after the access: on a CPU one that is far out has ended the process
by then, of an element of a vector's field it does not tell where, and of one inside a matrix it does not tell at all.
Here a kernel asserts that each index fits, with the index and the shape in the message, and goes on with one that does.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tiremote.worker import out_of_bounds
from tiremote.worker.engine.conditional_checks import Check, ConditionalChecks

if TYPE_CHECKING:
    from tiremote.worker.engine.runtime import TaichiRuntime

_INSTALLED: Final = "_tiremote_index_guard"


@dataclass(frozen=True, slots=True)
class _Bounds:
    """``shape`` holds numbers, or expressions where it is known when the kernel runs.

    ``order``: which of the user's axes each one is, where they come in another order.
    """

    shape: tuple[Any, ...]
    first: tuple[int, ...] = ()
    order: tuple[int, ...] | None = None

    def firsts(self) -> tuple[int, ...]:
        return self.first or (0,) * len(self.shape)

    def told(self, values: Sequence[Any]) -> Sequence[Any]:
        """What there is for each axis, as the user has them."""
        if self.order is None or not values:
            return values
        return tuple(values[self.order.index(axis)] for axis in range(len(values)))


def install(runtime: TaichiRuntime) -> None:
    """Guards what kernels and Python code of this process index, whenever ``debug`` is on."""
    impl = runtime.impl
    if hasattr(impl, _INSTALLED):
        return
    setattr(impl, _INSTALLED, True)
    guard = _KernelGuard(runtime)
    impl.subscript = guard.around(impl.subscript)
    error = runtime.exception("AssertionError")
    for array, bounds in (
        (runtime.lang("field").Field, lambda field: _field_bounds(field, runtime.axis_order(field))),
        (runtime.lang("_ndarray").Ndarray, lambda ndarray: _Bounds(tuple(ndarray.arr.total_shape()))),
    ):
        array._pad_key = _checked(array._pad_key, impl, bounds, error)


def _field_bounds(field: Any, order: tuple[int, ...] | None) -> _Bounds:
    offset = field._get_field_members()[0].ptr.snode().offset
    return _Bounds(_as_indexed(field.shape, order), tuple(offset), order)


def _as_indexed(shape: Sequence[Any], order: tuple[int, ...] | None) -> tuple[Any, ...]:
    return tuple(shape) if order is None else tuple(shape[axis] for axis in order)


class _KernelGuard:
    """Puts the checks into kernels while they are compiled."""

    def __init__(self, runtime: TaichiRuntime) -> None:
        self._impl = runtime.impl
        self._axis_order = runtime.axis_order
        self._core = runtime.core
        self._ops = runtime.lang("ops")
        self._i32 = runtime.ti.i32
        self._integers = runtime.lang("expr").integer_types
        self._expression = runtime.lang("expr").Expr
        self._matrix = runtime.lang("matrix").Matrix
        self._field = runtime.lang("field").Field
        self._struct_field = runtime.lang("struct").StructField
        self._array = runtime.lang("any_array").AnyArray
        self._checks = ConditionalChecks(
            runtime.lang("ast.ast_transformer").ASTTransformer,
            self._ops,
            is_tensor=lambda value: isinstance(value, self._expression) and value.is_tensor(),
            is_wanted=self._is_wanted,
            short_circuits=lambda: bool(self._impl.get_runtime().short_circuit_operators),
            emit=self._emit,
        )

    def around(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def subscript(ast_builder: Any, value: Any, *indices: Any, **more: Any) -> Any:
            if self._is_wanted():
                bounds, flat = self._bounds(value), self._flat(indices)
                if bounds is not None and flat is not None and len(flat) == len(bounds.shape):
                    indices = self._guarded(flat, bounds)
            return original(ast_builder, value, *indices, **more)

        return subscript

    def _is_wanted(self) -> bool:
        config = self._impl.current_cfg()
        return bool(config.debug) and self._core.is_extension_supported(config.arch, self._core.Extension.assertion)

    def _bounds(self, value: Any) -> _Bounds | None:
        """Of what an index is checked; members of a struct come here one by one."""
        if isinstance(value, self._field):
            if isinstance(value, self._struct_field) or value._get_field_members()[0].ptr.snode() is None:
                return None
            return _field_bounds(value, self._axis_order(value))
        if isinstance(value, self._array):
            order = self._axis_order(value)
            return _Bounds(_as_indexed(value.shape, order), order=order)
        if isinstance(value, self._expression) and value.is_tensor():
            return _Bounds(tuple(value.get_shape()))
        return None

    def _flat(self, indices: Sequence[Any]) -> tuple[Any, ...] | None:
        """One index for each axis; None where there is a slice, or something that Taichi will refuse."""
        flat: list[Any] = []
        for index in indices:
            if isinstance(index, self._matrix):
                flat += index.to_list()
            elif isinstance(index, self._expression) and index.is_tensor():
                builder = self._impl.get_runtime().compiling_callable.ast_builder()
                flat += map(self._expression, builder.expand_exprs([index.ptr]))
            else:
                flat.append(index)
        return tuple(flat) if all(map(self._is_whole, flat)) else None

    def _is_whole(self, index: Any) -> bool:
        if isinstance(index, self._expression):
            return index.ptr.get_rvalue_type() in self._integers
        return isinstance(index, int) and not isinstance(index, bool)

    def _guarded(self, indices: tuple[Any, ...], bounds: _Bounds) -> tuple[Any, ...]:
        firsts = bounds.firsts()
        if all(
            isinstance(index, int) and isinstance(size, int) and first <= index < first + size
            for index, first, size in zip(indices, firsts, bounds.shape, strict=True)
        ):
            return indices
        # Taichi uses the lower half of a longer index.
        asked = [self._ops.cast(self._expression(index), self._i32) for index in indices]
        fits = [
            self._ops.bit_and(index >= first, index < size + first)
            for index, first, size in zip(asked, firsts, bounds.shape, strict=True)
        ]
        message = out_of_bounds.message(["%d"] * len(asked), ["%d"] * len(asked), bounds.told(bounds.first))
        place = self._impl.get_runtime().get_current_src_info()
        told = [self._expression(one).ptr for one in (*bounds.told(asked), *bounds.told(bounds.shape))]
        self._checks.add(Check(functools.reduce(self._ops.bit_and, fits), message, told, place))
        # On a CPU the kernel goes on behind an assert that has failed.
        return tuple(self._ops.select(*each) for each in zip(fits, asked, firsts, strict=True))

    def _emit(self, check: Check) -> None:
        holds, place = self._expression(check.holds).ptr, self._core.DebugInfo(check.place)
        builder = self._impl.get_runtime().compiling_callable.ast_builder()
        builder.create_assert_stmt(holds, f"{check.message}\n{check.place}", check.told, place)


def _checked(
    original: Callable[[Any, Any], Any], impl: Any, bounds_of: Callable[[Any], _Bounds], error: type[BaseException]
) -> Callable[[Any, Any], Any]:
    """The same for an element that Python code reads or writes."""

    @functools.wraps(original)
    def pad_key(array: Any, key: Any) -> Any:
        padded = original(array, key)
        if impl.current_cfg().debug:
            bounds = bounds_of(array)
            index = tuple(padded[: len(bounds.shape)])
            pairs = zip(index, bounds.firsts(), bounds.shape, strict=True)
            if not all(first <= one < first + size for one, first, size in pairs):
                raise error(out_of_bounds.message(*map(bounds.told, (index, bounds.shape, bounds.first))))
        return padded

    return pad_key
