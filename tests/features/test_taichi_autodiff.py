"""What Taichi's own tests of differentiation and of classes find, through a worker; tests/COVERAGE.md lists them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from features.rows import feature
from real_worker import RealWorker
from tiremote.client import Session, connect
from tiremote.protocol.errors import CompileError, KernelArgumentError, TiremoteError

Act = Callable[[Any, Session], Any]

_KERNEL, _FORWARD = "`kernel.grad`", "forward mode from the client"
_LOOPS = "inner loops"
_OWN = "`ti.ad.grad_replaced`, `grad_for`, `no_grad`"


def case(name: str, row: str, source: str, act: Act, expected: Any, group: str = "autodiff") -> Any:
    """One of Taichi's: what ``act`` gives on the loaded source has to be ``expected``."""
    return pytest.param(source, act, expected, id=name, marks=feature(group, row))


def gradients(unit: Any, kernel: str, arrays: list[Any]) -> None:
    """Runs a kernel and its gradient, that of the last argument being 1."""
    unit[kernel](*arrays)
    arrays[-1].grad.fill(1.0)
    unit[kernel].grad(*arrays)


X_AND_Y = """
x = ti.field(ti.{t}, 4, needs_grad=True)
y = ti.field(ti.{t}, 4, needs_grad=True)

@ti.kernel
def func():
    for i in x:
{body}
"""


def of_branches(body: str, dtype: str = "f32") -> str:
    return X_AND_Y.format(t=dtype, body="\n".join(f"        {line}" for line in body.splitlines()))


def branch(values: list[float]) -> Act:
    """The gradients of ``x`` where ``x`` is this and the gradient of ``y`` 1."""

    def act(unit: Any, _: Session) -> list[float]:
        unit.x.from_numpy(np.array(values, unit.x.dtype))
        unit.func()
        unit.y.grad.fill(1.0)
        unit.func.grad()
        return unit.x.grad.to_numpy().tolist()  # type: ignore[no-any-return]

    return act


LOOPS = """
@ti.kernel
def total(a: ti.types.ndarray(), b: ti.types.ndarray(), p: ti.types.ndarray()):
    for i in range(10):
        ret = 1.0
        for j in range(b[i]):
            ret += a[i]
        p[i] = ret

@ti.kernel
def power(a: ti.types.ndarray(), b: ti.types.ndarray(), p: ti.types.ndarray()):
    for i in range(10):
        ret = 1.0
        for j in range(b[i]):
            ret = ret * a[i]
        p[i] = ret

@ti.kernel
def fibonacci(a: ti.types.ndarray(), b: ti.types.ndarray(), c: ti.types.ndarray(), f: ti.types.ndarray()):
    for i in range(10):
        p = a[i]
        q = b[i]
        for j in range(c[i]):
            p, q = q, p + q
        f[i] = q

@ti.kernel
def weighted(a: ti.types.ndarray(), b: ti.types.ndarray(), c: ti.types.ndarray(), f: ti.types.ndarray()):
    for i in range(5):
        weight = 1
        s = 0.0
        for j in range(c[i]):
            s += weight * a[i] + b[i]
            weight *= 10
        f[i] = s

@ti.kernel
def two_loops(a: ti.types.ndarray(), b: ti.types.ndarray(), c: ti.types.ndarray(), f: ti.types.ndarray()):
    for i in range(5):
        weight = 1.0
        for j in range(c[i]):
            weight *= a[i]
        s = 0.0
        for j in range(c[i] * 2):
            s += weight + b[i]
        f[i] = s

@ti.kernel
def mixed(x: ti.types.ndarray(), many: ti.types.ndarray(), loss: ti.types.ndarray()):
    for i in many:
        loss[0] += ti.sin(x[0])
        for j in range(2):
            loss[0] += ti.sin(x[0]) + 1.0
"""


