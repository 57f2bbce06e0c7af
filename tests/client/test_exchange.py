"""Calls, futures, output and Ctrl-C."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from concurrent.futures import CancelledError
from typing import Any

import numpy as np
import pytest

from tiremote.client import Session, connect
from tiremote.protocol.errors import Interrupted, KernelRuntimeError, PayloadTooLarge, UnsupportedType
from tiremote.protocol.messages import Cancel, Event, Interrupt, Request, Run
from tiremote.protocol.receipts import Timing
from tiremote.protocol.results import InterruptResult, Limits, RunResult

from .fake_worker import LATER, FakeWorker, fake_worker


def test_a_future_has_the_result_the_timing_and_the_id(worker: FakeWorker, gpu: Session) -> None:
    """What `submit` returns is a `concurrent.futures.Future`, which asyncio can wrap."""
    worker.define("u", k="kernel")
    worker.on_run = lambda _: RunResult(value=[1, 2.5, "a"])
    future = gpu["u"].k.submit()
    assert future.result(10) == [1, 2.5, "a"]
    assert future.request_id == worker.ran[-1].id
    assert future.timing is None or isinstance(future.timing, Timing)

    async def awaited() -> Any:
        return await asyncio.wrap_future(gpu["u"].k.submit())

    assert asyncio.run(awaited()) == [1, 2.5, "a"]


def test_the_workers_error_is_raised_as_itself(worker: FakeWorker, gpu: Session) -> None:
    """Typed, with its data, and with no chain of internals behind it."""
    worker.define("u", k="kernel")
    worker.on_run = lambda _: KernelRuntimeError("division by zero", type="ZeroDivisionError")
    with pytest.raises(KernelRuntimeError) as caught:
        gpu["u"].k()
    assert caught.value.type == "ZeroDivisionError"
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None or caught.value.__suppress_context__
    with pytest.raises(KernelRuntimeError):
        gpu["u"].k.submit().result(10)


def test_a_queued_request_is_cancelled_at_the_worker(worker: FakeWorker, gpu: Session) -> None:
    """The future is cancelled when the worker says so."""
    worker.define("u", k="kernel")
    worker.on_run = lambda _: LATER
    future = gpu["u"].k.submit()
    worker.wait_for(lambda worker: len(worker.ran) == 1)
    assert future.cancel()
    assert future.cancelled()
    assert worker.of(Cancel)[0].request == future.request_id


def test_a_request_that_runs_or_is_done_cannot_be_cancelled(worker: FakeWorker, gpu: Session) -> None:
    """The worker is asked, says no, and the result still comes."""
    worker.define("u", k="kernel")
    worker.on_run = lambda _: RunResult(value=1)
    future = gpu["u"].k.submit()
    assert future.result(10) == 1
    assert not gpu.cancel(future)
    assert future.result() == 1


def test_the_workers_answer_to_a_cancelled_request_cancels_too(worker: FakeWorker, gpu: Session) -> None:
    """It answers the request itself with `Interrupted`, which may come before its answer to `cancel`."""
    worker.define("u", k="kernel")
    worker.on_run = lambda _: LATER
    future = gpu["u"].k.submit()
    worker.wait_for(lambda worker: len(worker.ran) == 1)
    future._cancelling = True
    worker.answer(future.request_id, Interrupted("cancelled before it started"))
    with pytest.raises(CancelledError):
        future.result(10)


def test_output_arrives_while_it_runs_tagged_with_its_request(worker: FakeWorker) -> None:
    """Before the answer, in order, in the handler that was given."""
    worker.define("u", k="kernel")
    worker.events_of = lambda request: (
        [
            Event(id=request.id, seq=1, event="stdout", text="step 0\n"),
            Event(id=request.id, seq=2, event="stderr", text="oh\n"),
            Event(id=request.id, seq=3, event="warning", text="cut"),
            Event(id=request.id, seq=4, event="progress", data={"done": 1}),
            Event(id=request.id, seq=6, event="gap", text="output is lost: 5 to 6", data={"first": 5, "last": 6}),
        ]
        if isinstance(request, Run)
        else []
    )
    came: list[Any] = []
    with connect(worker.address, on_output=lambda *each: came.append(each)) as gpu:
        gpu["u"].k()
        request = worker.of(Run)[0]
    assert request.events
    assert came == [
        ("step 0\n", "stdout", request.id),
        ("oh\n", "stderr", request.id),
        ("cut", "warning", request.id),
        ("output is lost: 5 to 6", "warning", request.id),
    ]


def test_output_is_printed_by_default_and_not_sent_when_unwanted(
    worker: FakeWorker, gpu: Session, capsys: pytest.CaptureFixture[str]
) -> None:
    """To this process's own streams; with ``on_output=None`` the worker is not even asked."""
    worker.define("u", k="kernel")
    worker.events_of = lambda request: [Event(id=request.id, seq=1, event="stdout", text="hello\n")]
    gpu["u"].k()
    assert capsys.readouterr().out == "hello\n"
    with connect(worker.address, on_output=None) as quiet:
        quiet["u"].k()
    assert not worker.of(Run)[-1].events


