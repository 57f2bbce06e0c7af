"""A session on each runtime that is installed, beside sessions on the others."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from real_worker import RealWorker
from tiremote.client import Session, connect
from tiremote.protocol.errors import CompileError, Refused
from tiremote.worker.runtimes import RUNTIMES, installed

SOURCE = """
import taichi as ti
import taichi.math as tm
from taichi import f32

x = ti.field(f32, 4)

@ti.kernel
def add(a: ti.types.ndarray(), n: f32) -> f32:
    total = 0.0
    for i in range(a.shape[0]):
        a[i] += n
        x[i] += n
        total += x[i]
    return tm.floor(total)

@ti.data_oriented
class Counter:
    def __init__(self):
        self.state = ti.field(ti.i32, 3)

    @ti.kernel
    def step(self, k: ti.i32):
        for i in self.state:
            self.state[i] += k

counter = Counter()
"""


@pytest.fixture(scope="module", params=installed())
def gpu(request: pytest.FixtureRequest, worker: RealWorker, arch: str) -> Iterator[Session]:
    """A session on the shared worker."""
    with connect(worker.address, arch=arch, runtime=request.param) as gpu:
        yield gpu


def test_a_kernel_runs_and_is_reloaded(gpu: Session) -> None:
    """Its field keeps what it holds, and methods of objects that were there are the new ones."""
    gpu.compile_and_load(SOURCE, "sim")
    a = np.zeros(4, np.float32)
    assert gpu["sim"].add(a, 2.5) == 10
    gpu["sim"].counter.step(3)
    gpu.compile_and_load(SOURCE.replace("a[i] += n", "a[i] += 2 * n").replace("+= k", "+= 2 * k"), "sim")
    gpu["sim"].add(a, 1.0)
    gpu["sim"].counter.step(1)
    assert a.tolist() == [4.5] * 4
    assert gpu["sim"].x.to_numpy().tolist() == [3.5] * 4
    assert gpu["sim"].counter.state.to_numpy().tolist() == [5] * 3


def test_the_runtime_is_told(gpu: Session) -> None:
    """By name and version, and which else there are."""
    engine = gpu.info.engine
    assert engine.runtime == gpu.info.options["runtime"]
    assert engine.version[0].isdigit()
    assert gpu.info.runtimes == installed()


def test_another_runtime_than_the_sessions_is_not_imported(gpu: Session) -> None:
    """Two in one process would end it; a text that says Taichi means the session's."""
    own = gpu.info.engine.runtime
    other = next(name for name in RUNTIMES if name not in (own, "taichi"))
    with pytest.raises(CompileError, match=f"this session runs on {own}.*runtime='{other}'") as caught:
        gpu.compile_and_load(f"\nimport {other} as ti\n", "wrong")
    assert caught.value.frames[0].line == 2
    gpu.compile_and_load(f"import {own}\nassert {own} is ti\nfrom taichi import *\nassert kernel is ti.kernel\n", "own")


def test_a_session_is_not_joined_with_another_runtime(worker: RealWorker, arch: str) -> None:
    """Like another arch."""
    with (
        connect(worker.address, session="shared", arch=arch, runtime="taichi"),
        pytest.raises(Refused, match="runs with runtime='taichi', not 'quadrants'"),
    ):
        connect(worker.address, session="shared", arch=arch, runtime="quadrants")


def test_a_runtime_that_is_none_is_refused(worker: RealWorker) -> None:
    """With the names of those that there are."""
    with pytest.raises(Refused, match="taichi, gstaichi, quadrants"):
        connect(worker.address, runtime="jax")
