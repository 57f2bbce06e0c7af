"""What Taichi's own tests of operators and returned matrices find, through a worker; tests/COVERAGE.md lists them."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from features.cases import Call, same, shared
from tiremote.client import RemoteUnit, Session

FIELDS, CONSTANTS = "templates: fields by handle", "templates: compile-time constants"

SOURCE = """
@ti.kernel
def least() -> ti.i32:
    a = ti.Vector([1, 2, 3])
    b = ti.Vector([4, 5, 6])
    return ti.min(*a, *b) * 10 + ti.max(*a, *b)

def of_two_vectors():
    x, y = ti.Vector([2, 3]), ti.Vector([5, 4])
    made = [x + y, x - y, x * y, x / y, x // y, x % y, x**y, x & y, x | y, x ^ y]
    made += [ti.max(x, y), ti.min(x, y), ti.atan2(x, y)]
    return [each.to_numpy() for each in made]

def compared():
    x, y = ti.Vector([2, 4]), ti.Vector([5, 4])
    return [each.to_numpy().astype(bool) for each in (x == y, x != y, x < y, x <= y, x > y, x >= y)]

def of_one_vector():
    x = ti.Vector([0.2, 0.3])
    made = [-x, abs(x), ti.exp(x), ti.log(x), ti.sin(x), ti.cos(x), ti.tan(x), ti.asin(x), ti.acos(x), ti.tanh(x)]
    made += [ti.round(x), ti.floor(x), ti.ceil(x), ~ti.Vector([2, 3])]
    return [each.to_numpy() for each in made]

def of_matrices():
    a, b = ti.Vector([3, 4, -2]), ti.Vector([-5, 0, 6])
    made = ti.Matrix([[1, 2], [3, 4]]) @ ti.Matrix([[5, 6], [7, 8]])
    return made.to_numpy(), a.dot(b), a.norm(), a.normalized().to_numpy(), bool(a.any()), bool(b.all())

@ti.kernel
def binary(x: ti.i32, y: ti.i32, a: ti.template()):
    a[0] = x + y
    a[1] = x - y
    a[2] = x * y
    a[3] = ti.cast(x, ti.f32) / y
    a[4] = x // y
    a[5] = x % y
    a[6] = x**y
    a[7] = x << y
    a[8] = x >> y
    a[9] = x | y
    a[10] = x ^ y
    a[11] = x & y

@ti.kernel
def augmented(x: ti.i32, y: ti.i32, a: ti.template()):
    for i in a:
        a[i] = x
    a[0] += y
    a[1] -= y
    a[2] *= y
    a[3] //= y
    a[4] %= y
    a[5] **= y
    a[6] <<= y
    a[7] >>= y
    a[8] |= y
    a[9] ^= y
    a[10] &= y

@ti.kernel
def divided(x: ti.i32, y: ti.i32) -> ti.f32:
    r = ti.cast(x, ti.f32)
    r /= y
    return r

@ti.kernel
def unary(x: ti.i32) -> ti.types.vector(4, ti.i32):
    return ti.Vector([+x, -x, ti.cast(not x, ti.i32), ~x])

@ti.kernel
def single(a: ti.template(), b: ti.template(), c: ti.template()):
    for i in ti.static(range(3)):
        c[i * 6] = a[i] == b[i]
        c[i * 6 + 1] = a[i] != b[i]
        c[i * 6 + 2] = a[i] < b[i]
        c[i * 6 + 3] = a[i] <= b[i]
        c[i * 6 + 4] = a[i] > b[i]
        c[i * 6 + 5] = a[i] >= b[i]

@ti.kernel
def chained(a: ti.i32, b: ti.i32, c: ti.template()):
    c[0] = a == b == a
    c[1] = a == b != a
    c[2] = a != b == a
    c[3] = a < b > a
    c[4] = a > b < a
    c[5] = a < b < a
    c[6] = a > b > a
    c[7] = a == a == a == a
    c[8] = a == a == a != a
    c[9] = a < b > a < b
    c[10] = a > b > a < b

@ti.kernel
def vector_i32() -> ti.types.vector(3, ti.i32):
    return ti.Vector([1, 2, 3])

@ti.kernel
def matrix_i16() -> ti.types.matrix(2, 3, ti.i16):
    return ti.Matrix([[1, 2, 3], [4, 5, 6]])

@ti.kernel
def matrix_of_30() -> ti.types.matrix(3, 10, ti.i32):
    return ti.Matrix([[i * 10 + j for j in range(10)] for i in range(3)])
""" + "".join(
    f"""
@ti.kernel
def extremes_{dtype}(a: ti.{dtype}, b: ti.{dtype}) -> ti.types.vector(2, ti.{dtype}):
    return ti.Vector([ti.min(a, b), ti.max(a, b)])
"""
    for dtype in ("i16", "u16", "i32", "u32", "i64", "u64")
)


def of_twelve(unit: Any, gpu: Session) -> list[float]:
    a = gpu.ti.field("f32", 12)
    unit.binary(37, 3, a)
    return a.to_numpy().tolist()  # type: ignore[no-any-return]


def of_eleven(unit: Any, gpu: Session) -> list[float]:
    a = gpu.ti.field("i32", 11)
    unit.augmented(37, 3, a)
    return [*a.to_numpy().tolist(), unit.divided(37, 3)]


def each_compared(unit: Any, gpu: Session) -> list[int]:
    c = gpu.ti.field("i32", 18)
    unit.single(gpu.ti.Vector([1, 1, 2]), gpu.ti.Vector([2, 1, 1]), c)
    return [int(bool(value)) for value in c.to_numpy()]


def all_chained(unit: Any, gpu: Session) -> list[int]:
    c = gpu.ti.field("i32", 11)
    unit.chained(1, 2, c)
    return [int(bool(value)) for value in c.to_numpy()]


def of_two(*made: Callable[[Any, Any], Any]) -> list[Any]:
    x, y = np.array([2, 3]), np.array([5, 4])
    return [each(x, y) for each in made]


PLUS, SIGNS = (operator.add, operator.sub, operator.mul), (operator.and_, operator.or_, operator.xor)
COMPARISONS = (operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge)
REAL = np.array([0.2, 0.3])

CASES = [
    *(
        shared(
            f"test_scalar_op: min and max of {dtype}",
            "call shapes: by position and keyword",
            lambda u, _, name=f"extremes_{dtype}": u[name](4, b=2),
            [2, 4],
        )
        for dtype in ("u16", "i16", "u32", "i32", "u64", "i64")
    ),
    shared("test_scalar_op: min and max of starred vectors", "returns: signed integers", lambda u, _: u.least(), 16),
    shared(
        "test_scalar_op: two vectors in Python's scope",
        "compound: vectors",
        lambda u, _: u.of_two_vectors(),
        of_two(*PLUS, operator.truediv, operator.floordiv, operator.mod, operator.pow, *SIGNS,
               np.maximum, np.minimum, np.arctan2),
    ),
    shared(
        "test_scalar_op: vectors compared in Python's scope",
        "compound: vectors",
        lambda u, _: u.compared(),
        [each(np.array([2, 4]), np.array([5, 4])) for each in COMPARISONS],
    ),
    shared(
        "test_scalar_op: a vector in Python's scope",
        "compound: vectors",
        lambda u, _: u.of_one_vector(),
        [-REAL, REAL, np.exp(REAL), np.log(REAL), np.sin(REAL), np.cos(REAL), np.tan(REAL), np.arcsin(REAL),
         np.arccos(REAL), np.tanh(REAL), [0.0, 0.0], [0.0, 0.0], [1.0, 1.0], [-3, -4]],
    ),
    shared(
        "test_scalar_op: matrices in Python's scope",
        "compound: matrices",
        lambda u, _: u.of_matrices(),
        ([[19, 22], [43, 50]], -27.0, math.sqrt(29), np.array([3, 4, -2]) / math.sqrt(29), True, False),
    ),
    shared("test_ast_refactor: operators", FIELDS, of_twelve,
         [40.0, 34, 111, 37 / 3, 12, 1, 50653, 296, 4, 39, 38, 1]),
    shared("test_ast_refactor: operators that assign", FIELDS, of_eleven,
         [40.0, 34, 111, 12, 1, 50653, 296, 4, 39, 38, 1, 37 / 3]),
    shared("test_ast_refactor: operators of one number", "returns: vectors", lambda u, _: u.unary(1234),
         [1234, -1234, 0, -1235]),
    shared("test_ast_refactor: comparisons", CONSTANTS, each_compared,
         [0, 1, 1, 1, 0, 0, 1, 0, 0, 1, 0, 1, 0, 1, 0, 0, 1, 1]),
    shared("test_ast_refactor: comparisons in a chain", FIELDS, all_chained, [0, 0, 0, 1, 0, 0, 0, 1, 0, 1, 0]),
    shared("test_matrix_return: a vector", "returns: vectors", lambda u, _: u.vector_i32(), [1, 2, 3]),
    shared("test_matrix_return: i16", "returns: matrices", lambda u, _: u.matrix_i16(), [[1, 2, 3], [4, 5, 6]]),
    shared("test_matrix_return: thirty numbers", "returns: matrices", lambda u, _: u.matrix_of_30(),
         np.arange(30).reshape(3, 10)),
]  # fmt: skip


@pytest.fixture(scope="module")
def unit(one_session: Session) -> RemoteUnit:
    """The one source of this file; its cases make fields of their own."""
    return one_session[one_session.compile_and_load(SOURCE, "operators").unit]


@pytest.mark.parametrize(("call", "expected"), CASES)
def test_operators_as_in_taichis_suite(one_session: Session, unit: RemoteUnit, call: Call, expected: Any) -> None:
    """Each gives remotely what it gives there."""
    same(call(unit, one_session), expected)
