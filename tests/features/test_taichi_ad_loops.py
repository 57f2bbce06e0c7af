"""What Taichi's own tests of differentiated loops and atomics find, through a worker; tests/COVERAGE.md lists them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from features.cases import Call, same, shared
from features.rows import feature, row_of
from real_worker import RealWorker
from tiremote.client import RemoteUnit, Session, connect

TAPE, GRAD = "autodiff: `ti.ad.Tape` from the client", "autodiff: `kernel.grad`"

#: Each kernel adds to `loss` or `y` what its number of turns says, and the sine's derivative at 0 is 1.
SOURCE = """
x = ti.field(ti.f32, (), needs_grad=True)
y = ti.field(ti.f32, (), needs_grad=True)
loss = ti.field(ti.f32, (), needs_grad=True)
two = ti.field(ti.f32, 2, needs_grad=True)

@ti.kernel
def nothing():
    for i in range(5):
        for j in range(5):
            pass

@ti.kernel
def local_variables():
    for i in two:
        for j in range(3):
            s = 0.0
            t = 0.0
            for k in range(3):
                s += ti.sin(x[None]) + 1.0
                t += ti.sin(x[None])
            loss[None] += s + t

@ti.kernel
def one_deeper():
    for i in two:
        for j in range(2):
            s = 0.0
            for k in range(3):
                u = 0.0
                s += ti.sin(x[None]) + 1.0
                for m in range(2):
                    u += ti.sin(x[None])
                loss[None] += u
            loss[None] += s

@ti.kernel
def stacked():
    for i in two:
        loss[None] += ti.sin(x[None])
        for j in range(3):
            s = 0.0
            for k in range(3):
                s += ti.sin(x[None]) + 1.0
            loss[None] += s
        for j in range(3):
            s = 0.0
            for k in range(3):
                s += ti.sin(x[None]) + 1.0
            loss[None] += s

@ti.kernel
def stacked_and_mixed():
    for i in two:
        loss[None] += ti.sin(x[None])
        for j in range(3):
            for k in range(3):
                loss[None] += ti.sin(x[None]) + 1.0
        for j in range(3):
            s = 0.0
            for k in range(3):
                s += ti.sin(x[None]) + 1.0
            loss[None] += s
        for j in range(3):
            for k in range(3):
                loss[None] += ti.sin(x[None]) + 1.0

@ti.kernel
def two_blocks():
    for j in range(2):
        for i in range(3):
            y[None] += x[None]
        for i in range(3):
            y[None] += x[None]

@ti.kernel
def two_blocks_twice_and_one_more():
    for j in range(2):
        for i in range(3):
            y[None] += x[None]
        for i in range(3):
            y[None] += x[None]
    for j in range(2):
        for i in range(3):
            y[None] += x[None]
        for i in range(3):
            y[None] += x[None]
            for k in range(3):
                y[None] += x[None]

@ti.kernel
def mixed_blocks():
    for j in range(2):
        for i in range(3):
            y[None] += x[None]
        for i in range(3):
            for k in range(2):
                y[None] += x[None]
            for k in range(2):
                y[None] += x[None]
                for m in range(2):
                    y[None] += x[None]
        for i in range(3):
            for k in range(2):
                for m in range(2):
                    y[None] += x[None]

ten_x = ti.field(ti.f32, 10, needs_grad=True)
ten_y = ti.field(ti.f32, 10, needs_grad=True)
total = ti.field(ti.f32, (), needs_grad=True)
counts = ti.field(ti.i32, 10)

@ti.kernel
def deeper_by_index():
    for j in range(10):
        for i in range(j):
            ten_y[j] += ten_x[j]
        for i in range(3):
            for k in range(j):
                ten_y[j] += ten_x[j]
        for i in range(3):
            for k in range(2):
                for m in range(j):
                    ten_y[j] += ten_x[j]

@ti.kernel
def loaded_before():
    for i in range(10):
        value = ten_x[i]
        for j in range(counts[i]):
            ten_y[i] += i
        ten_y[i] = value * i

@ti.kernel
def fibonacci_index():
    for i in range(5):
        p = 0
        q = 1
        for j in range(5):
            p, q = q, p + q
            ten_y[q] += ten_x[q]
    for i in range(10):
        total[None] += ten_y[i]

@ti.kernel
def running_index():
    for i in range(5):
        p = 0
        for j in range(5):
            ten_y[i] += ten_x[p] ** 2
            p += 1
    for i in range(5):
        total[None] += ten_y[i]

