"""Arrays that stay on the worker: `RemoteArray` and, for Taichi fields, `RemoteField`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod
from typing import Any, Self

import numpy as np

from tiremote.client import transfer
from tiremote.client.exchange import Exchange
from tiremote.client.fitting import fitting
from tiremote.client.recording import check_write
from tiremote.client.regions import parse, split
from tiremote.client.remote import Remote
from tiremote.client.transfer import Progress
from tiremote.client.type_names import wire_name
from tiremote.protocol.dtypes import dtype_of, name_of
from tiremote.protocol.errors import KernelArgumentError, Refused, StaleHandle, UnknownName
from tiremote.protocol.messages import Alloc, Cleanup, Fetch, Put
from tiremote.protocol.receipts import Summary
from tiremote.protocol.results import ArrayResult, CleanupResult, FetchResult
from tiremote.protocol.values import Handle, Name, Ref

#: Of an array, where it was made with them.
_DERIVATIVES = ("grad", "dual")

#: What to do where a local array would just be computed with.
_ADVICE = "do it in a kernel, or with .to_numpy(), which fetches it"


class RemoteArray(Remote):
    """An ndarray on the worker; indexing moves only what is asked for.

    ``x[2:4]``, ``x[1, :]``, ``x[::2]``, ``x[..., -1]`` give NumPy arrays (numbers where one element is meant), and
    assigning to them sends only that part. Further indices than ``shape`` has are those of vectors and matrices,
    which travel whole. Whole: `to_numpy`, `from_numpy`, or ``numpy.asarray(x)``.
    Every use raises `StaleHandle` once it is gone: freed, cleaned up, or lost with an engine.
    """

    __slots__ = ("_derivatives", "_dtype", "_element_shape", "_freed", "_kind", "_part_of", "_shape")
    __hash__ = Remote.__hash__

    def __init__(self, exchange: Exchange, target: Ref, kind: str, meta: Mapping[str, Any]) -> None:
        super().__init__(exchange, target)
        self._kind = kind
        self._dtype = dtype_of(meta["dtype"])
        self._shape: tuple[int, ...] = tuple(meta.get("shape", ()))
        self._element_shape: tuple[int, ...] = tuple(meta.get("element_shape", ()))
        self._derivatives = frozenset(which for which in _DERIVATIVES if meta.get(f"needs_{which}"))
        self._freed = False
        #: The array whose gradient this is, which must not be given back before.
        self._part_of: RemoteArray | None = None
        if isinstance(target, Handle):
            exchange.releases.track(self, target)

    @property
    def shape(self) -> tuple[int, ...]:
        """Taichi's: without the dimensions of a vector's or matrix's elements."""
        return self._shape

    @property
    def element_shape(self) -> tuple[int, ...]:
        """``()`` for numbers, ``(n,)`` for vectors, ``(n, m)`` for matrices."""
        return self._element_shape

    @property
    def n(self) -> int:
        """Numbers of its vectors, or rows of its matrices. Raises AttributeError for an array of numbers."""
        return self._element()[0]

    @property
    def m(self) -> int:
        """Columns of its matrices, 1 of vectors. Raises AttributeError for an array of numbers."""
        return self._element()[1]

    @property
    def dtype(self) -> np.dtype:
        """Of one number."""
        return self._dtype

    @property
    def ndim(self) -> int:
        """Dimensions of ``shape``."""
        return len(self._shape)

    @property
    def nbytes(self) -> int:
        """Bytes of all numbers."""
        return prod(self._full_shape) * self._dtype.itemsize

    @property
    def handle(self) -> Handle:
        """What the worker knows it by. For one of a unit's own it is asked, and keeps that when the unit goes."""
        target = self._alive()
        if isinstance(target, Handle):
            return target
        handle = self._exchange.call(Fetch(id="", target=target, form="handle"), FetchResult).handle
        if handle is None:
            raise UnknownName(f"{target} has no handle", name=str(target))
        return handle

    @property
    def place(self) -> str:
        """The id of its handle, or ``unit.name`` for one of a unit's own. The worker is not asked."""
        target = self._alive()
        return target.id if isinstance(target, Handle) else str(target)

    # What belongs to it

    @property
    def grad(self) -> Self:
        """Its gradient, of the same kind and shape. Raises `UnknownName` where it was made without ``needs_grad``."""
        return self._derivative("grad")

    def _derivative(self, which: str) -> Self:
        target = self._alive()
        if which not in self._derivatives:
            raise UnknownName(f"this {self._kind} has no {which}: make it with needs_{which}=True", name=which)
        inside: Ref
        if isinstance(target, Name):
            inside = Name(unit=target.unit, name=f"{target.name}.{which}")
        else:
            inside = Handle(kind=target.kind, id=f"{target.id}.{which}")
        made = type(self)(self._exchange, inside, self._kind, self._meta)
        made._part_of = self
        return made

    @property
    def _meta(self) -> dict[str, Any]:
        return {"dtype": name_of(self._dtype), "shape": self._shape, "element_shape": self._element_shape}

    # Whole

    def to_numpy(self, *, progress: Progress | None = None) -> np.ndarray:
        """All of it, of shape ``shape + element_shape``. ``progress(done, total)`` is told bytes."""
        return transfer.fetch(self._exchange, self._alive(), self._kind, self._dtype, self._full_shape, progress)

    def from_numpy(self, values: np.ndarray, *, cast: bool = False, progress: Progress | None = None) -> None:
        """Replaces all of it by an array of ``shape + element_shape`` and the same dtype.

        ``cast``: another dtype is converted on the worker, value-checked. Raises `KernelArgumentError`.
        """
        target = self._writeable()
        values = fitting(values, self._dtype, cast=cast)
        if values.shape != self._full_shape:
            raise KernelArgumentError(f"an array of shape {values.shape} came for one of {self._full_shape}")
        transfer.send(self._exchange, target, self._kind, self._dtype, values, cast=cast, progress=progress)

    get = to_numpy
    set = from_numpy

    def astype(self, dtype: Any) -> RemoteArray:
        """A new remote ndarray of the same shape, converted on the worker.

        ``dtype`` is as for ``ti.ndarray``. Raises `KernelArgumentError` where a value does not fit it.
        """
        made = Alloc(
            id="",
            kind="ndarray",
            dtype=wire_name(dtype, self._exchange.options),
            shape=self._shape,
            element_shape=self._element_shape,
        )
        source = self._alive()
        handle = transfer.held(self._exchange, made)
        self._exchange.releases.adopt(handle)
        array = RemoteArray(self._exchange, handle, "ndarray", handle.meta)
        self._exchange.call(Put(id="", target=handle, source=source, cast=True), ArrayResult)
        return array

    def fill(self, value: Any) -> None:
        """Sets every number to ``value``, or every vector or matrix to one of ``element_shape``.

        Raises `KernelArgumentError` where that does not fit.
        """
        # What a vector is written as counts by its numbers, as where a kernel takes it.
        numbers = fitting(value.tolist() if isinstance(value, np.ndarray) else value, self._dtype)
        if numbers.shape not in ((), self._element_shape):
            takes = f"one number or numbers of shape {self._element_shape}" if self._element_shape else "one number"
            raise KernelArgumentError(f"fill takes {takes}, not an array of shape {numbers.shape}")
        self._fill("value", value=numbers.tolist())

    def copy_from(self, other: RemoteArray, *, cast: bool = False) -> None:
        """Replaces all of it by what ``other``, of the same shape, holds; nothing goes over the wire.

        ``cast``: another dtype is converted, value-checked. Raises `KernelArgumentError`.
        """
        if not isinstance(other, RemoteArray):
            raise KernelArgumentError(f"copy_from takes a remote array, not a {type(other).__name__}: use from_numpy")
        if other._exchange is not self._exchange:
            raise KernelArgumentError(
                "the array belongs to another session: fetch it there, and put it with from_numpy"
            )
        if other._full_shape != self._full_shape:
            raise KernelArgumentError(f"an array of shape {other._full_shape} came for one of {self._full_shape}")
        if other._dtype != self._dtype and not cast:
            raise KernelArgumentError(
                f"an array of {name_of(other._dtype)} came for one of {name_of(self._dtype)}: pass cast=True to convert"
            )
        source = other._alive()
        self._exchange.call(Put(id="", target=self._writeable(), source=source, cast=cast), ArrayResult)

    def fill_arange(self) -> None:
        """Counts up from 0, in C order."""
        self._fill("arange")

    def fill_random(self, seed: int | None = None) -> None:
        """Uniform in [0, 1), the same for the same seed."""
        self._fill("random", seed=seed)

    def summary(self) -> Summary:
        """Minimum, maximum, mean, NaNs and the corners, computed on the worker."""
        result = self._exchange.call(Fetch(id="", target=self._alive(), form="summary"), FetchResult)
        if result.summary is None:
            raise UnknownName("the worker gave no summary")
        return result.summary

    # Parts

    def __getitem__(self, index: Any) -> Any:
        index, inside = split(index, self._shape, self._element_shape)
        if inside:
            # Elements come whole: their own indices are for what came.
            array = np.asarray(self[index])
            own = array.ndim - len(self._element_shape)
            return array[(slice(None),) * own + inside]
        region = parse(index, self._shape)
        if region.is_whole(self._shape) and self._shape:
            return self.to_numpy()
        array = transfer.fetch_region(self._exchange, self._alive(), self._dtype, self._element_shape, region)
        return array if array.ndim or Ellipsis in _parts(index) else array[()]

    def __setitem__(self, index: Any, values: Any) -> None:
        region = parse(index, self._shape, self._element_shape)
        shape = (*region.shape, *self._element_shape)
        values = fitting(values, self._dtype)
        try:
            values = np.broadcast_to(values, shape)
        except ValueError:
            raise KernelArgumentError(f"values of shape {values.shape} came for a part of shape {shape}") from None
        target = self._writeable()
        if region.is_whole(self._shape):
            transfer.send(self._exchange, target, self._kind, self._dtype, values)
        else:
            transfer.send_region(self._exchange, target, region, values)

    def __len__(self) -> int:
        if not self._shape:
            raise TypeError("a 0-d array has no length")
        return self._shape[0]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.to_numpy())

    def __bool__(self) -> bool:
        raise TypeError("a remote array has no truth value: ask its shape, or fetch it")

    def __array_ufunc__(self, ufunc: np.ufunc, *_: Any, **__: Any) -> Any:
        # NumPy would fetch it silently, once for every element.
        raise TypeError(f"numpy.{ufunc.__name__} does not reach a remote array: {_ADVICE}")

    def _no_arithmetic(self, other: Any) -> Any:  # noqa: ARG002 - whatever it is
        raise TypeError(f"a remote array is not computed with here: {_ADVICE}")

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _no_arithmetic
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __pow__ = __rpow__ = __matmul__ = __rmatmul__ = _no_arithmetic
    __lt__ = __le__ = __gt__ = __ge__ = _no_arithmetic

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if copy is False:
            raise ValueError("a remote array cannot be had without a copy")
        array = self.to_numpy()
        return array if dtype is None else array.astype(dtype, copy=False)

    # The end

    def free(self) -> None:
        """Gives its memory back now; any later use raises `StaleHandle`. May be called twice."""
        if self._freed:
            return
        if self._part_of is not None:
            raise Refused("a gradient goes with the array that it is of: free() that")
        if not isinstance(self._target, Handle):
            raise Refused(f"{self._target} belongs to its unit, and goes with it: cleanup({self._target.unit!r})")
        self._exchange.call(Cleanup(id="", targets=(self._target,)), CleanupResult)
        self._freed = True
        self._exchange.releases.forget(self._target)

    def __repr__(self) -> str:
        where = f" {self._target}" if isinstance(self._target, Name) else ""
        element = f", element_shape={self._element_shape}" if self._element_shape else ""
        gone = ", freed" if self._freed else ""
        return f"<{type(self).__name__}{where} {name_of(self._dtype)}, shape={self._shape}{element}{gone}>"

    # Inside

    @property
    def _full_shape(self) -> tuple[int, ...]:
        return self._shape + self._element_shape

    def _element(self) -> tuple[int, int]:
        if not self._element_shape:
            raise AttributeError("its elements are numbers: only arrays of vectors and matrices have n and m")
        return self._element_shape[0], self._element_shape[1] if len(self._element_shape) == 2 else 1

    def _writeable(self) -> Ref:
        if self._derivatives:
            check_write(self._exchange, self)
        return self._alive()

    def _alive(self) -> Ref:
        if self._freed or (self._part_of is not None and self._part_of._freed):
            raise StaleHandle("this array was freed", handle=getattr(self._target, "id", None))
        return self._target

    def _fill(self, how: str, **given: Any) -> None:
        self._exchange.call(Alloc(id="", target=self._writeable(), fill=how, **given), ArrayResult)


class RemoteField(RemoteArray):
    """A Taichi field on the worker, used like a `RemoteArray`."""

    __slots__ = ()

    @property
    def dual(self) -> Self:
        """What forward mode computes beside it. Raises `UnknownName` where it was made without ``needs_dual``."""
        return self._derivative("dual")


def array_proxy(exchange: Exchange, target: Ref, kind: str, meta: Mapping[str, Any]) -> RemoteArray:
    """The proxy of a ``field``, an ``ndarray`` or a host ``array``."""
    return (RemoteField if kind == "field" else RemoteArray)(exchange, target, kind, meta)


def _parts(index: Any) -> tuple[Any, ...]:
    # By identity: ``in`` would compare an array with the ellipsis.
    parts = index if isinstance(index, tuple) else (index,)
    return tuple(part for part in parts if part is Ellipsis)
