"""``gpu.ti``: the Taichi names that make arrays, without Taichi."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from tiremote.client import transfer
from tiremote.client.arrays import RemoteArray, RemoteField
from tiremote.client.exchange import Exchange
from tiremote.protocol.dtypes import DTYPES, name_of
from tiremote.protocol.errors import KernelArgumentError, UnsupportedType
from tiremote.protocol.messages import Alloc

Shape = int | tuple[int, ...] | list[int]


@dataclass(frozen=True, slots=True)
class DType:
    """A dtype by Taichi's name."""

    name: str

    def __repr__(self) -> str:
        return f"ti.{self.name}"

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class ElementType:
    """A vector or matrix as an array's element: ``shape`` is ``(n,)`` or ``(n, m)``."""

    dtype: Any
    shape: tuple[int, ...]


#: Taichi's names on the left, the wire's on the right.
_DTYPES = {**{name: name for name in DTYPES if name != "bool"}, "u1": "bool"}
_LONG_NAMES = {
    **{f"int{n}": f"i{n}" for n in (8, 16, 32, 64)},
    **{f"uint{n}": f"u{n}" for n in (1, 8, 16, 32, 64)},
    **{f"float{n}": f"f{n}" for n in (16, 32, 64)},
}


class Facade:
    """``ti.f32`` and the other dtypes, ``ti.ndarray``, ``ti.field``, ``ti.Vector.ndarray``, ``ti.Vector.field``,
    ``ti.Matrix.ndarray``, ``ti.Matrix.field``, ``ti.types.vector``, ``ti.types.matrix``, ``ti.math.vec3`` and its
    kin, ``ti.sync``.

    Everything else of Taichi belongs into the source that is loaded on the worker.
    """

    def __init__(self, exchange: Exchange, options: Mapping[str, Any]) -> None:
        self._exchange = exchange
        self._default = {float: options.get("default_fp", "f32"), int: options.get("default_ip", "i32")}
        self.types = _Types()
        self.math = _Math()
        self.Vector = _VectorMaker(self)
        self.Matrix = _MatrixMaker(self)

    def ndarray(self, dtype: Any, shape: Shape, *, needs_grad: bool = False, label: str | None = None) -> RemoteArray:
        """A new ndarray of zeros.

        ``dtype`` is ``ti.f32``, ``"f32"``, ``numpy.float32``, ``float``, ``int`` or ``ti.types.vector(3, ti.f32)``.
        ``label`` is the name that `describe` shows. Raises `OutOfMemory`, `UnsupportedType`.
        """
        return self._make("ndarray", dtype, shape, needs_grad, label)

    def field(
        self, dtype: Any, shape: Shape = (), *, needs_grad: bool = False, label: str | None = None
    ) -> RemoteField:
        """A new field of zeros; ``needs_grad`` gives it a gradient of the same shape."""
        return cast(RemoteField, self._make("field", dtype, shape, needs_grad, label))

    def sync(self) -> None:
        """Waits until everything that this client sent is done."""
        self._exchange.wait_for_all()

    def __getattr__(self, name: str) -> Any:
        dtype = _LONG_NAMES.get(name, name)
        if dtype in _DTYPES:
            return DType(dtype)
        raise AttributeError(
            f"gpu.ti has no {name!r}: it has {', '.join(_DTYPES)}, ndarray, field, Vector, Matrix, types, math and "
            "sync; the rest of Taichi is for source that compile_and_load() sends"
        )

    def __dir__(self) -> list[str]:
        return [*_DTYPES, "Matrix", "Vector", "field", "math", "ndarray", "sync", "types"]

    def __repr__(self) -> str:
        return f"<Taichi's arrays on {self._exchange.address}>"

    def _make(self, kind: str, dtype: Any, shape: Shape, needs_grad: bool, label: str | None) -> RemoteArray:
        element: tuple[int, ...] = ()
        if isinstance(dtype, ElementType):
            dtype, element = dtype.dtype, dtype.shape
        handle = transfer.held(
            self._exchange,
            Alloc(
                id="",
                kind=kind,
                dtype=self._name(dtype),
                shape=_shape(shape),
                element_shape=element,
                needs_grad=needs_grad,
                label=label,
            ),
        )
        self._exchange.releases.adopt(handle)
        cls = RemoteField if kind == "field" else RemoteArray
        return cls(self._exchange, handle, kind, handle.meta)

    def _name(self, dtype: Any) -> str:
        """A dtype's name on the wire."""
        if isinstance(dtype, DType | str):
            name = _LONG_NAMES.get(str(dtype), str(dtype))
            if name == "bool" or name in _DTYPES:
                return _DTYPES.get(name, name)
        elif dtype is float or dtype is int:
            return str(self._default[dtype])
        elif dtype is not None:  # which NumPy takes for float64
            try:
                return name_of(np.dtype(dtype))
            except TypeError:
                pass
        raise UnsupportedType(f"{dtype!r} is no dtype of an array; there are {', '.join(_DTYPES)}")


