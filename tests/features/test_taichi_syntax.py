"""What Taichi's own tests of a kernel's syntax find, through a worker; tests/COVERAGE.md lists them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from features.cases import Call, Case, Fails, case, check, load, same, shared
from features.rows import feature
from printed import Printed
from tiremote.client import RemoteUnit, Session
from tiremote.protocol.errors import CompileError

FIELDS, CONSTANTS = "templates: fields by handle", "templates: compile-time constants"

SOURCE = """
@ti.kernel
def branch(x: ti.i32) -> ti.i32:
    ret = 0
    if x:
        ret = 1
    else:
        ret = 0
    return ret * 10 + (1 if x else 0)

@ti.kernel
def static_branch(x: ti.template()) -> ti.i32:
    ret = 0
    if ti.static(x):
        ret = 1
    else:
        ret = 0
    return ret * 10 + (1 if ti.static(x) else 0)

threshold = 1

@ti.kernel
def branch_by_global() -> ti.i32:
    ret = 0
    if ti.static(threshold > 0.5):
        ret = 1
    return ret

@ti.kernel
def loops(x: ti.i32, a: ti.template(), b: ti.template(), c: ti.template(), d: ti.template()):
    for i in range(5):
        a[i] = x
    for i in range(3, 7):
        b[i] = x
    for i in ti.static(range(10)):
        c[i] = x
    for i in d:
        d[i] = x

@ti.kernel
def loops_of_two(x: ti.i32, a: ti.template(), b: ti.template(), c: ti.template()):
    for I in ti.grouped(a):
        a[I] = x
    for I in ti.static(ti.grouped(ti.ndrange((1, 3), (1, 3)))):
        b[I] = x
    for I in ti.grouped(ti.ndrange((0, 2), (1, 4))):
        c[I] = I[0] * 10 + I[1]

@ti.kernel
def loops_of_three(a: ti.template()):
    for i, j, k in ti.ndrange((4, 6), (3, 8), 7):
        a[i, j, k] = i + j * 10 + k * 100

@ti.kernel
def static_break(a: ti.template()):
    for i in ti.static(range(10)):
        a[i] = 3
        if ti.static(i >= 5):
            break
        a[i] = 5

@ti.kernel
def static_continue(a: ti.template()):
    for i in ti.static(range(10)):
        a[i] = 3
        if ti.static(i >= 5):
            continue
        a[i] = 5

@ti.kernel
def grouped_break(a: ti.template()):
    for I in ti.static(ti.grouped(ti.ndrange(4, 4))):
        a[I] = 3
        if ti.static(I[0] >= 3):
            break
        a[I] = 5

@ti.kernel
def grouped_continue(a: ti.template()):
    for I in ti.static(ti.grouped(ti.ndrange(4, 4))):
        a[I] = 3
        if ti.static(I[0] >= 3):
            continue
        a[I] = 5

@ti.kernel
def inner_break(a: ti.template()):
    for i in range(4):
        for j in range(4):
            a[i, j] = 3
            if i >= 3:
                break
            a[i, j] = 5

@ti.kernel
def inner_continue(a: ti.template()):
    for i in range(4):
        for j in range(4):
            a[i, j] = 3
            if i >= 3:
                continue
            a[i, j] = 5

@ti.kernel
def static_matrices(x: ti.template()):
    w = [0, 1, 2]
    for i, j in ti.static(ti.ndrange(3, 3)):
        x[i, j][i, j] = w[i] + w[j] * 2

@ti.func
def two_values(x):
    return x * x, -x

@ti.kernel
def from_two_values(a: ti.template(), b: ti.template()):
    for i in a:
        a[i], b[i] = two_values(i)

