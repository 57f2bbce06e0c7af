"""Engines that leak with every reload are replaced, and whoever works with them does not notice."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from real_worker import RealWorker
from tiremote.client import Session, connect
from tiremote.protocol.errors import EngineCrashed

#: A kernel's version leaks 0.1 to 0.2 MB: so much is a dozen of them, or some.
LITTLE = 2 << 20

TEXT = """
import collections

x = ti.field(ti.i64, 1000)
y = ti.ndarray(ti.f32, 100)
table = np.zeros(10)
history = collections.deque(maxlen=5)
calls = 0

@ti.data_oriented
class Sim:
    def __init__(self):
        self.mass = ti.Vector.field(2, ti.f32, 16)
        self.steps = 0
        self.notes = {}

    @ti.kernel
    def move(self, by: ti.f32):
        for i in self.mass:
            self.mass[i] += ti.Vector([by, NUMBER])

sim = Sim()

@ti.kernel
def add(a: ti.types.ndarray(), n: ti.i64):
    for i in x:
        x[i] += n * i + NUMBER
    for i in a:
        a[i] += 1.0

def go(a, n):
    global calls
    add(a, n)
    sim.move(1.0)
    sim.steps += 1
    sim.notes["last"] = NUMBER
    history.append(NUMBER)
    calls += 1
    table[NUMBER % 10] += 1
    return calls
"""

TELL = """
def tell():
    return [sim.steps, sim.notes, list(history), table, sim.mass.to_numpy(), x.to_numpy()]
"""


class Model:
    """What the session must hold after a number of reloads with one call of `go` each."""

    def __init__(self, gpu: Session) -> None:
        self.gpu = gpu
        self.array = gpu.array(np.zeros(50, np.float32), label="mine")
        self.start: int | None = None
        self.x = np.zeros(1000, np.int64)
        self.y = np.zeros(16, np.float64)
        self.reloads = 0
        self.memory: list[int] = []
        self.waits: list[float] = []

    def reload(self) -> None:
        """The next version, and a call of it."""
        number = self.reloads
        started = time.perf_counter()
        self.gpu.compile_and_load(TEXT.replace("NUMBER", str(number)) + TELL, "sim")
        # Plain globals take their new values at each load; fields, ndarrays and objects go on.
        assert self.gpu["sim"].go(self.array, number) == 1
        self.waits.append(time.perf_counter() - started)
        self.reloads += 1
        self.x += number * np.arange(1000) + number
        self.y += number
        if number % 10 == 0:
            self.memory.append(self.status().engine_memory)

    def status(self) -> Any:
        return self.gpu.status().session

    def check(self) -> None:
        """Everything is as it must be."""
        steps, notes, history, table, mass, x = self.gpu["sim"].tell()
        last = self.reloads - 1
        assert (steps, notes, history) == (self.reloads, {"last": last}, [last])
        assert table.sum() == table[last % 10] == 1
        np.testing.assert_array_equal(x, self.x)
        np.testing.assert_array_equal(mass[:, 0], np.full(16, self.reloads, np.float32))
        np.testing.assert_allclose(mass[:, 1], self.y, rtol=1e-5)
        np.testing.assert_array_equal(self.array.to_numpy(), np.full(50, self.reloads, np.float32))
        assert self.gpu["sim"].x.to_numpy().tolist() == self.x.tolist()
        assert self.gpu.history("sim").current == self.reloads


@pytest.fixture(scope="module")
def leaking(arch: str) -> Iterator[RealWorker]:
    """A worker that bears little."""
    with RealWorker("--recycle", str(LITTLE), arch=arch) as worker:
        yield worker


@pytest.fixture
def gpu(leaking: RealWorker, arch: str) -> Iterator[Session]:
    with connect(leaking.address, arch=arch, on_output=None) as gpu:
        yield gpu


def test_reloads_without_end(gpu: Session) -> None:
    """In a row: the engine is replaced again and again, its memory stays bounded, and all state is right."""
    model = Model(gpu)
    while model.reloads < 40 or (model.status().recycled < 2 and model.reloads < 200):
        model.reload()
        if model.reloads % 20 == 0:
            model.check()
    model.check()
    assert model.status().recycled >= 2
    assert max(model.memory) < 2 * model.memory[0]
    assert gpu.status().crashes == 0


def until(gpu: Session, recycled: int) -> Any:
    """Waits until the session has been moved so often."""
    while (status := gpu.status().session).recycled < recycled:
        assert not (status.recycle or "").startswith("not"), status
        time.sleep(0)
    return status


def leak(gpu: Session) -> Any:
    """Loads and calls until it is time for another engine; the session's status at that moment."""
    number = 0
    while (status := gpu.status().session).leaked < LITTLE:
        number += 1
        gpu.compile_and_load(f"@ti.kernel\ndef waste{number}() -> ti.i32:\n    return {number}\n", "waste")
        assert gpu["waste"][f"waste{number}"]() == number
    return status


