"""The clock that runs while Taichi compiles: what it counts, what it tells, and that no later launch meets it."""
# A kernel's annotations are values, so no ``from __future__ import annotations`` here.

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tiremote.worker.engine.compile_clock import CompileClock
from tiremote.worker.engine.runtime import TaichiRuntime

Told = list[dict[str, Any]]


class ByHand:
    """A clock that goes on when it is told to."""

    def __init__(self) -> None:
        self.now = 100.0
        self.told: Told = []
        self.clock = CompileClock(lambda: self.now)
        self.clock.tell = lambda **state: self.told.append(state)


@pytest.fixture
def by_hand() -> ByHand:
    return ByHand()


@pytest.fixture
def told(runtime: TaichiRuntime) -> Iterator[Told]:
    """What the runtime's clock tells in a request that begins now."""
    heard: Told = []
    runtime.compile_clock.restart()
    runtime.compile_clock.tell = lambda **state: heard.append(state)
    yield heard
    runtime.compile_clock.tell = None


def kernel(runtime: TaichiRuntime) -> Any:
    """One that was never compiled."""
    ti = runtime.ti

    @ti.kernel
    def add(y: ti.types.ndarray(ndim=1), n: ti.i32):  # type: ignore[no-untyped-def,valid-type]
        y[0] += n

    return add


def phases(told: Told) -> list[str]:
    """The phases that were told."""
    names = {(False, True): "end", (True, True): "compile", (True, False): "first launch"}
    return [names[state["since"] is not None, state["spare"] is None] for state in told]


def test_compiles_of_a_request_add_up(by_hand: ByHand) -> None:
    """Each is told when it begins, with what was before it, and when it ends, also with an error."""
    with by_hand.clock.compiling():
        by_hand.now += 2.0
    by_hand.now += 5.0

    def fail() -> None:
        with by_hand.clock.compiling():
            by_hand.now += 1.0
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert by_hand.told == [
        {"compiled": 0.0, "spared": 0.0, "since": 100.0, "spare": None},
        {"compiled": 2.0, "spared": 0.0, "since": None, "spare": None},
        {"compiled": 2.0, "spared": 0.0, "since": 107.0, "spare": None},
        {"compiled": 3.0, "spared": 0.0, "since": None, "spare": None},
    ]
    by_hand.clock.restart()
    assert by_hand.clock.compiled == 0.0


def test_a_first_launch_is_spared_up_to_a_bound(by_hand: ByHand) -> None:
    """What it takes longer is none of the clock's, and none of it is compiling."""
    with by_hand.clock.launching_first(0.5):
        by_hand.now += 0.25
    with by_hand.clock.launching_first(0.5):
        by_hand.now += 100.0
    assert (by_hand.clock.compiled, by_hand.clock.spared) == (0.0, 0.75)
    assert [state["spare"] for state in by_hand.told] == [0.5, None, 0.5, None]


def test_another_thread_is_not_counted(by_hand: ByHand) -> None:
    """The link has one writer: what a thread of the user's compiles is told nobody."""

    def compile_there() -> None:
        with by_hand.clock.compiling(), by_hand.clock.launching_first(1.0):
            by_hand.now += 2.0

    with ThreadPoolExecutor() as pool:
        pool.submit(compile_there).result(10)
    assert (by_hand.told, by_hand.clock.compiled, by_hand.clock.spared) == ([], 0.0, 0.0)


def test_a_first_call_tells_its_compile_and_later_ones_nothing(runtime: TaichiRuntime, told: Told) -> None:
    """Front end, back end, first launch; afterwards nothing of ours is in the way of a launch."""
    ti, add = runtime.ti, kernel(runtime)
    x = ti.ndarray(ti.i32, 1)
    add(x, 1)
    assert phases(told) == ["compile", "end", "compile", "end", "first launch", "end"]
    assert runtime.compile_clock.compiled > 0
    assert told[4]["spare"] > told[4]["compiled"]
    assert "launch_kernel" not in vars(runtime.primal(add))
    told.clear()
    add(x, 1)
    assert told == []
    assert x.to_numpy().tolist() == [2]


def test_new_types_of_arguments_are_a_compile_of_their_own(runtime: TaichiRuntime, told: Told) -> None:
    """Wherever in a call they come."""
    ti, add = runtime.ti, kernel(runtime)
    add(ti.ndarray(ti.i32, 1), 1)
    before = runtime.compile_clock.compiled
    told.clear()
    y = ti.ndarray(ti.f32, 1)
    add(y, 1)
    assert phases(told) == ["compile", "end", "compile", "end", "first launch", "end"]
    assert runtime.compile_clock.compiled > before
    assert y.to_numpy().tolist() == [1]


def test_a_kernel_that_was_only_checked_has_its_back_end_made_at_its_launch(runtime: TaichiRuntime, told: Told) -> None:
    """A load makes front ends; the rest counts for the request that launches first, and another instance waits."""
    ti, add = runtime.ti, kernel(runtime)
    x, y = ti.ndarray(ti.i32, 1), ti.ndarray(ti.f32, 1)
    runtime.ensure_compiled(add, x, 1)
    runtime.ensure_compiled(add, y, 1)
    assert phases(told) == ["compile", "end"] * 2
    told.clear()
    add(x, 1)
    assert phases(told) == ["compile", "end", "first launch", "end"]
    add(x, 1)
    assert len(told) == 4
    add(y, 1)
    assert len(told) == 8
    assert (x.to_numpy().tolist(), y.to_numpy().tolist()) == ([2], [1])


def test_a_compile_that_fails_ends_the_count(runtime: TaichiRuntime, told: Told) -> None:
    """The clock stands again, and the error is Taichi's own."""
    ti = runtime.ti

    @ti.kernel
    def broken():  # type: ignore[no-untyped-def]
        nobody.knows()  # type: ignore[name-defined] # noqa: F821

    with pytest.raises(runtime.compile_errors()):
        broken()
    assert phases(told) == ["compile", "end"]


def test_gradients_are_counted_too(runtime: TaichiRuntime, told: Told) -> None:
    """A kernel's gradient is a kernel of its own."""
    ti = runtime.ti
    x, y = (ti.ndarray(ti.f32, 1, needs_grad=True) for _ in range(2))

    @ti.kernel
    def square(a: ti.types.ndarray(), b: ti.types.ndarray()):  # type: ignore[no-untyped-def,valid-type]
        for i in a:
            b[i] += a[i] * a[i]

    x.fill(3)
    y.grad.fill(1)
    told.clear()
    square.grad(x, y)
    assert phases(told) == ["compile", "end", "compile", "end", "first launch", "end"]
    assert x.grad.to_numpy().tolist() == [6]