@ti.kernel
def growing_weight():
    for i in range(10):
        weight = 2.0
        s = 0.0
        sum_of_weights = 0.0
        for j in range(counts[i]):
            sum_of_weights += weight + 1
            s += (weight + 1) * ten_x[i]
            weight = weight + 1
            weight = weight * 4
            weight = ti.cast(weight, ti.f64)
            weight = ti.cast(weight, ti.f32)
        ten_y[i] = s
        weights[i] = sum_of_weights

weights = ti.field(ti.f32, 10)
a = ti.field(ti.f32, 6, needs_grad=True)
b = ti.field(ti.f32, 6, needs_grad=True)
turns = ti.field(ti.i32, (6, 3))
f = ti.field(ti.f32, (6, 3), needs_grad=True)

@ti.kernel
def more_nests():
    for i in range(6):
        for k in range(3):
            weight = 1.0
            for j in range(turns[i, k]):
                weight *= a[i]
            s = 0.0
            for j in range(turns[i, k] * 2):
                s += weight + b[i]
            f[i, k] = s
"""

SQUARES = """
x = ti.field(ti.f32, needs_grad=True)
total = ti.field(ti.f32, needs_grad=True)
ti.root.place(total, total.grad)
ti.root.dense(ti.i, 16).place(x, x.grad)
dual_x = ti.field(ti.f32, 16, needs_dual=True)
dual_total = ti.field(ti.f32, (), needs_dual=True)

@ti.kernel
def squares():
    for i in x:
        total[None] += x[i] ** 2

@ti.kernel
def squares_forward():
    for i in dual_x:
        dual_total[None] += dual_x[i] ** 2
