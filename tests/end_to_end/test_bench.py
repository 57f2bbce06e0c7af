"""Calls that are timed on the worker."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from real_worker import RealWorker
from tiremote.client import Session, connect
from tiremote.protocol.errors import DeadlineExceeded, KernelArgumentError, ProtocolError, Refused, UnknownName

TEXT = """
import time
calls = 0

@ti.kernel
def add(x: ti.types.ndarray(), n: ti.f32):
    for i in x:
        x[i] += n

def uneven():
    global calls
    calls += 1
    time.sleep(0.0 if calls % 2 else 0.02)
    return calls

class Counter:
    def __init__(self):
        self.n = 0
    def step(self, by):
        self.n += by

counter = Counter()
"""


@pytest.fixture(scope="module")
def gpu(worker: RealWorker, arch: str) -> Iterator[Session]:
    with connect(worker.address, arch=arch, on_output=None) as gpu:
        gpu.compile_and_load(TEXT, "sim")
        yield gpu


def test_a_kernel_is_timed_and_has_run_so_often(gpu: Session) -> None:
    """The times are of the calls alone, less than what they take from here; compiling counts apart."""
    x = gpu.array(np.zeros(4, np.float32))
    told = gpu.bench(gpu["sim"].add, x, 1.0, repeats=20, warmup=5, max_spread=None)
    assert (told.name, told.warmup, len(told.launches)) == ("sim.add", 5, 20)
    assert x.to_numpy().tolist() == [25.0] * 4
    assert 0 < told.minimum <= told.median < told.compile
    assert str(told).startswith("sim.add: median ")
    assert "20 calls after 5, compiled in" in str(told)


def test_numpy_arrays_stay_as_they_are(gpu: Session) -> None:
    """Each call is given what came."""
    x = np.zeros(4, np.float32)
    gpu.bench("sim.add", x, 1.0, repeats=3, max_spread=None)
    assert x.tolist() == [0.0] * 4


def test_functions_and_methods_with_keywords(gpu: Session) -> None:
    """Whatever can be called."""
    told = gpu.bench(gpu["sim"].counter.step, kwargs={"by": 2}, repeats=4, warmup=0, max_spread=None)
    assert len(told.launches) == 4
    assert gpu["sim"].counter.n == 8


def test_times_that_mean_nothing_are_not_told_as_one_number(gpu: Session) -> None:
    """The refusal says how far apart they are; who wants them all the same has them."""
    with pytest.raises(Refused, match="too far apart"):
        gpu.bench(gpu["sim"].uneven, repeats=10)
    told = gpu.bench(gpu["sim"].uneven, repeats=10, max_spread=None)
    assert told.spread > 0.5
    assert max(told.launches) > 0.02


def test_wrong_calls_are_refused_as_ever(gpu: Session) -> None:
    """Arguments, names and numbers of calls."""
    x = gpu.array(np.zeros(4, np.float32))
    with pytest.raises(KernelArgumentError) as error:
        gpu.bench(gpu["sim"].add, x, "one")
    assert error.value.parameter == "n"
    with pytest.raises(UnknownName):
        gpu.bench("sim.nothing")
    for wrong in ({"repeats": 0}, {"repeats": 10**6}, {"warmup": -1}):
        with pytest.raises(ProtocolError, match="number of calls"):
            gpu.bench(gpu["sim"].add, x, 1.0, **wrong)


def test_a_deadline_ends_it_between_two_calls(gpu: Session) -> None:
    """Nothing is lost by that."""
    x = gpu.array(np.zeros(4, np.float32))
    gpu["sim"].add(x, 1.0)
    with pytest.raises(DeadlineExceeded) as error:
        gpu.bench(gpu["sim"].uneven, repeats=100_000, deadline=0.2)
    assert error.value.lost == ()
    assert x.to_numpy().tolist() == [1.0] * 4
