"""The thread and its socket against a real ROUTER: cuts, lost messages, ends."""

from __future__ import annotations

import linecache
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

import msgpack
import numpy as np
import pytest
import zmq

from tiremote.client import Session, connect, core, link
from tiremote.client.held_interrupts import HeldInterrupts
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
    """A mistake of ours is an error at the caller, not a wait without end, and the end of the session."""
    with connect(worker.address) as gpu:

        def fault() -> None:
            raise RuntimeError("a mistake")

        monkeypatch.setattr(gpu._exchange._link, "on_pass", fault)
        # It meets the thread that moves the messages: the caller's own, or the session's.
        with pytest.raises((InternalError, Refused, RuntimeError)):
            gpu.ping()
        with pytest.raises((InternalError, Refused)):
            gpu.ping()
    assert "a mistake" in caplog.text


def movers(gpu: Session) -> list[int]:
    """The threads that move messages from here on."""
    seen: list[int] = []
    gpu._exchange._link.on_pass = lambda: seen.append(threading.get_ident())
    return seen


def until_a_caller_moves(gpu: Session, call: Callable[[], object]) -> None:
    """Calls until the session's own thread leaves the messages to the calling one."""
    seen = movers(gpu)
    for _ in range(100):
        del seen[:]
        call()
        if set(seen) == {threading.get_ident()}:
            return
    raise AssertionError("the session's own thread moves every message")


def test_calls_that_wait_move_their_messages_themselves(worker: FakeWorker, gpu: Session) -> None:
    """After the first of them no other thread has anything to do with it."""
    worker.define("u", k="kernel")
    worker.on_run = lambda request: RunResult(value=request.args[0])
    kernel = gpu["u"].k
    until_a_caller_moves(gpu, lambda: kernel(1))
    assert kernel(2) == 2


def test_what_is_left_when_a_call_ends_is_moved_by_the_sessions_thread(worker: FakeWorker, gpu: Session) -> None:
    """A request of another thread that waits longer than the call is answered all the same."""
    worker.define("u", k="kernel", late="kernel")
    worker.on_run = lambda request: LATER if request.target.name == "late" else RunResult(value=1)
    kernel, late = gpu["u"].k, gpu["u"].late
    until_a_caller_moves(gpu, kernel)
    future = late.submit()
    assert kernel() == 1
    worker.answer(future.request_id, RunResult(value=5))
    assert future.result(10) == 5


def test_a_request_of_another_thread_goes_out_while_a_caller_waits(worker: FakeWorker, gpu: Session) -> None:
    """It need not wait for the answer that the caller waits for."""
    worker.define("u", k="kernel", late="kernel")
    worker.on_run = lambda request: LATER if request.target.name == "late" else RunResult(value=1)
    kernel, late = gpu["u"].k, gpu["u"].late
    until_a_caller_moves(gpu, kernel)

    def release() -> None:
        worker.wait_for(lambda worker: any(each.target.name == "late" for each in worker.ran))
        (waiting,) = [each for each in worker.ran if each.target.name == "late"]
        released.append(kernel())
        worker.answer(waiting.id, RunResult(value=6))

    released: list[int] = []
    helper = threading.Thread(target=release)
    helper.start()
    assert late() == 6
    helper.join(10)
    assert released == [1]


class Alarm(Exception):
    """What the handler of some signal raises."""


def raises_at(step: int) -> Callable[..., Any]:
    """A trace function that raises `Alarm` at one step of the moving of messages."""
    left = [step]

    def trace(frame: FrameType, event: str, _: object) -> Any:
        if frame.f_globals.get("__name__") not in (link.__name__, core.__name__):
            return None
        # Where what it began is ended nothing may raise; a block's ends are lines for a trace only.
        ends = frame.f_code.co_name in ("_step", "_give_back")
        ends |= linecache.getline(frame.f_code.co_filename, frame.f_lineno).lstrip().startswith(("with ", "try:"))
        if event == "line" and not ends:
            left[0] -= 1
            if left[0] == 0:
                raise Alarm
        return trace

    return trace


def test_a_signal_that_breaks_off_a_call_anywhere_leaves_the_session_whole(worker: FakeWorker, gpu: Session) -> None:
    """At whatever step its handler raises, later calls get their own answers, and nothing runs twice."""
    worker.define("u", k="kernel")
    worker.on_run = lambda request: RunResult(value=request.args[0])
    kernel = gpu["u"].k
    broken = 0
    for step in range(1, 140):
        until_a_caller_moves(gpu, lambda: kernel(0))
        sys.settrace(raises_at(step))
        try:
            came = kernel(step)
        except Alarm:
            broken += 1
        else:
            assert came == step
        finally:
            sys.settrace(None)
    assert broken > 100
    gpu._exchange.wait_for_all()
    assert kernel(1000) == 1000
    arguments = [request.args[0] for request in worker.ran if request.args[0]]
    assert len(arguments) == len(set(arguments))


def test_an_interrupt_strikes_while_a_call_waits_and_not_before() -> None:
    """What came in the middle of a message is told when waiting begins, or at the end, by the old handler."""
    came: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    try:
        with HeldInterrupts() as held:
            signal.raise_signal(signal.SIGINT)
            assert came == []
            held.wait()
            assert len(came) == 1
            signal.raise_signal(signal.SIGINT)
            assert len(came) == 2
            held.go_on()
            signal.raise_signal(signal.SIGINT)
            assert len(came) == 2
        assert len(came) == 3
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_callback_may_close_the_session_whose_messages_its_thread_moves(worker: FakeWorker) -> None:
    """What it waited for fails, and the session's thread ends."""
    worker.define("u", k="kernel")
    worker.on_run = lambda _: RunResult(value=1)
    with connect(worker.address) as gpu:
        kernel = gpu["u"].k
        line = gpu._exchange._link
        line.on_pass = lambda: (
            line.close() if line.is_moved_here and threading.current_thread() is not line.thread else None
        )

        def call_until_it_is_refused() -> None:
            for _ in range(100):
                kernel()

        with pytest.raises(Refused):
            call_until_it_is_refused()
        line.thread.join(10)
        assert not line.thread.is_alive()


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
