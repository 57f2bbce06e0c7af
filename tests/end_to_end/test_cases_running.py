"""Cases 25 to 31: output, crashes, endless work, many clients, and handles of what is gone."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from printed import Printed
from real_worker import PATIENCE, RealWorker
from tiremote.client import RequestFuture, Session, connect
from tiremote.protocol.errors import (
    CompileError,
    DeadlineExceeded,
    EngineCrashed,
    Interrupted,
    KernelRuntimeError,
    StaleHandle,
    UnknownName,
)

Check = Callable[[], None]

SPIN = """
@ti.kernel
def spin() -> ti.i32:
    total = 0
    ti.loop_config(serialize=True)
    for i in range(2_000_000_000):
        for j in range(2_000_000_000):
            total += (i ^ j) % 7
    return total

def hello():
    return "hello"
"""


@pytest.fixture
def own(worker: RealWorker, arch: str, printed: Printed) -> Session:
    """A session that its test may break."""
    printed.clear()
    with connect(worker.address, arch=arch, on_output=printed) as gpu:
        yield gpu


def until_running(gpu: Session, future: RequestFuture[object]) -> None:
    """Waits until the engine is in the request; every question is answered by the front."""
    for _ in range(100_000):
        running = gpu.status().session.running
        if running is not None and running.request == future.request_id:
            return
    raise TimeoutError("the request did not start")


# ---------------------------------------------------------------- 25: output

PRINTS = """
@ti.kernel
def lines(n: ti.i32):
    ti.loop_config(serialize=True)
    for i in range(n):
        print("line", i)

@ti.kernel
def values(x: ti.types.ndarray()):
    print("x is", x[0], "v is", ti.Vector([1, 2]), 1.5, True)
    print("no newline", end="|")
    print(f"formatted {x[0]}", "a", "b", sep="-")

def python(n):
    import sys
    print("python", n)
    print("to stderr", file=sys.stderr)
    sys.stdout.write("half a line")
    return n

def mixed():
    print("first")
    lines(2)
    ti.sync()
    print("last")
"""


def test_case_25_kernel_prints_arrive_with_their_request(gpu: Session, printed: Printed) -> None:
    """Everything that a kernel prints is there when its call returns, whole, and marked by the request."""
    gpu.compile_and_load(PRINTS)
    futures = [gpu[None].lines.submit(n) for n in (1, 3, 0, 2)]
    for future in futures:
        future.result()
    for future, n in zip(futures, (1, 3, 0, 2), strict=True):
        assert printed.text(request=future.request_id) == "".join(f"line {i}\n" for i in range(n))
    gpu[None].values(np.array([2.5], np.float32))
    last = printed.text(request=printed.events[-1][2])
    assert last.startswith("x is 2.5")
    assert "v is [1, 2] 1.5" in last
    assert "no newline|formatted 2.5" in last


def test_case_25_python_prints_arrive_in_order_with_the_kernels(gpu: Session, printed: Printed) -> None:
    """``print`` and stderr of loaded source, before and after a kernel's own lines, in the order they were made."""
    gpu.compile_and_load(PRINTS + "\nprint('loading')\n")
    assert printed.text() == "loading\n"
    printed.clear()
    gpu[None].mixed()
    assert printed.text() == "first\nline 0\nline 1\nlast\n"
    printed.clear()
    assert gpu[None].python(5) == 5
    assert printed.text() == "python 5\nhalf a line"
    assert printed.text("stderr") == "to stderr\n"


def test_case_25_output_before_a_failure_is_not_lost(gpu: Session, printed: Printed, unharmed: Check) -> None:
    """What was printed before an exception, or by source that then fails to load, arrives before the error does."""
    gpu.compile_and_load("def f():\n    print('before', end='')\n    raise ValueError('stop')\n")
    printed.clear()
    with pytest.raises(KernelRuntimeError, match="stop"):
        gpu[None].f()
    assert printed.text() == "before"
    printed.clear()
    with pytest.raises(CompileError):
        gpu.compile_and_load("print('half')\n1 / 0\n")
    assert printed.text() == "half\n"
    unharmed()


