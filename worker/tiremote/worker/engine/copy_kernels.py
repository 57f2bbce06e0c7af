# mypy: ignore-errors
# A kernel is not Python: its annotations are values, and only the runtime compiles it.
"""Kernels that move a box of elements between a field or ndarray and a flat array, in C order.

No ``from __future__ import annotations`` here: kernels need their annotations as objects.
"""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class CopyKernels:
    """The first four take (array, flat, box, first, count, block, axes, rows, columns).

    ``flat`` holds ``count`` whole elements, those from number ``first`` on in the C order of the box. ``box`` is
    i32 of shape (3, axes): start, step and count of each axis. One thread moves ``block`` neighbours: many on a
    CPU, where computing a position costs more than moving an element, one on a GPU, where neighbours are read
    together. A scalar has 0 rows and columns, a vector 0 columns.
    """

    gather_field: Any
    scatter_field: Any
    gather_ndarray: Any
    scatter_ndarray: Any
    #: Takes (field, out, indices, axes): the address of the first member at each of the indices, i32 of (n, axes).
    addresses: Any


def copy_kernels(ti: Any) -> CopyKernels:
    """Defines them for a runtime; each compiles at its first launch for a field or a kind of ndarray."""
    anything, number, flat_array, box_array = (
        ti.template(),
        ti.i32,
        ti.types.ndarray(ndim=1),
        ti.types.ndarray(ti.i32, ndim=2),
    )

    @ti.func
    def load(source: anything, index: anything, flat: anything, k, rows: anything, columns: anything):
        if ti.static(rows == 0):
            flat[k] = source[index]
        elif ti.static(columns == 0):
            for row in ti.static(range(rows)):
                flat[k * rows + row] = source[index][row]
        else:
            for row, column in ti.static(ti.ndrange(rows, columns)):
                flat[(k * rows + row) * columns + column] = source[index][row, column]

    @ti.func
    def store(target: anything, index: anything, flat: anything, k, rows: anything, columns: anything):
        if ti.static(rows == 0):
            target[index] = flat[k]
        elif ti.static(columns == 0):
            for row in ti.static(range(rows)):
                target[index][row] = flat[k * rows + row]
        else:
            for row, column in ti.static(ti.ndrange(rows, columns)):
                target[index][row, column] = flat[(k * rows + row) * columns + column]

    flat_u64 = ti.types.ndarray(ti.u64, ndim=1)

    def moving(move: Any, array: Any) -> Any:
        @ti.kernel
        def copy(
            array: array,
            flat: flat_array,
            box: box_array,
            first: number,
            count: number,
            block: number,
            axes: anything,
            rows: anything,
            columns: anything,
        ):
            for part in range((count + block - 1) // block):
                start = part * block
                if ti.static(axes == 0):
                    move(array, None, flat, start, rows, columns)
                else:
                    index = ti.Vector.zero(ti.i32, axes)
                    ends = ti.Vector.zero(ti.i32, axes)
                    rest = first + start
                    for axis in ti.static(range(axes - 1, -1, -1)):
                        index[axis] = box[0, axis] + box[1, axis] * (rest % box[2, axis])
                        ends[axis] = box[0, axis] + box[1, axis] * box[2, axis]
                        rest = rest // box[2, axis]
                    for k in range(start, ti.min(start + block, count)):
                        move(array, index, flat, k, rows, columns)
                        index[axes - 1] += box[1, axes - 1]
                        for axis in ti.static(range(axes - 1, 0, -1)):
                            if index[axis] == ends[axis]:
                                index[axis] = box[0, axis]
                                index[axis - 1] += box[1, axis - 1]

        return copy

    @ti.kernel
    def addresses(field: anything, out: flat_u64, indices: box_array, axes: anything):
        ti.loop_config(serialize=True)
        for k in range(out.shape[0]):
            if ti.static(axes == 0):
                out[k] = ti.get_addr(field, [])
            else:
                out[k] = ti.get_addr(field, [indices[k, axis] for axis in ti.static(range(axes))])

    return CopyKernels(
        gather_field=moving(load, ti.template()),
        scatter_field=moving(store, ti.template()),
        gather_ndarray=moving(load, ti.types.ndarray()),
        scatter_ndarray=moving(store, ti.types.ndarray()),
        addresses=addresses,
    )
