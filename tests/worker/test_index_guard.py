"""In a debug session an index is checked before it is used: what is told of it, and what is left alone."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from tested_runtime import RUNTIME
from tiremote.worker.out_of_bounds import OutOfBounds, message, read

FAR = 100_000_000

SOURCE = """\
n = 10
x = ti.ndarray(ti.f32, n)
y = ti.ndarray(ti.f32, (3, 4))
z = ti.ndarray(ti.f32, (2, 3, 4))
v = ti.ndarray(ti.types.vector(3, ti.f32), 5)
m = ti.Matrix.ndarray(2, 2, ti.f32, (5, 6))
f = ti.field(ti.i32, n)
g = ti.field(ti.f32, (3, 4))
vf = ti.Vector.field(3, ti.f32, 5)
sf = ti.types.struct(p=ti.types.vector(3, ti.f32), q=ti.f32).field(shape=4)
of = ti.field(ti.f32)
ti.root.dense(ti.ij, (4, 5)).place(of, offset=(-2, -2))
columns = ti.field(ti.f32, (3, 4), order="ji", offset=(1, 0))
scalar = ti.field(ti.i32, ())
loss = ti.field(ti.f32, (), needs_grad=True)
w = ti.field(ti.f32, n, needs_grad=True)

@ti.func
def inside(i):
    return f[i]

@ti.func
def given(i):
    return f[i] if 0 <= i < n else 0

@ti.kernel
def one(a: ti.types.ndarray(), i: ti.i32):
    a[i] = 1
@ti.kernel
def one_64(a: ti.types.ndarray(), i: ti.i64):
    a[i] = 1
@ti.kernel
def two(a: ti.types.ndarray(), i: ti.i32, j: ti.i32):
    a[i, j] += 1
@ti.kernel
def by_vector(a: ti.types.ndarray(), i: ti.i32, j: ti.i32):
    at = ti.Vector([i, j])
    a[at] = 1
@ti.kernel
def three(a: ti.types.ndarray(), i: ti.i32):
    ti.atomic_add(a[0, i, 0], 1.0)
@ti.kernel
def of_vector(a: ti.types.ndarray(dtype=ti.types.vector(3, ti.f32)), i: ti.i32, j: ti.i32):
    a[i][j] = 1
@ti.kernel
def of_matrix(a: ti.types.ndarray(dtype=ti.types.matrix(2, 2, ti.f32)), i: ti.i32, j: ti.i32):
    a[i, 0][0, j] = 1
@ti.kernel
def field(i: ti.i32):
    f[i] = 1
@ti.kernel
def field_2(i: ti.i32):
    for at in ti.grouped(g):
        g[at + i] = 1
@ti.kernel
def by_columns(i: ti.i32, j: ti.i32):
    columns[i, j] = 1
@ti.kernel
def constant():
    f[10] = 1
@ti.kernel
def vectors(i: ti.i32, j: ti.i32):
    vf[i][j] = 1
@ti.kernel
def structs(i: ti.i32, j: ti.i32):
    sf[i].p[j] = 1
@ti.kernel
def with_offset(i: ti.i32, j: ti.i32):
    of[i, j] = 1
@ti.kernel
def no_axes():
    scalar[None] += 1
@ti.kernel
def through_func(i: ti.i32) -> ti.i32:
    return inside(i)
@ti.kernel
def parallel(a: ti.types.ndarray(), step: ti.i32):
    for k in range(100):
        a[k * step] = 1
@ti.kernel
def local(i: ti.i32) -> ti.f32:
    here = ti.Vector([1.0, 2.0, 3.0])
    return here[i]
@ti.kernel
def wrong_type(a: ti.types.ndarray(), i: ti.f32):
    a[i] = 1

@ti.kernel
def choices() -> ti.i32:
    total = 0
    for i in range(-3, 13):
        total += given(i) + (f[i] if i >= 0 and i < n else 1) + (1 if i < 0 or i >= n else f[i])
        if i >= 0 and i < n and f[i] == 0:
            total += 100
        if i < 0 or i >= n or f[i] > 0:
            total += 10000
    return total
@ti.kernel
def nested(i: ti.i32) -> ti.i32:
    return (f[i] if i < 11 else f[i - 3]) if i < 13 else -1
@ti.kernel
def static(i: ti.i32) -> ti.i32:
    total = 0
    for k in ti.static(range(3)):
        total += (f[i] if ti.static(k > 5) else 7) + (f[i] if i < 3 + k else 1)
    return total
