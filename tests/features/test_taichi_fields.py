"""What Taichi's own tests of fields and of template instances find, through a worker; tests/COVERAGE.md lists them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from features.cases import Call, same, shared
from features.rows import feature
from tiremote.client import RemoteUnit, Session
from tiremote.protocol.errors import KernelArgumentError

#: Four fields of as many shapes under one block; the first letter is the block's kind.
BLOCKS = """
{0}w = ti.field(ti.i32)
{0}x = ti.field(ti.i32)
{0}y = ti.field(ti.i32)
{0}z = ti.field(ti.i32)
{0}block = ti.root.{1}(ti.ij, 4)
{0}block.place({0}w)
{0}block.{1}(ti.ij, 2).dense(ti.ij, 2).place({0}x)
{0}block.dense(ti.i, 4).place({0}y)
{0}block.dense(ti.k, 4).place({0}z)

@ti.kernel
def {0}fill():
    for I in ti.grouped(ti.ndrange(4, 4)):
        {0}w[I] = 1
    for I in ti.grouped(ti.ndrange(16, 16)):
        {0}x[I] = 2
    for I in ti.grouped(ti.ndrange(16, 4)):
        {0}y[I] = 3
    for I in ti.grouped(ti.ndrange(4, 4, 4)):
        {0}z[I] = 4

@ti.kernel
def {0}copy(a: ti.template(), b: ti.template(), c: ti.template(), d: ti.template()):
    for I in ti.grouped({0}w):
        a[I] = {0}w[I]
    for I in ti.grouped({0}x):
        b[I] = {0}x[I]
    for I in ti.grouped({0}y):
        c[I] = {0}y[I]
    for I in ti.grouped({0}z):
        d[I] = {0}z[I]
"""

SOURCE = (
    BLOCKS.format("d", "dense")
    + BLOCKS.format("p", "pointer")
    + """
whole = ti.field(ti.i32, (3, 3))
real = ti.field(ti.f32, (3, 3))
vectors = ti.Vector.field(3, ti.f32, (3, 3))

@ti.kernel
def fill_all():
    whole.fill(3)
    real.fill(3.0)
    vectors.fill([4, 5, 6])

@ti.kernel
def sum_of_gradients(a: ti.template(), b: ti.template(), total: ti.template()):
    for i in total:
        total[i] = a.grad[i] + b.grad[i]
"""
)


#: Its fields are the source's own: where one is given back, all that is compiled is forgotten.
INSTANCES = """
x = ti.field(ti.i32, ())
y = ti.field(ti.f32, ())

@ti.kernel
def three_templates(a: ti.template(), b: ti.template(), c: ti.template()) -> ti.i32:
    return a * 100 + b * 10 + c

@ti.kernel
def three_numbers(a: ti.i32, b: ti.i32, c: ti.i32) -> ti.i32:
    return a * 100 + b * 10 + c

@ti.kernel
def a_field_between(a: ti.i32, x: ti.template(), c: ti.i32) -> ti.i32:
    return a * 100 + ti.cast(x[None], ti.i32) * 10 + c

@ti.kernel
def an_array_last(a: ti.template(), b: ti.template(), x: ti.types.ndarray()) -> ti.i32:
    return a * 100 + b * 10 + ti.cast(x[0, 0, 0], ti.i32)
