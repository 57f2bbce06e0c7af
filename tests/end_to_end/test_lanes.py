"""Small calls in a row, which go straight to the engine: nobody can tell but by the time that they take."""

from __future__ import annotations

import socket
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator

import numpy as np
import psutil
import pytest

from real_worker import PATIENCE, RealWorker
from tiremote.client import RemoteArray, Session, connect
from tiremote.protocol.errors import (
    EngineCrashed,
    Interrupted,
    KernelArgumentError,
    KernelRuntimeError,
    StaleHandle,
    UnknownName,
)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="lanes are Unix sockets without a file")

TEXT = """
total = ti.field(ti.i64, ())

@ti.kernel
def add(x: ti.types.ndarray(dtype=ti.i64, ndim=1), n: ti.i32) -> ti.i64:
    for i in x:
        x[i] += n
    return x[0]

@ti.kernel
def scale(x: ti.types.ndarray(dtype=ti.f64, ndim=1), a: ti.f32, up: ti.u1) -> ti.f64:
    for i in x:
        x[i] = x[i] * a if up else x[i] / a
    return x[0]

@ti.kernel
def count():
    total[None] += 1

@ti.kernel
def say(n: ti.i32):
    print("said", n)

@ti.kernel
def far(x: ti.types.ndarray(dtype=ti.i64, ndim=1), at: ti.i32):
    x[at] = 1

@ti.kernel
def spin(x: ti.types.ndarray(dtype=ti.i64, ndim=1), times: ti.i32) -> ti.i64:
    n = ti.i64(0)
    ti.loop_config(serialize=True)
    for i in range(times):
        for j in range(2_000_000_000):
            n += (i ^ j) % 7
    return n + x[0]

def rebind():
    global total
    total = ti.field(ti.i64, ())
"""

#: Enough in a row for a lane, and to see that it is there.
MANY = 200


@pytest.fixture(scope="module")
def one_worker(arch: str) -> Iterator[RealWorker]:
    with RealWorker(arch=arch) as worker:
        yield worker


@pytest.fixture
def gpu(one_worker: RealWorker, arch: str) -> Iterator[Session]:
    with connect(one_worker.address, arch=arch, on_output=None) as gpu:
        gpu.compile_and_load(TEXT, "sim")
        yield gpu


def zeros(gpu: Session) -> RemoteArray:
    return gpu.array(np.zeros(4, np.int64))


def warm(gpu: Session, x: RemoteArray, n: int = 0) -> None:
    """Makes calls until they go over a lane: the front hears of far fewer than there are."""
    add = gpu["sim"].add
    for _ in range(50):
        before = gpu.status().requests
        for _ in range(MANY):
            add(x, n)
        if gpu.status().requests - before < MANY / 2:
            return
    raise AssertionError("no lane came about")


