"""``gpu.ti``: the Taichi names that make arrays, without Taichi."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, TypeVar, cast

import numpy as np

from tiremote.client import transfer
from tiremote.client.arrays import RemoteArray, RemoteField
from tiremote.client.autodiff import Autodiff
from tiremote.client.exchange import Exchange
from tiremote.client.fitting import fitting
from tiremote.client.type_names import LONG_NAMES, TAICHI_NAMES, DType, wire_name
from tiremote.client.units import RemoteObject, thawed
from tiremote.protocol.dtypes import dtype_of
from tiremote.protocol.errors import KernelArgumentError
from tiremote.protocol.messages import Alloc

Shape = int | tuple[int, ...] | list[int]


@dataclass(frozen=True, slots=True)
class ElementType:
    """A vector or matrix as an array's element: ``shape`` is ``(n,)`` or ``(n, m)``."""

    dtype: Any
    shape: tuple[int, ...]


F = TypeVar("F", bound=Callable[..., Any])


def _called(name: str) -> Callable[[F], F]:
    """Python's own errors about a call then speak of ``ti.ndarray()``, as it was called."""

    def name_it(function: F) -> F:
        function.__qualname__ = name
        return function

    return name_it


class Facade:
    """``ti.f32`` and the other dtypes, ``ti.ndarray``, ``ti.field``, ``ti.Vector.ndarray``, ``ti.Vector.field``,
    ``ti.Matrix.ndarray``, ``ti.Matrix.field``, ``ti.Struct.field``, ``ti.types.vector``, ``ti.types.matrix``,
    ``ti.math.vec3`` and its kin, ``ti.ad``, ``ti.sync``.

    Everything else of Taichi belongs into the source that is loaded on the worker.
    """

    def __init__(self, exchange: Exchange, options: Mapping[str, Any]) -> None:
        self._exchange = exchange
        self._options = options
        self.ad = Autodiff(exchange)
        self.types = _Types()
        self.math = _Math()
        self.Vector = _VectorMaker(self)
        self.Matrix = _MatrixMaker(self)
        self.Struct = _StructMaker(self)

    @_called("ti.ndarray")
    def ndarray(self, dtype: Any, shape: Shape, *, needs_grad: bool = False, label: str | None = None) -> RemoteArray:
        """A new ndarray of zeros.

        ``dtype`` is ``ti.f32``, ``"f32"``, ``numpy.float32``, ``float``, ``int`` or ``ti.types.vector(3, ti.f32)``.
        ``label`` is the name that `describe` shows. Raises `OutOfMemory`, `UnsupportedType`.
        """
        return self._make("ndarray", dtype, shape, needs_grad, label)

    @_called("ti.field")
    def field(
        self,
        dtype: Any,
        shape: Shape = (),
        *,
        name: str = "",
        needs_grad: bool = False,
        needs_dual: bool = False,
        label: str | None = None,
    ) -> RemoteField:
        """A new field of zeros; ``needs_grad`` gives it a gradient of the same shape, ``needs_dual`` what forward mode
        computes. ``name`` is Taichi's word for ``label``."""
        label = name or None if label is None else label
        return cast(RemoteField, self._make("field", dtype, shape, needs_grad, label, needs_dual=needs_dual))

    def sync(self) -> None:
        """Waits until everything that this client sent is done."""
        self._exchange.wait_for_all()

    def __getattr__(self, name: str) -> Any:
        dtype = LONG_NAMES.get(name, name)
        if dtype in TAICHI_NAMES:
            return DType(dtype)
        close = get_close_matches(name, dir(self), n=1)
        raise AttributeError(
            f"gpu.ti has no {name!r}{f'; did you mean {close[0]!r}?' if close else ':'} "
            f"it has {', '.join(TAICHI_NAMES)}, ndarray, field, Vector, Matrix, Struct, types, math, ad and sync; "
            "the rest of Taichi is for source that compile_and_load() sends"
        )

    def __dir__(self) -> list[str]:
        return [*TAICHI_NAMES, "Matrix", "Struct", "Vector", "ad", "field", "math", "ndarray", "sync", "types"]

    def __repr__(self) -> str:
        return f"<Taichi's arrays on {self._exchange.address}>"

    def _make(
        self, kind: str, dtype: Any, shape: Shape, needs_grad: bool, label: str | None, *, needs_dual: bool = False
    ) -> RemoteArray:
        element: tuple[int, ...] = ()
        if isinstance(dtype, ElementType):
            dtype, element = dtype.dtype, dtype.shape
        handle = transfer.held(
            self._exchange,
            Alloc(
                id="",
                kind=kind,
                dtype=wire_name(dtype, self._options),
                shape=_shape(shape),
                element_shape=element,
                needs_grad=needs_grad,
                needs_dual=needs_dual,
                label=label,
            ),
        )
        self._exchange.releases.adopt(handle)
        cls = RemoteField if kind == "field" else RemoteArray
        return cls(self._exchange, handle, kind, handle.meta)


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
    """``ti.Vector``. Called, it gives the numbers as a NumPy array, which kernels take for a vector."""

    _ti: Facade

    def __call__(self, values: Any, dt: Any = None) -> np.ndarray:
        """``ti.Vector([1.0, 2.0])``: of ``dt``, or of the session's default types."""
        return _numbers(values, dt, self._ti._options, "Vector", (1,))

    @_called("ti.Vector.ndarray")
    def ndarray(self, n: int, dtype: Any, shape: Shape, *, label: str | None = None) -> RemoteArray:
        """An ndarray of vectors of ``n`` numbers."""
        return self._ti.ndarray(self._ti.types.vector(n, dtype), shape, label=label)

    @_called("ti.Vector.field")
    def field(
        self,
        n: int,
        dtype: Any,
        shape: Shape = (),
        *,
        name: str = "",
        needs_grad: bool = False,
        needs_dual: bool = False,
        label: str | None = None,
    ) -> RemoteField:
        """A field of vectors of ``n`` numbers."""
        element = self._ti.types.vector(n, dtype)
        return self._ti.field(element, shape, name=name, needs_grad=needs_grad, needs_dual=needs_dual, label=label)


