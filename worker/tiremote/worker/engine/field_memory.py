"""Where a dense field lies in memory, so that it can be copied like an ndarray instead of by kernels.

Asking costs one small kernel per field (60 to 100 ms on a 2-core CPU); the two that copy cost 400.
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


def contiguous_strides(meta: ArrayMeta) -> tuple[int, ...]:
    """The strides of C order, in bytes."""
    strides, step = [], meta.itemsize
    for n in reversed(meta.full_shape):
        strides.append(step)
        step *= n
    return tuple(reversed(strides))


def field_memory(field: Any, meta: ArrayMeta, runtime: ArrayRuntime, kernels: CopyKernels) -> Memory | None:
    """The memory of a dense field whose addresses are linear in its indices, or None. Remembered at the field."""
    if _FOUND not in field.__dict__:
        field.__dict__[_FOUND] = _found(field, meta, runtime, kernels)
    return field.__dict__[_FOUND]  # type: ignore[no-any-return]


def locate_like(field: Any, model: Any, anchor: Any, runtime: ArrayRuntime) -> bool:
    """Finds the memory of a field without a kernel, and remembers it there. Whether that could be.

    ``model`` is declared as the field is, ``anchor`` lies in the same tree, and the memory of both was found before.
    """
    strides, start = model.__dict__.get(_FOUND), anchor.__dict__.get(_FOUND)
    here, there, known = (runtime.dense_place(each) for each in (field, anchor, model))
    if strides is None or start is None or here is None or there is None or known is None:
        return False
    same_cells = here[2] == known[2] and runtime.dense_offsets(field) == runtime.dense_offsets(model)
    if not same_cells or here[0] != there[0] or any(runtime.field_offset(field)):
        return False
    field.__dict__[_FOUND] = Memory(start.address + here[1] - there[1], strides.strides)
    return True


def _found(field: Any, meta: ArrayMeta, runtime: ArrayRuntime, kernels: CopyKernels) -> Memory | None:
    offsets = runtime.dense_offsets(field)
    # ti.get_addr does not know of a field's offset: with one it tells addresses outside of the field.
    if offsets is None or any(runtime.field_offset(field)):
        return None
    elements = _element_strides(np.array(offsets).reshape(meta.element_shape))
    if elements is None:
        return None
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


def _element_strides(offsets: np.ndarray) -> tuple[int, ...] | None:
    strides = np.array(
        [int(np.diff(offsets, axis=axis).flat[0]) if n > 1 else 0 for axis, n in enumerate(offsets.shape)]
    )
    linear = [int(np.dot(strides, position)) for position in np.ndindex(offsets.shape)]
    return tuple(map(int, strides)) if linear == offsets.reshape(-1).tolist() else None
