"""What Taichi's own tests of structs and argpacks find, through a worker; tests/COVERAGE.md lists them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from features.cases import Case, Fails, case, check, load
from tiremote.client import Session
from tiremote.protocol.errors import CompileError, KernelArgumentError

STRUCTS, NESTED, FIELDS = "compound: structs", "compound: nested structs", "templates: struct fields by handle"

LINES = """
vec3f = ti.types.vector(3, float)
Line = ti.types.struct(way=vec3f, length=float)
Mark = ti.types.struct(line=Line, idx=int)
x = Mark.field(shape=4)
y = Line.field(shape=4)

@ti.kernel
def fill_all(n: ti.i32):
    for i in x:
        x[i] = Mark(n)

@ti.kernel
def build():
    for i in x:
        x[i] = Mark(line=Line(way=vec3f(1), length=i + 0.5), idx=i)

@ti.kernel
def lines():
    for i in y:
        y[i] = Line(way=vec3f(2), length=i)

@ti.kernel
def assign(marks: ti.template(), lines: ti.template()):
    for i in marks:
        marks[i].idx = i
        marks[i].line = lines[i]

def from_python():
    for i in range(4):
        x[i] = ti.Struct({"line": {"way": vec3f(3), "length": i + 0.25}, "idx": -i})
"""

MEMBERS = """
x = ti.Struct.field({"a": ti.f32, "b": ti.f32}, shape=8)
y = ti.Struct.field({"a": ti.f32, "b": ti.i32})
ti.root.dense(ti.i, 2).dense(ti.i, 4).place(y)

@ti.kernel
def start():
    for i in x:
        x[i].a = i
        y[i].a = i

@ti.kernel
def copy():
    for i in x:
        x[i].b = x[i].a

@ti.kernel
def whole():
    for i in x:
        y[i] = ti.Struct(a=x[i].a * 2 + 1, b=x[i].b * 1.5)

def from_python():
    for i in range(8):
        y[i].b = int(x[i].a) * 2 + 1

def at(i):
    return x[i], y[i]
"""

SPHERES = """
@ti.dataclass
class Sphere:
    centre: tm.vec3
    radius: ti.f32

    @ti.func
    def area(self):
        return 4 * 3.0 * self.radius * self.radius

    @ti.func
    def grown(self, by):
        return Sphere(self.centre, self.radius + by)

spheres = Sphere.field(shape=4)

@ti.kernel
def area(s: Sphere) -> ti.f32:
    return s.area()

@ti.kernel
def put(i: ti.i32, s: Sphere):
    spheres[i] = s

@ti.kernel
def area_at(i: ti.i32) -> ti.f32:
    return spheres[i].area()

@ti.kernel
def grown(s: Sphere, by: ti.f32) -> Sphere:
    return s.grown(by)
