"""A worker that is killed, ended or started twice while it keeps its sessions on disk; its clients go on."""

from __future__ import annotations

import contextlib
import random
import signal
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psutil
import pytest

from real_worker import PATIENCE, RawSession, RealWorker, RestartableWorker
from tiremote.client import Session, connect
from tiremote.protocol.errors import EngineCrashed
from tiremote.protocol.messages import Status
from tiremote.worker.front.settings import Settings

COUNTED = """
def mark(file, n):
    with open(file, "a") as marks:
        marks.write(f"{n}\\n")
    return n
"""

SOURCE = """
field = ti.field(ti.i32, 4)

@ti.kernel
def count():
    for i in field:
        field[i] += 1

@ti.kernel
def add(x: ti.types.ndarray(), n: ti.f32):
    for i in range(x.shape[0]):
        x[i] += n

def wait(file):
    import time
    print("waiting")
    while True:
        try:
            return open(file).read()
        except FileNotFoundError:
            time.sleep(0.01)
"""


@pytest.fixture
def restartable(tmp_path: Path, arch: str) -> Iterator[RestartableWorker]:
    """A worker with a state directory."""
    restartable = RestartableWorker(tmp_path / "state", arch)
    yield restartable
    restartable.worker.stop()


@contextlib.contextmanager
def client(restartable: RestartableWorker, arch: str, **fields: object) -> Iterator[Session]:
    """A Python client that has patience."""
    with connect(restartable.address, arch=arch, liveness=2 * PATIENCE, **fields) as gpu:  # type: ignore[arg-type]
        yield gpu


def test_calls_go_on_over_kills_and_none_runs_twice(restartable: RestartableWorker, arch: str, tmp_path: Path) -> None:
    """The same client object: what ran when the worker was killed is told so, all else is answered, in order."""
    marks = tmp_path / "marks"
    chance = random.Random(4)
    with client(restartable, arch) as gpu:
        gpu.compile_and_load(COUNTED, "counted")
        mark = gpu["counted"].mark
        stop = threading.Event()

        def kill() -> None:
            for _ in range(3):
                stop.wait(chance.random() * 0.5)
                restartable.restart()
            stop.set()

        killer = threading.Thread(target=kill)
        killer.start()
        futures = []
        while not stop.is_set():
            futures.append(mark.submit(str(marks), len(futures)))
            if len(futures) % 20 == 0:
                futures[-1].exception(2 * PATIENCE)
        killer.join()
        told = [future.exception(2 * PATIENCE) for future in futures]
    runs = Counter(map(int, marks.read_text().split()))
    assert max(runs.values()) == 1
    for number, error in enumerate(told):
        if error is None:
            assert futures[number].result() == number
            assert runs[number] == 1
        else:
            assert isinstance(error, EngineCrashed)
            assert error.message == "the worker was restarted during run counted.mark"
    # One at a time runs; what has run is on record, unless its answer was on its way inside the worker.
    assert sum(error is not None and runs[number] == 0 for number, error in enumerate(told)) <= 3
    assert sum(error is not None for error in told) <= 3 * Settings().window


def test_everything_is_there_again_after_a_kill(restartable: RestartableWorker, arch: str) -> None:
    """Units and their history, fields, arrays with their handles, and sessions by their names."""
    with client(restartable, arch) as gpu, client(restartable, arch, session="lab") as lab:
        gpu.compile_and_load(SOURCE, "sim")
        gpu.compile_and_load("def two():\n    return 2\n", "other")
        gpu.compile_and_load("def two():\n    return 3\n", "other")
        lab.compile_and_load("def where():\n    return 'lab'\n", "there")
        x = gpu.array(np.arange(4, dtype=np.float32))
        gpu["sim"].add(x, 1.0)
        gpu["sim"].count()
        gpu.snapshot()
        _until_written(restartable, copies=2)
        restartable.restart()
        assert x.to_numpy().tolist() == [1, 2, 3, 4]
        gpu["sim"].count()
        assert gpu["sim"].field.to_numpy().tolist() == [2] * 4
        assert gpu["other"].two() == 3
        gpu.rollback("other", 1)
        assert gpu["other"].two() == 2
        assert [one.version for one in gpu.history("other").versions] == [1, 2, 3]
        assert lab["there"].where() == "lab"
        with client(restartable, arch, session="lab") as again:
            assert again.info.rejoined
            assert again["there"].where() == "lab"