@dataclass(frozen=True, slots=True)
class _MatrixMaker:
    """``ti.Matrix``. Called, it gives the numbers as a NumPy array, which kernels take for a matrix."""

    _ti: Facade

    def __call__(self, values: Any, dt: Any = None) -> np.ndarray:
        """``ti.Matrix([[1, 0], [0, 1]])``: of ``dt``, or of the session's default types."""
        return _numbers(values, dt, self._ti._options, "Matrix", (1, 2))

    @_called("ti.Matrix.ndarray")
    def ndarray(self, n: int, m: int, dtype: Any, shape: Shape, *, label: str | None = None) -> RemoteArray:
        """An ndarray of ``n`` by ``m`` matrices."""
        return self._ti.ndarray(self._ti.types.matrix(n, m, dtype), shape, label=label)

    @_called("ti.Matrix.field")
    def field(
        self,
        n: int,
        m: int,
        dtype: Any,
        shape: Shape = (),
        *,
        name: str = "",
        needs_grad: bool = False,
        needs_dual: bool = False,
        label: str | None = None,
    ) -> RemoteField:
        """A field of ``n`` by ``m`` matrices."""
        element = self._ti.types.matrix(n, m, dtype)
        return self._ti.field(element, shape, name=name, needs_grad=needs_grad, needs_dual=needs_dual, label=label)


@dataclass(frozen=True, slots=True)
class _StructMaker:
    """``ti.Struct``. A struct itself is a dict here, which kernels take for one."""

    _ti: Facade

    @_called("ti.Struct.field")
    def field(
        self, members: Mapping[str, Any], shape: Shape = (), *, name: str = "", label: str | None = None
    ) -> RemoteObject:
        """A new field of structs of zeros: ``{"pos": ti.types.vector(3, ti.f32), "mass": ti.f32}``.

        A member is what `Facade.field` takes as dtype, or such a map again. What comes is used as a struct field of the
        source is: ``p.mass`` is a remote field, ``p.to_numpy()`` gives arrays by member, and kernels take it as a
        template. After a crash it is lost.
        """
        exchange = self._ti._exchange
        request = Alloc(
            id="",
            kind="field",
            members=self._members(members),
            shape=_shape(shape),
            label=name or None if label is None else label,
        )
        with exchange.releases.receiving():
            return cast(RemoteObject, thawed(exchange, transfer.held(exchange, request), ours=True))

    def _members(self, members: Any) -> dict[str, Any]:
        if not isinstance(members, Mapping) or not members:
            raise KernelArgumentError(f"ti.Struct.field takes a dict of its members, not {members!r}")
        return {name: self._member(member) for name, member in members.items()}

    def _member(self, member: Any) -> Any:
        if isinstance(member, Mapping):
            return self._members(member)
        element = member.shape if isinstance(member, ElementType) else ()
        dtype = member.dtype if isinstance(member, ElementType) else member
        return [wire_name(dtype, self._ti._options), list(element)]


def _numbers(values: Any, dt: Any, options: Mapping[str, Any], what: str, dims: tuple[int, ...]) -> np.ndarray:
    array = np.asarray(values)
    if array.dtype.kind not in "biuf" or array.ndim not in dims:
        raise KernelArgumentError(f"ti.{what} takes a list of numbers, ti.{what}([...]), not {values!r}")
    if dt is None:
        dt = float if array.dtype.kind == "f" else int
    return fitting(array.tolist(), dtype_of(wire_name(dt, options)))


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
