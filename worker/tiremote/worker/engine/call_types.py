"""What is kept of a call: enough to compile the same kernel for it again, and none of its data."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tiremote.worker.engine.signature import (
    ArrayType,
    MatrixType,
    PackType,
    ParameterType,
    ScalarType,
    StructType,
    TemplateType,
)

if TYPE_CHECKING:
    from tiremote.worker.engine.runtime import TaichiRuntime


@dataclass(frozen=True, slots=True)
class NdarrayArgument:
    """A Taichi ndarray: what decides which instance of a kernel it needs."""

    dtype: str
    ndim: int
    element_shape: tuple[int, ...]
    needs_grad: bool


@dataclass(frozen=True, slots=True)
class NumpyArgument:
    """A NumPy array."""

    dtype: str
    full_shape_ones: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TemplateArgument:
    """A value that is compiled in. Objects are held weakly: a dead one says that the call cannot be repeated."""

    reference: weakref.ref[Any] | None
    value: Any = None


@dataclass(frozen=True, slots=True)
class PackArgument:
    """An argpack or a dataclass, by its members."""

    members: tuple[tuple[str, Argument], ...]


Argument = NdarrayArgument | NumpyArgument | TemplateArgument | PackArgument | None
ARGUMENTS = (NdarrayArgument, NumpyArgument, TemplateArgument, PackArgument)


class Undetermined(Exception):
    """The type of an argument is not known before a call."""


def remember(value: Any, kind: ParameterType, runtime: TaichiRuntime) -> Argument:
    """What to keep of one argument; None where its annotation says it all, or nothing can be kept."""
    if isinstance(kind, ArrayType):
        if runtime.is_ndarray(value):
            meta = runtime.array_meta(value)
            return NdarrayArgument(meta.dtype, len(meta.shape), meta.element_shape, runtime.has_grad(value))
        if isinstance(value, np.ndarray):
            # The trailing sizes may be those of an element.
            element = len(kind.element_shape or ())
            ones = (1,) * (value.ndim - element)
            return NumpyArgument(value.dtype.str, ones + value.shape[value.ndim - element :])
        return None
    if isinstance(kind, PackType):
        members = runtime.pack_values(value) or {}
        known = tuple((name, remember(members[name], each, runtime)) for name, each in kind.members if name in members)
        return PackArgument(known)
    if isinstance(kind, TemplateType):
        if isinstance(value, (bool, int, float, str, type(None))):
            return TemplateArgument(None, value)
        try:
            return TemplateArgument(weakref.ref(value))
        except TypeError:
            return None
    return None


class StandIns:
    """Makes arguments to compile for, as small as can be. Kept, since loads come often."""

    def __init__(self, runtime: TaichiRuntime) -> None:
        self._runtime = runtime
        self._ndarrays: dict[NdarrayArgument, Any] = {}

    def all(self) -> list[Any]:
        """Every ndarray that was made."""
        return list(self._ndarrays.values())

    def make(self, kind: ParameterType, argument: Argument) -> Any:
        """Raises `Undetermined` where neither the annotation nor an earlier call tells the type."""
        match kind, argument:
            case ScalarType() | MatrixType() | StructType(), _:
                # Only the annotation counts for these.
                return 0
            case ArrayType(), NumpyArgument(dtype, shape):
                return np.zeros(shape, np.dtype(dtype))
            case ArrayType(), NdarrayArgument():
                return self._ndarray(argument)
            case ArrayType(dtype=str(dtype), ndim=int(ndim), element_shape=shape), _:
                if shape is None or None in shape:
                    raise Undetermined
                sizes = tuple(size for size in shape if size is not None)
                return self._ndarray(NdarrayArgument(dtype, ndim, sizes, bool(kind.needs_grad)))
            case PackType(), PackArgument(members):
                known = dict(members)
                if known.keys() != dict(kind.members).keys():
                    raise Undetermined
                return kind.annotation(**{name: self._member(each, known[name]) for name, each in kind.members})
            case TemplateType(), TemplateArgument(None, value):
                return value
            case TemplateType(), TemplateArgument(reference, _) if reference is not None:
                value = reference()
                if value is not None:
                    return value
        raise Undetermined

    def _member(self, kind: ParameterType, argument: Argument) -> Any:
        # A pack looks at what it is made of.
        return kind.annotation(0) if isinstance(kind, MatrixType | StructType) else self.make(kind, argument)

    def _ndarray(self, argument: NdarrayArgument) -> Any:
        if argument not in self._ndarrays:
            self._ndarrays[argument] = self._runtime.make_ndarray(
                argument.dtype, (1,) * argument.ndim, argument.element_shape, argument.needs_grad
            )
        return self._ndarrays[argument]