def _until_written(restartable: RestartableWorker, copies: int) -> None:
    """Copies are written when there is time, and whoever asked for them is answered before."""
    give_up = time.monotonic() + PATIENCE
    with contextlib.closing(sqlite3.connect(restartable.directory / "copies.db")) as database:
        while (found := database.execute("SELECT count(*) FROM copies").fetchone()) != (copies,):
            assert time.monotonic() < give_up, found


def test_a_worker_that_is_asked_to_end_keeps_the_last_values(restartable: RestartableWorker, arch: str) -> None:
    """What runs is answered, what comes too late by the next worker, and arrays hold what the last kernel left."""
    with client(restartable, arch) as gpu:
        gpu.compile_and_load(SOURCE, "sim")
        x = gpu.array(np.zeros(4, np.float32))
        y = gpu.ti.ndarray("f32", 2)
        gpu["sim"].add(x, 2.5)
        gate = restartable.directory.parent / "gate"
        waiting = gpu["sim"].wait.submit(str(gate))
        _until_running(gpu)
        restartable.worker.send_signal(signal.SIGTERM)
        late = gpu["sim"].add.submit(x, 1.0)
        gate.write_text("open")
        assert waiting.result(PATIENCE) == "open"
        assert restartable.worker.process.wait(PATIENCE) == 0
        restartable.worker.stop()
        restartable.start()
        late.result(2 * PATIENCE)
        assert x.to_numpy().tolist() == [3.5] * 4
        assert y.to_numpy().tolist() == [0, 0]
        assert gpu.status().state == "kept"


def _until_running(gpu: Session) -> None:
    give_up = time.monotonic() + PATIENCE
    while True:
        session = gpu.status().session
        if session is not None and session.running is not None and "wait" in session.running.target:
            return
        assert time.monotonic() < give_up


def test_a_second_worker_on_the_directory_is_refused(restartable: RestartableWorker, arch: str) -> None:
    """It says who has it, and the first goes on."""
    pid = restartable.worker.process.pid
    with pytest.raises(RuntimeError, match=rf"another worker \(pid {pid}\)"):
        RealWorker("--state", str(restartable.directory), arch=arch)
    with RawSession(restartable.address) as session:
        assert session.ask(Status)["state"] == "kept"


def test_what_is_ended_stays_ended_and_full_disks_are_told(restartable: RestartableWorker, arch: str) -> None:
    """While nothing can be written the worker goes on, and when it can, all there is by then is on disk."""
    with client(restartable, arch) as gpu:
        gpu.compile_and_load("def one():\n    return 1\n", "unit")
        ended = connect(restartable.address, arch=arch)
        ended.compile_and_load("x = 1\n", "unit")
        front = psutil.Process(restartable.worker.process.pid)
        front.rlimit(psutil.RLIMIT_FSIZE, (0, psutil.RLIM_INFINITY))
        gpu.compile_and_load("def one():\n    return 11\n", "unit")
        assert gpu["unit"].one() == 11
        state = gpu.status().state
        assert state is not None
        assert "cannot be written" in state
        ended.close()
        front.rlimit(psutil.RLIMIT_FSIZE, (psutil.RLIM_INFINITY, psutil.RLIM_INFINITY))
        give_up = time.monotonic() + PATIENCE
        while gpu.status().state != "kept":
            assert time.monotonic() < give_up
        restartable.restart()
        assert gpu["unit"].one() == 11
        assert [line["name"] for line in _listed(restartable)] == [None]


def _listed(restartable: RestartableWorker) -> list[dict[str, object]]:
    with RawSession(restartable.address, hello=False) as stranger:
        return stranger.ask(Status)["listed"]