def test_case_25_output_before_a_crash_is_not_lost(own: Session, printed: Printed) -> None:
    """The last words of an engine are told."""
    own.compile_and_load("import os\ndef f():\n    print('last words', flush=True)\n    os.abort()\n")
    with pytest.raises(EngineCrashed):
        own[None].f()
    assert printed.text().startswith("last words\n")


def test_case_25_prints_arrive_while_the_kernel_runs(own: Session, printed: Printed, arch: str) -> None:
    """On the CPU a line arrives while its kernel still runs: this one never ends. On CUDA the device hands its lines
    over at a sync, so there the endless kernel follows one in the same request."""
    print_and_spin = SPIN.replace("    total = 0\n", '    total = 0\n    print("still running")\n')
    if arch != "cpu":
        print_and_spin = SPIN + "\n@ti.kernel\ndef say():\n    print('still running')\n"
    own.compile_and_load(print_and_spin + "\ndef both():\n    say()\n    ti.sync()\n    return spin()\n")
    future = own[None].spin.submit() if arch == "cpu" else own[None].both.submit()
    printed.wait_for("still running\n")
    assert not future.done()
    own.interrupt(future)
    with pytest.raises(Interrupted):
        future.result(PATIENCE)
    assert own[None].hello() == "hello"


def test_case_25_a_flood_is_capped_and_says_what_was_cut(gpu: Session, printed: Printed, unharmed: Check) -> None:
    """200,000 lines of a kernel: the first million bytes come, in whole lines, and a warning counts the rest."""
    gpu.compile_and_load(PRINTS)
    printed.clear()
    gpu[None].lines(200_000)
    lines = printed.text().splitlines(keepends=True)
    came = len(lines)
    assert 50_000 < came < 200_000
    assert lines == [f"line {i}\n" for i in range(came)]
    assert f"{200_000 - came:,} more lines" in printed.text("warning")
    printed.clear()
    gpu[None].lines(1)
    assert printed.text() == "line 0\n"
    assert printed.text("warning") == ""
    unharmed()


def test_case_25_output_is_not_mixed_between_sessions(worker: RealWorker, arch: str) -> None:
    """Each client hears its own session, and what nobody asked for goes to nobody."""
    heard = [Printed(), Printed()]
    with (
        connect(worker.address, arch=arch, on_output=heard[0]) as one,
        connect(worker.address, arch=arch, on_output=heard[1]) as two,
    ):
        for gpu, name in ((one, "one"), (two, "two")):
            gpu.compile_and_load(f"def say(n):\n    for i in range(n):\n        print('{name}', i)\n")
        futures = [gpu[None].say.submit(50) for _ in range(3) for gpu in (one, two)]
        for future in futures:
            future.result()
    for printed, name in zip(heard, ("one", "two"), strict=True):
        assert printed.text() == "".join(f"{name} {i}\n" for i in range(50)) * 3


# ---------------------------------------------------------------- 26, 31: crashes, and handles from before

CRASH = """
total = ti.field(ti.i32, ())

@ti.kernel
def far(x: ti.types.ndarray()):
    x[100_000_000] = 1.0

@ti.kernel
def near(x: ti.types.ndarray(), i: ti.i32):
    x[i] = 1.0

@ti.data_oriented
class Model:
    def __init__(self):
        self.x = ti.field(ti.f32, 3)

    def hello(self):
        return "hello"
"""


def test_case_26_a_far_index_costs_one_engine(own: Session, unharmed: Check) -> None:
    """The call fails with what was reloaded and what was lost; every handle from before is stale and says so; kernels
    work on new arrays at once; another session notices nothing."""
    own.compile_and_load(SPIN, "spin")
    own.compile_and_load(CRASH, "crash")
    x = own.ti.ndarray(own.ti.f32, 8, label="velocity")
    field = own.ti.field(own.ti.f32, 3)
    model = own["crash"].Model()
    with pytest.raises(EngineCrashed) as caught:
        own["crash"].far(x)
    assert set(caught.value.restored) == {"spin", "crash"}
    assert "velocity" in caught.value.lost
    for use in (
        x.to_numpy,
        x.summary,
        lambda: x.fill(1),
        lambda: x[0],
        lambda: x.__setitem__(0, 1.0),
        lambda: own["crash"].near(x, 0),
        field.to_numpy,
        lambda: field[1],
        model.hello,
        lambda: own.cleanup(x),
    ):
        with pytest.raises(StaleHandle):
            use()
    assert own["spin"].hello() == "hello"
    assert own["crash"].total[None] == 0
    fresh = own.ti.ndarray(own.ti.f32, 8)
    own["crash"].near(fresh, 2)
    assert fresh[2] == 1
    assert own["crash"].Model().hello() == "hello"
    unharmed()


