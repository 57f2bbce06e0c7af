"""What a kernel's parameters take, in words of our own: nothing here knows which runtime it is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

#: What sizes that are left open are called, as many as a field or ndarray has axes at most.
_AXES = ("N", "M", "K", "L", "P", "Q", "R", "S", "T", "U", "V", "W")


@dataclass(frozen=True, kw_only=True, slots=True)
class ScalarType:
    """A primitive type under its wire name."""

    dtype: str

    def __str__(self) -> str:
        return self.dtype


@dataclass(frozen=True, kw_only=True, slots=True)
class ArrayType:
    """``ti.types.ndarray``. None is anything; ``element_shape`` has None for a size that is left open."""

    dtype: str | None = None
    ndim: int | None = None
    element_shape: tuple[int | None, ...] | None = None
    needs_grad: bool | None = None
    #: It may be None, where a runtime has that.
    optional: bool = False

    def __str__(self) -> str:
        inside = []
        if self.element_shape:
            inside.append(_compound(self.element_shape, self.dtype))
        elif self.dtype is not None:
            inside.append(self.dtype)
        if self.ndim is not None:
            inside.append(f"ndim={self.ndim}")
        if self.needs_grad:
            inside.append("needs_grad=True")
        return (f"ndarray({', '.join(inside)})" if inside else "ndarray") + (" or None" if self.optional else "")


@dataclass(frozen=True, kw_only=True, slots=True)
class MatrixType:
    """A vector (one size) or a matrix (two). ``annotation`` is the runtime's own type, which builds a value."""

    dtype: str
    shape: tuple[int, ...]
    annotation: Any = field(compare=False, repr=False)

    def __str__(self) -> str:
        return _compound(self.shape, self.dtype)


@dataclass(frozen=True, kw_only=True, slots=True)
class StructType:
    """A struct: its members in order. ``annotation`` is the runtime's own type, which builds a value."""

    members: tuple[tuple[str, ParameterType], ...]
    annotation: Any = field(compare=False, repr=False)

    def __str__(self) -> str:
        return f"struct({', '.join(f'{name}: {kind}' for name, kind in self.members)})"


@dataclass(frozen=True, kw_only=True, slots=True)
class PackType:
    """Values and arrays under one name, an ``argpack`` or a Python ``dataclass``: its members in order.

    ``optional`` are those that have a default. ``annotation`` is the type itself, which builds an instance.
    """

    what: str
    members: tuple[tuple[str, ParameterType], ...]
    optional: frozenset[str] = frozenset()
    annotation: Any = field(compare=False, repr=False)

    def __str__(self) -> str:
        return f"{self.what}({', '.join(f'{name}: {kind}' for name, kind in self.members)})"


@dataclass(frozen=True, kw_only=True, slots=True)
class TemplateType:
    """``ti.template()``: the value becomes part of the compiled kernel."""

    def __str__(self) -> str:
        return "template"


@dataclass(frozen=True, kw_only=True, slots=True)
class OpaqueType:
    """A thing that only the worker can make (texture, sparse matrix builder): an instance of ``cls``."""

    what: str
    cls: type = field(compare=False, repr=False)

    def __str__(self) -> str:
        return self.what


ParameterType = ScalarType | ArrayType | MatrixType | StructType | PackType | TemplateType | OpaqueType


@dataclass(frozen=True, kw_only=True, slots=True)
class ArrayMeta:
    """What an array on the worker is. ``shape`` is without the element's own dims."""

    dtype: str
    shape: tuple[int, ...]
    element_shape: tuple[int, ...] = ()
    itemsize: int

    @property
    def full_shape(self) -> tuple[int, ...]:
        """The shape of the NumPy array that holds it all."""
        return self.shape + self.element_shape

    @property
    def size(self) -> int:
        """Scalars in it."""
        size = 1
        for n in self.full_shape:
            size *= n
        return size

    @property
    def nbytes(self) -> int:
        return self.size * self.itemsize


def expected_shape(kind: ParameterType) -> str:
    """The shape and dtype of the NumPy array that a parameter takes, ``(N, 3) f32``; empty where it takes none."""
    if isinstance(kind, MatrixType):
        axes = [str(size) for size in kind.shape]
    elif isinstance(kind, ArrayType):
        first = ["..."] if kind.ndim is None else list(_AXES[: kind.ndim])
        axes = first + ["?" if size is None else str(size) for size in kind.element_shape or ()]
    else:
        return ""
    return f"({', '.join(axes)}{',' if len(axes) == 1 and axes != ['...'] else ''}) {kind.dtype or 'any dtype'}"


def _compound(shape: tuple[int | None, ...], dtype: str | None) -> str:
    sizes = ", ".join("?" if n is None else str(n) for n in shape)
    return f"{'vector' if len(shape) == 1 else 'matrix'}({sizes}, {dtype or 'any dtype'})"
