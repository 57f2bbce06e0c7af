"""From a value as it came to what a kernel takes for one parameter: one converter per type, made once.

A converter raises `Mismatch`, never a runtime's own error, and never changes or keeps what it is given.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from tiremote.protocol.dtypes import DTYPES, name_of
from tiremote.protocol.errors import UnsupportedType
from tiremote.worker.engine.runtime_arrays import ArrayRuntime
from tiremote.worker.engine.scalars import Mismatch, is_real, scalar_taker, shown
from tiremote.worker.engine.signature import (
    ArrayMeta,
    ArrayType,
    MatrixType,
    OpaqueType,
    PackType,
    ParameterType,
    ScalarType,
    StructType,
    TemplateType,
)

#: Numbers of a vector or a matrix that is compiled in; Taichi warns of long compiles above it.
_MOST_CONSTANTS = 32

Converter = Callable[[Any], Any]

#: Taichi computes indices in 32 bits; beyond this it warns and goes on with wrong ones.
MAX_ELEMENTS = 2**31 - 1


def converter(kind: ParameterType, runtime: ArrayRuntime) -> Converter:
    """What takes a value for a parameter of this type."""
    match kind:
        case ScalarType():
            return scalar_taker(kind.dtype)
        case ArrayType():
            return _array(kind, runtime)
        case MatrixType():
            return _matrix(kind, runtime)
        case StructType():
            return _struct(kind, runtime)
        case PackType():
            return _pack(kind, runtime)
        case TemplateType():
            return _template(runtime)
        case OpaqueType():
            return _opaque(kind)


def described(value: object, runtime: ArrayRuntime) -> str:
    """What came, for an error sentence: arrays by kind, dtype and shape, the rest by value and type."""
    if isinstance(value, np.ndarray):
        return f"a NumPy array of {_dtype_text(value.dtype)}, shape {value.shape}"
    if runtime.is_ndarray(value):
        return _meta_text("an ndarray", runtime.array_meta(value))
    if runtime.is_struct_field(value):
        return "a struct field"
    if runtime.is_field(value):
        try:
            return _meta_text("a field", runtime.array_meta(value))
        except UnsupportedType:
            return "a field of a quantised type"
    return shown(value)


def _meta_text(what: str, meta: ArrayMeta) -> str:
    element = f", element shape {meta.element_shape}" if meta.element_shape else ""
    return f"{what} of {meta.dtype}, shape {meta.shape}{element}"


def _dtype_text(dtype: np.dtype) -> str:
    try:
        return name_of(dtype)
    except UnsupportedType:
        return str(dtype)


# Arrays ---------------------------------------------------------------------------------------------------


def _array(kind: ArrayType, runtime: ArrayRuntime) -> Converter:
    is_ndarray, array_meta, has_grad = runtime.is_ndarray, runtime.array_meta, runtime.has_grad
    element, most_axes = kind.element_shape, runtime.max_dimensions()

    def take(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            dtype = _dtype_text(value.dtype)
            if dtype not in DTYPES:
                raise Mismatch(described(value, runtime), f"the dtypes are {', '.join(DTYPES)}: use .astype()")
            split = value.ndim - len(element or ())
            if split < 0:
                raise Mismatch(described(value, runtime), f"its last {len(element or ())} axes are the element")
            check(value, dtype, value.shape[:split], value.shape[split:])
            if kind.needs_grad:
                hint = "a NumPy array has no gradient: make it on the worker with needs_grad=True"
                raise Mismatch(described(value, runtime), hint)
            return value
        if is_ndarray(value):
            meta = array_meta(value)
            check(value, meta.dtype, meta.shape, meta.element_shape)
            if kind.needs_grad and not has_grad(value):
                raise Mismatch(described(value, runtime), "make it with needs_grad=True")
            return value
        if value is None and kind.optional:
            return None
        if runtime.is_field(value):
            hint = "pass an ndarray, or annotate the parameter with ti.template()"
            raise Mismatch(described(value, runtime), hint)
        raise Mismatch(described(value, runtime), "pass an ndarray or a NumPy array")

    def check(value: Any, dtype: str, shape: tuple[int, ...], came: tuple[int, ...]) -> None:
        wider = bool(element) and type(value) is np.ndarray and _is_wider(dtype, kind.dtype)
        if kind.dtype is not None and dtype != kind.dtype and not wider:
            raise Mismatch(described(value, runtime), f"convert it with .astype(np.{DTYPES[kind.dtype].name})")
        if element is not None and (
            len(came) != len(element) or any(n is not None and n != m for n, m in zip(element, came, strict=True))
        ):
            raise Mismatch(described(value, runtime), f"its element shape is {came}, not {element}")
        if kind.ndim is not None and len(shape) != kind.ndim:
            raise Mismatch(described(value, runtime), f"it has {len(shape)} axes, not {kind.ndim}")
        if len(shape) > most_axes:
            raise Mismatch(
                described(value, runtime), f"it has {len(shape)} axes, and at most {most_axes} can be indexed"
            )
        if prod(shape) * prod(came) > MAX_ELEMENTS:
            raise Mismatch(described(value, runtime), f"at most {MAX_ELEMENTS} elements can be indexed")

    return take


def _is_wider(came: str, wanted: str | None) -> bool:
    """Whether a dtype is of the same kind, and has more bits.

    With NumPy arrays of vectors and matrices Taichi does not look at the dtype: the kernel is compiled for that of the
    array. So nothing is lost where it is wider, and something is where it is narrower or of another kind.
    """
    if wanted is None:
        return False
    came_is, wanted_is = DTYPES[came], DTYPES[wanted]
    return came_is.kind == wanted_is.kind and came_is.itemsize > wanted_is.itemsize


# Vectors, matrices, structs ---------------------------------------------------------------------------------


def _numbers(kind: MatrixType, runtime: ArrayRuntime) -> Callable[[Any], list[Any]]:
    """Takes anything that can be indexed and has exactly the right shape; gives nested lists of checked numbers."""
    take_scalar = scalar_taker(kind.dtype)

    def level(value: Any, shape: tuple[int, ...], place: str) -> Any:
        if not shape:
            try:
                return take_scalar(value)
            except Mismatch as error:
                raise error.within(place) from None
        if isinstance(value, (str, bytes, Mapping)) or not hasattr(value, "__getitem__"):
            raise Mismatch(shown(value), f"pass {shape[0]} values", place)
        try:
            count = len(value)
        except TypeError:
            raise Mismatch(shown(value), f"pass {shape[0]} values", place) from None
        if count != shape[0]:
            raise Mismatch(f"{shown(value)} with {count} values", f"pass exactly {shape[0]}", place)
        return [level(value[i], shape[1:], f"{place}[{i}]") for i in range(count)]

    def take(value: Any) -> list[Any]:
        inside = runtime.matrix_values(value)
        return level(value if inside is None else inside, kind.shape, "")  # type: ignore[no-any-return]

    return take


def _matrix(kind: MatrixType, runtime: ArrayRuntime) -> Converter:
    take_numbers = _numbers(kind, runtime)
    # Taichi indexes a matrix argument with [i, j] and wants Python or NumPy numbers inside.
    exact = np.float64 if is_real(kind.dtype) else np.uint64 if kind.dtype == "u64" else np.int64

    def take(value: Any) -> np.ndarray:
        return np.array(take_numbers(value), dtype=exact)

    return take


def _struct(kind: StructType, runtime: ArrayRuntime) -> Converter:
    take_members = _members({name: _member(each, runtime) for name, each in kind.members}, "a struct")

    def take(value: Any) -> Any:
        inside = runtime.struct_values(value)
        # By position: a member may be called ``self``.
        return kind.annotation(*take_members(value if inside is None else inside, value).values())

    return take


def _pack(kind: PackType, runtime: ArrayRuntime) -> Converter:
    members = {name: converter(each, runtime) for name, each in kind.members}
    take_members = _members(members, f"{_article(kind.what)} {kind.what}", kind.optional)

    def take(value: Any) -> Any:
        inside = runtime.pack_values(value)
        return kind.annotation(**take_members(value if inside is None else inside, value))

    return take


def _article(noun: str) -> str:
    return "an" if noun[0] in "aeiou" else "a"


def _members(
    members: Mapping[str, Converter], what: str, optional: frozenset[str] = frozenset()
) -> Callable[[Any, Any], dict[str, Any]]:
    """Takes a map with these members, or as many values in their order; gives the converted values."""
    names = ", ".join(members)

    def take(given: Any, whole: Any) -> dict[str, Any]:
        if isinstance(given, Sequence) and not isinstance(given, (str, bytes)):
            if len(given) != len(members):
                raise Mismatch(f"{shown(given)} with {len(given)} values", f"its members are {names}")
            given = dict(zip(members, given, strict=True))
        if not isinstance(given, Mapping):
            raise Mismatch(shown(whole), f"pass a dict with the members {names}")
        if given.keys() != members.keys():
            missing = ", ".join(name for name in members if name not in given and name not in optional)
            extra = ", ".join(str(name) for name in given if name not in members)
            wrong = [f"no {missing}"] * bool(missing) + [f"an unknown {extra}"] * bool(extra)
            if wrong:
                raise Mismatch(f"{what} with {' and '.join(wrong)}", f"its members are {names}")
        taken = {}
        for name, take_member in members.items():
            if name in given:
                try:
                    taken[name] = take_member(given[name])
                except Mismatch as error:
                    raise error.within(f".{name}") from None
        return taken

    return take


def _member(kind: ParameterType, runtime: ArrayRuntime) -> Converter:
    if isinstance(kind, MatrixType):
        take_numbers = _numbers(kind, runtime)
        return lambda value: kind.annotation(take_numbers(value))
    return converter(kind, runtime)


# Templates and what only the worker makes -------------------------------------------------------------------


def _template(runtime: ArrayRuntime) -> Converter:
    def take(value: Any) -> Any:
        if isinstance(value, list):
            return tuple(take(each) for each in value)  # Taichi takes tuples here, and messages need not tell
        if isinstance(value, tuple):
            return tuple(take(each) for each in value)
        if isinstance(value, np.ndarray) and value.ndim in (1, 2) and 0 < value.size <= _MOST_CONSTANTS:
            return runtime.constant_matrix(value)
        if isinstance(value, np.ndarray) or runtime.is_ndarray(value):
            hint = "annotate the parameter with ti.types.ndarray() instead"
            raise Mismatch(described(value, runtime), hint)
        if runtime.is_field(value) and runtime.is_destroyed(value):
            raise Mismatch("a field whose SNode tree was destroyed", "declare it anew")
        if isinstance(value, (dict, set)):
            raise Mismatch(shown(value), "a template is a field, a number, a tuple or an object kept on the worker")
        return value

    return take


def _opaque(kind: OpaqueType) -> Converter:
    def take(value: Any) -> Any:
        if isinstance(value, kind.cls) and not isinstance(value, np.ndarray):
            return value
        raise Mismatch(shown(value), f"make the {kind.what} in source on the worker, and pass what it returns")

    return take