def test_case_26_a_debug_session_reports_a_near_miss(worker: RealWorker, arch: str) -> None:
    """With ``debug=True`` an index just outside, and one that is far out, is an error with the index, the shape and the
    line; nothing is written, and the engine lives on."""
    with connect(worker.address, arch=arch, debug=True, on_output=None) as gpu:
        gpu.compile_and_load(CRASH)
        x = gpu.ti.ndarray(gpu.ti.f32, 8)
        generation = gpu.status().session.generation
        with pytest.raises(KernelRuntimeError, match=r"index \(8\) is out of bounds: the shape is \(8\)"):
            gpu[None].near(x, 8)
        if arch == "cpu":  # on CUDA a failed assertion ends the context
            with pytest.raises(KernelRuntimeError, match=r"index \(\d{6,}\) is out of bounds: the shape is \(8\)"):
                gpu[None].far(x)
            assert gpu.status().session.generation == generation
            gpu[None].near(x, 7)
            assert x[7] == 1


def test_case_31_what_was_freed_or_cleaned_up_is_stale(gpu: Session, unharmed: Check) -> None:
    """A handle of something that is gone is refused by name before Taichi sees it."""
    gpu.compile_and_load(CRASH)
    x = gpu.ti.ndarray(gpu.ti.f32, 3)
    y = gpu.ti.field(gpu.ti.f32, 3)
    model = gpu[None].Model()
    same = gpu[None].near
    x.free()
    x.free()
    gpu.cleanup(y)
    gpu.cleanup(model)
    for use in (x.to_numpy, lambda: same(x, 0), y.to_numpy, lambda: y.fill(0), model.hello, lambda: gpu.cleanup(y)):
        with pytest.raises(StaleHandle):
            use()
    unharmed()


def test_case_31_a_kernel_of_a_unit_that_was_cleaned_up_is_unknown(gpu: Session, unharmed: Check) -> None:
    """The unit's kernels, fields and the unit itself are unknown names afterwards; an object made of it goes on."""
    gpu.compile_and_load(CRASH, "crash")
    near, total = gpu["crash"].near, gpu["crash"].total
    model = gpu["crash"].Model()
    gpu.cleanup("crash")
    for use in (
        lambda: near(np.zeros(1, np.float32), 0),
        total.to_numpy,
        lambda: gpu["crash"],
        lambda: gpu.cleanup("crash"),
    ):
        with pytest.raises(UnknownName, match="crash"):
            use()
    assert model.hello() == "hello"
    unharmed()


# ---------------------------------------------------------------- 28: endless work


def test_case_28_ping_and_status_answer_during_an_endless_kernel(own: Session) -> None:
    """They tell what runs; ``interrupt`` ends it, sources are back, and the calls behind it run."""
    own.compile_and_load(SPIN, "spin")
    x = own.array(np.ones(3, np.float32))
    future = own["spin"].spin.submit()
    behind = [own["spin"].hello.submit() for _ in range(3)]
    until_running(own, future)
    assert own.ping() < 5
    status = own.status().session
    assert status.state == "busy"
    assert status.running.op == "run"
    assert "spin" in status.running.target
    assert status.queued >= 1
    assert [unit.unit for unit in own.describe().units] == ["spin"]
    assert own.interrupt().stopped == future.request_id
    with pytest.raises(Interrupted) as caught:
        future.result(PATIENCE)
    assert caught.value.restored == ("spin",)
    assert [each.result(PATIENCE) for each in behind] == ["hello"] * 3
    assert [one.op for one in caught.value.as_of] == ["put"]
    assert x.to_numpy().tolist() == [1, 1, 1]