"""


def sphere(radius: float) -> dict[str, Any]:
    return {"centre": [0, 0, 0], "radius": radius}


CASES = [
    case(
        "test_argument: a struct in a struct",
        NESTED,
        "Inner = ti.types.struct(a=ti.i16, b=ti.f32)\nOuter = ti.types.struct(a=ti.f32, b=Inner)\n"
        "@ti.kernel\ndef f(o: Outer) -> ti.f32:\n    return o.a + o.b.a + o.b.b\n",
        (lambda u, _: u.f({"a": 1, "b": {"a": 1, "b": 123}}), 125.0),
        (lambda u, _: u.f((1, (1, 123))), 125.0),
    ),
    case(
        "test_argument: a struct's i16 is not cut off",
        NESTED,
        "Inner = ti.types.struct(a=ti.i16, b=ti.f32)\nOuter = ti.types.struct(a=ti.f32, b=Inner)\n"
        "@ti.kernel\ndef f(o: Outer) -> ti.f32:\n    return o.a + o.b.a + o.b.b\n",
        (lambda u, _: u.f({"a": 1, "b": {"a": 65537, "b": 123}}), Fails(KernelArgumentError, r"at b\.a")),
        wrong=True,
    ),
    case(
        "test_argument: a matrix in a struct",
        NESTED,
        "mat = ti.types.matrix(3, 2, ti.f32)\nInner = ti.types.struct(a=mat, b=ti.f32)\n"
        "Outer = ti.types.struct(a=ti.i32, b=Inner)\n@ti.kernel\ndef f(o: Outer) -> ti.f32:\n    r = o.a + o.b.b\n"
        "    for i in range(3):\n        for j in range(2):\n            r += o.b.a[i, j] * (i + 1) * (j + 2)\n"
        "    return r\n",
        (
            lambda u, _: u.f({"a": 1, "b": {"a": [[1, 2], [3, 4], [5, 6]], "b": 123}}),
            1.0 + 123 + sum((i + 1) * (j + 2) * (i * 2 + j + 1) for i in range(3) for j in range(2)),
        ),
    ),
    case(
        "test_custom_struct: members one by one",
        FIELDS,
        MEMBERS,
        (lambda u, _: (u.start(), u.copy(), u.x.to_numpy()["b"])[2], np.arange(8.0)),
        (lambda u, _: (u.from_python(), u.y.to_numpy()["b"])[1], np.arange(8) * 2 + 1),
    ),
    case(
        "test_custom_struct: whole structs, cast by member",
        FIELDS,
        MEMBERS,
        (
            lambda u, _: (u.start(), u.copy(), u.whole(), u.y.to_numpy())[3],
            {"a": np.arange(8.0) * 2 + 1, "b": [0, 1, 3, 4, 6, 7, 9, 10]},
        ),
        (lambda u, _: u.at(3), ({"a": 3.0, "b": 3.0}, {"a": 7.0, "b": 4})),
    ),
    case(
        "test_custom_struct: a number for the first member, zeros for the rest",
        FIELDS,
        LINES,
        (lambda u, _: (u.fill_all(3), u.x.to_numpy())[1]["idx"], [0] * 4),
        (lambda u, _: u.x.to_numpy()["line"]["length"], [0.0] * 4),
        (lambda u, _: u.x.to_numpy()["line"]["way"], [[3.0] * 3] * 4),
    ),
    case(
        "test_custom_struct: built of structs in a kernel",
        FIELDS,
        LINES,
        (lambda u, _: (u.build(), u.x.to_numpy())[1]["line"]["length"], [0.5, 1.5, 2.5, 3.5]),
        (lambda u, _: u.x.to_numpy()["idx"], [0, 1, 2, 3]),
    ),
    case(
        "test_custom_struct: set from Python",
        FIELDS,
        LINES,
        (lambda u, _: (u.from_python(), u.x.to_numpy())[1]["line"]["length"], [0.25, 1.25, 2.25, 3.25]),
        (lambda u, _: u.x.to_numpy()["idx"], [0, -1, -2, -3]),
    ),
    case(
        "test_custom_struct: a member that is a struct is assigned",
        FIELDS,
        LINES,
        (lambda u, _: (u.lines(), u.assign(u.x, u.y), u.x.to_numpy())[2]["line"]["length"], [0.0, 1, 2, 3]),
        (lambda u, _: u.x.to_numpy()["line"]["way"], [[2.0] * 3] * 4),
    ),
    case(
        "test_custom_struct: filled from Python",
        FIELDS,
        LINES + "def refill():\n    x.fill(5)\n    x.idx.fill(7)\n",
        (lambda u, _: (u.refill(), u.x.to_numpy())[1]["idx"], [7] * 4),
        (lambda u, _: u.x.to_numpy()["line"]["length"], [5.0] * 4),
    ),
    case(
        "test_custom_struct: reals into integer members",
        STRUCTS,
        "Whole = ti.types.struct(a=int, b=ti.types.vector(2, int))\nReal = ti.types.struct(a=float, b=tm.vec2)\n"
        "@ti.kernel\ndef whole() -> int:\n    s = Whole(2.5, tm.ivec2(2))\n    return s.a + s.b[0] + s.b[1]\n"
        "@ti.kernel\ndef real() -> float:\n    s = Real(2, ti.Vector([1, 1.5]))\n    return s.a + s.b[0] + s.b[1]\n",
        (lambda u, _: [u.whole(), u.real()], [6, 4.5]),
    ),
    case(
        "test_custom_struct: structs are copied in a kernel",
        STRUCTS,
        "P = ti.types.struct(a=ti.i32, b=ti.i32)\n@ti.kernel\ndef f(p: P) -> ti.i32:\n"
        "    q = p\n    q.a = 5\n    q.b = 9\n    return p.a * 1000 + p.b * 100 + q.a * 10 + q.b\n",
        (lambda u, _: u.f({"a": 2, "b": 3}), 2359),
    ),
    case(
        "test_custom_struct: a struct of Python's scope is a constant",
        STRUCTS,
        'a = ti.Struct({"a": 2, "b": 3})\n@ti.kernel\ndef f() -> ti.i32:\n    b = a\n    r = b.a * 10 + b.b\n'
        '    b = ti.Struct({"a": 3, "b": 4})\n    return r * 100 + b.a * 10 + b.b\n',
        (lambda u, _: u.f(), 2334),
    ),
    case(
        "test_custom_struct: local structs in structs",
        NESTED,
        "Line = ti.types.struct(way=tm.vec3, length=float)\nMark = ti.types.struct(line=Line, idx=int)\n"
        "@ti.kernel\ndef f(n: ti.i32) -> Mark:\n"
        "    y = Line(1, 1)\n    x = Mark(0)\n    x.idx = n\n    x.line = y\n    return x\n",
        (lambda u, _: u.f(4), {"line": {"way": [1.0] * 3, "length": 1.0}, "idx": 4}),
    ),
    case(
        "test_custom_struct: methods of a dataclass",
        "compound: `ti.dataclass`",
        SPHERES,
        (lambda u, _: u.area(sphere(2.0)), 48.0),
        (lambda u, _: (u.put(3, sphere(0.5)), u.area_at(3), u.area_at(2))[1:], (3.0, 0.0)),
        (lambda u, _: u.grown(sphere(1.0), 0.5), {"centre": [0.0] * 3, "radius": 1.5}),
    ),
    case(
        "test_custom_struct: a dataclass with a default",
        "compound: `ti.dataclass`",
        "@ti.dataclass\nclass P:\n    a: ti.i32 = 3\n",
        (load, Fails(CompileError, "[Dd]efault value")),
        wrong=True,
    ),
    case(
        "test_complex_struct: a vector in a struct in a field",
        FIELDS,
        "Inner = ti.types.struct(v=ti.types.vector(2, ti.i32), n=ti.i64)\n"
        "Outer = ti.types.struct(inner=Inner, w=ti.f64)\nx = Outer.field(shape=(2, 2))\n"
        "@ti.kernel\ndef f(o: Outer):\n    for i, j in x:\n        x[i, j] = o\n"
        "        x[i, j].inner.v[1] += i * 10 + j\n",
        (
            lambda u, _: (u.f({"inner": {"v": [1, 2], "n": 2**40}, "w": 0.1}), u.x.to_numpy())[1]["inner"]["v"][..., 1],
            [[2, 3], [12, 13]],
        ),
        (lambda u, _: u.x.to_numpy()["inner"]["n"], np.full((2, 2), 2**40)),
    ),
    case(
        "test_argpack: basic",
        "compound: ArgPack",
        "P = ti.types.argpack(a=ti.i32, b=bool, c=ti.f32)\n@ti.kernel\ndef f(p: P) -> ti.f32:\n    r = 0.0\n"
        "    if p.b:\n        r = p.a + p.c\n    else:\n        r = p.a * p.c\n    return r\n",
        (lambda u, _: u.f({"a": 1, "b": False, "c": 2.1}), 2.1),
        (lambda u, _: u.f({"a": 2, "b": True, "c": 2.1}), 4.1),
    ),
    case(
        "test_argpack: several packs, one of an ndarray of vectors",
        "compound: ArgPack of arrays",
        "P = ti.types.argpack(a=ti.i32, c=ti.f32)\nQ = ti.types.argpack(a=ti.types.ndarray(dtype=tm.vec3, ndim=2))\n"
        "@ti.kernel\ndef f(p: P, q: Q) -> ti.f32:\n    return p.a * p.c + q.a[1, 2][1]\n",
        (lambda u, _: u.f({"a": 1, "c": 2.1}, {"a": np.full((4, 4, 3), [1, 2, 3], np.float32)}), 4.1),
    ),
    case(
        "test_argpack: as an element of a struct",
        "compound: ArgPack",
        "P = ti.types.argpack(a=ti.i32, b=bool)\nS = ti.types.struct(element=P)\n",
        (load, Fails(CompileError, "Invalid data type")),
        wrong=True,
    ),
    case(
        "test_argpack: as a return",
        "compound: ArgPack",
        "P = ti.types.argpack(a=ti.i32, b=bool)\n@ti.kernel\ndef f(p: P) -> P:\n    return p\n",
        (lambda u, _: u.f({"a": 1, "b": True}), Fails(CompileError, "Invalid data type")),
        wrong=True,
    ),
    case(
        "test_argpack: numbers and vectors",
        "compound: ArgPack",
        "P = ti.types.argpack(a=ti.f32, b=ti.i32, v=tm.vec3)\n@ti.kernel\ndef f(p: P) -> ti.f32:\n"
        "    return p.a * p.b + p.v.z\n@ti.kernel\ndef g(p: P) -> tm.vec3:\n    return p.v * 2\n",
        (lambda u, _: u.f({"a": 2.5, "b": 2, "v": [1, 2, 3]}), 8.0),
        (lambda u, _: u.g({"a": 2.5, "b": 2, "v": [1, 2, 3]}), [2.0, 4.0, 6.0]),
    ),
    case(
        "test_argpack: one pack, changed between two calls",
        "compound: ArgPack",
        "P = ti.types.argpack(a=ti.f32, n=ti.i32)\np = P(a=1.0, n=2)\n@ti.kernel\ndef f(p: P) -> ti.f32:\n"
        "    return p.a + p.n\ndef change():\n    p.a = 5.0\n    return f(p)\ndef now():\n    return f(p)\n",
        (lambda u, _: [u.now(), u.change(), u.now()], [3.0, 7.0, 7.0]),
    ),
    case(
        "test_argpack: a pack in a pack, and numbers beside",
        "compound: ArgPack",
        "I = ti.types.argpack(x=ti.i32, y=ti.f32)\nO = ti.types.argpack(i=I, k=ti.i32)\n@ti.kernel\n"
        "def f(a: ti.f32, o: O, b: ti.f32) -> ti.f32:\n    return a + o.i.x * 10 + o.i.y * 100 + o.k * 1000 + b\n",
        (lambda u, _: u.f(0.5, {"i": {"x": 1, "y": 2}, "k": 3}, 0.25), 3210.75),
    ),
    case(
        "test_argpack: an ndarray in a pack",
        "compound: ArgPack of arrays",
        "P = ti.types.argpack(x=ti.types.ndarray(ndim=1, dtype=ti.f32), by=ti.f32)\n@ti.kernel\ndef f(p: P):\n"
        "    for i in range(p.x.shape[0]):\n        p.x[i] *= p.by\n",
        (lambda u, gpu: _scaled(u, gpu.array(np.arange(4, dtype=np.float32))), [0.0, 3.0, 6.0, 9.0]),
        (lambda u, _: _scaled(u, np.arange(4, dtype=np.float32)), [0.0, 3.0, 6.0, 9.0]),
    ),
    case(
        "test_argpack: what is no pack",
        "compound: ArgPack",
        "P = ti.types.argpack(a=ti.f32)\nQ = ti.types.argpack(b=ti.f32)\n@ti.kernel\ndef f(p: P) -> ti.f32:\n"
        "    return p.a\ndef other():\n    return Q(b=1.0)\n",
        (lambda u, _: u.f(1.0), Fails(KernelArgumentError, "pass a dict")),
        (lambda u, _: u.f(u.other()), Fails(KernelArgumentError, "no a and an unknown b")),
        wrong=True,
    ),
]


def _scaled(unit: Any, x: Any) -> Any:
    unit.f({"x": x, "by": 3.0})
    return np.asarray(x)


@pytest.mark.parametrize("of_suite", CASES)
def test_structs_as_in_taichis_suite(gpu: Session, of_suite: Case) -> None:
    """Each gives remotely what it gives there."""
    check(gpu, of_suite)