@ti.func
def power(x: ti.template()):
    mat = ti.Matrix([[1, 0], [0, 1]])
    if ti.static(x):
        mat = power(x // 2)
        mat = mat @ mat
        if ti.static(x % 2):
            mat = mat @ ti.Matrix([[1, 1], [1, 0]])
    return mat

@ti.kernel
def fibonacci(x: ti.template()) -> ti.i32:
    return power(x)[1, 0]

@ti.kernel
def static_assigned(xx: ti.template(), yy: ti.template()) -> ti.i32:
    x, y = ti.static(xx, yy)
    x[0] -= 1
    y[0] -= 1
    return x[0] + y[0]

@ti.kernel
def prints(a: ti.i32, b: ti.f32):
    print("no value")
    print("format: a={}, b={}".format(a, b))
    print(f"fstring: a={a}, b={b}")
"""


def left(kernel: str, *shapes: tuple[int, ...], first: int | None = None) -> Call:
    """What a kernel leaves in fields of zeros."""

    def act(unit: Any, gpu: Session) -> list[Any]:
        fields = [gpu.ti.field("i32", shape) for shape in shapes]
        unit[kernel](*(() if first is None else (first,)), *fields)
        found = [field.to_numpy().tolist() for field in fields]
        return found[0] if len(found) == 1 else found

    return act


def in_three_axes(unit: Any, gpu: Session) -> bool:
    i, j, k = np.indices((8, 9, 10))
    inside = (i >= 4) & (i < 6) & (j >= 3) & (j < 8) & (k < 7)
    found = left("loops_of_three", (8, 9, 10))(unit, gpu)
    return np.array_equal(found, np.where(inside, i + j * 10 + k * 100, 0))


def of_static_matrices(unit: Any, gpu: Session) -> list[int]:
    x = gpu.ti.Matrix.field(3, 3, "f32", (3, 3))
    unit.static_matrices(x)
    found = x.to_numpy()
    return [int(found[i, j, i, j]) for i in range(3) for j in range(3)]


def of_static_assignment(unit: Any, gpu: Session) -> int:
    a, b = gpu.ti.field("i32", 1), gpu.ti.field("i32", 1)
    a[0], b[0] = 2, 3
    return unit.static_assigned(a, b)  # type: ignore[no-any-return]


CASES = [
    shared("test_ast_refactor: branches", "scalars: i32", lambda u, _: [u.branch(1), u.branch(0)], [11, 0]),
    shared("test_ast_refactor: static branches", CONSTANTS, lambda u, _: [u.static_branch(1), u.static_branch(0)],
           [11, 0]),
    shared("test_static: a branch by a global", CONSTANTS, lambda u, _: u.branch_by_global(), 1),
    shared("test_static: matrices by ndrange", FIELDS, of_static_matrices, [0, 2, 4, 1, 3, 5, 2, 4, 6]),
    shared("test_ast_refactor: loops over ranges and a field", FIELDS, left("loops", *[(10,)] * 4, first=5),
           [[5] * 5 + [0] * 5, [0] * 3 + [5] * 4 + [0] * 3, [5] * 10, [5] * 10]),
    shared("test_ast_refactor: grouped loops", FIELDS, left("loops_of_two", *[(4, 4)] * 3, first=5),
           [[[5] * 4] * 4, [[0] * 4, [0, 5, 5, 0], [0, 5, 5, 0], [0] * 4],
            [[0, 1, 2, 3], [0, 11, 12, 13], [0] * 4, [0] * 4]]),
    shared("test_ast_refactor: ndrange of three", FIELDS, in_three_axes, True),
    shared("test_ast_refactor: break, unrolled", FIELDS, left("static_break", (10,)), [5] * 5 + [3] + [0] * 4),
    shared("test_ast_refactor: continue, unrolled", FIELDS, left("static_continue", (10,)), [5] * 5 + [3] * 5),
    shared("test_ast_refactor: break, grouped and unrolled", FIELDS, left("grouped_break", (4, 4)),
           [[5] * 4] * 3 + [[3, 0, 0, 0]]),
    shared("test_ast_refactor: continue, grouped and unrolled", FIELDS, left("grouped_continue", (4, 4)),
           [[5] * 4] * 3 + [[3] * 4]),
    shared("test_ast_refactor: break", FIELDS, left("inner_break", (4, 4)), [[5] * 4] * 3 + [[3, 0, 0, 0]]),
    shared("test_ast_refactor: continue", FIELDS, left("inner_continue", (4, 4)), [[5] * 4] * 3 + [[3] * 4]),
    shared("test_ast_refactor: a func of two values", FIELDS, left("from_two_values", (10,), (10,)),
           [[i * i for i in range(10)], [-i for i in range(10)]]),
    shared("test_ast_refactor: a func that calls itself", CONSTANTS, lambda u, _: [u.fibonacci(i) for i in range(5)],
           [0, 1, 1, 2, 3]),
    shared("test_ast_refactor: fields assigned statically", FIELDS, of_static_assignment, 3),
]  # fmt: skip

LOADS = [
    case(of, CONSTANTS, f"n = [1]\n@ti.kernel\ndef f({parameters}):\n{body}",
         (load, Fails(CompileError, said)), wrong=True)
    for of, parameters, body, said in (
        ("test_static: what is no constant", "v: ti.f32",
         "    if ti.static(v > 0.5):\n        print(v)\n", "must be compile-time constants"),
        ("test_ast_refactor: a range of three", "",
         "    for i in range(3, 7, 2):\n        print(i)\n", "Range should have 1 or 2 arguments, found 3"),
        ("test_ast_refactor: an element assigned statically", "",
         "    a = ti.static([1, 2, 3])\n    a[0] = ti.static(2)\n", "Static assign cannot be used on elements"),
        ("test_ast_refactor: a variable made again", "",
         "    a = 1\n    a = ti.static(2)\n", "Recreating variables is not allowed"),
        ("test_ast_refactor: in", "", "    a = 1\n    b = a in n\n", '"In" is only supported inside'),
    )
]  # fmt: skip


@pytest.fixture(scope="module")
def unit(one_session: Session) -> RemoteUnit:
    """The one source of this file; its cases make fields of their own."""
    return one_session[one_session.compile_and_load(SOURCE, "syntax").unit]


@pytest.mark.parametrize(("call", "expected"), CASES)
def test_syntax_as_in_taichis_suite(one_session: Session, unit: RemoteUnit, call: Call, expected: Any) -> None:
    """Each gives remotely what it gives there."""
    same(call(unit, one_session), expected)


@pytest.mark.parametrize("of_suite", LOADS)
def test_syntax_errors_as_in_taichis_suite(one_session: Session, of_suite: Case) -> None:
    """Each is refused remotely as it is there, when it is loaded."""
    check(one_session, of_suite)


@feature("call shapes", "by position and keyword")
def test_prints_as_in_taichis_suite(unit: RemoteUnit, printed: Printed) -> None:
    """test_ast_refactor: what a kernel prints comes to the client, formatted by either way."""
    unit.prints(5, b=2.0)
    printed.wait_for("fstring: a=5, b=2.0")
    assert "no value\nformat: a=5, b=2.0" in printed.text()