def counted(kernel: str, names: int, size: int, value: float, which: tuple[int, ...] = (0,)) -> Act:
    """Of arrays filled with a number, the next to last counting from 0, the gradients of some."""

    def act(unit: Any, gpu: Session) -> list[list[float]]:
        arrays = [gpu.ti.ndarray("f32", size, needs_grad=True) for _ in range(names)]
        arrays[-2] = gpu.ti.ndarray("i32", size)
        for each in arrays[:-2]:
            each.fill(value)
        arrays[-2].fill_arange()
        gradients(unit, kernel, arrays)
        return [arrays[number].grad.to_numpy().tolist() for number in which]

    return act


def mixed_loops(unit: Any, gpu: Session) -> list[float]:
    x, loss = (gpu.ti.ndarray("f32", 1, needs_grad=True) for _ in range(2))
    with gpu.ti.ad.Tape(loss=loss):
        unit.mixed(x, gpu.ti.ndarray("f32", 5), loss)
    return [float(loss[0]), float(x.grad[0])]


FUNCTIONS = """
x = ti.field(ti.f64, 10, needs_grad=True)
y = ti.field(ti.f64, 10, needs_grad=True)

@ti.kernel
def func():
    for i in range(1):
        y[0] = ti.tanh(x[0])
        y[1] = ti.sin(x[1])
        y[2] = ti.cos(x[2])
        y[3] = 1 / x[3]
        y[4] = ti.sqrt(x[4])
        y[5] = ti.exp(x[5])
        y[6] = ti.log(x[6])
        y[7] = (x[7] + 1) / (x[7] - 1)
        y[8] = ti.max(x[8], 1.0)
        y[9] = 0.4 ** x[9]
"""


def of_functions(unit: Any, _: Session) -> bool:
    x = np.full(10, 0.7)
    unit.x.from_numpy(x)
    unit.func()
    unit.y.grad.fill(1.0)
    unit.func.grad()
    v = 0.7
    expected = [1 - np.tanh(v) ** 2, np.cos(v), -np.sin(v), -1 / v**2, 0.5 / np.sqrt(v), np.exp(v), 1 / v,
                -2 / (v - 1) ** 2, 0.0, np.log(0.4) * 0.4**v]  # fmt: skip
    return bool(np.allclose(unit.x.grad.to_numpy(), expected, rtol=1e-5))


FORWARD = """
a = ti.field(float, 5, needs_dual=True)
b = ti.field(float, 5, needs_dual=True)
one = ti.field(float, (), needs_dual=True)
other = ti.field(float, (), needs_dual=True)
each = ti.field(float, 5, needs_dual=True)

@ti.kernel
def add():
    each[1] += 2 * a[3]

@ti.kernel
def multiply():
    each[1] += a[3] * a[4]

@ti.kernel
def calls():
    one[None] += 3 * b[1] ** 2 + 5 * a[3] ** 2
    other[None] += 4 * b[2] ** 2 + 6 * a[4] ** 2
"""


def forward(kernel: str, loss: str, param: str, seed: list[float]) -> Act:
    def act(unit: Any, gpu: Session) -> Any:
        unit.a.fill_arange()
        unit.b.fill_arange()
        with gpu.ti.ad.FwdMode(loss=unit[loss], param=unit[param], seed=seed):
            unit[kernel]()
        found = unit[loss].dual.to_numpy()
        return float(found if found.ndim == 0 else found[1])

    return act


