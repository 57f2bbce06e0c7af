"""Where a dense field lies in memory, so that it can be copied like an ndarray instead of by kernels.

Asking costs one small kernel (60 to 100 ms on a 2-core CPU; the two that copy cost 400). For most fields one is enough
for a whole tree: its layout tells how far they are from one another.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tiremote.worker.engine.copy_kernels import CopyKernels
from tiremote.worker.engine.runtime_arrays import ArrayRuntime
from tiremote.worker.engine.signature import ArrayMeta

_FOUND = "_tiremote_memory"


@dataclass(frozen=True, slots=True)
class Memory:
    """The address of the first scalar, and for each axis of the full shape the bytes from one to the next."""

    address: int
    strides: tuple[int, ...]

    def is_contiguous(self, meta: ArrayMeta) -> bool:
        """Whether the scalars lie in C order without gaps; axes of one position do not matter."""
        wanted = zip(meta.full_shape, self.strides, contiguous_strides(meta), strict=True)
        return all(n == 1 or stride == expected for n, stride, expected in wanted)


def contiguous_strides(meta: ArrayMeta, order: tuple[int, ...] | None = None) -> tuple[int, ...]:
    """The strides of C order, in bytes. ``order``: which of the shape's axes each axis in memory is."""
    axes = range(len(meta.full_shape))
    strides, step = [0] * len(axes), meta.itemsize
    for axis in reversed(axes if order is None else (*order, *axes[len(order) :])):
        strides[axis] = step
        step *= meta.full_shape[axis]
    return tuple(strides)


class FieldMemory:
    """Finds the memory of fields, for one initialised runtime."""

    def __init__(self, runtime: ArrayRuntime, kernels: CopyKernels) -> None:
        self._runtime = runtime
        self._kernels = kernels
        #: Where the memory of a tree begins, by the id of its root.
        self._roots: dict[int, int] = {}
        #: The strides of a field's own axes, by its shape and the cells on the way to it.
        self._strides: dict[tuple[Any, ...], tuple[int, ...]] = {}

    def of(self, field: Any, meta: ArrayMeta) -> Memory | None:
        """The memory of a dense field whose addresses are linear in its indices, or None. Remembered at the field."""
        if _FOUND not in field.__dict__:
            field.__dict__[_FOUND] = self._find(field, meta)
        return field.__dict__[_FOUND]  # type: ignore[no-any-return]

    def _find(self, field: Any, meta: ArrayMeta) -> Memory | None:
        elements, way = _elements(field, meta, self._runtime), self._runtime.way_to(field)
        if elements is None or way is None:
            return None
        layout = (meta.shape, way.steps, way.order)
        strides = way.block_strides(meta.shape)
        if strides is None:
            strides = self._strides.get(layout)
        if strides is not None and way.root in self._roots:
            return Memory(self._roots[way.root] + way.offset, (*strides, *elements))
        found = _asked(field, meta, elements, self._runtime, self._kernels)
        if found is not None and (strides is None or _alike(strides, found.strides, meta.shape)):
            self._strides[layout] = found.strides[: len(meta.shape)]
            self._roots[way.root] = found.address - way.offset
        return found


def _alike(strides: tuple[int, ...], others: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    """Whether both lead to the same scalars: how far it is along an axis of one position does not matter."""
    return all(n == 1 or one == other for n, one, other in zip(shape, strides, others, strict=False))


def _asked(
    field: Any, meta: ArrayMeta, elements: tuple[int, ...], runtime: ArrayRuntime, kernels: CopyKernels
) -> Memory | None:
    # The first element, one step and all steps along each axis, and the last element. A field in blocks is linear
    # within a block and never beyond, so the ends give it away.
    axes = len(meta.shape)
    ends = np.array(meta.shape, np.int64).reshape(axes) - 1
    unit = np.eye(axes, dtype=np.int64)
    table = np.concatenate([np.zeros((1, axes)), unit * np.minimum(ends, 1), unit * ends, ends[None]]).astype(np.int64)
    indices = np.zeros((len(table), max(axes, 1)), np.int32)
    indices[:, :axes] = table
    addresses = np.zeros(len(table), np.uint64)
    kernels.addresses(field, addresses, indices, axes)
    runtime.sync()
    steps = (addresses - addresses[0]).astype(np.int64)
    strides = steps[1 : 1 + axes]
    if not np.array_equal(table @ strides, steps):
        return None
    return Memory(int(addresses[0]), (*map(int, strides), *elements))


def _elements(field: Any, meta: ArrayMeta, runtime: ArrayRuntime) -> tuple[int, ...] | None:
    """The strides within a vector or matrix; None for a field that cannot be copied like an ndarray."""
    offsets = runtime.dense_offsets(field)
    # ti.get_addr does not know of a field's offset: with one it tells addresses outside of the field.
    if offsets is None or any(runtime.field_offset(field)):
        return None
    return _element_strides(np.array(offsets).reshape(meta.element_shape))


def _element_strides(offsets: np.ndarray) -> tuple[int, ...] | None:
    strides = np.array(
        [int(np.diff(offsets, axis=axis).flat[0]) if n > 1 else 0 for axis, n in enumerate(offsets.shape)]
    )
    linear = [int(np.dot(strides, position)) for position in np.ndindex(offsets.shape)]
    return tuple(map(int, strides)) if linear == offsets.reshape(-1).tolist() else None