def test_case_28_a_deadline_ends_an_endless_kernel(own: Session) -> None:
    """A limit that is given with the call ends it, and one that is long enough changes nothing."""
    own.compile_and_load(SPIN)
    with pytest.raises(DeadlineExceeded) as caught:
        own[None].spin.with_options(deadline=0.3)()
    assert caught.value.deadline == 0.3
    assert own[None].hello.with_options(deadline=60)() == "hello"


def test_case_28_an_interrupted_driver_function_keeps_its_arrays(
    gpu: Session, printed: Printed, unharmed: Check
) -> None:
    """A Python loop around kernels stops between two of them: nothing is lost, what it did until then stays."""
    gpu.compile_and_load("""
x = ti.field(ti.i32, ())

@ti.kernel
def add():
    x[None] += 1

def forever():
    while True:
        add()
        if x[None] == 3:
            print("three")
""")
    future = gpu[None].forever.submit()
    printed.wait_for("three\n")
    gpu.interrupt(future)
    with pytest.raises(Interrupted) as caught:
        future.result(PATIENCE)
    assert caught.value.lost == ()
    assert gpu[None].x[None] >= 3
    unharmed()


def test_case_28_an_interrupted_load_leaves_the_old_version(gpu: Session, printed: Printed, unharmed: Check) -> None:
    """Source that never finishes loading can be stopped, and its unit is what it was."""
    gpu.compile_and_load("def f():\n    return 1\n", "k")
    errors: list[BaseException] = []

    def load() -> None:
        try:
            gpu.compile_and_load("x = ti.field(ti.f32, 3)\nprint('loading')\nwhile True:\n    pass\n", "k")
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=load)
    thread.start()
    printed.wait_for("loading\n")
    gpu.interrupt()
    thread.join(PATIENCE)
    assert [type(error) for error in errors] == [Interrupted]
    assert gpu["k"].f() == 1
    unharmed()


def test_case_28_a_compile_of_half_a_minute_is_interrupted(own: Session) -> None:
    """An unrolled loop that Taichi compiles for very long ends on demand, and its unit is what it was."""
    text = (
        "@ti.kernel\ndef f(x: ti.types.ndarray(ti.f32, 1)):\n    for i in ti.static(range({n})):\n"
        "        x[0] += ti.sin(x[0] + i)\n"
    )
    own.compile_and_load(text.format(n=1), "k")
    errors: list[BaseException] = []

    def load() -> None:
        try:
            own.compile_and_load(text.format(n=100_000), "k")
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=load)
    thread.start()
    while own.status().session.running is None:
        pass
    assert own.interrupt().stopped is not None
    thread.join(PATIENCE)
    assert [type(error) for error in errors] == [Interrupted]
    x = np.zeros(1, np.float32)
    own["k"].f(x)
    assert x[0] == 0
    with pytest.raises(DeadlineExceeded):
        own.compile_and_load(text.format(n=100_000), "k", deadline=0.3)
    own["k"].f(x)


def test_case_28_an_interrupt_when_nothing_runs_does_nothing(gpu: Session, unharmed: Check) -> None:
    """There is nothing to stop, and the next call is not stopped in its place."""
    assert gpu.interrupt().stopped is None
    unharmed()


def test_case_28_a_queued_call_can_be_cancelled(own: Session) -> None:
    """What has not started is taken out of the queue and never runs."""
    own.compile_and_load(SPIN + "\ncalls = []\ndef note(n):\n    calls.append(n)\n    return list(calls)\n", "spin")
    running = own["spin"].spin.submit()
    until_running(own, running)
    # More than the worker hands to an engine ahead of time.
    waiting = [own["spin"].note.submit(n) for n in range(20)]
    assert waiting[-1].cancel()
    assert waiting[-1].cancelled()
    own.interrupt(running)
    with pytest.raises(Interrupted):
        running.result(PATIENCE)
    assert waiting[-2].result(PATIENCE) == list(range(19))


# ---------------------------------------------------------------- 29: many threads, many clients

COUNTER = """
count = ti.field(ti.i32, ())

@ti.kernel
def add(n: ti.i32) -> ti.i32:
    return ti.atomic_add(count[None], n)

@ti.kernel
def scale(x: ti.types.ndarray(), by: ti.f32):
    for i in x:
        x[i] *= by

@ti.kernel
def copy(x: ti.types.ndarray(), y: ti.types.ndarray()):
    for i in x:
        y[i] = x[i]

def thread():
    import threading
    return threading.current_thread() is threading.main_thread()
"""


