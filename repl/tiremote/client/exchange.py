"""Requests out, typed results back: `call` waits, `submit` gives a future. What all the proxies speak through."""

from __future__ import annotations

import contextlib
import logging
import secrets
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import replace
from itertools import count
from typing import Any, TypeVar

from tiremote.client.compression import When
from tiremote.client.core import Pending
from tiremote.client.lane import Lane
from tiremote.client.link import Link
from tiremote.client.output import OutputHandler
from tiremote.client.releases import Releases
from tiremote.client.request_future import RequestFuture
from tiremote.client.thrift import Thrift
from tiremote.protocol.code_requests import LoadRequest
from tiremote.protocol.codec import check_buffers, encode
from tiremote.protocol.errors import EngineError, PayloadTooLarge, StaleHandle, TiremoteError
from tiremote.protocol.messages import (
    Cleanup,
    Collect,
    EngineRequest,
    Event,
    FollowedRequest,
    Hello,
    Interrupt,
    Ok,
    Request,
    RequestId,
)
from tiremote.protocol.receipts import Timing
from tiremote.protocol.results import (
    CleanupResult,
    HelloResult,
    InterruptResult,
    Limits,
    RequestLine,
)
from tiremote.protocol.structures import structure
from tiremote.protocol.values import Handle

_log = logging.getLogger("tiremote.client")

R = TypeVar("R")
T = TypeVar("T")

#: Seconds for which a wait cannot be broken by Ctrl-C: on Windows a wait without an end never can.
_UNBREAKABLE = 0.1 if sys.platform == "win32" else None