OWN = """
x = ti.field(ti.f32, 128, needs_grad=True)
total = ti.field(ti.f32, (), needs_grad=True)

@ti.kernel
def func(mul: ti.f32):
    for i in range(128):
        ti.atomic_add(total[None], x[i] * mul)

def func_proxy(mul):
    func(mul)

@ti.ad.grad_replaced
def forward(mul):
    func_proxy(mul)
    func_proxy(mul)

@ti.ad.grad_for(forward)
def backward(mul):
    func.grad(mul)

@ti.ad.no_grad
def left_out(mul):
    func(mul)
    func(mul)

def wrong():
    @ti.ad.grad_for(func)
    def backward(mul):
        func.grad(mul)

@ti.data_oriented
class A:
    def __init__(self):
        self.x = ti.field(ti.f32, 128, needs_grad=True)
        self.total = ti.field(ti.f32, (), needs_grad=True)

    @ti.kernel
    def func(self, mul: ti.f32):
        for i in range(128):
            ti.atomic_add(self.total[None], self.x[i] * mul)

    @ti.ad.grad_replaced
    def forward(self, mul):
        self.func(mul)
        self.func(mul)

    @ti.ad.grad_for(forward)
    def backward(self, mul):
        self.func.grad(mul)
"""


def taped(*calls: tuple[str, float]) -> Act:
    def act(unit: Any, gpu: Session) -> float:
        with gpu.ti.ad.Tape(loss=unit.total):
            for name, value in calls:
                unit[name](value)
        return float(unit.x.grad[0])

    return act


def called(name: str) -> Act:
    def act(unit: Any, _: Session) -> float:
        unit.total.grad.fill(1.0)
        unit[name](4)
        unit[name].grad(4)
        return float(unit.x.grad[0])

    return act


def of_an_object(unit: Any, gpu: Session) -> float:
    a = unit.A()
    with gpu.ti.ad.Tape(loss=a.total):
        a.forward(4)
    return float(a.x.grad[0])


def of_a_kernel_itself(unit: Any, gpu: Session) -> list[Any]:
    with pytest.raises(TiremoteError, match="python"):
        unit.wrong()
    return [taped(("func", 4))(unit, gpu)]


COUNTS = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]
FIBONACCI = [1, 1, 2, 3, 5, 8, 13, 21, 34, 55]

