"""The thread and its socket against a real ROUTER: cuts, lost messages, ends."""

from __future__ import annotations

import threading
from typing import Any

import msgpack
import numpy as np
import pytest
import zmq

from tiremote.client import Session, connect
from tiremote.protocol.errors import InternalError, ProtocolError, Refused, UnknownName, WorkerUnreachable
from tiremote.protocol.messages import Put, Request, RequestId, Run
from tiremote.protocol.results import RunResult

from .fake_worker import LATER, FakeWorker


def lose_first(worker: FakeWorker, cls: type[Request], count: int = 1) -> list[int]:
    """That many messages of the class never come; tells how many are still to be lost."""
    left = [count]

    def lose(request: Request) -> bool:
        if isinstance(request, cls) and left[0]:
            left[0] -= 1
            return True
        return False

    worker.lose = lose
    return left


def test_a_request_that_is_lost_is_sent_again(worker: FakeWorker, gpu: Session) -> None:
    """The next pong calls it missing; it runs once, and the caller notices nothing."""
    worker.define("u", k="kernel")
    lose_first(worker, Run)
    worker.on_run = lambda _: RunResult(value=7)
    assert gpu["u"].k() == 7
    assert len(worker.ran) == 1


def test_an_answer_that_is_lost_is_asked_for_again_and_nothing_runs_twice(worker: FakeWorker, gpu: Session) -> None:
    """The repeated id is answered from the worker's record."""
    worker.define("u", k="kernel")
    lost = []

    def lose_answer(request: Request) -> bool:
        if isinstance(request, Run) and not lost:
            lost.append(request.id)
            return True
        return False

    worker.lose_answer = lose_answer
    worker.on_run = lambda _: RunResult(value=7)
    assert gpu["u"].k() == 7
    assert [request.id for request in worker.of(Run)] == lost * 2
    assert len(worker.ran) == 1


def test_a_cut_connection_is_made_again_and_work_under_way_is_answered(worker: FakeWorker, gpu: Session) -> None:
    """What the worker still runs is not sent again; its answer comes on the new connection."""
    worker.define("u", k="kernel")
    worker.on_run = lambda _: LATER
    future = gpu["u"].k.submit()
    worker.wait_for(lambda worker: len(worker.ran) == 1)
    worker.cut()
    gpu.ping()
    worker.answer(future.request_id, RunResult(value=3))
    assert future.result(10) == 3
    assert len(worker.of(Run)) == 1


def test_requests_keep_their_order_over_a_cut(worker: FakeWorker, gpu: Session) -> None:
    """Those that were lost with the connection go before those that came after it."""
    worker.define("u", k="kernel")
    kernel = gpu["u"].k
    left = lose_first(worker, Run, 3)
    futures = [kernel.submit(number) for number in range(3)]
    worker.wait_for(lambda _: left == [0])
    worker.cut()
    futures += [kernel.submit(number) for number in range(3, 6)]
    for future in futures:
        future.result(10)
    assert [request.args[0] for request in worker.ran] == list(range(6))


def test_a_silent_worker_is_unreachable_and_the_session_lives_on(worker: FakeWorker) -> None:
    """After `liveness` seconds of silence the call fails; when the worker is back, so is the session."""
    with connect(worker.address, liveness=0.3) as gpu:
        worker.silent = True
        with pytest.raises(WorkerUnreachable, match="has said nothing for") as caught:
            gpu.status()
        assert worker.address in str(caught.value)
        worker.silent = False
        assert gpu.status().pid == 1


def test_a_worker_that_was_restarted_says_so(worker: FakeWorker, gpu: Session) -> None:
    """It does not know the token any more, and its own error is raised."""
    worker.forgets_clients = True
    with pytest.raises(UnknownName, match="token"):
        gpu.status()
    worker.forgets_clients = False


def test_what_waits_when_the_session_is_closed_fails(worker: FakeWorker) -> None:
    """Nobody waits for ever."""
    worker.define("u", k="kernel")
    worker.on_run = lambda _: LATER
    with connect(worker.address) as gpu:
        future = gpu["u"].k.submit()
    with pytest.raises(Refused, match="closed"):
        future.result(10)
    with pytest.raises(Refused, match="closed"):
        gpu.ping()


def test_closing_twice_is_closing_once(worker: FakeWorker) -> None:
    """And ends the thread."""
    gpu = connect(worker.address)
    gpu.close()
    gpu.close()
    assert gpu.closed
    assert not gpu._exchange._link.thread.is_alive()


def test_a_fault_in_the_thread_fails_what_waits(
    worker: FakeWorker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A mistake of ours is an error at the caller, not a wait without end."""
    with connect(worker.address) as gpu:

        def fault() -> None:
            raise RuntimeError("a mistake")

        monkeypatch.setattr(gpu._exchange._link, "on_pass", fault)
        with pytest.raises((InternalError, Refused)):
            gpu.ping()
        with pytest.raises(Refused):
            gpu.ping()
    assert "a mistake" in caplog.text


def test_many_threads_share_a_session(worker: FakeWorker, gpu: Session) -> None:
    """Every thread gets the answers to its own requests."""
    worker.define("u", k="kernel")
    worker.on_run = lambda request: RunResult(value=request.args[0])
    kernel = gpu["u"].k
    wrong = []

    def call(thread: int) -> None:
        for number in range(50):
            if kernel((thread, number)) != (thread, number):
                wrong.append((thread, number))

    threads = [threading.Thread(target=call, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert len(worker.ran) == 400


def test_a_message_that_is_no_reply_is_dropped(worker: FakeWorker, gpu: Session) -> None:
    """Garbage on the socket costs nobody anything."""
    identity = {}
    serve = worker._take

    def take(sender: bytes, frames: list[bytes]) -> None:
        identity["of"] = sender
        worker._router.send_multipart([sender, b"\xc1garbage"])
        serve(sender, frames)

    worker._take = take  # type: ignore[method-assign]
    assert gpu.status().pid == 1
    assert identity


def test_an_answer_that_this_client_cannot_read_is_told_to_its_caller(worker: FakeWorker, gpu: Session) -> None:
    """A later worker may know more types: the answer would come unreadable again however often it is asked for."""
    worker.define("u", k="kernel")
    reply = worker._reply

    def newer(identity: bytes, request: RequestId, result: Any) -> None:
        if isinstance(result, RunResult):
            header = {"v": 1, "op": "ok", "id": request, "result": {"value": msgpack.ExtType(99, b"")}}
            worker._router.send_multipart([identity, msgpack.packb(header)])
        else:
            reply(identity, request, result)

    worker._reply = newer  # type: ignore[method-assign]
    with pytest.raises(ProtocolError, match="unknown extension type 99"):
        gpu["u"].k()
    assert gpu.status().pid == 1


def test_a_large_message_that_is_lost_is_sent_again_whole(worker: FakeWorker, gpu: Session) -> None:
    """Its buffers are kept until the answer."""
    array = gpu.ti.ndarray("f32", 1000)
    lose_first(worker, Put)
    values = np.arange(1000, dtype=np.float32)
    array.from_numpy(values)
    np.testing.assert_array_equal(worker.arrays[array.handle.id], values)


def test_something_else_that_listens_there_is_told_apart() -> None:
    """A port on which no worker speaks gives an error that says so."""
    with zmq.Context() as context, context.socket(zmq.STREAM) as stream:
        stream.linger = 0
        stream.bind("tcp://127.0.0.1:0")
        with pytest.raises(WorkerUnreachable, match="nothing answers"):
            connect(stream.get(zmq.LAST_ENDPOINT).decode(), timeout=0.5)