class Exchange:
    """One client's conversation with a worker, usable from every thread."""

    def __init__(
        self, link: Link, *, on_output: OutputHandler | None, compress: When = "auto", reuse: When = "auto"
    ) -> None:
        self.limits = Limits()
        self.releases = Releases()
        self.last_timing: Timing | None = None
        #: Taichi's, with which the session was made.
        self.options: Mapping[str, Any] = {}
        #: Counts the times that an engine was lost: what was known of the session is not true any more.
        self.losses = 0
        #: What the block of a tape is called that has begun and not ended.
        self.tape: str | None = None
        #: Counts the requests that were sent to the session's engine.
        self.sent = 0
        #: What was lost, where none of the requests told it.
        self.untold: EngineError | None = None
        self.lane = Lane(self)
        #: The last engine of the session that was heard of: a request that is sent is not run on an older state.
        self._generation: int | None = None
        self.clock = link.clock
        #: Told (bytes done, bytes in all) of transfers for which the caller has nobody who is told.
        self.on_progress: Callable[[int, int], None] | None = None
        self.thrift = Thrift(compress, reuse, local=link.address.startswith("ipc://"), clock=link.clock)
        self._link = link
        self._on_output = on_output
        self._token: str | None = None
        # Random, so that an id is new even to a session that is rejoined.
        self._prefix = secrets.token_hex(3)
        self._numbers = count(1)
        self._under_way: dict[RequestId, RequestFuture[Any]] = {}
        #: Requests to collect: whose request each is after, as far as that was said, under which id.
        self._collected: dict[RequestId, tuple[RequestId, int | None]] = {}
        link.on_pass = self.release_dropped

    @property
    def address(self) -> str:
        """Where the worker is."""
        return self._link.address

    @property
    def closed(self) -> bool:
        """Whether nothing can be sent any more."""
        return self._link.closed

    @property
    def events(self) -> bool:
        """Whether output is wanted."""
        return self._on_output is not None

    def open(self, hello: Hello, *, liveness: float) -> HelloResult:
        """Says hello; from then on ``liveness`` seconds of silence are borne.

        Raises `WorkerUnreachable`, `Unauthorized`, `VersionMismatch`, `Refused`.
        """
        result = self.call(hello, HelloResult)
        self._token = result.token
        self.limits = result.limits
        self.options = result.options
        self._generation = result.generation
        self.thrift.agreed(result)
        self._link.established(result.token, quiet_limit=liveness)
        return result

    def lost(self, why: str) -> None:
        """The worker is known to be gone: nothing is waited for any more."""
        self._link.lost(why)

    def close(self) -> None:
        """Ends the connection; what is under way fails with `Refused`."""
        self._link.close()
        self.lane.close()

    @property
    def moves_here(self) -> bool:
        """Whether the calling thread moves the messages, so that it cannot wait for any."""
        return self._link.is_moved_here

    # Requests

    def call(self, request: Request, result: type[R], *, expects: int = 0, patience: float | None = None) -> R:
        """Sends a request and waits for its result. Raises what the worker answers.

        ``expects`` is the size of a large answer in bytes; `TimeoutError` after ``patience`` seconds.
        """
        self._may_wait()
        pending, future = self._made(request, lambda ok: ok.result, expects=expects)
        try:
            self._post(pending, future, until=future.done if patience is None else None)
            error = _outcome(future, patience)
        except KeyboardInterrupt:
            # It may strike before the request is on its way, or any time after.
            raise KeyboardInterrupt from (self.stop(future) if pending.handed_over else None)
        return structure(result, _result(future, error), f"the result of {request.op}")

    def submit(
        self,
        request: Request,
        result: type[R],
        then: Callable[[R], T],
        *,
        expects: int = 0,
        in_background: bool = False,
    ) -> RequestFuture[T]:
        """Sends a request; the future's result is ``then`` of the typed result.

        ``then`` runs on the thread that moves the session's messages, or with ``in_background``, where it waits for
        others, on one of its own.
        """
        what = f"the result of {request.op}"
        pending, future = self._made(
            request, lambda ok: then(structure(result, ok.result, what)), expects=expects, in_background=in_background
        )
        self._post(pending, future)
        return future

    def collect(self, request: Collect, then: Callable[[Ok], T], *, expects: int = 0) -> RequestFuture[T]:
        """Waits for a request that another client sent, or this one before; ``then`` types its answer."""
        pending, future = self._made(request, then, expects=expects)
        self._collected[future.request_id] = (request.request, request.seat)
        self._post(pending, future)
        return future

    def without_delivered(self, lines: Iterable[RequestLine]) -> tuple[RequestLine, ...]:
        """Those whose answers did not come to this client, whatever the worker knows of that.

        On the thread that moves the messages: what the worker has been told meanwhile, it left out itself.
        """
        delivered = set(self._link.delivered)
        collected = {self._collected[each] for each in delivered if each in self._collected}
        return tuple(
            line
            for line in lines
            if line.request not in delivered and collected.isdisjoint([(line.request, None), (line.request, line.seat)])
        )

    @property
    def delivered(self) -> tuple[RequestId, ...]:
        """The ids of answers that came, of which the worker may not know."""
        return self._link.delivered

    def wait(self, future: RequestFuture[T], *, patience: float | None = None) -> T:
        """The future's result. Ctrl-C stops the request on the worker, waits for its answer, and is raised then."""
        self._may_wait()
        try:
            error = _outcome(future, patience)
        except KeyboardInterrupt:
            raise KeyboardInterrupt from self.stop(future)
        return _result(future, error)

    def wait_for_all(self) -> None:
        """Waits until everything that was sent so far is answered, well or not."""
        self._may_wait()
        for future in list(self._under_way.values()):
            _outcome(future, None)

    # Inside

    def _may_wait(self) -> None:
        if self.moves_here:
            raise RuntimeError("a callback of the session cannot wait for the session: do that on another thread")

    def _made(
        self, request: Request, then: Callable[[Ok], T], *, expects: int = 0, in_background: bool = False
    ) -> tuple[Pending, RequestFuture[T]]:
        request = replace(request, id=f"{self._prefix}-{next(self._numbers)}", token=request.token or self._token)
        if isinstance(request, EngineRequest):
            self._tell(request)
            self.sent += 1
            request = replace(request, generation=self._generation)
        frames = encode(request)
        sent = self._check(frames)
        measured = self.thrift.meter.began(request, sent, expects)
        future: RequestFuture[T] = RequestFuture(self, request.id, queued=isinstance(request, FollowedRequest))

        def settle(answer: Ok | TiremoteError) -> None:
            self._under_way.pop(request.id, None)
            if measured is not None:
                self.thrift.meter.ended(measured, answer)
            if isinstance(answer, TiremoteError):
                if isinstance(answer, EngineError):
                    self.losses += 1
                    self._generation = answer.generation or self._generation
                future._failed(answer)
                return
            future.timing = answer.timing
            self.last_timing = answer.timing or self.last_timing
            if in_background:
                threading.Thread(target=_complete, args=(future, then, answer), daemon=True).start()
            else:
                _complete(future, then, answer)

        return Pending(request, frames, settle, self._on_event, max(sent, expects)), future

    def _tell(self, request: EngineRequest) -> None:
        # What is loaded does not depend on what was lost, and what is dropped even less.
        if self.untold is not None and not isinstance(request, LoadRequest | Cleanup):
            untold, self.untold = self.untold, None
            raise untold

    def _post(self, pending: Pending, future: RequestFuture[Any], *, until: Callable[[], bool] | None = None) -> None:
        """Has it sent; may stay until that is so."""
        try:
            self._under_way[future.request_id] = future
            if until is None:
                self._link.send(pending)
            else:
                self._link.carry(pending, until)
        finally:
            if not pending.handed_over:
                self._under_way.pop(pending.request.id, None)

    def _check(self, frames: list[Any]) -> int:
        size, most = len(frames[0]), self.limits.header_bytes
        if size > most:
            raise PayloadTooLarge(
                f"this request has {size} bytes beside its arrays, the worker takes {most}: send less, or arrays",
                size=size,
                limit=most,
            )
        return check_buffers(frames[1:], self.limits)

    def stop(self, future: RequestFuture[Any]) -> BaseException | None:
        """Ends what runs for a wait that Ctrl-C broke, and tells what the worker said to that."""
        if not future._queued:
            return None
        try:
            interrupt = Interrupt(id="", request=future.request_id)
            _outcome(self.submit(interrupt, InterruptResult, lambda _: None), None)
            return _outcome(future, None)
        except TiremoteError as error:
            return error

    def _on_event(self, event: Event) -> None:
        if self._on_output is None or event.event not in ("stdout", "stderr", "warning", "gap"):
            return
        stream = "warning" if event.event == "gap" else event.event
        try:
            self._on_output(event.text, stream, event.id)
        except Exception:
            _log.exception("the handler of output failed")

    def release_dropped(self) -> None:
        """Gives back on the worker what was garbage-collected here, without waiting."""
        with self.releases.gate:
            handles = self.releases.take()
            if handles:
                self._drop(handles)

    def _drop(self, handles: tuple[Handle, ...]) -> None:
        def again(future: Future[None]) -> None:
            # One that is gone already, after a crash say, keeps the others from being dropped: each for itself then.
            if len(handles) > 1 and isinstance(future.exception(), StaleHandle):
                for handle in handles:
                    self._drop((handle,))

        with contextlib.suppress(TiremoteError):
            self.submit(Cleanup(id="", targets=handles), CleanupResult, lambda _: None).add_done_callback(again)


def _complete(future: RequestFuture[T], then: Callable[[Ok], T], answer: Ok) -> None:
    if future.done():
        return
    try:
        result = then(answer)
    except BaseException as error:
        future.set_exception(error)
    else:
        future.set_result(result)


def _result(future: RequestFuture[T], error: BaseException | None) -> T:
    if error is None:
        return future.result()
    try:
        raise error from None
    finally:
        del error, future  # the traceback refers to this frame


def _outcome(future: Future[Any], patience: float | None) -> BaseException | None:
    if patience is not None:
        return future.exception(patience)
    while True:
        try:
            return future.exception(_UNBREAKABLE)
        except TimeoutError:
            continue
