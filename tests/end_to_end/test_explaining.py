"""Crashes of real engines, explained: line, index and shape, while the session goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import psutil
import pytest

from real_worker import PATIENCE, RealWorker
from tiremote.client import Session, connect
from tiremote.protocol.errors import EngineCrashed, Refused
from tiremote.protocol.explanation import CrashExplanation

SOURCE = """
@ti.kernel
def scatter(x: ti.types.ndarray(), at: ti.types.ndarray()):
    for i in at:
        x[at[i]] = 1.0

@ti.kernel
def add(x: ti.types.ndarray(), n: ti.f32):
    for i in x:
        x[i] += n
"""

OTHERS = """
grid = ti.field(ti.f32, (3, 4))

@ti.kernel
def touch(i: ti.i32, j: ti.i32):
    grid[i, j] += 1.0

@ti.data_oriented
class Model:
    def __init__(self, n):
        self.mass = ti.Vector.field(2, ti.f32, n)

    @ti.kernel
    def pull(self, i: ti.i32):
        self.mass[i][1] += 1.0

    def step(self, i):
        self.pull(0)
        self.pull(i)

model = Model(5)

def drive(steps):
    for k in range(steps):
        touch(k, 100_000_000 * k)

@ti.kernel
def near_then_far(x: ti.types.ndarray()):
    for i in range(3):
        x[8 + 200_000_000 * i] = 1.0

def kill_itself():
    import os, signal
    os.kill(os.getpid(), signal.SIGSEGV)
"""


@pytest.fixture(scope="module")
def worker(arch: str) -> Iterator[RealWorker]:
    """A worker that ends with this file: its sessions' engines die."""
    with RealWorker(arch=arch) as worker:
        yield worker


@pytest.fixture
def own(worker: RealWorker, arch: str) -> Iterator[Session]:
    """A session whose engine may die."""
    with connect(worker.address, arch=arch, on_output=None) as gpu:
        yield gpu


def crash(call: Callable[[], object]) -> None:
    """Has a call end its engine."""
    with pytest.raises(EngineCrashed, match="explain_crash"):
        call()


def places(told: CrashExplanation) -> list[tuple[str, str]]:
    """The functions and the lines that it leads to."""
    return [(frame.function, frame.text.strip()) for frame in told.frames]


def test_a_far_index_is_explained_while_the_session_goes_on(own: Session, worker: RealWorker) -> None:
    """With the contents and the text of the crash, whatever has happened since: line, index, shape. The session runs
    and answers meanwhile, nothing of it changes, and the debug engine is gone afterwards."""
    with pytest.raises(Refused, match="no crash"):
        own.explain_crash()
    own.compile_and_load(SOURCE, "sim")
    x = own.array(np.zeros(10, np.float32), label="x")
    at = own.array(np.array([3, 100_000_000], np.int32), label="at")
    own.compile_and_load(f"# moved\n{SOURCE}", "sim")
    crash(lambda: own["sim"].scatter(x, at))
    at.from_numpy(np.array([1, 2], np.int32))
    own.compile_and_load(f"# and\n# moved again\n{SOURCE}", "sim")
    before = own.describe()

    with ThreadPoolExecutor() as pool:
        explaining = pool.submit(own.explain_crash)
        answers = 0
        while answers == 0 or not explaining.done():
            own["sim"].add(x, 1.0)
            own.ping()
            answers += 1
        told = explaining.result()

    assert (told.kind, told.index, told.bounds, told.expression) == ("out of bounds", (100_000_000,), (10,), "x[at[i]]")
    assert (told.line, told.frames[-1].version) == (6, 2)
    assert {one.name: one.op for one in told.as_of} == {"x": "put", "at": "put"}
    assert "x[at[i]]: index (100000000) is out of bounds: the shape is (10)" in str(told)
    assert x.to_numpy().tolist() == [answers] * 10
    assert at.to_numpy().tolist() == [1, 2]
    after = own.describe()
    assert after.generation == before.generation
    assert [(unit.unit, unit.version) for unit in after.units] == [("sim", 3)]
    assert len(after.arrays) == len(before.arrays)
    # The session's own, and the spare.
    while len(engines := worker.engines()) > 2:
        psutil.wait_procs(engines, timeout=PATIENCE / 100)


def test_functions_and_objects_lead_to_the_kernel(own: Session) -> None:
    """The frames go through the driver function, or the method, to the index; a field is as loading makes it."""
    own.compile_and_load(OTHERS, "others")
    crash(lambda: own["others"].drive(3))
    told = own.explain_crash()
    assert (told.kind, told.index, told.bounds) == ("out of bounds", (1, 100_000_000), (3, 4))
    assert places(told) == [("drive", "touch(k, 100_000_000 * k)"), ("touch", "grid[i, j] += 1.0")]
    assert "others.grid" in told.anew

    crash(lambda: own["others"].model.step(-300_000_000))
    told = own.explain_crash()
    assert (told.index, told.bounds, told.expression) == ((-300_000_000,), (5,), "self.mass[i]")
    assert [function for function, _ in places(told)] == ["Model.step", "pull"]


def test_an_array_that_came_with_the_call_is_there_again(own: Session) -> None:
    """And the first index outside is told, which harms nobody by itself."""
    own.compile_and_load(OTHERS, "others")
    crash(lambda: own["others"].near_then_far(np.zeros(8, np.float32)))
    told = own.explain_crash()
    assert told.kind == "out of bounds"
    assert told.index in {(8,), (200_000_008,), (400_000_008,)}
    assert told.bounds == (8,)


def test_a_crash_that_no_check_sees_is_told_with_its_line(own: Session) -> None:
    """Python code that ends the process: the signal again, and where the code was; twice, if it is asked for."""
    own.compile_and_load(OTHERS, "others")
    crash(own["others"].kill_itself)
    for _ in range(2):
        told = own.explain_crash()
        assert (told.kind, told.signal) == ("crashed again", "SIGSEGV")
        assert places(told) == [("kill_itself", "os.kill(os.getpid(), signal.SIGSEGV)")]


def test_a_large_argument_is_not_kept_where_copies_have_little_room(arch: str) -> None:
    """The error of the crash does not promise an explanation then, and who asks for one is told why there is none."""
    with (
        RealWorker("--copies", "1000000", arch=arch) as worker,
        connect(worker.address, arch=arch, on_output=None) as gpu,
    ):
        gpu.compile_and_load(SOURCE, "sim")
        with pytest.raises(EngineCrashed) as caught:
            gpu["sim"].scatter(np.zeros(1 << 20, np.float32), np.array([2_000_000_000], np.int32))
        assert "explain_crash" not in str(caught.value)
        told = gpu.explain_crash()
        assert told.kind == "not kept"
        assert "--copies" in told.message