def test_a_text_that_is_loaded_already_costs_no_copy_after_a_move(gpu: Session) -> None:
    """What was put before comes back after a crash: the new engine takes nothing for changed by its own coming."""
    text = "import os\nx = ti.field(ti.i32, 4)\ndef die():\n    os.kill(os.getpid(), 9)\n"
    before = leak(gpu)
    gpu.compile_and_load(text, "dies")
    gpu["dies"].x.from_numpy(np.arange(4, dtype=np.int32))
    until(gpu, before.recycled + 1)
    # The newest, so that there is nothing to do at all.
    assert gpu.compile_and_load(text, "dies").unchanged
    with pytest.raises(EngineCrashed) as crash:
        gpu["dies"].die()
    assert [each.name for each in crash.value.as_of] == ["dies.x"]
    assert gpu["dies"].x.to_numpy().tolist() == [0, 1, 2, 3]


def test_a_session_that_rests_is_moved(gpu: Session) -> None:
    """After a second without work; handles, names, versions and contents are the same, and the old engine is gone."""
    gpu.compile_and_load(TEXT.replace("NUMBER", "3") + TELL, "sim")
    array = gpu.array(np.arange(50, dtype=np.float32), label="mine")
    gpu["sim"].go(array, 2)
    gpu.compile_and_load("def order():\n    return hash('a text')\n", "words")
    order = gpu["words"].order()
    before = leak(gpu)
    told = gpu["sim"].tell()
    after = until(gpu, before.recycled + 1)
    assert after.engine_pid != before.engine_pid
    assert after.recycle is None
    again = gpu["sim"].tell()
    for was, now in zip(told, again, strict=True):
        np.testing.assert_array_equal(was, now)
    assert gpu["words"].order() == order
    assert array.to_numpy().tolist() == [n + 1 for n in range(50)]
    assert gpu["sim"].go(array, 2) == 2
    described = {unit.unit: unit for unit in gpu.describe().units}
    assert described["sim"].version == 1
    assert [each.label for each in gpu.describe().arrays if each.label] == ["mine"]


def test_what_cannot_be_moved_is_told(gpu: Session) -> None:
    """A session with a thread stays in its engine, however much that has leaked, and its status says why."""
    gpu.compile_and_load(
        "import threading\nend = []\ndef begin():\n    event = threading.Event()\n    end.append(event.set)\n"
        "    threading.Thread(target=event.wait, name='mine', daemon=True).start()\n"
        "def stop():\n    end.pop()()\n",
        "threads",
    )
    gpu["threads"].begin()
    before = gpu.status().session.engine_pid
    leak(gpu)
    while not ((recycle := gpu.status().session.recycle) or "").startswith("not"):
        time.sleep(0)
    assert recycle == "not possible: a thread runs: mine"
    assert gpu.status().session.engine_pid == before
    gpu["threads"].stop()
    assert gpu.status().session.engine_pid == before


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_five_thousand_reloads(arch: str) -> None:
    """With what a worker bears by itself: memory stays below twice where it began, and all state is right."""
    with RealWorker(arch=arch) as worker, connect(worker.address, arch=arch, on_output=None) as gpu:
        model = Model(gpu)
        for number in range(5000):
            model.reload()
            if number % 250 == 0:
                model.check()
        model.check()
        status = model.status()
        print(
            f"\n{status.recycled} moves, engine memory {model.memory[0] >> 20} MB at first, {max(model.memory) >> 20} "
            f"at most, {status.engine_memory >> 20} in the end; a reload with its call took "
            f"{np.median(model.waits):.3f} s, with a move at worst {max(model.waits):.3f}"
        )
        assert status.recycled >= 1
        assert max(model.memory) < 2 * model.memory[0]
