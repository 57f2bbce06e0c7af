"""Arrays on the worker: made, filled, read, written and summed up, whole or in part."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import Any

import numpy as np
import psutil

from tiremote.protocol.dtypes import dtype_of, name_of
from tiremote.protocol.errors import KernelArgumentError, OutOfMemory, Refused, StaleHandle, UnsupportedType
from tiremote.protocol.receipts import Summary
from tiremote.protocol.results import MAX_SNODE_TREES
from tiremote.worker.engine.casting import fitted
from tiremote.worker.engine.converters import MAX_ELEMENTS
from tiremote.worker.engine.copy_kernels import CopyKernels, copy_kernels
from tiremote.worker.engine.cuda_driver import CudaDriver
from tiremote.worker.engine.field_memory import FieldMemory, Memory, contiguous_strides
from tiremote.worker.engine.fills import PIECE, pieces
from tiremote.worker.engine.members import methods_of
from tiremote.worker.engine.pairing import is_unit_object
from tiremote.worker.engine.regions import parse_flat, parse_region
from tiremote.worker.engine.runtime import TaichiRuntime
from tiremote.worker.engine.scalars import Mismatch, scalar_taker
from tiremote.worker.engine.signature import ArrayMeta
from tiremote.worker.engine.storage import DeviceStorage, HostStorage, KernelStorage, Storage
from tiremote.worker.engine.summaries import summarized

#: Elements that one CPU thread moves at a time (see `CopyKernels`).
_CPU_BLOCK = 1024

_PyBUF_WRITE = 0x200

#: Gives memory, shape (nbytes,) of uint8, for so many bytes; None where there is none.
Room = Callable[[int], np.ndarray | None]


class Arrays:
    """All that a session does with arrays. ``available`` tells the free bytes of the host."""

    def __init__(
        self,
        runtime: TaichiRuntime,
        *,
        driver: CudaDriver | None = None,
        available: Callable[[], int] = lambda: int(psutil.virtual_memory().available),
    ) -> None:
        self._runtime = runtime
        self._on_cpu = runtime.arch() == "cpu"
        #: Whether kernels can tell addresses, and whether those mean something here.
        self._addressed = runtime.arch() in ("cpu", "cuda")
        self._driver = driver or (CudaDriver.load() if runtime.arch() == "cuda" else None)
        self._available = available
        self._kernels: CopyKernels | None = None
        self._field_memory: FieldMemory | None = None

    # Making -------------------------------------------------------------------------------------------------

    def create_ndarray(
        self, dtype: str, shape: Sequence[int], element_shape: Sequence[int] = (), needs_grad: bool = False
    ) -> Any:
        """A new ndarray of zeros. Raises `UnsupportedType`, `KernelArgumentError`, `OutOfMemory`."""
        meta = self.checked_meta(dtype, shape, element_shape, needs_grad)
        return self._made(meta, needs_grad, self._runtime.make_ndarray)

    def create_field(
        self,
        dtype: str,
        shape: Sequence[int],
        element_shape: Sequence[int] = (),
        needs_grad: bool = False,
        needs_dual: bool = False,
    ) -> Any:
        """A new dense field of zeros in a tree of its own. Raises likewise, and `Refused` at the 513th tree."""
        meta = self.checked_meta(dtype, shape, element_shape, needs_grad, needs_dual)
        self.make_room_for_tree()
        return self._made(meta, needs_grad, functools.partial(self._runtime.make_field, needs_dual=needs_dual))

    def make_room_for_tree(self) -> None:
        """Call it before a field is made. Raises `Refused` at the 513th tree."""
        # One early: the first launch makes a tree for the root, after which nothing can be released any more, because
        # the new field is in the middle of being placed.
        if self._runtime.snode_tree_count() >= MAX_SNODE_TREES - 1:
            self.release()
        count = self._runtime.snode_tree_count()
        if count >= MAX_SNODE_TREES:
            raise Refused(
                f"there are {count} SNode trees and Taichi holds {MAX_SNODE_TREES}: "
                "clean up fields that are no longer used, or use an ndarray"
            )

    def create_host_array(
        self, dtype: str, shape: Sequence[int], element_shape: Sequence[int] = (), needs_grad: bool = False
    ) -> np.ndarray:
        """A new NumPy array of zeros that stays on the worker. Raises likewise."""
        meta = self.checked_meta(dtype, shape, element_shape, needs_grad)
        self.check_memory(meta.nbytes)
        return np.zeros(meta.full_shape, dtype_of(meta.dtype))

    def _made(self, meta: ArrayMeta, needs_grad: bool, make: Callable[..., Any]) -> Any:
        self.check_memory(meta.nbytes * (2 if needs_grad else 1))
        try:
            return make(meta.dtype, meta.shape, meta.element_shape, needs_grad)
        except RuntimeError as error:
            if "memory" not in str(error).lower():
                raise
            raise OutOfMemory(
                f"{meta.nbytes:,} bytes were asked for, and the device has not as many: {_first_line(error)}",
                requested=meta.nbytes,
            ) from None

    def checked_meta(
        self,
        dtype: str,
        shape: Sequence[int],
        element_shape: Sequence[int],
        needs_grad: bool,
        needs_dual: bool = False,
    ) -> ArrayMeta:
        """What such an array is. Raises `KernelArgumentError` for what there cannot be."""
        itemsize = dtype_of(dtype).itemsize
        for name, sizes, most in (
            ("shape", shape, self._runtime.max_dimensions()),
            ("element_shape", element_shape, 2),
        ):
            if len(sizes) > most:
                raise KernelArgumentError(
                    f"{name}={tuple(sizes)} has {len(sizes)} axes, at most {most} are taken", parameter=name
                )
            for n in sizes:
                if not isinstance(n, (int, np.integer)) or isinstance(n, bool) or n < 1:
                    raise KernelArgumentError(
                        f"{name}={tuple(sizes)} came: on the worker every size is an integer from 1", parameter=name
                    )
        meta = ArrayMeta(
            dtype=dtype, shape=tuple(map(int, shape)), element_shape=tuple(map(int, element_shape)), itemsize=itemsize
        )
        if meta.size > MAX_ELEMENTS:
            raise KernelArgumentError(
                f"{meta.full_shape} has {meta.size} elements, and Taichi can index {MAX_ELEMENTS}: use several arrays",
                parameter="shape",
            )
        for option, wanted in (("needs_grad", needs_grad), ("needs_dual", needs_dual)):
            if wanted and dtype not in ("f16", "f32", "f64"):
                raise KernelArgumentError(
                    f"{option}=True came for an array of {dtype}: only f16, f32 and f64 have gradients",
                    parameter=option,
                )
        return meta

    def check_memory(self, requested: int) -> None:
        where, available = self.available()
        if requested > available:
            raise OutOfMemory(
                f"{requested:,} bytes were asked for, but only {available:,} of the {where}'s memory are free: "
                "clean up arrays that are no longer used",
                requested=requested,
                available=available,
            )

    def available(self) -> tuple[str, int]:
        """Where arrays lie, and the bytes that are free there."""
        return ("host", self._available()) if self._driver is None else ("device", self._driver.memory()[0])

    def device_memory(self) -> tuple[int, int] | None:
        """Free bytes of the GPU, and all that it has; None where it cannot be asked."""
        return None if self._driver is None else self._driver.memory()

    def release(self) -> None:
        """Gives the memory of arrays back that nobody refers to any more.

        An ndarray goes with its last reference, and a field's tree when all fields in it are dead: what a loaded
        unit still names stays usable.
        """
        # A field that was not used yet is still in the runtime's list of what is to be placed.
        self._runtime.sync()
        self._runtime.collect()

    # What there is ------------------------------------------------------------------------------------------

    def kind(self, value: Any) -> str:
        """``ndarray``, ``field``, ``array`` (a host array) or ``object``."""
        if isinstance(value, np.ndarray):
            return "array"
        if self._runtime.is_ndarray(value):
            return "ndarray"
        is_array = self._runtime.is_field(value) and not self._runtime.is_struct_field(value)
        return "field" if is_array else "object"

    def meta(self, value: Any) -> ArrayMeta:
        """Its dtype, shape, element shape and size. Raises `UnsupportedType` for what is not an array here."""
        if isinstance(value, np.ndarray):
            return ArrayMeta(dtype=name_of(value.dtype), shape=value.shape, itemsize=value.dtype.itemsize)
        if self._runtime.is_ndarray(value) or self._runtime.is_field(value):
            return self._runtime.array_meta(value)
        raise UnsupportedType(f"a {type(value).__name__} is no array: an ndarray, a field or a NumPy array is")

    def describe(self, value: Any) -> dict[str, Any]:
        """The ``meta`` of a handle: ``dtype``, ``shape``, ``element_shape``, or the ``type`` of an object."""
        if self.kind(value) == "object":
            methods = methods_of(type(value), self._runtime) if is_unit_object(value) else []
            return {"type": type(value).__name__} | ({"methods": methods} if methods else {})
        meta = self.meta(value)
        told = {"dtype": meta.dtype, "shape": list(meta.shape), "element_shape": list(meta.element_shape)}
        return told | self._runtime.derivatives(value)

    def nbytes(self, value: Any) -> int:
        """Bytes that it holds, its gradient and dual included; 0 for objects."""
        if self.kind(value) == "object":
            return 0
        return self.meta(value).nbytes * (1 + len(self._runtime.derivatives(value)))

    # Moving -------------------------------------------------------------------------------------------------

    def read(
        self,
        value: Any,
        region: Sequence[Any] | None = None,
        flat: Sequence[int] | None = None,
        out: np.ndarray | None = None,
        room: Room = lambda _: None,
    ) -> np.ndarray:
        """What it holds now, as an array that is nobody else's: whole, a ``region``, or a ``flat`` range (1-d).

        ``out``, C-contiguous and of the right dtype and number of elements, is filled instead of new memory; or else
        what ``room`` has for that many bytes, if anything.
        Raises `KernelArgumentError` for a region or range that is not there, `UnsupportedType`.
        """
        meta = self.meta(value)
        shape, part = self._part(meta, region, flat)
        if out is None:
            found = room(prod(shape) * meta.itemsize)
            dtype = dtype_of(meta.dtype)
            out = np.empty(shape, dtype) if found is None else np.asarray(found).view(dtype).reshape(shape)
        else:
            assert out.flags.c_contiguous
            assert out.dtype == dtype_of(meta.dtype)
            out = out.reshape(shape)
        storage = self._storage(value, meta)
        self._runtime.sync()
        if isinstance(part, tuple):
            storage.read_flat(part[0], part[1], out)
        else:
            storage.read_region(part, out)
        return out

    def write(
        self,
        value: Any,
        data: Any,
        region: Sequence[Any] | None = None,
        flat: Sequence[int] | None = None,
        *,
        cast: bool = False,
    ) -> None:
        """Puts an array of exactly the part's shape there, or one number into all of it.

        Another dtype is refused, or with ``cast`` converted and checked. ``data`` is only read. Raises
        `KernelArgumentError`, `UnsupportedType`; then nothing was written.
        """
        meta = self.meta(value)
        if isinstance(value, np.ndarray) and not value.flags.writeable:
            raise KernelArgumentError("the kept array is read-only: make a writeable copy of it", parameter="target")
        shape, part = self._part(meta, region, flat)
        if isinstance(data, np.ndarray):
            if data.ndim == 0 and shape:
                data = np.broadcast_to(data, shape)
            if data.shape != shape:
                raise KernelArgumentError(f"an array of shape {data.shape} came for one of {shape}", parameter="array")
            fit = fitted(data, meta.dtype, cast=cast)
        else:
            fit = np.full(shape, self._number(meta.dtype, data), dtype_of(meta.dtype))
        storage = self._storage(value, meta)
        self._runtime.sync()
        if isinstance(part, tuple):
            storage.write_flat(part[0], fit)
        else:
            storage.write_region(part, fit)

    def fill(self, value: Any, fill: str, *, number: Any = None, seed: int | None = None) -> None:
        """Fills it with ``empty`` (zeros), ``value``, ``arange`` or ``random``, see `fills.pieces`.

        ``number`` is the value, or for vectors and matrices also all numbers of one in lists.
        """
        meta = self.meta(value)
        storage = self._storage(value, meta)
        made = pieces(fill, meta.dtype, meta.size, value=number, seed=seed, element_shape=meta.element_shape)
        self._runtime.sync()
        for start, piece in made:
            storage.write_flat(start, piece)

    def summary(self, value: Any) -> Summary:
        """Its statistics and corners, read in pieces."""
        meta = self.meta(value)
        return summarized(meta, self._chunks(value, meta), lambda region: self.read(value, region))

    def _chunks(self, value: Any, meta: ArrayMeta) -> Iterator[np.ndarray]:
        storage = self._storage(value, meta)
        self._runtime.sync()
        room = np.empty(min(PIECE, meta.size), dtype_of(meta.dtype))
        for start in range(0, meta.size, PIECE):
            chunk = room[: meta.size - start]
            storage.read_flat(start, start + chunk.size, chunk)
            yield chunk

    def _part(self, meta: ArrayMeta, region: Sequence[Any] | None, flat: Sequence[int] | None) -> tuple[Any, Any]:
        """The shape of what is asked for, and a (start, stop) or a `Region`."""
        if flat is not None:
            if region is not None:
                raise KernelArgumentError("a region and a flat range came: give one of them", parameter="flat")
            start, stop = parse_flat(flat, meta.size)
            return (stop - start,), (start, stop)
        parsed = parse_region(region or (), meta.full_shape)
        return parsed.shape, parsed

    def _number(self, dtype: str, value: Any) -> Any:
        try:
            return scalar_taker(dtype)(value)
        except Mismatch as error:
            raise KernelArgumentError(
                f"an array of {dtype} takes an array or a number, but {error.came} came: {error.hint}",
                parameter="array",
            ) from None

    # Where it lies ------------------------------------------------------------------------------------------

    def _storage(self, value: Any, meta: ArrayMeta) -> Storage:
        if isinstance(value, np.ndarray):
            return HostStorage(value)
        if self._runtime.is_field(value) and self._runtime.is_destroyed(value):
            raise StaleHandle("the field's SNode tree was destroyed by the source's own code: declare it anew")
        if self._kernels is None:
            self._kernels = copy_kernels(self._runtime.ti)
        memory = self._memory(value, meta, self._kernels)
        if memory is not None and self._on_cpu:
            return HostStorage(_array_at(memory, meta))
        is_field = self._runtime.is_field(value)
        moved = KernelStorage(
            value,
            meta,
            offset=self._runtime.field_offset(value) if is_field else (0,) * len(meta.shape),
            is_field=is_field,
            kernels=self._kernels,
            block=_CPU_BLOCK if self._on_cpu else 1,
            staging=lambda size: self._staging(meta.dtype, size),
            driver=self._driver,
            sync=self._runtime.sync,
        )
        if memory is not None and self._driver is not None and memory.is_contiguous(meta):
            return DeviceStorage(self._driver, memory.address, meta, moved)
        return moved

    def _memory(self, value: Any, meta: ArrayMeta, kernels: CopyKernels) -> Memory | None:
        if self._runtime.is_field(value):
            if self._field_memory is None:
                self._field_memory = FieldMemory(self._runtime, kernels)
            return self._field_memory.of(value, meta) if self._addressed else None
        address = self._runtime.data_pointer(value)
        return Memory(address, contiguous_strides(meta, self._runtime.axis_order(value))) if address else None

    def _staging(self, dtype: str, size: int) -> tuple[Any, int]:
        made = self._runtime.make_ndarray(dtype, (size,), (), False)
        return made, self._runtime.data_pointer(made)


_memory_at = ctypes.pythonapi.PyMemoryView_FromMemory
_memory_at.restype = ctypes.py_object
_memory_at.argtypes = (ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int)


def _array_at(memory: Memory, meta: ArrayMeta) -> np.ndarray:
    """Host memory as an array; whoever owns the memory must outlive it."""
    extent = sum((n - 1) * stride for n, stride in zip(meta.full_shape, memory.strides, strict=True))
    view = _memory_at(memory.address, extent + meta.itemsize, _PyBUF_WRITE)
    return np.ndarray(meta.full_shape, dtype_of(meta.dtype), view, strides=memory.strides)


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
