# mypy: ignore-errors
# A kernel is not Python: its annotations are values, and only the runtime compiles it.
"""Kernels that list the active cells of a block or field, activate cells, and read and write what is in them.

No ``from __future__ import annotations`` here: kernels need their annotations as objects.
"""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class SparseKernels:
    """``indices`` is i32 of (cells, axes). All but the last are for a block or a scalar field."""

    #: Takes (block, number): adds how many cells are active.
    count: Any
    #: Takes (block, number, indices, axes).
    cells: Any
    #: Takes (field, number, indices, values, axes).
    gather: Any
    #: Takes (field, indices, values, axes): writes, which activates.
    scatter: Any
    #: Takes (block, indices, axes).
    activate: Any


def sparse_kernels(ti: Any) -> SparseKernels:
    """Defines them for a runtime; each compiles at its first launch for a block or field."""
    anything, one, table, numbers = (
        ti.template(),
        ti.types.ndarray(ti.i32, ndim=1),
        ti.types.ndarray(ti.i32, ndim=2),
        ti.types.ndarray(ndim=1),
    )

    @ti.kernel
    def count(block: anything, number: one):
        for _ in ti.grouped(block):
            number[0] += 1

    @ti.kernel
    def cells(block: anything, number: one, indices: table, axes: anything):
        for index in ti.grouped(block):
            k = ti.atomic_add(number[0], 1)
            for axis in ti.static(range(axes)):
                indices[k, axis] = index[axis]

    @ti.kernel
    def gather(field: anything, number: one, indices: table, values: numbers, axes: anything):
        for index in ti.grouped(field):
            k = ti.atomic_add(number[0], 1)
            for axis in ti.static(range(axes)):
                indices[k, axis] = index[axis]
            values[k] = field[index]

    @ti.kernel
    def scatter(field: anything, indices: table, values: numbers, axes: anything):
        for k in range(values.shape[0]):
            index = ti.Vector.zero(ti.i32, axes)
            for axis in ti.static(range(axes)):
                index[axis] = indices[k, axis]
            field[index] = values[k]

    @ti.kernel
    def activate(block: anything, indices: table, axes: anything):
        for k in range(indices.shape[0]):
            index = ti.Vector.zero(ti.i32, axes)
            for axis in ti.static(range(axes)):
                index[axis] = indices[k, axis]
            ti.activate(block, index)

    return SparseKernels(count=count, cells=cells, gather=gather, scatter=scatter, activate=activate)