"""


def blocks(prefix: str) -> Call:
    """Four fields as they are fetched, and as a kernel finds them cell by cell."""

    def act(unit: Any, gpu: Session) -> list[Any]:
        unit[prefix + "fill"]()
        copies = [gpu.ti.field("i32", shape) for shape in SHAPES]
        unit[prefix + "copy"](*copies)
        return [*(unit[prefix + name].to_numpy() for name in "wxyz"), *(each.to_numpy() for each in copies)]

    return act


def filled(unit: Any, _: Session) -> list[Any]:
    unit.whole.fill(2)
    unit.real.fill(2.0)
    before = [unit.whole.to_numpy(), unit.real.to_numpy()]
    unit.fill_all()
    return [*before, unit.whole.to_numpy(), unit.real.to_numpy(), unit.vectors.to_numpy()]


def gradients_added(unit: Any, gpu: Session) -> Any:
    a, b = (gpu.ti.field("f32", 8, needs_grad=True) for _ in range(2))
    a.grad.fill(2)
    b.grad.fill(3)
    total = gpu.ti.field("f32", 8)
    unit.sum_of_gradients(a, b, total)
    return total.to_numpy()


def shapes_and_types(_: Any, gpu: Session) -> list[Any]:
    kinds = ("i32", "f32", "i64", "f64")
    fields = [(gpu.ti.field(kind, shape), kind, shape) for kind in kinds for shape in ((), 8, (6, 12))]
    fields += [(gpu.ti.Vector.field(3, kind, 8), kind, 8) for kind in kinds]
    fields += [(gpu.ti.Matrix.field(2, 3, kind, (6, 12)), kind, (6, 12)) for kind in kinds]
    return [
        field.shape == (shape if isinstance(shape, tuple) else (shape,))
        and field.dtype == np.dtype(kind.replace("i", "int").replace("f", "float"))
        for field, kind, shape in fields
    ]


def by_numpys_integers(_: Any, gpu: Session) -> list[Any]:
    zero = np.int32(0)
    one, vector, matrix = gpu.ti.field("i32", 2), gpu.ti.Vector.field(2, "i32", 2), gpu.ti.Matrix.field(2, 2, "i32", 2)
    one[zero], vector[zero], matrix[zero] = 1, [2, 3], [[4, 5], [6, 7]]
    return [int(one[zero]), int(vector[zero][zero]), int(matrix[zero][zero, zero])]


SHAPES = ((4, 4), (16, 16), (16, 4), (4, 4, 4))
ONE_TO_FOUR = [np.full(shape, value) for value, shape in enumerate(SHAPES, 1)]

CASES = [
    shared("test_complex_struct: dense", "fields: dense", blocks("d"), ONE_TO_FOUR * 2),
    shared("test_complex_struct: pointer", "fields: pointer", blocks("p"), ONE_TO_FOUR * 2),
    shared("test_field: shapes and types", "fields: matrix fields", shapes_and_types, [True] * 20),
    shared("test_field: gradients in a kernel", "autodiff: `needs_grad` fields", gradients_added, np.full(8, 5.0)),
    shared("test_field: filled from both sides", "fields: dense", filled,
           [np.full((3, 3), 2), np.full((3, 3), 2.0), np.full((3, 3), 3), np.full((3, 3), 3.0),
            np.full((3, 3, 3), [4.0, 5.0, 6.0])]),
    shared("test_field: subscripts that are NumPy's integers", "fields: matrix fields", by_numpys_integers, [1, 2, 4]),
]  # fmt: skip


@pytest.fixture(scope="module")
def unit(one_session: Session) -> RemoteUnit:
    """The one source of this file; its cases make fields of their own."""
    return one_session[one_session.compile_and_load(SOURCE, "fields").unit]


@pytest.mark.parametrize(("call", "expected"), CASES)
def test_fields_as_in_taichis_suite(one_session: Session, unit: RemoteUnit, call: Call, expected: Any) -> None:
    """Each gives remotely what it gives there."""
    same(call(unit, one_session), expected)


@feature("fields", "dense", wrong=True)
def test_what_a_field_refuses_as_in_taichis_suite(one_session: Session) -> None:
    """test_field: arrays of other shapes, a size of 0, and more subscripts than there are axes."""
    x = one_session.ti.field("i32", (6, 12))
    with pytest.raises(KernelArgumentError, match=r"\(1,\) came for one of \(6, 12\)"):
        x.from_numpy(np.zeros(1, np.int32))
    with pytest.raises(KernelArgumentError, match=r"\(2, 3\) came for one of \(8,\)"):
        one_session.ti.field("f64", 8).from_numpy(np.zeros((2, 3)))
    with pytest.raises(KernelArgumentError, match="every size is an integer from 1"):
        one_session.ti.field("f32", 0)
    with pytest.raises(IndexError, match="3 indices for an array"):
        x[0, 0, 0] = 1


@feature("autodiff", "`needs_grad` fields", wrong=True)
def test_integers_have_no_gradients_as_in_taichis_suite(one_session: Session) -> None:
    """test_field: of a number, a vector or a matrix, no matter whether for gradients or duals."""
    ti = one_session.ti
    for make in (
        lambda: ti.field("i32", 1, needs_grad=True),
        lambda: ti.Vector.field(3, "i32", 1, needs_grad=True),
        lambda: ti.Matrix.field(2, 3, "i32", 1, needs_grad=True),
    ):
        with pytest.raises(KernelArgumentError, match="only f16, f32 and f64 have gradients"):
            make()


def array(dtype: str, *shape: int) -> np.ndarray:
    return np.ones(shape, dtype)


INSTANCE_CASES = [
    pytest.param(kernel, calls, expected, id=f"test_callable_template_mapper: {kernel}", marks=feature(group, name))
    for kernel, group, name, calls, expected in (
        ("three_templates", "templates", "numbers",
         lambda _: [(0, 0, 0), (0, 1, 0), (0, 0, 0), (0, 0, 1), (0, 1, 0)],
         [(0, True), (10, True), (0, False), (1, True), (10, False)]),
        ("three_numbers", "scalars", "i32",
         lambda _: [(0, 0, 0), (0, 1, 0), (0, 0, 0), (0, 0, 1), (0, 1, 0)],
         [(0, True), (10, False), (0, False), (1, False), (10, False)]),
        ("a_field_between", "templates", "fields by handle",
         lambda unit: [(0, unit.x, 0), (0, unit.y, 0), (0, unit.x, 1)],
         [(0, True), (0, True), (1, False)]),
        ("an_array_last", "ndarrays", "`ti.types.ndarray()`",
         lambda _: [(0, 0, array("f4", 1, 2, 3)), (0, 0, array("f4", 1, 2, 4)), (0, 0, array("i4", 1, 2, 1))],
         [(1, True), (1, False), (1, True)]),
    )
]  # fmt: skip


@pytest.fixture(scope="module")
def instances(another_session: Session) -> RemoteUnit:
    """In a session in which no field is given back."""
    return another_session[another_session.compile_and_load(INSTANCES, "instances").unit]


@pytest.mark.parametrize(("kernel", "calls", "expected"), INSTANCE_CASES)
def test_what_is_compiled_as_in_taichis_suite(
    instances: RemoteUnit, kernel: str, calls: Callable[[Any], list[Any]], expected: Any
) -> None:
    """Of each call: what it gives, and whether it compiled an instance."""
    futures = [instances[kernel].submit(*call) for call in calls(instances)]
    assert [(future.result(), future.timing.compile > 0) for future in futures] == expected
