"""What Taichi's own tests of ndarrays and NumPy arrays find, through a worker; tests/COVERAGE.md lists them."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from features.cases import Case, Fails, after, case, check, same
from features.rows import feature
from tiremote.client import Session
from tiremote.protocol.errors import CompileError, KernelArgumentError

ADD = """
@ti.kernel
def add(x: ti.types.ndarray(), y: ti.types.ndarray()):
    for i in ti.grouped(y):
        x[i] += y[i]
"""

FILL = """
@ti.kernel
def fill(n: ti.i32, x: ti.types.ndarray()):
    for i, j in x:
        x[i, j] = n
"""

SQUARES = """
@ti.kernel
def squares(a: ti.types.ndarray()):
    for i in ti.grouped(a):
        for j, k in ti.ndrange(2, 2):
            a[i][j, k] = j * j + k * k
"""


def sums(shape: tuple[int, ...]) -> np.ndarray:
    """The sum of the indices at each place."""
    return np.indices(shape).sum(axis=0).astype(np.int32)


def both_ways(unit: Any, gpu: Session) -> list[list[int]]:
    """An ndarray and a NumPy array of one shape, each added to the other."""
    remote, local = gpu.array(sums((2, 3))), np.ones((2, 3), np.int32)
    unit.add(remote, local)
    unit.add(local, remote)
    return [remote.to_numpy().tolist(), local.tolist()]


CASES = [
    *(
        case(
            f"test_numpy: {dtype} squared",
            "ndarrays: every dtype",
            "@ti.kernel\ndef f(x: ti.types.ndarray()):\n    for i in range(4):\n        x[i] = x[i] ** 2\n",
            (lambda u, _, dtype=dtype: after(u.f, np.array([0, 2, 4, 6], dtype)), np.array([0, 4, 16, 36], dtype)),
        )
        for dtype in ("float32", "float64", "int32", "int64")
    ),
    *(
        case(
            f"test_numpy: {len(shape)} axes",
            "ndarrays: 0-d to 8-d",
            "@ti.kernel\ndef f(x: ti.types.ndarray()):\n    for i in ti.grouped(x):\n        x[i] += i.sum()\n",
            (lambda u, _, shape=shape: after(u.f, sums(shape)), 2 * sums(shape)),
        )
        for shape in ((4, 7), (4, 7, 11))
    ),
    case(
        "test_numpy: a transposed array is read as it is seen",
        "ndarrays: F-ordered",
        "v = ti.field(ti.i32, (3, 4))\n@ti.kernel\ndef f(x: ti.types.ndarray()):\n"
        "    for i in ti.grouped(v):\n        v[i] = x[i]\n",
        (
            lambda u, _: (u.f(np.arange(12, dtype=np.int32).reshape(4, 3).T), u.v.to_numpy())[1],
            np.arange(12).reshape(4, 3).T,
        ),
    ),
    case(
        "test_numpy: too few indices",
        "ndarrays: `ti.types.ndarray()`",
        "@ti.kernel\ndef f(x: ti.types.ndarray()):\n    for i, j in ti.ndrange(2, 2):\n        x[i, j] += 1\n",
        (lambda u, _: u.f(np.zeros((2, 2, 2), np.int32)), Fails(CompileError, "dim 3 accessed with indices of dim 2")),
        wrong=True,
    ),
    case(
        "test_numpy: several arrays",
        "ndarrays: `ti.types.ndarray()`",
        "@ti.kernel\ndef f(a: ti.types.ndarray(), b: ti.types.ndarray()):\n    for i in range(4):\n"
        "        a[i] = a[i] * b[i]\n        b[i] = a[i] + b[i]\n",
        (
            lambda u, _: after(u.f, np.array([4, 8, 1, 24], np.int32), np.array([5, 6, 12, 3], np.int32)),
            [[20, 48, 12, 72], [25, 54, 24, 75]],
        ),
    ),
    case(
        "test_numpy: nothing in it",
        "ndarrays: empty",
        "@ti.kernel\ndef f(x: ti.types.ndarray()):\n    for i in ti.grouped(x):\n        x[i] += 1\n",
        *(
            (lambda u, _, shape=shape: after(u.f, np.empty(shape, np.int32)).shape, shape)
            for shape in ((0,), (0, 5), (5, 0))
        ),
    ),
    case(
        "test_ndarray: an ndarray and a NumPy array in either place",
        "ndarrays: `ti.ndarray`",
        ADD,
        (both_ways, [(sums((2, 3)) + 1).tolist(), (sums((2, 3)) + 2).tolist()]),
    ),
    case(
        "test_ndarray: other shapes for one kernel",
        "ndarrays: `ti.ndarray`",
        FILL,
        *(
            (
                lambda u, gpu, n=n: after(lambda x: u.fill(n, x), gpu.ti.ndarray("f32", (n, n))),
                np.full((n, n), float(n)),
            )
            for n in (2, 4)
        ),
    ),
    case(
        "test_ndarray: matrices by struct-for and grouped",
        "ndarrays: `Matrix.ndarray`",
        SQUARES,
        (lambda u, gpu: after(u.squares, gpu.ti.Matrix.ndarray(2, 2, "i32", 5)), [[[0, 1], [1, 2]]] * 5),
        (lambda u, gpu: after(u.squares, gpu.ti.Matrix.ndarray(2, 2, "i32", (3, 2))).sum(), 24),
    ),
    case(
        "test_ndarray: elements of vectors",
        "ndarrays: `Vector.ndarray`",
        "@ti.kernel\ndef f(a: ti.types.ndarray()):\n"
        "    for i in range(5):\n        for j in range(4):\n            a[i][j * j] = j * j\n",
        (lambda u, gpu: after(u.f, gpu.ti.Vector.ndarray(10, "i32", 5)), [[0, 1, 0, 0, 4, 0, 0, 0, 0, 9]] * 5),
    ),
    case(
        "test_ndarray: a NumPy array is as one of vectors",
        "ndarrays: vector elements",
        "@ti.kernel\ndef f(a: ti.types.ndarray(ti.types.vector(n=10, dtype=ti.i32))):\n    for i in a:\n"
        "        for j in range(4):\n            a[i][j * j] = j * j\n",
        (lambda u, gpu: after(u.f, gpu.ti.Vector.ndarray(10, "i32", 5))[4], [0, 1, 0, 0, 4, 0, 0, 0, 0, 9]),
        (lambda u, _: after(u.f, np.zeros((6, 10), np.int32))[5], [0, 1, 0, 0, 4, 0, 0, 0, 0, 9]),
    ),
    *(
        case(
            f"test_ndarray: {what}",
            f"ndarrays: {row}",
            f"@ti.kernel\ndef f(a: ti.types.ndarray({annotation})):\n    pass\n",
            (lambda u, gpu, make=make: u.f(make(gpu.ti)), Fails(KernelArgumentError, said)),
            wrong=True,
        )
        for what, row, annotation, make, said in (
            (
                "a matrix for a vector",
                "vector elements",
                "dtype=ti.types.vector(2, ti.i32)",
                lambda ti: ti.Matrix.ndarray(2, 3, "i32", (4, 7)),
                r"element shape is \(2, 3\)",
            ),
            (
                "a vector for a matrix",
                "matrix elements",
                "dtype=ti.types.matrix(2, 2, ti.i32)",
                lambda ti: ti.Vector.ndarray(2, "i32", (4, 7)),
                r"element shape is \(2,\)",
            ),
            ("one axis for two", "`ndim=`", "ndim=2", lambda ti: ti.ndarray("i32", 3), "1 axes, not 2"),
            ("i32 for f32", "`dtype=`", "dtype=ti.f32", lambda ti: ti.ndarray("i32", (16, 16)), "i32"),
        )
    ),
    case(
        "test_ndarray: as a template",
        "templates: `ti.template()`",
        "@ti.kernel\ndef f(a: ti.template()):\n    pass\n",
        (lambda u, gpu: u.f(gpu.ti.ndarray("f32", 3)), Fails(KernelArgumentError, "ti.types.ndarray")),
        wrong=True,
    ),
    case(
        "test_ndarray: atomics",
        "ndarrays: `ti.ndarray`",
        "@ti.kernel\ndef f(x: ti.types.ndarray(), n: ti.i32):\n    for i in range(n):\n        ti.atomic_add(x[0], i)\n"
        "        ti.atomic_max(x[1], i)\n        ti.atomic_min(x[2], -i)\n",
        (lambda u, gpu: after(lambda x: u.f(x, 100), gpu.ti.ndarray("i32", 3)), [4950, 99, -99]),
    ),
    case(
        "test_ndarray: passed on to a func",
        "ndarrays: `ti.types.ndarray()`",
        "@ti.func\ndef put(x: ti.template(), i, v):\n    x[i] = v\n@ti.func\ndef get(x: ti.types.ndarray(ndim=1), i):\n"
        "    return x[i]\n@ti.kernel\ndef f(x: ti.types.ndarray(ndim=1)):\n    for i in x:\n"
        "        put(x, i, get(x, i) + 2)\n",
        (lambda u, _: after(u.f, np.arange(3, dtype=np.float32)), [2.0, 3.0, 4.0]),
    ),
    case(
        "test_ndarray: a shape in a kernel",
        "ndarrays: `ti.types.ndarray()`",
        "@ti.kernel\ndef f(x: ti.types.ndarray(ndim=2)) -> ti.i32:\n    return x.shape[0] * 100 + x.shape[1]\n",
        (lambda u, gpu: [u.f(np.zeros((3, 7))), u.f(gpu.ti.ndarray("i8", (5, 2)))], [307, 502]),
    ),
]


@pytest.mark.parametrize("of_suite", CASES)
def test_ndarrays_as_in_taichis_suite(gpu: Session, of_suite: Case) -> None:
    """Each gives remotely what it gives there."""
    check(gpu, of_suite)


SHAPES: tuple[Any, ...] = ((), 8, (6, 12))
MAKERS = {
    "`ti.ndarray`": ((), lambda ti, dtype, shape: ti.ndarray(dtype, shape)),
    "`Vector.ndarray`": ((3,), lambda ti, dtype, shape: ti.Vector.ndarray(3, dtype, shape)),
    "`Matrix.ndarray`": ((2, 3), lambda ti, dtype, shape: ti.Matrix.ndarray(2, 3, dtype, shape)),
}


@pytest.mark.parametrize("name", [pytest.param(name, marks=feature("ndarrays", name)) for name in MAKERS])
def test_ndarrays_are_made_filled_copied_and_fetched(gpu: Session, name: str) -> None:
    """Of each dtype and shape, with what they say of themselves (`test_ndarray`: properties, fill, copy, NumPy)."""
    element, make = MAKERS[name]
    for dtype, shape in itertools.product((np.int32, np.float32, np.int64, np.float64), SHAPES):
        array = make(gpu.ti, dtype, shape)
        assert array.shape == (shape if isinstance(shape, tuple) else (shape,))
        assert (array.element_shape, array.dtype) == (element, dtype)
        array.fill(2)
        whole = array.shape + element
        same(array.to_numpy(), np.full(whole, 2))
        values = np.arange(np.prod(whole, dtype=int), dtype=dtype).reshape(whole)
        array.from_numpy(values)
        same(array.to_numpy(), values)
    with pytest.raises(KernelArgumentError):
        array.from_numpy(values[:1])
