"""The client over a network that is cut, slow or silent: nothing is lost, nothing runs twice, the order stays."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from cut_network import CutNetwork, Cutter
from real_worker import RealWorker
from tiremote.client import Session, connect
from tiremote.protocol.errors import UnknownName, WorkerUnreachable

SOURCE = """
log = []

def note(n):
    log.append(n)
    return n

def rest(seconds):
    import time
    time.sleep(seconds)
    return seconds

@ti.kernel
def add(x: ti.types.ndarray(), n: ti.f32):
    for i in x:
        x[i] += n
"""


@pytest.fixture
def network(worker: RealWorker) -> Iterator[CutNetwork]:
    with CutNetwork(worker.address) as network:
        yield network


@pytest.fixture
def gpu(network: CutNetwork, arch: str) -> Iterator[Session]:
    with connect(network.address, arch=arch, liveness=10) as gpu:
        gpu.compile_and_load(SOURCE, "unit")
        yield gpu
        network.passes.set()


def test_work_under_way_is_answered_over_a_cut(gpu: Session, network: CutNetwork) -> None:
    """The answer comes on the connection that is made anew."""
    future = gpu["unit"].rest.submit(1.0)
    network.cut()
    assert future.result(30) == 1.0


def test_two_thousand_calls_over_many_cuts_run_once_and_in_order(gpu: Session, network: CutNetwork) -> None:
    """Whatever was lost on the way there or back."""
    note = gpu["unit"].note
    futures = []
    with Cutter(network) as cutter:
        while len(futures) < 2000 or cutter.cuts < 4:
            futures.append(note.submit(len(futures)))
            if len(futures) % 500 == 0:
                futures[-1].result(60)
        assert [future.result(60) for future in futures] == list(range(len(futures)))
    assert gpu["unit"].log == list(range(len(futures)))


def test_large_arrays_are_whole_over_cuts(gpu: Session, network: CutNetwork) -> None:
    """There, back, and as an argument that is written."""
    values = np.random.default_rng(0).random(4 << 20, dtype=np.float32)
    array = gpu.ti.ndarray("f32", values.size)
    argument = values.copy()
    with Cutter(network):
        array.from_numpy(values)
        gpu["unit"].add(argument, 1.0)
        fetched = array.to_numpy()
    np.testing.assert_array_equal(fetched, values)
    np.testing.assert_array_equal(argument, values + np.float32(1))


def test_a_slow_network_is_not_a_silent_one(network: CutNetwork, gpu: Session) -> None:
    """An argument that takes longer than the liveness to get there, and back."""
    gpu["unit"].add(np.zeros(1, np.float32), 0.0)
    with connect(network.address, liveness=1.0, session=None) as impatient:
        impatient.compile_and_load(SOURCE, "unit")
        network.rate = 1_500_000
        argument = np.zeros(750_000, np.float32)
        impatient["unit"].add(argument, 1.0)
        network.rate = None
    assert argument.min() == argument.max() == 1


def test_a_silent_network_is_told_and_the_session_is_there_afterwards(worker: RealWorker, arch: str) -> None:
    """The connection is made anew by itself."""
    with CutNetwork(worker.address) as network, connect(network.address, arch=arch, liveness=1.0) as gpu:
        gpu.compile_and_load(SOURCE, "unit")
        gpu["unit"].note(1)
        network.passes.clear()
        with pytest.raises(WorkerUnreachable, match="has said nothing for 1"):
            gpu["unit"].note(2)
        network.passes.set()
        assert gpu["unit"].note(3) == 3


def test_a_session_is_left_and_rejoined(worker: RealWorker, arch: str) -> None:
    """By its token, or by its name; ended, it is gone."""
    with connect(worker.address, arch=arch) as gpu:
        array = gpu.array(np.arange(3))
        handle = array.handle
        token = gpu.detach()
    with connect(worker.address, token=token) as gpu:
        assert gpu.info.rejoined
        assert [holding.handle for holding in gpu.describe().arrays] == [handle]
    with pytest.raises(UnknownName, match="token"):
        connect(worker.address, token=token)
    for rejoined in (False, True):
        with connect(worker.address, arch=arch, session="kept") as gpu:
            assert gpu.info.rejoined == rejoined
            if not rejoined:
                gpu.compile_and_load(SOURCE, "unit")
            assert gpu["unit"].note(1) == 1