CASES = [
    case("test_ad_if: simple", _KERNEL, of_branches("if x[i] > 0:\n    y[i] = x[i]"), branch([1, 0, 2, -1]),
         [1, 0, 1, 0]),
    case("test_ad_if: both ways", _KERNEL, of_branches("if x[i] > 0:\n    y[i] = x[i]\nelse:\n    y[i] = 2 * x[i]"),
         branch([0, 1, 2, -1]), [2, 1, 1, 2]),
    case("test_ad_if: nested", _KERNEL, of_branches(
        "if x[i] < 2:\n    if x[i] < 1:\n        y[i] = 0\n    else:\n        y[i] = x[i] * 1\nelse:\n"
        "    if x[i] < 3:\n        y[i] = x[i] * 2\n    else:\n        y[i] = x[i] * 3"),
         branch([0, 1, 2, 3]), [0, 1, 2, 3]),
    case("test_ad_if: a variable", _KERNEL,
         of_branches("t = x[i]\nif t > 0:\n    y[i] = t\nelse:\n    y[i] = 2 * t", "f64"), branch([0, 1, 2, -1]),
         [2, 1, 1, 2]),
    case("test_ad_if: a variable of a branch", _KERNEL,
         of_branches("t = 0.0\nif x[i] > 0:\n    t = 1 / x[i]\ny[i] = t"), branch([0, 2, -1, 4]),
         [0, -0.25, 0, -0.0625]),
    case("test_ad_ndarray: a sum", _LOOPS, LOOPS, counted("total", 3, 10, 3.0), [COUNTS]),
    case("test_ad_ndarray: a power", _LOOPS, LOOPS, counted("power", 3, 10, 3.0),
         [[i * 3.0 ** (i - 1) for i in range(10)]]),
    case("test_ad_ndarray: Fibonacci numbers", _LOOPS, LOOPS, counted("fibonacci", 4, 10, 1.0, (0, 1)),
         [[0, *FIBONACCI[:-1]], FIBONACCI]),
    case("test_ad_ndarray: a stack of integers", _LOOPS, LOOPS, counted("weighted", 4, 5, 1.0, (0, 1)),
         [[0, 1, 11, 111, 1111], [0, 1, 2, 3, 4]]),
    case("test_ad_ndarray: two loops", _LOOPS, LOOPS, counted("two_loops", 4, 5, 2.0, (0, 1)),
         [[2 * i * i * 2.0 ** (i - 1) for i in range(5)], [0, 2, 4, 6, 8]]),
    case("test_ad_ndarray: mixed inner loops on a tape", _LOOPS, LOOPS, mixed_loops, [10.0, 15.0]),
    case("test_ad_basics: functions", _KERNEL, FUNCTIONS, of_functions, True),
    case("test_ad_basics_fwd: add", _FORWARD, FORWARD, forward("add", "each", "a", [0, 0, 0, 1, 0]), 2.0),
    case("test_ad_basics_fwd: multiply", _FORWARD, FORWARD, forward("multiply", "each", "a", [0, 0, 0, 1, 1]), 7.0),
    case("test_ad_basics_fwd: one by a", _FORWARD, FORWARD, forward("calls", "one", "a", [1] * 5), 30.0),
    case("test_ad_basics_fwd: one by b", _FORWARD, FORWARD, forward("calls", "one", "b", [1] * 5), 6.0),
    case("test_ad_basics_fwd: other by b", _FORWARD, FORWARD, forward("calls", "other", "b", [1] * 5), 16.0),
    case("test_ad_basics_fwd: other by a", _FORWARD, FORWARD, forward("calls", "other", "a", [1] * 5), 48.0),
    case("test_customized_grad: on a tape", _OWN, OWN, taped(("forward", 4)), 4.0),
    case("test_customized_grad: called", _OWN, OWN, called("forward"), 4.0),
    case("test_customized_grad: of an object", _OWN, OWN, of_an_object, 4.0),
    case("test_customized_grad: for a kernel", _OWN, OWN, of_a_kernel_itself, [4.0]),
    case("test_customized_grad: none, on a tape", _OWN, OWN, taped(("left_out", 4), ("func", 5)), 5.0),
    case("test_customized_grad: none, called", _OWN, OWN, called("left_out"), 0.0),
]  # fmt: skip


@pytest.mark.parametrize(("source", "act", "expected"), CASES)
def test_differentiation_is_as_in_taichis_own_tests(gpu: Session, source: str, act: Act, expected: Any) -> None:
    """The gradients and duals that its suite expects, fetched from the worker."""
    gpu.compile_and_load(source, "case")
    assert act(gpu["case"], gpu) == expected


@feature("autodiff", "inner loops", wrong=True)
def test_the_gradient_of_loops_for_other_arguments(gpu: Session) -> None:
    """A float array where the counts belong is refused by name."""
    gpu.compile_and_load(LOOPS.replace("b: ti.types.ndarray()", "b: ti.types.ndarray(ti.i32, ndim=1)"), "case")
    a = gpu.ti.ndarray("f32", 10, needs_grad=True)
    with pytest.raises(KernelArgumentError, match="takes ndarray\\(i32, ndim=1\\)") as caught:
        gpu["case"].total.grad(a, a, a)
    assert caught.value.parameter == "b"


@feature("autodiff", "inner loops", lacking=True)
def test_the_gradient_of_loops_needs_an_option(
    gpu: Session, runtime_worker: RealWorker, runtime: str, arch: str
) -> None:
    """Without it the loop is told in the user's text, and the kernel itself runs; with it there is a gradient."""
    gpu.compile_and_load(LOOPS, "case")
    arrays = [gpu.ti.ndarray("f32", 10, needs_grad=True), gpu.ti.ndarray("i32", 10)]
    arrays.append(gpu.ti.ndarray("f32", 10, needs_grad=True))
    with pytest.raises(CompileError, match="non static range in Backwards mode") as caught:
        gpu["case"].total.grad(*arrays)
    assert "range(b[i])" in caught.value.frames[-1].text
    gpu["case"].total(*arrays)
    assert arrays[2].to_numpy().tolist() == [1.0] * 10
    options = {"ad_stack_experimental_enabled": True}
    with connect(runtime_worker.address, arch=arch, runtime=runtime, options=options, on_output=None) as other:
        other.compile_and_load(LOOPS, "case")
        assert counted("total", 3, 10, 3.0)(other["case"], other) == [COUNTS]


