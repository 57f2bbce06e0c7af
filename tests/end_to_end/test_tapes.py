"""A client's tape when things go wrong: other clients, interrupts, lost engines, sessions that end."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
import pytest

from real_worker import PATIENCE, RealWorker
from taped import failing, taped
from tiremote.client import Session, connect
from tiremote.protocol.errors import EngineCrashed, Interrupted, KernelArgumentError, Refused, StaleHandle
from tiremote.protocol.messages import CloseTape, OpenTape, Run
from tiremote.protocol.results import RunResult
from tiremote.protocol.tapes import ClosedTape, TapeResult
from tiremote.protocol.values import Name

SOURCE = """
import os, signal, sys

x = ti.field(ti.f32, 3, needs_grad=True)
loss = ti.field(ti.f32, (), needs_grad=True)

@ti.kernel
def squares():
    for i in x:
        loss[None] += x[i] ** 2

def endless():
    squares()
    print("begun", flush=True)
    while True:
        pass

def die():
    os.kill(os.getpid(), signal.SIGSEGV)
"""


@pytest.fixture
def gpu(worker: RealWorker, arch: str) -> Iterator[Session]:
    """A session of its own, which has a name that others may join."""
    with connect(worker.address, arch=arch, session="tapes", on_output=None) as gpu:
        gpu.compile_and_load(SOURCE, "ad")
        gpu["ad"].x.from_numpy(np.array([1, 2, 3], np.float32))
        yield gpu
        gpu.cleanup_all()


def test_calls_of_another_client_are_not_recorded(gpu: Session, worker: RealWorker) -> None:
    """Nor can it use the tape; what it does to the arrays themselves is as in any shared session."""
    with connect(worker.address, session="tapes", on_output=None) as other:
        with gpu.ti.ad.Tape(gpu["ad"].loss) as tape:
            gpu["ad"].squares()
            for _ in range(3):
                other["ad"].squares()
            held = next(each.handle for each in other.describe().arrays if each.handle.kind == "object")
            for request, result in (
                (Run(id="", target=Name(unit="ad", name="squares"), tape=held), RunResult),
                (CloseTape(id="", tape=held), ClosedTape),
            ):
                with pytest.raises(Refused, match="belongs to another client"):
                    other._exchange.call(request, result)
        assert tape.calls == 1
        assert gpu["ad"].x.grad.to_numpy().tolist() == [2, 4, 6]
        assert not [each for each in gpu.describe().arrays if each.handle.kind == "object"]


def test_two_clients_have_a_tape_each(gpu: Session, worker: RealWorker) -> None:
    """Each has what its own calls give; gradients are those of whoever ended last."""
    with connect(worker.address, session="tapes", on_output=None) as other:
        with gpu.ti.ad.Tape(gpu["ad"].loss) as mine:
            gpu["ad"].squares()
            with other.ti.ad.Tape(other["ad"].loss) as theirs:
                other["ad"].squares()
                other["ad"].squares()
            assert other["ad"].x.grad.to_numpy().tolist() == [4, 8, 12]
            gpu.ti.ad.clear_all_gradients()
        assert (mine.calls, theirs.calls) == (1, 2)
        assert gpu["ad"].x.grad.to_numpy().tolist() == [2, 4, 6]


def test_calls_of_another_thread_are_not_recorded(gpu: Session) -> None:
    """The block is that of the thread that is in it."""
    with gpu.ti.ad.Tape(gpu["ad"].loss) as tape:
        thread = threading.Thread(target=gpu["ad"].squares)
        thread.start()
        thread.join(PATIENCE)
        gpu["ad"].squares()
    assert tape.calls == 1


def test_an_interrupt_within_the_block(worker: RealWorker, arch: str) -> None:
    """The call is stopped, the block ends without gradients, and the next tape works in the same engine."""
    begun = threading.Event()
    with connect(worker.address, arch=arch, on_output=lambda *_: begun.set()) as gpu:
        gpu.compile_and_load(SOURCE, "ad")
        unit = gpu["ad"]
        unit.x.fill(1.0)

        def stop() -> None:
            running = unit.endless.submit()
            assert begun.wait(PATIENCE)
            gpu.interrupt(running)
            running.result(PATIENCE)

        with pytest.raises(Interrupted):
            taped(gpu.ti.ad.Tape(unit.loss), stop)
        assert not unit.x.grad.to_numpy().any()
        with gpu.ti.ad.Tape(unit.loss):
            unit.squares()
        assert unit.x.grad.to_numpy().tolist() == [2, 2, 2]
        assert gpu.status().session.generation == 1


def test_a_lost_engine_takes_the_tape_with_it(worker: RealWorker, arch: str) -> None:
    """The block says so at its next call or at its end, gradients of the client's own arrays are told to be lost, and
    the next tape works."""
    with connect(worker.address, arch=arch, on_output=None) as gpu:
        gpu.compile_and_load(SOURCE, "ad")
        unit = gpu["ad"]
        mine = gpu.ti.ndarray("f32", 3, needs_grad=True, label="mine")
        mine.from_numpy(np.ones(3, np.float32))
        with pytest.raises(EngineCrashed) as caught:
            taped(gpu.ti.ad.Tape(unit.loss), unit.squares, unit.die)
        assert "mine.grad" in caught.value.lost
        with pytest.raises(StaleHandle, match="was lost when its engine was replaced"):
            taped(gpu.ti.ad.Tape(unit.loss), failing(EngineCrashed, unit.die))
        assert not mine.grad.to_numpy().any()
        unit.x.fill(1.0)
        with gpu.ti.ad.Tape(unit.loss):
            unit.squares()
        assert unit.x.grad.to_numpy().tolist() == [2, 2, 2]


def test_a_crash_on_a_tape_can_be_explained(worker: RealWorker, arch: str) -> None:
    """Its call is run again without the tape, which does not change what it does."""
    with connect(worker.address, arch=arch, on_output=None) as gpu:
        gpu.compile_and_load(SOURCE, "ad")
        with pytest.raises(EngineCrashed, match="explain_crash"), gpu.ti.ad.Tape(gpu["ad"].loss):
            gpu["ad"].die()
        told = gpu.explain_crash()
        assert (told.kind, told.signal) == ("crashed again", "SIGSEGV")


def test_everything_is_cleaned_up_within_the_block(gpu: Session) -> None:
    """The tape goes with everything else, and its end says so."""
    with pytest.raises(StaleHandle), gpu.ti.ad.Tape(gpu["ad"].loss):
        gpu.cleanup_all()
    held = gpu.ti.ndarray("f32", 1)
    with pytest.raises(KernelArgumentError, match="is no tape"):
        gpu._exchange.call(CloseTape(id="", tape=held.handle), ClosedTape)


def test_a_reload_within_the_block(gpu: Session) -> None:
    """What was recorded is differentiated as it was when it ran."""
    unit = gpu["ad"]
    with gpu.ti.ad.Tape(unit.loss):
        unit.squares()
        gpu.compile_and_load(SOURCE.replace("x[i] ** 2", "5 * x[i]"), "ad")
        unit.squares()
    assert unit.x.grad.to_numpy().tolist() == [7, 9, 11]


def test_a_tape_that_nobody_ends_records_nothing(gpu: Session) -> None:
    """That of a program that was killed holds what it recorded for the lease, and stands in nobody's way."""
    loss = Name(unit="ad", name="loss")
    left = gpu._exchange.call(OpenTape(id="", loss=(loss,)), TapeResult).tape
    assert left is not None
    with gpu.ti.ad.Tape(gpu["ad"].loss) as tape:
        gpu["ad"].squares()
    assert tape.calls == 1
    assert gpu._exchange.call(CloseTape(id="", tape=left), ClosedTape).calls == 0


def test_a_client_that_leaves_takes_its_tape_along(gpu: Session, worker: RealWorker) -> None:
    """What the tape held is let go of in the session that others are in, and nothing is differentiated."""
    other = connect(worker.address, session="tapes", on_output=None)
    loss = Name(unit="ad", name="loss")
    left = other._exchange.call(OpenTape(id="", loss=(loss,)), TapeResult).tape
    assert left is not None
    other._exchange.call(Run(id="", target=Name(unit="ad", name="squares"), tape=left), RunResult)
    assert left in [each.handle for each in gpu.describe().arrays]
    other.close()
    # Behind that the worker has the engine close the tape, before it does this.
    gpu["ad"].squares()
    assert left not in [each.handle for each in gpu.describe().arrays]
    assert not gpu["ad"].x.grad.to_numpy().any()
