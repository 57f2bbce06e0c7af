"""Processes that die at bad moments: engines, the front, the program that started the worker."""

from __future__ import annotations

import os
import signal
import tempfile
import time
from collections.abc import Callable

import numpy as np
import psutil
import pytest

from real_worker import PATIENCE, RawSession, RealWorker
from tiremote.protocol.errors import DeadlineExceeded, EngineCrashed, Interrupted, KernelRuntimeError, StaleHandle
from tiremote.protocol.messages import Cancel, Event, Interrupt, Status

SOURCE = """
import os, signal, time

count = ti.field(ti.i32, ())

@ti.kernel
def add(x: ti.types.ndarray(), n: ti.f32):
    for i in range(x.shape[0]):
        x[i] += n

@ti.kernel
def far(x: ti.types.ndarray()):
    x[100_000_000] = 1.0

@ti.kernel
def endless() -> ti.i32:
    total = 0
    ti.loop_config(serialize=True)
    for i in range(2_000_000_000):
        for j in range(2_000_000_000):
            total += (i ^ j) % 7
    return total

def spin():
    print("spinning")
    while True:
        pass

def kill(number):
    os.kill(os.getpid(), number)

def leave(code):
    os._exit(code)

def complain():
    raise OSError("no file " + chr(0xDCFF))

def wait_for_ever():
    print("waiting")
    while True:
        time.sleep(1000)

def swallow():
    while True:
        try:
            while True:
                pass
        except BaseException:
            pass

def hello():
    return "hello"
"""


@pytest.fixture
def loaded(session: RawSession) -> RawSession:
    """A session with the unit above and an array ``x`` of ten zeros."""
    session.compile(SOURCE, "sim")
    return session


def works(session: RawSession) -> None:
    """The session can do everything it could."""
    assert session.run("hello", unit="sim") == "hello"
    x = session.put(np.arange(4, dtype=np.float32))
    session.run("add", x, 2.0, unit="sim")
    assert session.fetch(x).tolist() == [2, 3, 4, 5]


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGABRT, signal.SIGKILL, signal.SIGBUS, signal.SIGTERM])
def test_an_engine_killed_by_a_signal_is_reported_and_replaced(loaded: RawSession, number: signal.Signals) -> None:
    """The waiting client gets the signal's name, what is there again and what is lost, and the session goes on."""
    x = loaded.put(np.arange(10, dtype=np.float32), label="x")
    y = loaded.alloc(shape=(3,), label="y")
    with pytest.raises(EngineCrashed) as caught:
        loaded.run("kill", int(number), unit="sim")
    error = caught.value
    assert error.signal == number.name
    assert error.restored == ("sim",)
    assert [(one.name, one.op) for one in error.as_of] == [("x", "put")]
    assert set(error.lost) == {"y", "sim.count"}
    assert loaded.fetch(x).tolist() == list(range(10))
    with pytest.raises(StaleHandle):
        loaded.fetch(y)
    works(loaded)


def test_a_far_index_kills_the_engine_and_nothing_else(worker: RealWorker, loaded: RawSession, arch: str) -> None:
    """Case 26: a wild index costs its own session an engine; another session's array is unharmed."""
    with RawSession(worker.address) as other:
        other.compile(SOURCE, "sim")
        kept = other.put(np.arange(5, dtype=np.float32))
        x = loaded.put(np.zeros(10, np.float32), label="x")
        started = time.monotonic()
        with pytest.raises(EngineCrashed) as caught:
            loaded.run("far", x, unit="sim")
        assert time.monotonic() - started < PATIENCE / 10
        if arch == "cpu":
            assert caught.value.signal == "SIGSEGV"
        works(loaded)
        assert other.fetch(kept).tolist() == [0, 1, 2, 3, 4]


def test_an_error_that_utf8_does_not_hold_costs_no_engine(loaded: RawSession) -> None:
    """Python names a file of undecodable bytes with lone surrogates; the array is still there afterwards."""
    x = loaded.put(np.arange(3, dtype=np.float32))
    with pytest.raises(KernelRuntimeError, match=r"no file \\udcff"):
        loaded.run("complain", unit="sim")
    assert loaded.fetch(x).tolist() == [0, 1, 2]


def test_an_engine_that_exits_is_reported_with_its_code(loaded: RawSession) -> None:
    """Code that ends its process is no more trouble than one that crashes."""
    with pytest.raises(EngineCrashed, match="exit code 3"):
        loaded.run("leave", 3, unit="sim")
    works(loaded)


def test_processes_that_user_code_started_hide_no_death_and_do_not_outlive_the_engine(loaded: RawSession) -> None:
    """A fork and a background command have the engine's descriptors; its end is told at once, and is theirs too."""
    loaded.compile(
        "import os, subprocess, time\n"
        "def fork():\n    child = os.fork()\n    if child == 0:\n        time.sleep(1000)\n    return child\n"
        "def command():\n    return subprocess.Popen(['sleep', '1000'], close_fds=False).pid\n",
        "started",
    )
    started = [psutil.Process(loaded.run(name, unit="started")) for name in ("fork", "command")]
    before = time.monotonic()
    with pytest.raises(EngineCrashed, match="exit code 3"):
        loaded.run("leave", 3, unit="sim")
    assert time.monotonic() - before < PATIENCE / 10
    _until(lambda: not any(_lives(process) for process in started))
    works(loaded)