class _Types:
    """``ti.types``."""

    def vector(self, n: int, dtype: Any) -> ElementType:
        """A vector of ``n`` numbers."""
        return ElementType(dtype, (_size(n),))

    def matrix(self, n: int, m: int, dtype: Any) -> ElementType:
        """A matrix of ``n`` rows and ``m`` columns."""
        return ElementType(dtype, (_size(n), _size(m)))

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"gpu.ti.types has no {name!r}: it has vector and matrix; annotations are for source")


class _Math:
    """``ti.math``: ``vec3``, ``ivec2``, ``uvec4``, ``mat3`` and the like, as elements of arrays."""

    def __getattr__(self, name: str) -> ElementType:
        if name in _ELEMENTS:
            return _ELEMENTS[name]
        raise AttributeError(
            f"gpu.ti.math has no {name!r}: it has {', '.join(_ELEMENTS)}; functions are for source on the worker"
        )

    def __dir__(self) -> list[str]:
        return list(_ELEMENTS)


#: Reals are of the session's ``default_fp``, integers of its ``default_ip``, as in Taichi.
_ELEMENTS = {
    **{f"vec{n}": ElementType(float, (n,)) for n in (2, 3, 4)},
    **{f"ivec{n}": ElementType(int, (n,)) for n in (2, 3, 4)},
    **{f"uvec{n}": ElementType("u32", (n,)) for n in (2, 3, 4)},
    **{f"mat{n}": ElementType(float, (n, n)) for n in (2, 3, 4)},
}


@dataclass(frozen=True, slots=True)
class _VectorMaker:
    """``ti.Vector``."""

    _ti: Facade

    def ndarray(self, n: int, dtype: Any, shape: Shape, *, label: str | None = None) -> RemoteArray:
        """An ndarray of vectors of ``n`` numbers."""
        return self._ti.ndarray(self._ti.types.vector(n, dtype), shape, label=label)

    def field(
        self, n: int, dtype: Any, shape: Shape = (), *, needs_grad: bool = False, label: str | None = None
    ) -> RemoteField:
        """A field of vectors of ``n`` numbers."""
        return self._ti.field(self._ti.types.vector(n, dtype), shape, needs_grad=needs_grad, label=label)


@dataclass(frozen=True, slots=True)
class _MatrixMaker:
    """``ti.Matrix``."""

    _ti: Facade

    def ndarray(self, n: int, m: int, dtype: Any, shape: Shape, *, label: str | None = None) -> RemoteArray:
        """An ndarray of ``n`` by ``m`` matrices."""
        return self._ti.ndarray(self._ti.types.matrix(n, m, dtype), shape, label=label)

    def field(
        self, n: int, m: int, dtype: Any, shape: Shape = (), *, needs_grad: bool = False, label: str | None = None
    ) -> RemoteField:
        """A field of ``n`` by ``m`` matrices."""
        return self._ti.field(self._ti.types.matrix(n, m, dtype), shape, needs_grad=needs_grad, label=label)


def _shape(shape: Any) -> tuple[int, ...]:
    sizes = shape if isinstance(shape, tuple | list) else (shape,)
    return tuple(_size(n) for n in sizes)


def _size(n: Any) -> int:
    try:
        size = operator.index(n)
    except TypeError:
        size = -1
    if size < 0 or isinstance(n, bool):
        raise KernelArgumentError(f"a size is a whole number from 0, not {n!r}")
    return size
