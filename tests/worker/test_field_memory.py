"""Where fields lie: what the layout of a tree tells is what a kernel finds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tiremote.worker.engine.copy_kernels import CopyKernels, copy_kernels
from tiremote.worker.engine.field_memory import FieldMemory, Memory
from tiremote.worker.engine.runtime import TaichiRuntime

SHAPES = [(), (1,), (5,), (3, 4), (7, 1, 2), (2, 3, 5)]


class Counted(FieldMemory):
    """Counts the kernels that were needed."""

    def __init__(self, runtime: TaichiRuntime) -> None:
        made = copy_kernels(runtime.ti)
        self.asked = 0

        def addresses(*arguments: Any) -> None:
            self.asked += 1
            made.addresses(*arguments)

        kernels = CopyKernels(
            gather_field=made.gather_field,
            scatter_field=made.scatter_field,
            gather_ndarray=made.gather_ndarray,
            scatter_ndarray=made.scatter_ndarray,
            addresses=addresses,
        )
        super().__init__(runtime, kernels)


def made_together(runtime: TaichiRuntime) -> Iterator[Any]:
    """Fields of one tree: numbers, vectors, matrices of many shapes, several in one cell, in blocks, with gradient."""
    ti = runtime.ti
    for shape in SHAPES:
        for dtype in (ti.f32, ti.u8, ti.f64):
            yield ti.field(dtype, shape)
            yield ti.Vector.field(3, dtype, shape)
            yield ti.Matrix.field(2, 3, dtype, shape)
    yield ti.Vector.field(3, ti.f32, (4,), layout=ti.Layout.SOA)
    yield ti.field(ti.f32, (3, 4), order="ji")
    yield ti.field(ti.f32, (4, 4), offset=(-2, 1))
    yield ti.field(ti.f32, (4, 4), needs_grad=True)
    first, second = ti.field(ti.f32), ti.field(ti.i8)
    ti.root.dense(ti.ij, (3, 4)).place(first, second)
    yield from (first, second)
    turned = ti.field(ti.f32)
    ti.root.dense(ti.axes(1, 0), (3, 4)).place(turned)
    yield turned
    for order in ("ij", "ji"):
        yield ti.field(ti.f32, (5, 5), order=order)
    blocks = ti.field(ti.f32)
    ti.root.dense(ti.i, 3).dense(ti.i, 4).place(blocks)
    yield blocks
    sparse = ti.field(ti.f32)
    ti.root.pointer(ti.i, 4).dense(ti.i, 4).place(sparse)
    yield sparse


@pytest.fixture(scope="module")
def fields(runtime: TaichiRuntime) -> list[Any]:
    if runtime.arch() not in ("cpu", "cuda"):
        pytest.skip("kernels tell no addresses here")
    return list(made_together(runtime))


def test_fields_of_one_tree_are_found_with_few_kernels_and_where_kernels_find_them(
    runtime: TaichiRuntime, fields: list[Any]
) -> None:
    """The first tells where the tree begins; fields in blocks of their own are counted from there."""
    memory = Counted(runtime)
    found = [memory.of(field, runtime.array_meta(field)) for field in fields]
    few = memory.asked
    for field, short in zip(fields, found, strict=True):
        del field.__dict__["_tiremote_memory"]
        meta = runtime.array_meta(field)
        assert same(short, Counted(runtime).of(field, meta), meta.full_shape), meta
    assert few < len(fields) / 4


def same(one: Memory | None, other: Memory | None, shape: tuple[int, ...]) -> bool:
    """Whether both lead to the same scalars; how far it is along an axis of one position does not matter."""
    if one is None or other is None:
        return one is other
    strides = zip(shape, one.strides, other.strides, strict=True)
    return one.address == other.address and all(n == 1 or a == b for n, a, b in strides)


def test_a_tree_that_takes_the_place_of_another_is_found_anew(runtime: TaichiRuntime) -> None:
    """A tree's number is used again when all its fields are gone; its memory is elsewhere."""
    if runtime.arch() not in ("cpu", "cuda"):
        pytest.skip("kernels tell no addresses here")
    memory = Counted(runtime)
    for value in range(1, 4):
        field = runtime.make_field("i32", (1000 * value,), (), False)
        meta = runtime.array_meta(field)
        runtime.sync()
        found = memory.of(field, meta)
        assert found is not None
        del field.__dict__["_tiremote_memory"]
        assert memory.of(field, meta) == found
        assert memory.asked == value
        del field
        runtime.collect()