def test_a_function_that_returns_in_a_fork_too_is_answered_once(loaded: RawSession) -> None:
    """The copy is no second engine: it takes no request and gives no answer."""
    loaded.compile("import os\ndef fork():\n    return os.fork()\ndef who():\n    return os.getpid()\n", "forks")
    engine = loaded.run("who", unit="forks")
    copy = psutil.Process(loaded.run("fork", unit="forks"))
    assert {loaded.run("who", unit="forks") for _ in range(20)} == {engine}
    _until(lambda: not _lives(copy))


def test_code_that_closes_its_output_costs_that_and_nothing_else(loaded: RawSession) -> None:
    """Requests whose client wants output go on, without any."""
    loaded.compile("import os, sys\ndef close():\n    os.close(1)\n    del sys.stdout, sys.stderr\n", "closes")
    generation = loaded.status()["session"]["generation"]
    loaded.run("close", unit="closes", events=True)
    assert loaded.run("hello", unit="sim", events=True) == "hello"
    assert loaded.status()["session"]["generation"] == generation


def test_a_lost_device_costs_only_the_request_that_lost_it(session: RawSession) -> None:
    """Those that wait behind it in the link, and depend on nothing that is lost, run once, on the next engine."""
    session.compile(
        "import time\ndef lose():\n    time.sleep(0.3)\n    raise RuntimeError('CUDA_ERROR_ILLEGAL_ADDRESS')\n"
        "def mark(file):\n    open(file, 'a').write('x')\n",
        "device",
    )
    with tempfile.NamedTemporaryFile() as file:
        guilty = session.start("lose", unit="device")
        innocent = [session.start("mark", file.name, unit="device") for _ in range(5)]
        with pytest.raises(EngineCrashed, match="lost its device"):
            session.result(guilty)
        for request in innocent:
            session.result(request)
        assert file.read() == b"xxxxx"


@pytest.mark.parametrize("data", [b"\x05\0\0\0\xc1\xc1\xc1\xc1\xc1", b"\x01\0\0\0\x01", b"\xff" * 64])
def test_garbage_on_its_link_costs_an_engine_and_not_the_worker(loaded: RawSession, data: bytes) -> None:
    """User code that writes to whatever descriptor there is reaches the front with it."""
    loaded.compile(
        "import os, stat\ndef write(data):\n    for fd in range(3, 100):\n        try:\n"
        "            if stat.S_ISSOCK(os.fstat(fd).st_mode):\n                os.write(fd, data)\n"
        "        except OSError:\n            pass\n",
        "writes",
    )
    with pytest.raises(EngineCrashed):
        loaded.run("write", data, unit="writes")
    works(loaded)


def test_an_engine_killed_from_outside_between_requests_is_replaced(loaded: RawSession) -> None:
    """Nothing goes on with older contents unknowingly: the next request is told instead of run, those after it run."""
    loaded.run("hello", unit="sim")
    before = loaded.status()["session"]
    psutil.Process(before["engine_pid"]).kill()
    with pytest.raises(EngineCrashed, match=r"while nothing ran; this request was not run.*lost: sim\.count"):
        loaded.run("hello", unit="sim")
    works(loaded)
    after = loaded.ask(Status)["session"]
    assert after["generation"] == before["generation"] + 1


def test_an_endless_kernel_is_interrupted_and_later_calls_work(loaded: RawSession) -> None:
    """Case 28: a kernel that holds everything its process has is ended from outside."""
    loaded.run("hello", unit="sim")
    request = loaded.start("endless", unit="sim")
    _until_running(loaded, request.id)
    assert loaded.ask(Interrupt)["stopped"] == request.id
    with pytest.raises(Interrupted) as caught:
        loaded.result(request)
    assert caught.value.restored == ("sim",)
    works(loaded)


def test_a_driver_function_is_interrupted_without_losing_anything(loaded: RawSession) -> None:
    """Python code stops between two steps: its engine and every array stay."""
    x = loaded.put(np.ones(3, np.float32))
    generation = loaded.status()["session"]["generation"]
    request = loaded.start("spin", unit="sim")
    _until_running(loaded, request.id)
    loaded.ask(Interrupt, request=request.id)
    with pytest.raises(Interrupted) as caught:
        loaded.result(request)
    assert caught.value.lost == ()
    assert loaded.fetch(x).tolist() == [1, 1, 1]
    assert loaded.status()["session"]["generation"] == generation