def test_a_handler_that_fails_harms_nothing(worker: FakeWorker, caplog: pytest.LogCaptureFixture) -> None:
    """It is logged, and the call goes on."""
    worker.define("u", k="kernel")
    worker.events_of = lambda request: [Event(id=request.id, seq=1, event="stdout", text="hello\n")]

    def fails(*_: Any) -> None:
        raise ValueError("a user's mistake")

    with connect(worker.address, on_output=fails) as gpu:
        gpu["u"].k()
    assert "a user's mistake" in caplog.text


def test_a_callback_that_waits_for_the_session_is_told_so(worker: FakeWorker, gpu: Session) -> None:
    """It runs on the session's own thread: waiting there would wait for ever."""
    worker.define("u", k="kernel")
    worker.on_run = lambda _: LATER
    future = gpu["u"].k.submit()
    said: list[str] = []
    done = threading.Event()

    def callback(_: Any) -> None:
        try:
            gpu.status()
        except RuntimeError as error:
            said.append(str(error))
        done.set()

    future.add_done_callback(callback)
    worker.wait_for(lambda worker: len(worker.ran) == 1)
    worker.answer(future.request_id, RunResult())
    assert done.wait(10)
    assert "another thread" in said[0]


@pytest.mark.skipif(sys.platform == "win32", reason="a signal to oneself is another thing there")
def test_ctrl_c_stops_the_request_and_the_session_goes_on(worker: FakeWorker, gpu: Session) -> None:
    """KeyboardInterrupt comes once the worker has answered, with what it said as its cause."""
    worker.define("u", k="kernel")
    worker.on_run = lambda _: LATER
    interrupt = worker._answer

    def answer(request: Request, identity: bytes) -> Any:
        if isinstance(request, Interrupt):
            worker.answer(request.request, Interrupted("run u.k was interrupted"))
            return InterruptResult(stopped=request.request)
        return interrupt(request, identity)

    worker._answer = answer  # type: ignore[method-assign]

    def press() -> None:
        worker.wait_for(lambda worker: len(worker.ran) == 1)
        os.kill(os.getpid(), signal.SIGINT)

    presser = threading.Thread(target=press)
    presser.start()
    with pytest.raises(KeyboardInterrupt) as caught:
        gpu["u"].k()
    presser.join()
    assert isinstance(caught.value.__cause__, Interrupted)
    assert worker.of(Interrupt)[0].request == worker.ran[0].id
    assert gpu.ping() >= 0


def test_what_is_too_large_is_refused_before_it_is_sent() -> None:
    """By the limits that the worker stated in hello."""
    with fake_worker(limits=Limits(header_bytes=1000)) as worker, connect(worker.address) as gpu:
        worker.define("u", k="kernel")
        with pytest.raises(PayloadTooLarge, match="1000"):
            gpu["u"].k("x" * 2000)
        assert not worker.of(Run)


def test_what_does_not_travel_is_refused_before_it_is_sent(worker: FakeWorker, gpu: Session) -> None:
    """Also an integer of more than 64 bits, and a list inside itself."""
    worker.define("u", k="kernel")
    inside: list[Any] = []
    inside.append(inside)
    for value in (2**70, inside):
        with pytest.raises((UnsupportedType, RecursionError)):
            gpu["u"].k(value)
    assert not worker.of(Run)


def test_sync_waits_for_everything_that_was_sent(worker: FakeWorker, gpu: Session) -> None:
    """Also for what fails."""
    worker.define("u", k="kernel")
    worker.on_run = lambda request: KernelRuntimeError("no") if request.args[0] % 2 else RunResult()
    futures = [gpu["u"].k.submit(number) for number in range(20)]
    gpu.ti.sync()
    assert all(future.done() for future in futures)


def test_ids_are_new_for_each_request_and_each_client(worker: FakeWorker) -> None:
    """Two clients that rejoin one session must not answer each other's requests from the record."""
    for _ in range(2):
        with connect(worker.address) as gpu:
            array = gpu.ti.ndarray("f32", 3)
            array.from_numpy(np.zeros(3, np.float32))
    ids = [request.id for request in worker.requests]
    assert len(set(ids)) == len(ids)


def test_a_future_runs_until_it_is_answered_and_says_what_it_waits_for(worker: FakeWorker, gpu: Session) -> None:
    """A wait that ends too early names the request, which goes on."""
    worker.define("u", k="kernel")
    worker.on_run = lambda _: LATER
    future = gpu["u"].k.submit()
    assert future.running()
    for wait in (future.result, future.exception):
        with pytest.raises(TimeoutError, match=f"request {future.request_id} was not answered within 0.01 s"):
            wait(0.01)
    worker.wait_for(lambda worker: len(worker.ran) == 1)
    worker.answer(future.request_id, RunResult(value=3))
    assert future.result(10) == 3
    assert not future.running()