def test_calls_in_a_row_do_not_go_through_the_front(gpu: Session) -> None:
    """Each is made once and in order, and gives what it returns."""
    x = zeros(gpu)
    warm(gpu, x)
    before = gpu.status().requests
    assert [gpu["sim"].add(x, n) for n in range(MANY)] == [n * (n + 1) // 2 for n in range(MANY)]
    assert gpu.status().requests - before < MANY / 4
    np.testing.assert_array_equal(x.to_numpy(), np.full(4, MANY * (MANY - 1) // 2))


def test_numbers_are_what_they_are_the_long_way(gpu: Session) -> None:
    """Floats and bools too; one that does not fit is refused by its name, and the next call is made."""
    y = gpu.array(np.ones(2, np.float64))
    for _ in range(MANY):
        assert gpu["sim"].scale(y, 2.0, True) == 2.0
        assert gpu["sim"].scale(y, 2, False) == 1.0
    x = zeros(gpu)
    warm(gpu, x)
    for wrong in (2**40, 2**70, 1.5):
        with pytest.raises(KernelArgumentError) as error:
            gpu["sim"].add(x, wrong)
        assert error.value.parameter == "n"
        assert gpu["sim"].add(x, 0) == 0


def test_what_comes_between_is_done_between(gpu: Session) -> None:
    """Fetches, puts and submits are in the order in which they were asked for."""
    x = zeros(gpu)
    expected = 0
    for round_ in range(20):
        for _ in range(round_):
            expected += 1
            assert gpu["sim"].add(x, 1) == expected
        if round_ % 3 == 0:
            assert x[0] == expected
        elif round_ % 3 == 1:
            x.fill(7)
            expected = 7
        else:
            futures = [gpu["sim"].add.submit(x, 2) for _ in range(5)]
            expected += 11
            assert gpu["sim"].add(x, 1) == expected
            assert [future.result() for future in futures] == [expected - 11 + 2 * n for n in range(1, 6)]
    assert x[3] == expected


def test_a_reload_counts_at_once(gpu: Session, one_worker: RealWorker, arch: str) -> None:
    """The next call runs the new text, also where another client has loaded it."""
    x = zeros(gpu)
    warm(gpu, x)
    gpu.compile_and_load(TEXT.replace("x[i] += n", "x[i] += 2 * n"), "sim")
    assert gpu["sim"].add(x, 1) == 2
    with (
        connect(one_worker.address, arch=arch, session="lanes", on_output=None) as mine,
        connect(one_worker.address, arch=arch, session="lanes", on_output=None) as other,
    ):
        mine.compile_and_load(TEXT, "sim")
        y = zeros(mine)
        warm(mine, y)
        other.compile_and_load(TEXT.replace("x[i] += n", "x[i] += 3 * n"), "sim")
        assert mine["sim"].add(y, 1) == 3


def test_what_a_name_stands_for_counts_at_once(gpu: Session) -> None:
    """An array that is gone is stale, a unit that is gone unknown; a function that binds a name anew is heard."""
    x = zeros(gpu)
    warm(gpu, x)
    for _ in range(MANY):
        gpu["sim"].count()
    assert gpu["sim"].total.to_numpy() == MANY
    gpu["sim"].rebind()
    gpu["sim"].count()
    assert gpu["sim"].total.to_numpy() == 0
    add = gpu["sim"].add
    x.free()
    with pytest.raises(StaleHandle):
        add(x, 1)
    x = zeros(gpu)
    warm(gpu, x)
    gpu.cleanup("sim")
    with pytest.raises(UnknownName):
        add(x, 1)


def test_what_a_kernel_prints_comes_before_it_returns(one_worker: RealWorker, arch: str) -> None:
    """Such calls take no lane: over it, nobody could tell whose output it is."""
    said: list[str] = []
    with connect(one_worker.address, arch=arch, on_output=lambda text, *_: said.append(text)) as gpu:
        gpu.compile_and_load(TEXT, "sim")
        for n in range(50):
            gpu["sim"].say(n)
            assert "".join(said).split()[-1] == str(n)


def test_an_engine_that_dies_in_a_call_is_told_to_who_made_it(gpu: Session) -> None:
    """As any: what was put comes back, and the crash can be explained, with the numbers of that call."""
    x = gpu.array(np.arange(4), label="mine")
    warm(gpu, x)
    for _ in range(MANY):
        gpu["sim"].far(x, 0)
    gpu.snapshot()
    for _ in range(MANY):
        gpu["sim"].far(x, 0)
    with pytest.raises(EngineCrashed) as crash:
        gpu["sim"].far(x, 2**31 - 1)
    assert "during run" in str(crash.value)
    assert crash.value.restored == ("sim",)
    assert {(each.name, each.op) for each in crash.value.as_of} == {("mine", "snapshot"), ("sim.total", "snapshot")}
    explained = gpu.explain_crash()
    assert (explained.kind, explained.index, explained.bounds) == ("out of bounds", (2**31 - 1,), (4,))
    assert x.to_numpy().tolist() == [1, 1, 2, 3]
    warm(gpu, x)


def test_an_engine_that_dies_between_two_calls_is_told_to_the_next(gpu: Session) -> None:
    """And nothing runs on contents older than the client knows of."""
    x = gpu.array(np.zeros(4, np.int64), label="mine")
    warm(gpu, x, 1)
    engine = psutil.Process(gpu.status().session.engine_pid)
    gpu["sim"].add(x, 1)
    engine.kill()
    engine.wait()
    with pytest.raises(EngineCrashed) as crash:
        gpu["sim"].add(x, 1)
    assert [each.name for each in crash.value.as_of] == ["mine"]
    assert gpu["sim"].add(x, 1) == 1


def test_a_call_that_goes_on_is_seen_and_can_be_stopped(gpu: Session) -> None:
    """Status tells what runs and since when, the worker answers, and an interrupt ends it."""
    x = zeros(gpu)
    warm(gpu, x)
    for _ in range(MANY):
        gpu["sim"].spin(x, 0)
    outcome: list[BaseException] = []

    def call() -> None:
        try:
            gpu["sim"].spin(x, 2_000_000_000)
        except Interrupted as error:
            outcome.append(error)

    for _ in range(MANY):
        gpu["sim"].spin(x, 0)
    calling = threading.Thread(target=call)
    calling.start()
    while (running := gpu.status().session.running) is None:
        pass
    assert running.target == "run sim.spin"
    assert gpu.ping() < PATIENCE
    gpu.interrupt()
    calling.join(PATIENCE)
    assert "run sim.spin was interrupted" in str(outcome[0])
    assert gpu["sim"].add(zeros(gpu), 3) == 3


def test_between_two_calls_nothing_runs(gpu: Session) -> None:
    """A lent engine is idle in status, and what its client asks for is not among the requests to be collected."""
    x = zeros(gpu)
    warm(gpu, x)
    gpu["sim"].add(x, 1)
    status = gpu.status().session
    assert (status.state, status.running) == ("idle", None)
    assert gpu.requests().requests == ()


def test_a_call_that_fails_fails_as_it_does_the_long_way(arch: str, one_worker: RealWorker) -> None:
    """With the place in the text; then the calls go on."""
    with connect(one_worker.address, arch=arch, debug=True, on_output=None) as gpu:
        gpu.compile_and_load(TEXT, "sim")
        x = zeros(gpu)
        for _ in range(MANY):
            gpu["sim"].far(x, 1)
        with pytest.raises(KernelRuntimeError) as error:
            gpu["sim"].far(x, 9)
        line = TEXT.splitlines().index("    x[at] = 1") + 1
        assert error.value.frames[-1].line == line
        for _ in range(MANY):
            gpu["sim"].far(x, 2)
        assert x.to_numpy().tolist()[1:] == [1, 1, 0]


def test_other_clients_get_their_turn(one_worker: RealWorker, arch: str) -> None:
    """While one calls without a pause, what another asks of the same session is done soon."""
    with connect(one_worker.address, arch=arch, session="turns", on_output=None) as mine:
        mine.compile_and_load(TEXT, "sim")
        x = zeros(mine)
        stop = threading.Event()
        made = 0

        def call() -> None:
            nonlocal made
            while not stop.is_set():
                mine["sim"].add(x, 1)
                made += 1

        calling = threading.Thread(target=call)
        calling.start()
        try:
            with connect(one_worker.address, arch=arch, session="turns", on_output=None) as other:
                same = other.proxy(other.describe().arrays[0].handle)
                seen = [int(same[0]) for _ in range(30)]
        finally:
            stop.set()
            calling.join()
        assert sorted(seen) == seen
        assert made >= seen[-1] > 0


def test_threads_of_one_client_do_not_get_in_one_anothers_way(gpu: Session) -> None:
    """One at a time goes over the lane, the others the long way; none is lost or made twice."""
    arrays = [zeros(gpu) for _ in range(3)]

    def call(x: RemoteArray) -> None:
        for n in range(1, MANY + 1):
            assert gpu["sim"].add(x, 1) == n

    threads = [threading.Thread(target=call, args=(x,)) for x in arrays]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [int(x[0]) for x in arrays] == [MANY] * 3


def test_ctrl_c_stops_a_call(one_worker: RealWorker, arch: str) -> None:
    """It is raised when the worker has stopped it, and the session goes on."""
    program = f"""
    import os, signal, threading
    from tiremote.client import connect

    def strike():
        while gpu.status().session.running is None:
            pass
        os.kill(os.getpid(), signal.SIGINT)

    signal.signal(signal.SIGINT, signal.default_int_handler)
    with connect({one_worker.address!r}, arch={arch!r}, on_output=None) as gpu:
        gpu.compile_and_load({TEXT!r}, "sim")
        x = gpu.ti.ndarray(gpu.ti.i64, 4)
        for _ in range({MANY}):
            gpu["sim"].spin(x, 0)
        threading.Thread(target=strike).start()
        try:
            gpu["sim"].spin(x, 2_000_000_000)
        except KeyboardInterrupt as error:
            print(type(error.__cause__).__name__)
        print(gpu["sim"].add(gpu.ti.ndarray(gpu.ti.i64, 4), 5))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=PATIENCE, check=True
    )
    assert done.stdout == "Interrupted\n5\n"


def test_nobody_else_gets_in(gpu: Session) -> None:
    """Who does not know the secret is not let in, and what is no message ends the connection, not the engine."""
    x = zeros(gpu)
    warm(gpu, x)
    engine = psutil.Process(gpu.status().session.engine_pid)
    with open("/proc/net/unix") as listed:
        names = [line.split()[-1] for line in listed if f"@tiremote-{engine.pid}-" in line]
    for name in names:
        # The listener is gone since its client came.
        with socket.socket(socket.AF_UNIX) as stranger, pytest.raises(ConnectionRefusedError):
            stranger.connect("\0" + name[1:])
    assert gpu["sim"].add(x, 1) == 1
