"""Where the scalars of an array lie, and how to move only the bytes that are asked for.

Three kinds: host memory, GPU memory that has an address, and what only a kernel can reach (fields, and every
ndarray on Vulkan and Metal).
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, Protocol

import numpy as np

from tiremote.protocol.dtypes import dtype_of
from tiremote.worker.engine.copy_kernels import CopyKernels
from tiremote.worker.engine.cuda_driver import CudaDriver
from tiremote.worker.engine.regions import AxisRange, Region
from tiremote.worker.engine.signature import ArrayMeta

#: A strided region is read with the bytes between, up to this many, or up to this multiple of what is asked:
#: one copy of both costs less than a launch and a copy of some.
_SMALL_HULL = 1 << 20
_DENSE_HULL = 4


class Storage(Protocol):
    """``out`` and ``data`` are C-contiguous, little-endian, of the storage's dtype; nothing is converted here."""

    def read_flat(self, start: int, stop: int, out: np.ndarray) -> None: ...
    def write_flat(self, start: int, data: np.ndarray) -> None: ...
    def read_region(self, region: Region, out: np.ndarray) -> None: ...
    def write_region(self, region: Region, data: np.ndarray) -> None: ...


class HostStorage:
    """Memory of this process, as a NumPy array of the full shape."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = array

    def read_flat(self, start: int, stop: int, out: np.ndarray) -> None:
        if self._array.flags.c_contiguous:
            np.copyto(out, self._array.reshape(-1)[start:stop])
        else:
            out[...] = self._array.flat[start:stop]

    def write_flat(self, start: int, data: np.ndarray) -> None:
        if self._array.flags.c_contiguous:
            np.copyto(self._array.reshape(-1)[start : start + data.size], data)
        else:
            self._array.flat[start : start + data.size] = data

    def read_region(self, region: Region, out: np.ndarray) -> None:
        np.copyto(out, self._array[region.index])

    def write_region(self, region: Region, data: np.ndarray) -> None:
        self._array[region.index] = data


class KernelStorage:
    """What is moved by kernels, whole elements at a time, to and from a flat array beside it."""

    def __init__(
        self,
        array: Any,
        meta: ArrayMeta,
        *,
        offset: tuple[int, ...],
        is_field: bool,
        kernels: CopyKernels,
        block: int,
        staging: Callable[[int], tuple[Any, int]] | None = None,
        driver: CudaDriver | None = None,
        sync: Callable[[], None],
    ) -> None:
        """``staging`` makes a flat ndarray of so many scalars on the GPU and tells its address."""
        self._array = array
        self._meta = meta
        self._offset = offset
        self._gather_kernel = kernels.gather_field if is_field else kernels.gather_ndarray
        self._scatter_kernel = kernels.scatter_field if is_field else kernels.scatter_ndarray
        self._block = block
        self._staging = staging if driver is not None else None
        self._driver = driver
        self._sync = sync
        self._width = prod(meta.element_shape)
        self._dtype = dtype_of(meta.dtype)
        self._whole = tuple(AxisRange(0, 1, n) for n in meta.shape)

    def read_flat(self, start: int, stop: int, out: np.ndarray) -> None:
        if start == stop:
            return
        first, count = self._elements(start, stop)
        if count * self._width == stop - start:
            self._gather(self._whole, first, count, out)
        else:
            near = self._gather(self._whole, first, count)
            out[...] = near[start - first * self._width :][: stop - start]

    def write_flat(self, start: int, data: np.ndarray) -> None:
        if not data.size:
            return
        first, count = self._elements(start, start + data.size)
        if count * self._width != data.size:
            # Elements are written whole: those at the ends keep what they have outside of the range.
            near = self._gather(self._whole, first, count)
            near[start - first * self._width :][: data.size] = data
            data = near
        self._scatter(self._whole, first, count, data)

    def read_region(self, region: Region, out: np.ndarray) -> None:
        if not region.size:
            return
        outer, inner = self._split(region)
        if self._is_whole(inner):
            self._gather(outer, 0, prod(axis.count for axis in outer), out.reshape(-1))
        else:
            out[...] = self._grid(outer)[(..., *(axis.index for axis in inner))]

    def write_region(self, region: Region, data: np.ndarray) -> None:
        if not region.size:
            return
        outer, inner = self._split(region)
        if not self._is_whole(inner):
            grid = self._grid(outer)
            grid[(..., *(axis.index for axis in inner))] = data
            data = grid
        self._scatter(outer, 0, prod(axis.count for axis in outer), data.reshape(-1))

    def _elements(self, start: int, stop: int) -> tuple[int, int]:
        """The number of the first element that holds some of these scalars, and how many do."""
        first = start // self._width
        return first, -(-stop // self._width) - first

    def _split(self, region: Region) -> tuple[tuple[AxisRange, ...], tuple[AxisRange, ...]]:
        axes = len(self._meta.shape)
        return region.axes[:axes], region.axes[axes:]

    def _is_whole(self, inner: tuple[AxisRange, ...]) -> bool:
        # An index keeps what a range of one keeps: the shape differs, the scalars do not.
        return all(
            axis.count == n and (axis.step == 1 or n == 1)
            for axis, n in zip(inner, self._meta.element_shape, strict=True)
        )

    def _grid(self, outer: tuple[AxisRange, ...]) -> np.ndarray:
        flat = self._gather(outer, 0, prod(axis.count for axis in outer))
        return flat.reshape([axis.count for axis in outer if axis.kept] + list(self._meta.element_shape))

    def _gather(self, box: tuple[AxisRange, ...], first: int, count: int, out: np.ndarray | None = None) -> np.ndarray:
        if out is None:
            out = np.empty(count * self._width, self._dtype)
        if self._staging is None or self._driver is None:
            self._launch(self._gather_kernel, out, box, first, count)
            self._sync()
        else:
            staged, address = self._staging(out.size)
            self._launch(self._gather_kernel, staged, box, first, count)
            self._sync()
            self._driver.to_host(out, address)
        return out

    def _scatter(self, box: tuple[AxisRange, ...], first: int, count: int, data: np.ndarray) -> None:
        if self._staging is None or self._driver is None:
            # Taichi writes through read-only memory, and on a GPU it copies what it read back into it.
            self._launch(self._scatter_kernel, data if data.flags.writeable else data.copy(), box, first, count)
        else:
            staged, address = self._staging(data.size)
            self._driver.to_device(address, data)
            self._launch(self._scatter_kernel, staged, box, first, count)
        self._sync()

    def _launch(self, kernel: Any, flat: Any, box: tuple[AxisRange, ...], first: int, count: int) -> None:
        table = np.zeros((3, max(len(box), 1)), np.int32)
        for number, axis in enumerate(box):
            table[:, number] = axis.start + self._offset[number], axis.step, axis.count
        rows, columns = (*self._meta.element_shape, 0, 0)[:2]
        kernel(self._array, flat, table, first, count, self._block, len(box), rows, columns)


class DeviceStorage:
    """GPU memory at an address, in C order. What is far from contiguous goes through kernels."""

    def __init__(self, driver: CudaDriver, address: int, meta: ArrayMeta, scattered: KernelStorage) -> None:
        self._driver = driver
        self._address = address
        self._meta = meta
        self._scattered = scattered

    def read_flat(self, start: int, stop: int, out: np.ndarray) -> None:
        self._driver.to_host(out[: stop - start], self._address + start * self._meta.itemsize)

    def write_flat(self, start: int, data: np.ndarray) -> None:
        self._driver.to_device(self._address + start * self._meta.itemsize, data)

    def read_region(self, region: Region, out: np.ndarray) -> None:
        if not region.size:
            return
        start, stop = region.hull()
        if region.is_contiguous():
            self.read_flat(start, stop, out.reshape(-1))
        elif self._is_dense(region):
            out[...] = self._seen(region, self._hull(start, stop))
        else:
            self._scattered.read_region(region, out)

    def write_region(self, region: Region, data: np.ndarray) -> None:
        if not region.size:
            return
        start, stop = region.hull()
        if region.is_contiguous():
            self.write_flat(start, data.reshape(-1))
        elif self._is_dense(region):
            hull = self._hull(start, stop)
            self._seen(region, hull)[...] = data
            self.write_flat(start, hull)
        else:
            self._scattered.write_region(region, data)

    def _is_dense(self, region: Region) -> bool:
        start, stop = region.hull()
        return (stop - start) * self._meta.itemsize <= _SMALL_HULL or stop - start <= _DENSE_HULL * region.size

    def _hull(self, start: int, stop: int) -> np.ndarray:
        hull = np.empty(stop - start, dtype_of(self._meta.dtype))
        self.read_flat(start, stop, hull)
        return hull

    def _seen(self, region: Region, hull: np.ndarray) -> np.ndarray:
        """The region as a view into its hull."""
        pairs = list(zip(region.axes, region.strides, strict=True))
        begin = sum(axis.start * stride for axis, stride in pairs) - region.hull()[0]
        return np.lib.stride_tricks.as_strided(
            hull[begin:],
            shape=region.shape,
            strides=[axis.step * stride * hull.itemsize for axis, stride in pairs if axis.kept],
        )
