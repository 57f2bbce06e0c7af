"""What Taichi's own tests of arguments and templates find, through a worker; tests/COVERAGE.md lists them."""

from __future__ import annotations

import numpy as np
import pytest

from features.cases import Case, Fails, after, case, check, load
from tiremote.client import Session
from tiremote.protocol.errors import CompileError, KernelArgumentError

POSITION, SCALAR, F32 = "call shapes: by position and keyword", "scalars: i32", "scalars: f32"

CASES = [
    case(
        "test_argument: kernel keyword arguments",
        POSITION,
        "@ti.kernel\ndef f(a: ti.i32, b: ti.i32) -> ti.i32:\n    return a * 10 + b\n",
        (lambda u, _: u.f(1, b=2), 12),
        (lambda u, _: u.f(b=1, a=2), 21),
    ),
    case(
        "test_argument: func keyword arguments and defaults",
        POSITION,
        "@ti.func\ndef g(a, b, c=3):\n    return a * 100 + b * 10 + c\n"
        "@ti.kernel\ndef f() -> ti.i32:\n    return g(1, b=2)\n"
        "@ti.kernel\ndef h() -> ti.i32:\n    return g(b=2, a=1, c=4)\n",
        (lambda u, _: (u.f(), u.h()), (123, 124)),
    ),
    *(
        case(
            f"test_argument: func, {name}",
            f"call shapes: {name}",
            "@ti.func\ndef g(a, b, c=3):\n    return a + b + c\n"
            f"@ti.kernel\ndef f() -> ti.i32:\n    return g({arguments})\n",
            (load, Fails(CompileError, said)),
            wrong=True,
        )
        for name, arguments, said in (
            ("missing", "1, c=3", "[`']b[`']"),
            ("unexpected", "1, 2, 3, d=3", "'d'"),
            ("too many", "1, 2, 3, 4", "Too many"),
            ("multiple", "1, a=3, b=3", "'a'"),
        )
    ),
    case(
        "test_argument: many ndarrays",
        "ndarrays: `ndim=`",
        "@ti.kernel\ndef f(c: tm.vec3, n: int, "
        + ", ".join(f"x{i}: ti.types.ndarray(ndim=1)" for i in range(12))
        + "):\n    for i in range(x11.shape[0]):\n        x11[i] = n + c.y\n",
        (
            lambda u, gpu: (
                after(
                    u.f,
                    (1, 2, 3),
                    4,
                    *(gpu.ti.Vector.ndarray(3, "f32", 2) for _ in range(11)),
                    last := np.zeros(2, np.int32),
                )
                and last
            ),
            [6, 6],
        ),
    ),
    case(
        "test_arg_check: a kernel's real parameter takes an integer",
        F32,
        "@ti.kernel\ndef f(x: ti.f32) -> ti.f32:\n    return x / 2\n",
        (lambda u, _: [u.f(3), u.f(np.int8(3)), u.f(np.float64(3))], [1.5, 1.5, 1.5]),
    ),
    case(
        "test_arg_check: a kernel's integer parameter takes no real",
        SCALAR,
        "@ti.kernel\ndef f(x: ti.i32) -> ti.i32:\n    return x\n",
        (lambda u, _: u.f(1.5), Fails(KernelArgumentError, "i32")),
        (lambda u, _: u.f(np.float32(2)), Fails(KernelArgumentError, "float32")),
        wrong=True,
    ),
    case(
        "test_arg_load: each type by itself",
        F32,
        "out = ti.field(ti.f64, 4)\n@ti.kernel\ndef f(a: ti.i32, b: ti.f32, c: ti.i64, d: ti.f64):\n"
        "    out[0] = a\n    out[1] = b\n    out[2] = c\n    out[3] = d\n",
        (lambda u, _: (u.f(-2, 0.5, 2**40, 1e-50), u.out.to_numpy())[1].tolist() == [-2, 0.5, 2**40, 1e-50], True),
    ),
    case(
        "test_arg_load: an argument in a parallel loop",
        SCALAR,
        "x = ti.field(ti.i32, 128)\n@ti.kernel\ndef f(v: ti.i32):\n    for i in x:\n        x[i] = v\n",
        (lambda u, _: (u.f(1), u.f(7), u.x.to_numpy())[2], np.full(128, 7)),
    ),
    case(
        "test_arg_alignment: narrow types between wide ones",
        "scalars: u8",
        "@ti.kernel\ndef f(a: ti.u8, b: ti.f64, c: ti.i16, d: ti.u64, e: ti.i8) -> ti.f64:\n"
        "    return a + b + c + e + ti.cast(d, ti.f64)\n",
        (lambda u, _: u.f(255, 0.25, -32768, 2**40, -128), 255 + 0.25 - 32768 + 2**40 - 128),
    ),
    case(
        "test_arg_alignment: vectors between numbers",
        "compound: vectors",
        "@ti.kernel\ndef f(a: ti.i8, v: tm.vec3, b: ti.f64, w: ti.types.vector(2, ti.i16)) -> ti.f64:\n"
        "    return a + v.x * 2 + v.z + b + w[0] * 10 + w[1]\n",
        (lambda u, _: u.f(1, [2, 3, 4], 0.5, [5, -6]), 1 + 4 + 4 + 0.5 + 50 - 6),
    ),
    case(
        "test_bool_type: arguments, returns and branches",
        "scalars: bool",
        "@ti.kernel\ndef both(a: ti.u1, b: ti.u1) -> ti.u1:\n    return a and not b\n"
        "@ti.kernel\ndef count(n: ti.i32, odd: ti.u1) -> ti.i32:\n    s = 0\n    for i in range(n):\n"
        "        if (i % 2 == 1) == odd:\n            s += 1\n    return s\n",
        (lambda u, _: [bool(u.both(a, b)) for a in (0, 1) for b in (False, True)], [False, False, True, False]),
        (lambda u, _: [u.count(5, True), u.count(5, False)], [2, 3]),
    ),
    case(
        "test_types: overflow of an argument is not silent",
        "scalars: i8",
        "@ti.kernel\ndef f(x: ti.i8) -> ti.i32:\n    return x + 1\n",
        (lambda u, _: u.f(128), Fails(KernelArgumentError, "i8 holds -128 to 127")),
        wrong=True,
    ),
    case(
        "test_types: arithmetic at the end of a type",
        "scalars: i8",
        "@ti.kernel\ndef f(x: ti.i8) -> ti.i32:\n    return x + 1\n",
        (lambda u, _: [u.f(127), u.f(-128)], [128, -127]),
    ),
    case(
        "test_scalar_op: Python's and NumPy's scalars are one",
        F32,
        "@ti.kernel\ndef f(a: ti.f32, b: ti.i32) -> ti.f32:\n    return a**b\n",
        (lambda u, _: [u.f(2, 10), u.f(np.float16(2), np.uint8(10)), u.f(np.int64(2), b=np.int32(10))], [1024.0] * 3),
    ),
    case(
        "templates: a field and a number",
        "templates: fields by handle",
        "x = ti.field(ti.f32, 4)\ny = ti.field(ti.f32, 6)\n@ti.kernel\ndef scale(f: ti.template(), by: ti.f32):\n"
        "    for i in f:\n        f[i] = i * by\n",
        (lambda u, _: (u.scale(u.x, 2.0), u.x.to_numpy())[1], [0.0, 2.0, 4.0, 6.0]),
        (
            lambda u, _: (u.scale(u.y, 3.0), u.y.to_numpy(), u.x.to_numpy())[1:],
            ([0.0, 3, 6, 9, 12, 15], [0.0, 2, 4, 6]),
        ),
    ),
    case(
        "templates: two templates in either order",
        "templates: fields by handle",
        "a = ti.field(ti.i32, 3)\nb = ti.field(ti.i32, 3)\n@ti.kernel\ndef add(x: ti.template(), y: ti.template()):\n"
        "    for i in x:\n        x[i] += y[i] + 1\n",
        (
            lambda u, _: (u.add(u.a, u.b), u.add(u.b, u.a), u.add(u.a, u.a), u.a.to_numpy(), u.b.to_numpy())[3:],
            ([3, 3, 3], [2, 2, 2]),
        ),
    ),
    case(
        "templates: an argument that is passed on to a func",
        "templates: `ti.template()`",
        "x = ti.field(ti.f32, 3)\n@ti.func\ndef put(f: ti.template(), i, v):\n    f[i] = v\n"
        "@ti.kernel\ndef fill(f: ti.template(), v: ti.f32):\n    for i in f:\n        put(f, i, v)\n",
        (lambda u, _: (u.fill(u.x, 2.5), u.x.to_numpy())[1], [2.5, 2.5, 2.5]),
    ),
    case(
        "templates: a func changes a template argument in place",
        "templates: `ti.template()`",
        "@ti.func\ndef twice(v: ti.template()):\n    v *= 2\n@ti.kernel\ndef f(x: ti.f32) -> ti.f32:\n"
        "    y = x\n    twice(y)\n    twice(y)\n    return y\n",
        (lambda u, _: u.f(1.5), 6.0),
    ),
    case(
        "test_static: unrolled over a template",
        "templates: compile-time constants",
        "@ti.kernel\ndef f(n: ti.template()) -> ti.i32:\n    s = 0\n    for i in ti.static(range(n)):\n"
        "        s += i * i\n    return s\n",
        (lambda u, _: [u.f(0), u.f(3), u.f(5), u.f(3)], [0, 5, 30, 5]),
    ),
    case(
        "test_static: no branch that is not taken is compiled",
        "templates: compile-time constants",
        "@ti.kernel\ndef f(a: ti.template()) -> ti.i32:\n    r = 1\n"
        "    if ti.static(isinstance(a, int)):\n        r = a + 1\n    return r\n",
        (lambda u, _: [u.f("text"), u.f(4), u.f(None)], [1, 5, 1]),
    ),
    case(
        "test_callable_template_mapper: the same values are one instance",
        "templates: tuples",
        "@ti.kernel\ndef f(t: ti.template(), n: ti.i32) -> ti.i32:\n    return t[0] * n + t[1]\n",
        (lambda u, _: [u.f((2, 3), n) for n in range(3)], [3, 5, 7]),
        (lambda u, _: u.f.submit((2, 3), 9).result(), 21),
    ),
    case(
        "test_field: 0-d fields by handle",
        "templates: fields by handle",
        "@ti.kernel\ndef f(x: ti.template(), y: ti.template()):\n    y[None] = x[None] * 2\n",
        (lambda u, gpu: _doubled(u, gpu), 14),
    ),
]


def _doubled(unit: object, gpu: Session) -> int:
    x, y = gpu.ti.field("i32"), gpu.ti.field("i32")
    x[None] = 7
    unit.f(x, y)  # type: ignore[attr-defined]
    return int(y[None])


@pytest.mark.parametrize("of_suite", CASES)
def test_arguments_as_in_taichis_suite(gpu: Session, of_suite: Case) -> None:
    """Each gives remotely what it gives there."""
    check(gpu, of_suite)
