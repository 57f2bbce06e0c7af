"""What Taichi's own tests of returned values find, through a worker; tests/COVERAGE.md lists them."""

from __future__ import annotations

import pytest

from features.cases import Case, Fails, case, check, load
from tiremote.client import Session
from tiremote.protocol.errors import CompileError

SIGNED, REALS = "returns: signed integers", "returns: reals"


def product(a: str, b: str, result: str) -> str:
    """A kernel that multiplies, with these types."""
    return f"@ti.kernel\ndef f(a: ti.{a}, b: ti.{b}) -> ti.{result}:\n    return a * b\n"


BALLS = """
Ball = ti.types.struct(centre=tm.vec3, radius=float)
Disc = ti.types.struct(centre=tm.vec2, radius=float)
Whole = ti.types.struct(centre=tm.vec3, radius=int)
"""

CASES = [
    case(
        "test_return: without a type",
        SIGNED,
        "@ti.kernel\ndef f():\n    return 1\n",
        (load, Fails(CompileError, "must be annotated")),
        wrong=True,
    ),
    case(
        "test_return: constants are cast to the annotation",
        REALS,
        "@ti.kernel\ndef f() -> ti.f32:\n    return 3\n@ti.kernel\ndef g() -> ti.i32:\n    return 3.3\n",
        (lambda u, _: u.f(), 3.0),
        (lambda u, _: u.g(), 3),
    ),
    case("test_return: i32 * f32 as f32", REALS, product("i32", "f32", "f32"), (lambda u, _: u.f(3, 0.8), 2.4)),
    case("test_return: f32 * i32 as f32", REALS, product("f32", "i32", "f32"), (lambda u, _: u.f(0.8, 3), 2.4)),
    case("test_return: i32 * f32 as i32", SIGNED, product("i32", "f32", "i32"), (lambda u, _: u.f(3, 0.8), 2)),
    case("test_return: f32 * i32 as i32", SIGNED, product("f32", "i32", "i32"), (lambda u, _: u.f(-0.8, 3), -2)),
    case(
        "test_return: in a static if",
        SIGNED,
        "@ti.kernel\ndef f(a: ti.template()) -> ti.i32:\n    if ti.static(a == 1):\n        return 1\n"
        "    elif ti.static(a == 2):\n        return 2\n    return 3\n",
        (lambda u, _: [u.f(1), u.f(2), u.f(123)], [1, 2, 3]),
    ),
    case(
        "test_return: in a static for",
        SIGNED,
        "@ti.kernel\ndef f() -> ti.i32:\n    s = 0\n    for i in ti.static(range(10)):\n        s += i * i\n"
        "        if ti.static(i == 8):\n            return s\n",
        (lambda u, _: u.f(), 204),
    ),
    case(
        "test_return: in a loop",
        SIGNED,
        "@ti.kernel\ndef f() -> ti.i32:\n    for i in range(10):\n        return i\n",
        (load, Fails(CompileError, "inside non-static if/for")),
        wrong=True,
    ),
    case(
        "test_return: a func with several returns",
        REALS,
        "@ti.func\ndef root(a):\n    if a > 0:\n        return ti.sqrt(a)\n    else:\n        return 0.0\n"
        "@ti.kernel\ndef f(a: float) -> float:\n    return root(a)\n",
        (load, Fails(CompileError, "inside non-static if/for")),
        wrong=True,
    ),
    case(
        "test_return: a kernel without a return",
        SIGNED,
        "@ti.kernel\ndef f() -> ti.i32:\n    pass\n",
        (load, Fails(CompileError, "does not have a return statement")),
        wrong=True,
    ),
    case(
        "test_return: a func without a return",
        SIGNED,
        "@ti.func\ndef g() -> ti.i32:\n    pass\n@ti.kernel\ndef f() -> ti.i32:\n    return g()\n",
        (load, Fails(CompileError, "does not have a return statement")),
        wrong=True,
    ),
    case(
        "test_return: nothing, said or not",
        SIGNED,
        "@ti.kernel\ndef f():\n    return\n@ti.kernel\ndef g():\n    return None\n"
        "@ti.kernel\ndef h() -> None:\n    pass\n",
        (lambda u, _: [u.f(), u.g(), u.h()], [None, None, None]),
    ),
    case(
        "test_return: u64",
        "returns: unsigned integers",
        "@ti.kernel\ndef f() -> ti.u64:\n    return ti.u64(18446744073709551615)\n",
        (lambda u, _: u.f(), 2**64 - 1),
    ),
    case(
        "test_return: a vector of u64",
        "returns: vectors",
        "@ti.kernel\ndef f() -> ti.types.vector(2, ti.u64):\n"
        "    return ti.Vector([ti.u64(18446744073709551615), ti.u64(0)])\n",
        (lambda u, _: u.f().tolist() == [2**64 - 1, 0], True),
    ),
    case(
        "test_return: a struct with a vector in a struct",
        "returns: nested structs",
        "Inner = ti.types.struct(a=tm.vec3, b=ti.i16)\nOuter = ti.types.struct(a=ti.f32, b=Inner)\n@ti.kernel\n"
        "def f() -> Outer:\n    return Outer(a=1, b=Inner(a=tm.vec3([100, 0.2, 3]), b=65537))\n",
        (lambda u, _: u.f(), {"a": 1.0, "b": {"a": [100, 0.2, 3.0], "b": 1}}),
    ),
    *(
        case(
            f"test_return: {name}",
            f"returns: {row}",
            f"{BALLS}@ti.kernel\ndef f() -> {takes}:\n    return {gives}\n",
            (load, Fails(CompileError, said)),
            wrong=True,
        )
        for name, row, takes, gives, said in (
            ("a vector for a number", "signed integers", "ti.i32", "tm.vec3(1, 2, 3)", "cannot be converted"),
            ("a vector of another length", "vectors", "tm.vec4", "tm.vec3(1, 2, 3)", "mismatch"),
            ("a struct of other members", "structs", "Ball", "Disc(tm.vec2(1, 2), 2)", "cannot be converted"),
            ("a struct of other types", "structs", "Ball", "Whole(tm.vec3(1, 2, 3), 2)", "cannot be converted"),
        )
    ),
    case(
        "test_return: a func's annotation casts",
        REALS,
        "@ti.func\ndef g(a: ti.f32) -> ti.i32:\n    return a\n"
        "@ti.kernel\ndef f(a: ti.f32) -> ti.f32:\n    return g(a)\n",
        (lambda u, _: u.f(1.5), 1.0),
    ),
    case(
        "test_ast_refactor: several values of a func",
        "returns: `-> tuple[a, b]`",
        "@ti.func\ndef g(n):\n    return n + 1, n * 0.5\n@ti.kernel\ndef f(n: ti.i32) -> tuple[ti.i32, ti.f32]:\n"
        "    a, b = g(n)\n    return a, b\n",
        (lambda u, _: u.f(5), (6, 2.5)),
    ),
    case(
        "test_matrix_return: computed from an argument",
        "returns: matrices",
        "@ti.kernel\ndef f(a: tm.mat3, b: tm.mat3) -> tm.mat3:\n    return a @ b\n",
        (
            lambda u, _: u.f([[1, 2, 3], [4, 5, 6], [7, 8, 9]], [[0, 1, 0], [1, 0, 0], [0, 0, 2]]),
            [[2.0, 1, 6], [5, 4, 12], [8, 7, 18]],
        ),
    ),
]


@pytest.mark.parametrize("of_suite", CASES)
def test_returns_as_in_taichis_suite(gpu: Session, of_suite: Case) -> None:
    """Each gives remotely what it gives there."""
    check(gpu, of_suite)
