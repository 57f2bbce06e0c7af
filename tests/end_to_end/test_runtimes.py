"""A session on each runtime that is installed, beside sessions on the others."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from real_worker import RealWorker, RestartableWorker
from tiremote.client import Session, connect
from tiremote.protocol.errors import (
    CompileError,
    EngineCrashed,
    Interrupted,
    KernelArgumentError,
    KernelRuntimeError,
    Refused,
)
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

y = ti.field(f32, 4, needs_grad=True)
loss = ti.field(f32, (), needs_grad=True)

@ti.kernel
def square():
    for i in y:
        loss[None] += y[i] ** 2

def gradient():
    with ti.ad.Tape(loss):
        square()

@ti.kernel
def endless(a: ti.types.ndarray(ndim=1)):
    while a[0] == 0:
        a[1] += 1

@ti.kernel
def peek(a: ti.types.ndarray(ndim=1), i: ti.i32) -> ti.i32:
    return a[i]

def die():
    import os
    os.kill(os.getpid(), 11)
"""


def line_of(text: str) -> int:
    """Where that stands in the source, from 1."""
    return SOURCE[: SOURCE.index(text)].count("\n") + 1


@pytest.fixture(scope="module", params=installed())
def gpu(request: pytest.FixtureRequest, worker: RealWorker, arch: str) -> Iterator[Session]:
    """A session on the shared worker."""
    with connect(worker.address, arch=arch, runtime=request.param, on_output=None) as gpu:
        yield gpu


def test_a_kernel_runs_and_is_reloaded(gpu: Session) -> None:
    """Its field keeps what it holds, methods of objects that were there are the new ones; a failure changes nothing."""
    gpu.compile_and_load(SOURCE, "sim")
    a = np.zeros(4, np.float32)
    assert gpu["sim"].add(a, 2.5) == 10
    gpu["sim"].counter.step(3)
    receipt = gpu.compile_and_load(SOURCE.replace("a[i] += n", "a[i] += 2 * n").replace("+= k", "+= 2 * k"), "sim")
    assert {"x", "counter", "counter.state"} <= set(receipt.kept)
    gpu["sim"].add(a, 1.0)
    gpu["sim"].counter.step(1)
    with pytest.raises(CompileError) as caught:
        gpu.compile_and_load(SOURCE.replace("a[i] += n", "a[i] += n.nothing"), "sim")
    assert caught.value.frames[-1].line == line_of("a[i] += n")
    assert "nothing" in caught.value.message
    gpu["sim"].add(a, 1.0)
    assert a.tolist() == [6.5] * 4
    assert gpu["sim"].x.to_numpy().tolist() == [4.5] * 4
    assert gpu["sim"].counter.state.to_numpy().tolist() == [5] * 3


def test_arrays_are_put_and_fetched(gpu: Session) -> None:
    """Ndarrays and fields, of numbers and of vectors, whole and in part."""
    gpu.compile_and_load("v = ti.Vector.field(3, ti.f64, 4)\nx = ti.field(ti.u8, (2, 3))\n", "data")
    vectors = np.arange(12.0).reshape(4, 3)
    gpu["data"].v.from_numpy(vectors)
    gpu["data"].x[1, 1:] = np.array([7, 8], np.uint8)
    array = gpu.array(np.arange(5, dtype=np.int64))
    array[2] = 20
    assert gpu["data"].v[1:3].tolist() == vectors[1:3].tolist()
    assert gpu["data"].x.to_numpy().tolist() == [[0, 0, 0], [0, 7, 8]]
    assert array.to_numpy().tolist() == [0, 1, 20, 3, 4]


def test_arguments_are_checked_and_errors_lead_into_the_text(gpu: Session) -> None:
    """By the parameter's name, and by the line of a driver function; plain values travel exactly."""
    gpu.compile_and_load(SOURCE, "sim")
    with pytest.raises(KernelArgumentError, match="'i' takes i32, but 4294967296"):
        gpu["sim"].peek(np.zeros(3, np.int32), 2**32)
    driver = "def f(n):\n    return add_one(n)\n\n@ti.func\ndef add_one(n):\n    return n + 1\n"
    gpu.compile_and_load(driver, "driver")
    with pytest.raises((KernelRuntimeError, CompileError)) as caught:
        gpu["driver"].f(1)
    assert caught.value.frames[0].line == 2


def test_gradients_are_computed(gpu: Session) -> None:
    """By a tape in a driver function."""
    gpu.compile_and_load(SOURCE, "sim")
    gpu["sim"].y.from_numpy(np.arange(4, dtype=np.float32))
    gpu["sim"].gradient()
    assert gpu["sim"].y.grad.to_numpy().tolist() == [0, 2, 4, 6]
    assert gpu["sim"].loss.to_numpy() == 14


def test_a_crash_is_recovered_from(gpu: Session) -> None:
    """Units are loaded again and arrays hold what was put."""
    gpu.compile_and_load(SOURCE, "sim")
    gpu["sim"].x.from_numpy(np.arange(4, dtype=np.float32))
    array = gpu.array(np.arange(3, dtype=np.float32))
    with pytest.raises(EngineCrashed, match="SIGSEGV"):
        gpu["sim"].die()
    assert gpu["sim"].x.to_numpy().tolist() == [0, 1, 2, 3]
    gpu["sim"].add(array, 1.0)
    assert array.to_numpy().tolist() == [1, 2, 3]
    assert gpu.info.engine.runtime == gpu.status().session.engine.runtime


def test_an_endless_kernel_is_stopped(gpu: Session) -> None:
    """The session goes on in another engine of its runtime."""
    gpu.compile_and_load(SOURCE, "sim")
    gpu["sim"].peek(np.zeros(2, np.int32), 1)
    call = gpu["sim"].endless.submit(np.zeros(2, np.int32))
    gpu.interrupt(call)
    with pytest.raises(Interrupted):
        call.result()
    assert gpu["sim"].peek(np.array([3, 5], np.int32), 1) == 5


@pytest.mark.parametrize("runtime", installed())
def test_a_debug_session_names_a_bad_index(worker: RealWorker, arch: str, runtime: str) -> None:
    """With its place and the shape, and lives on."""
    with connect(worker.address, arch=arch, runtime=runtime, debug=True) as gpu:
        gpu.compile_and_load(SOURCE, "sim")
        with pytest.raises(KernelRuntimeError, match=r"7.*out of bounds.*3") as caught:
            gpu["sim"].peek(np.zeros(3, np.int32), 7)
        assert caught.value.frames[-1].line == line_of("return a[i]")
        assert gpu["sim"].peek(np.array([1, 2, 3], np.int32), 2) == 3


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


def test_a_session_is_taken_up_again_on_its_runtime(tmp_path: Path, arch: str) -> None:
    """By a worker whose own is another, with what arrays held."""
    worker = RestartableWorker(tmp_path / "state", arch)
    try:
        with connect(worker.address, arch=arch, session="kept", runtime=installed()[-1]) as gpu:
            gpu.compile_and_load(SOURCE, "sim")
            gpu["sim"].x.from_numpy(np.arange(4, dtype=np.float32))
            worker.restart(signal.SIGTERM)
            assert gpu["sim"].x.to_numpy().tolist() == [0, 1, 2, 3]
            description = gpu.describe()
            assert (description.runtime, description.version) == (installed()[-1], gpu.info.engine.version)
    finally:
        worker.end()