def test_code_that_swallows_the_interrupt_is_killed(loaded: RawSession) -> None:
    """A bare except does not make a request immortal."""
    request = loaded.start("swallow", unit="sim")
    _until_running(loaded, request.id)
    loaded.ask(Interrupt)
    with pytest.raises(Interrupted):
        loaded.result(request)
    works(loaded)


def test_a_request_behind_a_running_one_is_cancelled_and_never_runs(loaded: RawSession) -> None:
    """A cancelled request is answered at once, is not run later, and those around it are."""
    loaded.compile("def mark(x, n):\n    x[n] = 1.0\n", "marks")
    x = loaded.put(np.zeros(3, np.float32))
    running = loaded.start("spin", unit="sim", events=True)
    assert isinstance(loaded.receive(), Event)
    first, second, third = (loaded.start("mark", x, n, unit="marks") for n in range(3))
    assert loaded.ask(Cancel, request=second.id)["cancelled"] is True
    with pytest.raises(Interrupted):
        loaded.result(second)
    assert loaded.ask(Cancel, request=running.id)["cancelled"] is False
    loaded.ask(Interrupt)
    loaded.answer(running)
    loaded.result(first)
    loaded.result(third)
    assert loaded.fetch(x).tolist() == [1, 0, 1]


def test_a_deadline_ends_a_kernel_and_the_queue_goes_on(loaded: RawSession) -> None:
    """The request with the deadline fails; those behind it run."""
    request = loaded.start("endless", unit="sim", deadline=0.3)
    behind = loaded.start("hello", unit="sim")
    with pytest.raises(DeadlineExceeded) as caught:
        loaded.result(request)
    assert caught.value.deadline == 0.3
    assert loaded.result(behind)["value"] == "hello"


def test_the_fronts_death_ends_its_engines_even_in_a_kernel(arch: str) -> None:
    """SIGKILL to the front leaves no engine, not even one that a kernel keeps from hearing anything."""
    with RealWorker(arch=arch) as worker, RawSession(worker.address) as session:
        session.compile(SOURCE, "sim")
        _until_running(session, session.start("endless", unit="sim").id)
        engines = worker.engines()
        assert engines
        worker.send_signal(signal.SIGKILL)
        _, alive = psutil.wait_procs(engines, timeout=PATIENCE / 6)
        assert alive == []


def test_the_fronts_death_ends_what_user_code_forked(arch: str) -> None:
    """SIGKILL to the front, which can end nothing any more, leaves no worker of a pool behind."""
    source = (
        "import os, time\ndef fork():\n    child = os.fork()\n    if child == 0:\n        time.sleep(1000)\n"
        "    return child\n"
    )
    with RealWorker(arch=arch) as worker, RawSession(worker.address) as session:
        session.compile(source)
        forked = psutil.Process(session.run("fork"))
        worker.send_signal(signal.SIGKILL)
        _until(lambda: not _lives(forked))


def test_the_end_of_standard_input_ends_a_worker_that_is_busy(arch: str) -> None:
    """A worker that belongs to a program goes with it, whatever runs."""
    with RealWorker(arch=arch) as worker, RawSession(worker.address) as session:
        session.compile(SOURCE, "sim")
        _until_running(session, session.start("endless", unit="sim").id)
        engines = worker.engines()
        code, _ = worker.stop()
        assert code == 0
        _, alive = psutil.wait_procs(engines, timeout=PATIENCE / 6)
        assert alive == []


def test_sigterm_lets_running_work_end(arch: str) -> None:
    """What runs when SIGTERM comes is answered before the worker leaves with exit code 0."""
    source = "import time\ndef nap():\n    print('napping')\n    time.sleep(0.5)\n    return 7\n"
    with RealWorker(arch=arch) as worker, RawSession(worker.address) as session:
        session.compile(source)
        request = session.start("nap")
        _until_running(session, request.id)
        worker.send_signal(signal.SIGTERM)
        assert session.result(request)["value"] == 7
        assert worker.process.wait(PATIENCE) == 0


def test_a_worker_that_cannot_have_its_port_says_so(worker: RealWorker) -> None:
    """A second worker on a used port ends with one line and exit code 1."""
    with pytest.raises(RuntimeError, match=r"cannot listen on .*another worker"):
        RealWorker(address=worker.address)


def _lives(process: psutil.Process) -> bool:
    """Whether it runs; one that nobody waits for may stay a zombie where pid 1 does not."""
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _until(done: Callable[[], bool]) -> None:
    """Waits for something that takes a moment."""
    give_up = time.monotonic() + PATIENCE
    while not done():
        assert time.monotonic() < give_up
        os.sched_yield()


def _until_running(session: RawSession, request: str | int) -> None:
    """Waits until the engine is busy with the request; each round trip is to the front, which always answers."""
    give_up = time.monotonic() + PATIENCE
    while time.monotonic() < give_up:
        running = session.status()["session"]["running"]
        if running is not None and running["request"] == request and running["seconds"] > 0.05:
            return
        os.sched_yield()
    raise TimeoutError(f"request {request} did not start")