"""


def on_tape(kernel: str, loss: str, at: float) -> Call:
    """A loss and its gradient by `x`, which holds this."""

    def act(unit: Any, gpu: Session) -> list[float]:
        unit.x[None] = at
        unit[loss][None] = 0.0
        with gpu.ti.ad.Tape(loss=unit[loss]):
            unit[kernel]()
        return [float(unit[loss][None]), float(unit.x.grad[None])]

    return act


def by_grad(kernel: str, loss: str, at: float) -> Call:
    """The same, the gradient of the loss being put there by hand."""

    def act(unit: Any, gpu: Session) -> list[float]:
        gpu.ti.ad.clear_all_gradients()
        unit.x[None] = at
        unit[loss][None] = 0.0
        unit[loss].grad[None] = 1.0
        unit[kernel]()
        unit[kernel].grad()
        return [float(unit[loss][None]), float(unit.x.grad[None])]

    return act


def of_ten(kernel: str, x: Any, seed: str = "ten_y", counts: Any = 0) -> Call:
    """`ten_y`, and the gradients of `ten_x`, which holds this."""

    def act(unit: Any, gpu: Session) -> list[list[float]]:
        gpu.ti.ad.clear_all_gradients()
        unit.ten_x.from_numpy(np.broadcast_to(np.array(x, np.float32), 10).copy())
        unit.counts.from_numpy(np.broadcast_to(np.array(counts, np.int32), 10).copy())
        unit.ten_y.fill(0)
        unit.total.fill(0)
        unit[seed].grad.fill(1)
        unit[kernel]()
        unit[kernel].grad()
        return [unit.ten_y.to_numpy().tolist(), unit.ten_x.grad.to_numpy().tolist()]

    return act


def of_growing_weight(unit: Any, gpu: Session) -> bool:
    gradients = of_ten("growing_weight", 2.0, counts=np.arange(10) % 5)(unit, gpu)[1]
    return bool(np.allclose(gradients, unit.weights.to_numpy())) and gradients[:3] == [0.0, 3.0, 16.0]


def of_more_nests(unit: Any, gpu: Session) -> list[list[float]]:
    gpu.ti.ad.clear_all_gradients()
    unit.a.fill(2)
    unit.b.fill(1)
    unit.turns.from_numpy((np.arange(6)[:, None] + np.arange(3)).astype(np.int32))
    unit.f.grad.fill(1)
    unit.more_nests()
    unit.more_nests.grad()
    return [each.to_numpy().tolist() for each in (unit.f, unit.a.grad, unit.b.grad)]


def of_empty_loops(unit: Any, gpu: Session) -> list[float]:
    with gpu.ti.ad.Tape(loss=unit.loss):
        unit.nothing()
    return [float(unit.loss[None]), float(unit.x.grad[None])]


SUMS = np.arange(6)[:, None] + np.arange(3)
IS_FIBONACCI = [5.0 if i in (1, 2, 3, 5, 8) else 0.0 for i in range(10)]
TENFOLD = [i * 10.0 for i in range(10)]

CASES = [
    shared("test_ad_for: empty loops on a tape", TAPE, of_empty_loops, [0.0, 0.0]),
    shared("test_ad_for: Fibonacci numbers as indices", GRAD, of_ten("fibonacci_index", 1, "total"),
         [IS_FIBONACCI, IS_FIBONACCI]),
    shared("test_ad_for: a running index", GRAD, of_ten("running_index", [*range(5), *[0] * 5], "total"),
         [[30.0] * 5 + [0.0] * 5, [2.0 * i * 5 for i in range(5)] + [0.0] * 5]),
    shared("test_ad_for: two more nests", GRAD, of_more_nests,
         [(2.0 * SUMS * (1 + 2.0**SUMS)).tolist(), (2 * SUMS**2 * 2.0 ** (SUMS - 1)).sum(1).tolist(),
          (2.0 * SUMS).sum(1).tolist()]),
    shared("test_ad_for: a weight that grows and is cast", GRAD, of_growing_weight, True),
    shared("test_ad_for: inner variables, on a tape", TAPE, on_tape("local_variables", "loss", 0), [18.0, 36.0]),
    shared("test_ad_for: inner variables", GRAD, by_grad("local_variables", "loss", 0), [18.0, 36.0]),
    shared("test_ad_for: one deeper, on a tape", TAPE, on_tape("one_deeper", "loss", 0), [12.0, 36.0]),
    shared("test_ad_for: stacked", GRAD, by_grad("stacked", "loss", 0), [36.0, 38.0]),
    shared("test_ad_for: stacked and mixed", GRAD, by_grad("stacked_and_mixed", "loss", 0), [54.0, 56.0]),
    shared("test_ad_for: two blocks", TAPE, on_tape("two_blocks", "y", 1), [12.0, 12.0]),
    shared("test_ad_for: two blocks twice and one more", TAPE, on_tape("two_blocks_twice_and_one_more", "y", 1),
         [42.0, 42.0]),
    shared("test_ad_for: mixed blocks", TAPE, on_tape("mixed_blocks", "y", 1), [78.0, 78.0]),
    shared("test_ad_for: deeper, by index", GRAD, of_ten("deeper_by_index", 1), [TENFOLD, TENFOLD]),
    shared("test_ad_for: a value loaded before a loop", GRAD, of_ten("loaded_before", range(10), counts=2),
         [[float(i * i) for i in range(10)], [float(i) for i in range(10)]]),
]  # fmt: skip


@pytest.fixture(scope="module")
def loops(runtime_worker: RealWorker, runtime: str, arch: str) -> Iterator[Session]:
    """A session in which loops can be differentiated: with the option, on a runtime that asks for it."""
    asks = runtime in row_of("autodiff", "inner loops").lacking
    options = {"ad_stack_experimental_enabled": True} if asks else {}
    with connect(runtime_worker.address, arch=arch, runtime=runtime, options=options, on_output=None) as gpu:
        yield gpu


@pytest.fixture(scope="module")
def unit(loops: Session) -> RemoteUnit:
    """The one source of this file."""
    return loops[loops.compile_and_load(SOURCE, "loops").unit]


@pytest.mark.parametrize(("call", "expected"), CASES)
def test_loops_are_differentiated_as_in_taichis_suite(
    loops: Session, unit: RemoteUnit, call: Call, expected: Any
) -> None:
    """The values and gradients that its suite expects."""
    same(call(unit, loops), expected)


@feature("autodiff", "`kernel.grad`")
def test_a_sum_of_squares_by_atomics(gpu: Session) -> None:
    """test_ad_atomic: the gradient of each square is twice its root; gradients are placed by hand."""
    unit = gpu[gpu.compile_and_load(SQUARES).unit]
    unit.x.fill_arange()
    unit.total.grad[None] = 1
    unit.squares()
    unit.squares.grad()
    assert float(unit.total[None]) == sum(i * i for i in range(16))
    assert unit.x.grad.to_numpy().tolist() == [2.0 * i for i in range(16)]


@feature("autodiff", "forward mode from the client")
def test_a_sum_of_squares_by_atomics_forwards(gpu: Session) -> None:
    """test_ad_atomic_fwd: with a seed of ones the dual is the sum of all twofold roots."""
    unit = gpu[gpu.compile_and_load(SQUARES).unit]
    unit.dual_x.fill_arange()
    with gpu.ti.ad.FwdMode(loss=unit.dual_total, param=unit.dual_x, seed=[1.0] * 16):
        unit.squares_forward()
    assert float(unit.dual_total[None]) == sum(i * i for i in range(16))
    assert float(unit.dual_total.dual[None]) == sum(2 * i for i in range(16))