def test_case_29_submitted_calls_run_in_order(gpu: Session) -> None:
    """A hundred submitted calls run in the order of their submission, and so does a call that waits, behind them."""
    gpu.compile_and_load(COUNTER)
    futures = [gpu[None].add.submit(1) for _ in range(100)]
    assert gpu[None].add(0) == 100
    assert [future.result() for future in futures] == list(range(100))
    x = gpu.array(np.ones(4, np.float32))
    for by in (2, 3, 5):
        gpu[None].scale.submit(x, by)
    x[0] = 7
    assert x.to_numpy().tolist() == [7, 30, 30, 30]
    local = np.ones(3, np.float32)
    gpu[None].scale.submit(local, 4).result()
    assert local.tolist() == [4, 4, 4]


def test_case_29_many_threads_share_a_session(gpu: Session, unharmed: Check) -> None:
    """Every call runs on the engine's main thread, whole, and each thread gets its own results."""
    gpu.compile_and_load(COUNTER)

    def work(number: int) -> list[bool]:
        results = []
        for round_ in range(10):
            local = np.full(5, number + 1, np.float32)
            remote = gpu.array(local)
            gpu[None].scale(remote, round_ + 1)
            gpu[None].scale(local, 2)
            gpu[None].add(1)
            results.append(
                bool((remote.to_numpy() == (number + 1) * (round_ + 1)).all() and (local == 2 * (number + 1)).all())
            )
            results.append(gpu[None].thread())
        return results

    with ThreadPoolExecutor(8) as pool:
        assert all(all(results) for results in pool.map(work, range(8)))
    assert gpu[None].count[None] == 80
    unharmed()


def test_case_29_two_sessions_do_not_see_each_other(worker: RealWorker, arch: str) -> None:
    """The same ids and names in two sessions at once are two things, also with different options."""
    with (
        connect(worker.address, arch=arch, default_fp="f64", on_output=None) as one,
        connect(worker.address, arch=arch, on_output=None) as two,
    ):
        text = "x = ti.field(float, ())\n@ti.kernel\ndef f(n: float) -> float:\n    x[None] += n\n    return x[None]\n"
        for gpu, addend in ((one, "n"), (two, "n * 2")):
            gpu.compile_and_load(text.replace("+= n", f"+= {addend}"), "same")

        def work(gpu: Session) -> list[float]:
            return [gpu["same"].f(0.1) for _ in range(20)]

        with ThreadPoolExecutor(2) as pool:
            first, second = pool.map(work, (one, two))
        np.testing.assert_allclose(first, np.arange(1, 21) * 0.1, rtol=1e-12)
        np.testing.assert_allclose(second, np.arange(1, 21) * 0.2, rtol=1e-5)
        assert one["same"].x.dtype == np.float64
        assert two["same"].x.dtype == np.float32


def test_case_29_a_named_session_is_shared(worker: RealWorker, arch: str) -> None:
    """Two clients of one name work on the same arrays and kernels, and it outlives the one that made it."""
    with connect(worker.address, arch=arch, session="shared", on_output=None) as two:
        with connect(worker.address, arch=arch, session="shared", on_output=None) as one:
            one.compile_and_load(COUNTER, "counter")
            one["counter"].add(5)
            two["counter"].add(6)
            assert one["counter"].count[None] == 11
        assert two["counter"].add(0) == 11
        two.cleanup_all()


def test_a_driver_function_of_a_thousand_steps_is_one_request(gpu: Session) -> None:
    """A loop in loaded source runs there: one request, whatever it does inside."""
    gpu.compile_and_load(
        COUNTER
        + (
            "\ndef steps(n, x):\n    for _ in range(n):\n        add(1)\n"
            "        scale(x, 1.01)\n    return count[None]\n"
        )
    )
    x = gpu.array(np.ones(2, np.float64))
    before = gpu.status().requests
    assert gpu[None].steps(1000, x) == 1000
    np.testing.assert_allclose(x.to_numpy(), 1.01**1000, rtol=1e-4)
    # The two answers of status, the run, the fetch, and the question what the unit defines.
    assert gpu.status().requests - before <= 5
