"""The session's own methods."""

from __future__ import annotations

import os
import signal
import sys

import numpy as np
import pytest

from tiremote.client import Session, connect
from tiremote.protocol.errors import Refused, StaleHandle, UnknownName
from tiremote.protocol.messages import Alloc, Bye, Cleanup, Compile, Hello, Interrupt, Request
from tiremote.protocol.results import RunResult

from .fake_worker import LATER, FakeWorker


def test_compile_returns_the_receipt(worker: FakeWorker, gpu: Session) -> None:
    """With or without an id; a deadline goes along."""
    assert gpu.compile_and_load("k").unit == "kernel_0"
    assert gpu.compile_and_load("k", kernel_id="u", deadline=3).unit == "u"
    assert (worker.of(Compile)[-1].deadline, worker.of(Compile)[-1].events) == (3, True)
    with pytest.raises(TypeError, match="string"):
        gpu.compile_and_load(b"k")  # type: ignore[arg-type]


def test_units_are_asked_for_by_id(worker: FakeWorker, gpu: Session) -> None:
    """``in`` asks the worker."""
    worker.define("u", k="kernel")
    assert "u" in gpu
    assert "v" not in gpu
    assert gpu.describe().newest == "u"


def test_ping_is_seconds_and_status_is_typed(gpu: Session) -> None:
    """Both are answered by the front."""
    assert 0 < gpu.ping() < 5
    assert gpu.status().pid == 1
    assert gpu.info.engine.device == "a desk"


def test_array_makes_one_of_the_same_shape_and_values(worker: FakeWorker, gpu: Session) -> None:
    """From an array, or from what NumPy makes of a list; with a label."""
    x = gpu.array([[1, 2], [3, 4]], label="mine")
    assert x.to_numpy().tolist() == [[1, 2], [3, 4]]
    assert x.dtype == np.asarray([1]).dtype
    assert worker.of(Alloc)[-1].label == "mine"


def test_cleanup_drops_units_arrays_and_everything(worker: FakeWorker, gpu: Session) -> None:
    """And says what it cannot drop."""
    worker.define("u", k="kernel")
    x = gpu.ti.ndarray("f32", 3)
    gpu.cleanup("u")
    gpu.cleanup(x)
    assert not worker.arrays
    with pytest.raises(StaleHandle):
        x.to_numpy()
    with pytest.raises(UnknownName):
        gpu.cleanup("u")
    with pytest.raises(TypeError, match="kernel id"):
        gpu.cleanup(3)  # type: ignore[arg-type]
    gpu.cleanup_all()
    assert worker.of(Cleanup)[-1].everything


@pytest.mark.skipif(sys.platform == "win32", reason="a signal to oneself is another thing there")
def test_ctrl_c_in_the_goodbye_still_closes(worker: FakeWorker, gpu: Session) -> None:
    """A worker that does not answer costs nobody a thread, or a local worker that stays."""

    def strike(request: Request) -> bool:
        if isinstance(request, Bye):
            os.kill(os.getpid(), signal.SIGINT)
        return isinstance(request, Bye)

    worker.lose = strike
    with pytest.raises(KeyboardInterrupt):
        gpu.close()
    assert gpu.closed


def test_interrupt_takes_a_future_an_id_or_nothing(worker: FakeWorker, gpu: Session) -> None:
    """Nothing: whatever runs."""
    worker.define("u", k="kernel")
    worker.on_run = lambda _: LATER
    future = gpu["u"].k.submit()
    assert gpu.interrupt(future).stopped == future.request_id
    gpu.interrupt("x-1")
    gpu.interrupt()
    assert [each.request for each in worker.of(Interrupt)] == [future.request_id, "x-1", None]
    worker.wait_for(lambda worker: len(worker.ran) == 1)
    worker.answer(future.request_id, RunResult())
    future.result(10)


def test_a_session_is_opened_again_as_it_was_with_other_options(worker: FakeWorker) -> None:
    """The first one is closed then, and what it was told stays told."""
    with connect(worker.address, arch="cpu", random_seed=1, client="me", timeout=10) as gpu:
        again = gpu.reopened(random_seed=3, default_fp="f64")
        with again:
            assert gpu.closed
            first, second = worker.of(Hello)
            assert (second.client, second.options) == ("me", {"arch": "cpu", "random_seed": 3, "default_fp": "f64"})
            assert worker.of(Bye)[0].end
            assert first.options["random_seed"] == 1
            assert again.ti.ndarray(float, 3).dtype == np.float64


def test_a_session_that_cannot_be_opened_again_stays(worker: FakeWorker, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it is when its worker takes no more sessions."""
    with connect(worker.address, timeout=10) as gpu:

        def refuse(self: object, hello: Hello, *, liveness: float) -> None:  # noqa: ARG001
            raise Refused("enough")

        monkeypatch.setattr("tiremote.client.exchange.Exchange.open", refuse)
        with pytest.raises(Refused, match="enough"):
            gpu.reopened()
        assert gpu.ping() > 0