CLASSES = """
@ti.data_oriented
class Array2D:
    def __init__(self, n, m, increment):
        self.n = n
        self.m = m
        self.val = ti.field(ti.f32)
        self.total = ti.field(ti.f32)
        self.increment = float(increment)
        ti.root.dense(ti.ij, (self.n, self.m)).place(self.val)
        ti.root.place(self.total)

    @staticmethod
    @ti.func
    def clamp(x):
        return ti.max(0.0, ti.min(1.0, x))

    @ti.kernel
    def inc(self):
        for i, j in self.val:
            ti.atomic_add(self.val[i, j], self.increment)

    @ti.kernel
    def inc2(self, increment: ti.i32):
        for i, j in self.val:
            ti.atomic_add(self.val[i, j], increment)

    @ti.func
    def weight(self, i):
        return i * 2

    @ti.kernel
    def weigh(self) -> ti.i32:
        s = 0
        for i in range(3):
            s += self.weight(i)
        return s

    @ti.kernel
    def clamped(self, x: ti.f32) -> ti.f32:
        return self.clamp(x)

    @property
    def first(self):
        return self.val[0, 0]

class Plain:
    def __init__(self):
        self.n = 1

    @ti.kernel
    def f(self) -> ti.i32:
        return self.n

@ti.data_oriented
class Middle(Array2D):
    def __init__(self):
        super().__init__(2, 2, 7)

class Bottom(Middle):
    pass
"""


def incremented(unit: Any, _: Session) -> list[float]:
    a, b = unit.Array2D(4, 4, 3), unit.Array2D(4, 8, 2)
    a.inc()
    a.inc()
    b.inc()
    b.inc2(4)
    return [float(a.val[3, 3]), float(b.val[2, 7])]


def not_data_oriented(unit: Any, _: Session) -> bool:
    with pytest.raises(TiremoteError, match="data_oriented"):
        unit.Plain().f()
    return True


def inherited(unit: Any, _: Session) -> list[float]:
    found = []
    for cls in (unit.Middle, unit.Bottom):
        one = cls()
        one.inc()
        found.append(float(one.first))
    return found


OF_CLASSES = [
    case("test_oop: two items", "construct, several instances", CLASSES, incremented, [6.0, 6.0], "classes"),
    case("test_oop: not data_oriented", "kernels and methods", CLASSES, not_data_oriented, True, "classes"),
    case("test_oop: inheritance", "inheritance", CLASSES, inherited, [7.0, 7.0], "classes"),
    case("test_classfunc: a func of the class", "kernels and methods", CLASSES,
         lambda unit, _: unit.Array2D(1, 1, 1).weigh(), 6, "classes"),
    case("test_oop: a static func", "static and class methods", CLASSES,
         lambda unit, _: [unit.Array2D(1, 1, 1).clamped(x) for x in (-1.0, 0.5, 3.0)], [0.0, 0.5, 1.0], "classes"),
    case("test_oop: a property", "attributes and properties", CLASSES,
         lambda unit, _: float(unit.Array2D(1, 1, 1).first), 0.0, "classes"),
]  # fmt: skip


@pytest.mark.parametrize(("source", "act", "expected"), OF_CLASSES)
def test_classes_are_as_in_taichis_own_tests(gpu: Session, source: str, act: Act, expected: Any) -> None:
    """What its suite expects of objects, seen from the client."""
    gpu.compile_and_load(source, "case")
    assert act(gpu["case"], gpu) == expected