@ti.kernel
def loop() -> ti.i32:
    i = 0
    while i < n and f[i] == 0:
        i += 1
    return i
@ti.kernel
def func_in_choice(i: ti.i32) -> ti.i32:
    return inside(i) if i < n else 0
@ti.kernel
def vector_choice(i: ti.i32) -> ti.f32:
    here = vf[i] if i < 5 else ti.Vector([0.0, 0.0, 0.0])
    return here[0]

@ti.kernel
def squares():
    for i in range(n):
        total = 0.0
        for j in ti.static(range(3)):
            total += w[(i + j) % n] * (w[i + 1] if i + 1 < n else 1.0)
        loss[None] += total
def gradient():
    w.fill(1)
    loss[None] = 0
    with ti.ad.Tape(loss):
        squares()
    return w.grad.to_numpy().tolist()

def element(a, i):
    return a[i]
def set_element(a, i):
    a[i] = 1
"""

#: A call, what is out of which bounds, from where on, and the text that is underlined.
OUTSIDE: list[tuple[str, tuple[int, ...], tuple[int, ...], str]] = [
    ("one(x, 10)", (10,), (10,), "a[i]"),
    ("one(x, -1)", (-1,), (10,), "a[i]"),
    (f"one(x, {FAR})", (FAR,), (10,), "a[i]"),
    (f"one(np.zeros(10), {FAR})", (FAR,), (10,), "a[i]"),
    ("two(y, 3, 1)", (3, 1), (3, 4), "a[i, j]"),
    (f"two(y, 0, -{FAR})", (0, -FAR), (3, 4), "a[i, j]"),
    ("by_vector(y, 0, 4)", (0, 4), (3, 4), "a[at]"),
    ("three(z, 3)", (0, 3, 0), (2, 3, 4), "a[0, i, 0]"),
    (f"of_vector(v, {FAR}, 0)", (FAR,), (5,), "a[i]"),
    ("of_vector(v, 1, 3)", (3,), (3,), "a[i][j]"),
    ("of_matrix(m, 1, 2)", (0, 2), (2, 2), "a[i, 0][0, j]"),
    (f"field({FAR})", (FAR,), (10,), "f[i]"),
    ("field_2(1)", (1, 4), (3, 4), "g[at + i]"),
    ("constant()", (10,), (10,), "f[10]"),
    ("vectors(5, 0)", (5,), (5,), "vf[i]"),
    (f"vectors(1, {FAR})", (FAR,), (3,), "vf[i][j]"),
    ("structs(4, 0)", (4,), (4,), "sf[i]"),
    ("structs(1, 7)", (7,), (3,), "sf[i].p[j]"),
    (f"through_func({FAR})", (FAR,), (10,), "f[i]"),
    ("parallel(x, 10_000_000)", (10_000_000,), (10,), "a[k * step]"),
    ("local(5)", (5,), (3,), "here[i]"),
    ("nested(10)", (10,), (10,), "f[i]"),
    ("func_in_choice(10)", (10,), (10,), "f[i]"),
    ("vector_choice(5)", (5,), (5,), "vf[i]"),
    (f"element(x, {FAR})", (FAR,), (10,), "a[i]"),
    (f"set_element(f, {FAR})", (FAR,), (10,), "a[i]"),
    ("element(g, (0, 4))", (0, 4), (3, 4), "a[i]"),
    ("element(vf, 9)", (9,), (5,), "a[i]"),
]

#: A call, and what it gives.
INSIDE: list[tuple[str, Any]] = [
    ("one(x, 9)", None),
    ("one_64(x, 2**33 + 3)", None),
    ("with_offset(-2, 2)", None),
    ("field_2(0)", None),
    ("choices()", 12 + 10 * 100 + 6 * 10000),
    ("nested(12)", 0),
    ("nested(14)", -1),
    ("static(12)", 24),
    ("loop()", 10),
    ("func_in_choice(9)", 0),
    ("element(of, (-2, -2))", 0.0),
    ("(no_axes(), element(scalar, None))[1]", 1),
    ("(by_columns(3, 3), element(columns, (3, 3)))[1]", 1.0),
]

#: A call, and what is told of a field that does not begin at zero, or lies in memory in another order.
ELSEWHERE = {
    "with_offset(-3, 0)": OutOfBounds(index=(-3, 0), shape=(4, 5), first=(-2, -2)),
    "by_columns(4, 0)": OutOfBounds(index=(4, 0), shape=(3, 4), first=(1, 0)),
    "by_columns(1, 4)": OutOfBounds(index=(1, 4), shape=(3, 4), first=(1, 0)),
    "element(columns, (1, 4))": OutOfBounds(index=(1, 4), shape=(3, 4), first=(1, 0)),
}

SCRIPT = """
import json, sys
import numpy as np
from tiremote.worker.engine.frames import run_error
from tiremote.worker.engine.loader import KernelLoader
from tiremote.worker.engine.runtime import TaichiRuntime
name, source, calls, arch, debug = json.load(sys.stdin)
runtime = TaichiRuntime(name)
runtime.init({"arch": arch, "debug": debug})
loader = KernelLoader(runtime)
loader.compile_and_load(source)
names = {**loader.loaded(None).namespace, "np": np}
answers = {}
for call in calls:
    names["f"].fill(0)
    try:
        value = eval(call, names)
        runtime.sync()
        answers[call] = ["fine", value, []]
    except Exception as error:
        told = run_error(error, runtime)
        frames = [frame.text[frame.column - 1 : frame.end_column - 1] for frame in told.frames]
        answers[call] = [getattr(told, "type", told.code), told.message, frames]
print(json.dumps(answers))
"""


def outcomes(calls: list[str], arch: str, *, debug: bool) -> dict[str, Any]:
    """What calls come to in a process of their own: how, the value or the message, what is underlined."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        input=json.dumps([RUNTIME, SOURCE, calls, arch, debug]),
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answers: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answers


@pytest.fixture(scope="module")
def debug(arch: str) -> Callable[[str], Any]:
    """What a call comes to in a debug session."""
    calls = [*(each[0] for each in INSIDE), *ELSEWHERE, "wrong_type(x, 1.5)", "gradient()"]
    calls += [each[0] for each in OUTSIDE]

    @functools.cache
    def batch(*asked: str) -> dict[str, Any]:
        return outcomes(list(asked), arch, debug=True)

    # On CUDA a process is of no use after a failed assertion.
    return lambda call: batch(*(calls if arch == "cpu" else [call]))[call]


@pytest.mark.parametrize(("call", "index", "shape", "underlined"), OUTSIDE, ids=[each[0] for each in OUTSIDE])
def test_an_index_outside_is_told(
    debug: Callable[[str], Any], call: str, index: tuple[int, ...], shape: tuple[int, ...], underlined: str
) -> None:
    """With its numbers, the shape and its place in the text, however far out it is: nothing was written there."""
    kind, told, frames = debug(call)
    assert kind == "AssertionError"
    assert read(told) == OutOfBounds(index=index, shape=shape)
    assert frames[-1] == underlined


@pytest.mark.parametrize(("call", "value"), INSIDE, ids=[each[0] for each in INSIDE])
def test_an_index_inside_is_left_alone(debug: Callable[[str], Any], call: str, value: Any) -> None:
    """Also where the code itself asks first, in a choice or with ``and`` and ``or``, whether it is inside."""
    assert debug(call)[:2] == ["fine", value]


@pytest.mark.parametrize("call", ELSEWHERE)
def test_a_field_may_begin_elsewhere(debug: Callable[[str], Any], call: str) -> None:
    """Its first index is told with the shape, each in the order of the field's own axes."""
    assert read(debug(call)[1]) == ELSEWHERE[call]


def test_what_taichi_refuses_is_refused(debug: Callable[[str], Any]) -> None:
    """An index that is no whole number, in Taichi's own words."""
    assert debug("wrong_type(x, 1.5)")[0] == "compile"


def test_gradients_are_what_they_were(debug: Callable[[str], Any], arch: str) -> None:
    """A kernel with checks has the derivative of one without."""
    plain = outcomes(["gradient()"], arch, debug=False)["gradient()"]
    assert plain[0] == "fine"
    assert debug("gradient()") == plain


def test_texts_are_read_again() -> None:
    """Ours, those of Taichi 1.7.4 where its own check finds something, and no other."""
    assert read(message((3, -1), (3, 4), (0, -1))) == OutOfBounds(index=(3, -1), shape=(3, 4), first=(0, -1))
    assert read("Accessing field (S2place<f32>) of size (3, 4) with indices (3, 0)") == OutOfBounds(
        index=(3, 0), shape=(3, 4)
    )
    assert read("Out of bound access to a [3] matrix with index [5]") == OutOfBounds(index=(5,), shape=(3,))
    assert read("Out of bound access to ndarray at arg 0 with indices [8]") == OutOfBounds(index=(8,))
    assert read("index (1) is out of bounds, says the user") is None
