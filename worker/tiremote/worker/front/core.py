"""The front without its sockets: a client's message and the time go in, effects come out.

Requests that need Taichi become jobs for the `Scheduler`; everything else is answered here, from what the front
knows, so that it is answered at once whatever the engines do.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from tiremote.protocol.codec import check_buffers, encode, id_in, read_header, request_from_header
from tiremote.protocol.errors import (
    InternalError,
    Interrupted,
    PayloadTooLarge,
    Refused,
    TiremoteError,
    Unauthorized,
)
from tiremote.protocol.messages import (
    Bye,
    Cancel,
    Collect,
    Describe,
    EngineRequest,
    Hello,
    History,
    Interrupt,
    Ping,
    Request,
    Requests,
    Status,
)
from tiremote.protocol.receipts import Description
from tiremote.protocol.results import (
    ByeResult,
    CancelResult,
    HistoryResult,
    InterruptResult,
    Pong,
    RequestsResult,
    SessionLine,
    SessionStatus,
    WorkerStatus,
)
from tiremote.worker.front.answers import Answers
from tiremote.worker.front.draining import Drain
from tiremote.worker.front.effects import Effect
from tiremote.worker.front.left_tapes import LeftTapes
from tiremote.worker.front.output import Output, Stream
from tiremote.worker.front.progress import Progress
from tiremote.worker.front.recycling import Recycling
from tiremote.worker.front.reports import description, session_line, session_status
from tiremote.worker.front.request_list import request_list
from tiremote.worker.front.resume import Resume
from tiremote.worker.front.returning import Returning
from tiremote.worker.front.routes import Listener, Route
from tiremote.worker.front.saver import Saver
from tiremote.worker.front.scheduler import Scheduler
from tiremote.worker.front.session_table import SessionTable
from tiremote.worker.front.sessions import Job, Seat, Session, describe
from tiremote.worker.front.settings import Settings
from tiremote.worker.front.state.rows import Saved
from tiremote.worker.front.texts import as_sent, history, source_bytes, texts_of
from tiremote.worker.front.welcoming import WORKER_VERSION, Welcoming
from tiremote.worker.link import Message
from tiremote.worker.page import Calls

_log = logging.getLogger(__name__)

_NO_CALLS = Calls()


class Front:
    """Sans-IO. Feed it through the ``on_...`` methods and `tick`, then carry out what `take` returns.

    ``memory_of(pid)`` tells a process's resident bytes; ``undelivered`` is the `Scheduler`'s. ``user`` is the client's
    public key under CURVE, else "". ``saved`` is what an earlier worker left on disk, where this one keeps its sessions
    there too; ``trouble()`` then tells why that does not work now.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        now: float,
        memory_of: Callable[[int], int | None],
        progress: Progress,
        undelivered: Callable[[str], int],
        saved: Saved | None = None,
        trouble: Callable[[], str | None] = lambda: None,
    ) -> None:
        self._settings = settings
        self._trouble = trouble
        self._memory_of = memory_of
        self._started = now
        self._answers = Answers(settings.kept_bytes)
        self._returning = Returning(self._answers)
        self._progress = progress
        self.scheduler = Scheduler(settings, self._answers, self._on_open, progress, undelivered)
        self._sessions = SessionTable(settings, self.scheduler.release)
        self._welcoming = Welcoming(settings, self._sessions, self.scheduler.pool, self._answers)
        self._left_tapes = LeftTapes(settings, self._sessions, self.scheduler)
        self._recycling = Recycling(settings, self._sessions, self.scheduler, memory_of)
        self._requests = 0
        self._dropped = 0
        self._drain = Drain(settings, self._sessions, self.scheduler, self._answers.effects, keeps=saved is not None)
        self._saver: Saver | None = None
        if saved is not None:
            self._saver = self._resume(saved, now)
        self._handlers: dict[type[Request], Callable[[Any, Seat, float], Any]] = {
            Describe: self._describe,
            Interrupt: self._interrupt,
            Cancel: self._cancel,
            Bye: self._bye,
            History: self._history,
            Requests: self._list_requests,
        }
        self.scheduler.pool.fill()

    def take(self) -> list[Effect]:
        """What is to be done now, in order. What is to be on disk is first: before that nobody hears of it."""
        effects = self._answers.take()
        save = None if self._saver is None else self._saver.collect()
        return effects if save is None else [save, *effects]

    def save_everything(self) -> None:
        """What was to be saved could not be, and is lost."""
        if self._saver is not None:
            self._saver.save_everything()

    def _on_open(self, session: Session, error: TiremoteError | None) -> None:
        self._welcoming.on_open(session, error)

    def _resume(self, saved: Saved, now: float) -> Saver:
        copies, recovery = self.scheduler.copies, self.scheduler.recovery
        copies.watch()
        Resume(self._sessions, copies, recovery, self._settings, self._answers.wall_clock).take(saved, now)
        return Saver(self._sessions, copies, recovery.all_exact, saved, now)

    # ------------------------------------------------------------ what clients say

    def on_client(self, identity: bytes, user: str, frames: Sequence[Any], now: float) -> None:
        """A message of a client: the frames behind the ROUTER's own. Never raises for what they hold."""
        delimited = len(frames) > 0 and memoryview(frames[0]).nbytes == 0
        route = Route(identity, delimited)
        frames = frames[1:] if delimited else frames
        if not frames:
            self._dropped += 1
            return
        self._requests += 1
        try:
            nbytes = check_buffers(frames[1:], self._settings.limits)
            header = read_header(frames[0], frames[1:], self._settings.limits)
            self._on_request(route, user, request_from_header(header), frames, nbytes, now)
        except TiremoteError as error:
            self._answers.fail(route, id_in(frames[0], self._settings.limits), error)
        except Exception as error:
            # A fault of ours: whoever met it hears of it, and everybody else's sessions stay.
            _log.exception("a message could not be handled")
            told = InternalError(f"{type(error).__name__} inside the worker: {error}; see the worker's log")
            self._answers.fail(route, id_in(frames[0], self._settings.limits), told)

    def _on_request(
        self, route: Route, user: str, request: Request, frames: Sequence[Any], nbytes: int, now: float
    ) -> None:
        if isinstance(request, Hello):
            self._welcoming.hello(route, user, request, now, draining=self._drain.begun)
            return
        seat = self._sessions.seat(user, request, now)
        if isinstance(request, Ping):
            missing = self._returning.ask(route, request, seat) if seat else ()
            self._answers.ok(route, request.id, Pong(missing=missing))
        elif isinstance(request, Status):
            self._answers.ok(route, request.id, self._status(seat, user, now))
        elif seat is None and isinstance(request, Bye):
            self._answers.ok(route, request.id, self._end_listed(request, user, now))
        elif seat is None:
            raise Unauthorized(f"op {request.op} needs the token that hello gave")
        elif isinstance(request, EngineRequest):
            if not (self._returning.repeated(route, request, seat) or self._drain.postpones):
                self._enqueue(route, request, seat, frames, nbytes, now)
        elif isinstance(request, Collect):
            self._returning.collect(route, request, seat)
        else:
            self._answers.ok(route, request.id, self._handlers[type(request)](request, seat, now))

    def _enqueue(
        self, route: Route, request: EngineRequest, seat: Seat, frames: Sequence[Any], nbytes: int, now: float
    ) -> None:
        self._admit(request, seat.session, nbytes)
        full = as_sent(request, seat.session)
        sent = frames if full is request else encode(full)
        job = Job(
            key=self.scheduler.new_key(),
            seat=seat,
            listeners=[Listener(claim=(seat.token, request.id), route=route, events=request.events)],
            request=request,
            header=bytes(memoryview(sent[0])),
            texts=texts_of(full),
            buffers=tuple(sent[1:]),
            nbytes=nbytes + memoryview(frames[0]).nbytes,
            received=now,
            output=Output(self._settings.output_bytes),
        )
        seat.jobs[request.id] = job
        self.scheduler.submit(job, now)

    def _admit(self, request: EngineRequest, session: Session, nbytes: int) -> None:
        limits = self._settings.limits
        if self._drain.begun:
            raise Refused("the worker is shutting down and takes no new work")
        size = source_bytes(request)
        if size > limits.source_bytes:
            raise PayloadTooLarge(
                f"a source of {size} bytes came, at most {limits.source_bytes} are taken",
                size=size,
                limit=limits.source_bytes,
            )
        if session.queued_bytes + nbytes > limits.session_bytes:
            raise PayloadTooLarge(
                f"{session.queued_bytes} bytes wait in this session and {nbytes} more came, at most "
                f"{limits.session_bytes} may wait: send on when earlier requests are answered",
                size=session.queued_bytes + nbytes,
                limit=limits.session_bytes,
            )
        if len(session.queue) >= limits.queue:
            raise Refused(f"{limits.queue} requests wait in this session: send on when some are answered")

    # ------------------------------------------------------------ hello and bye

    def _bye(self, request: Bye, seat: Seat, now: float) -> ByeResult:
        session = seat.session
        if request.end:
            self._sessions.end(session, now)
            return ByeResult(session_ended=True)
        # It counts as gone, until its token is heard again.
        self._returning.leave(seat, request.received)
        seat.last_seen = float("-inf")
        return ByeResult(lease=session.lease)

    def _end_listed(self, request: Bye, user: str, now: float) -> ByeResult:
        """Ends a session from outside: one whose client is gone and took the token with it."""
        if not request.end or request.session is None:
            raise Unauthorized("op bye needs the token that hello gave, or end and the session to be ended")
        self._sessions.end(self._sessions.listed(request.session, user), now)
        return ByeResult(session_ended=True)

    # ------------------------------------------------------------ answered at once

    def _status(self, seat: Seat | None, user: str, now: float) -> WorkerStatus:
        scheduler = self.scheduler
        return WorkerStatus(
            pid=os.getpid(),
            uptime=now - self._started,
            worker_version=WORKER_VERSION,
            engine=scheduler.pool.info,
            sessions=len(self._sessions),
            spares=sum(engine.state == "prepared" for engine in scheduler.pool.engines.values()),
            requests=self._requests,
            dropped=self._dropped,
            crashes=scheduler.crashes,
            state=None if self._saver is None else self._trouble() or "kept",
            session=None if seat is None else self._session_status(seat.session, now),
            listed=() if seat else tuple(self._session_line(each, now) for each in self._sessions.of(user)),
        )

    def _session_status(self, session: Session, now: float) -> SessionStatus:
        begun, copies = self._progress.begun(session), self.scheduler.copies.nbytes_of(session.id)
        status = session_status(session, begun, now, self._settings.attached, self._memory_of, copies)
        return replace(status, recycle=self._recycling.told(session))

    def _session_line(self, session: Session, now: float) -> SessionLine:
        return session_line(session, self._session_status(session, now), now)

    def _describe(self, _request: Describe, seat: Seat, now: float) -> Description:
        return description(seat.session, self._progress.begun(seat.session), now)

    def _history(self, request: History, seat: Seat, _now: float) -> HistoryResult:
        return history(request, seat.session)

    def _list_requests(self, _request: Requests, seat: Seat, now: float) -> RequestsResult:
        begun = self._progress.begun(seat.session)
        return request_list(seat.session, begun, now, self._answers.wall_clock())

    def _interrupt(self, request: Interrupt, seat: Seat, now: float) -> InterruptResult:
        job = seat.session.running()
        if request.request is not None:
            job = seat.job(request.request)
        if job is None:
            self.scheduler.stop_chore(seat.session)
            return InterruptResult()
        doing = self._progress.doing(job)
        error = Interrupted(f"{describe(doing or job)} was interrupted")
        if not self.scheduler.withdraw(job, error, now):
            if doing is None:
                # A lent engine between two calls.
                return InterruptResult()
            self.scheduler.stop(job, error, now, asked_by=request.id)
        return InterruptResult(stopped=job.request.id)

    def _cancel(self, request: Cancel, seat: Seat, now: float) -> CancelResult:
        job = seat.job(request.request)
        if job is None:
            return CancelResult(cancelled=False)
        error = Interrupted(f"{describe(job)} was cancelled before it started")
        return CancelResult(cancelled=self.scheduler.withdraw(job, error, now))

    # ------------------------------------------------------------ engines, time, the end

    def on_engine(self, number: int, message: Message, buffers: list[Any], now: float) -> None:
        """A message of an engine."""
        engine = self.scheduler.pool.engines.get(number)
        if engine is not None and engine.session is not None:
            engine.session.unsaved = True
        if not self._recycling.takes(number, message, buffers, now):
            self.scheduler.on_message(number, message, buffers, now)

    def on_output(self, number: int, stream: Stream, key: int, data: bytes, now: float) -> None:
        """Bytes that an engine printed for the job of that key, in order with its messages."""
        self.scheduler.on_output(number, stream, key, data, now)

    def on_exit(self, number: int, returncode: int, begun: int, now: float, calls: Calls = _NO_CALLS) -> None:
        """An engine's process has ended; ``begun`` is the key of the job that it began last, ``calls`` of a lane."""
        if not self._recycling.on_exit(number, returncode, now):
            self.scheduler.on_exit(number, returncode, begun, calls, now)

    def drain(self, now: float) -> None:
        """Takes no new work, lets what runs end for a while, then stops. A second call stops at once."""
        self._drain.begin(now)
        self.tick(now)

    def tick(self, now: float) -> None:
        """Does what is due."""
        self.scheduler.tick(now)
        self._recycling.tick(now)
        self._sessions.expire(now)
        self._left_tapes.tick(now)
        self._drain.tick(now)
        if self._saver is not None:
            self._saver.tick(now)

    def next_deadline(self, now: float) -> float | None:
        """When `tick` has something to do, None where nothing waits for the time."""
        saving = None if self._saver is None else self._saver.next_deadline()
        times = (
            self._sessions.next_deadline(), self.scheduler.next_deadline(now), self._recycling.next_deadline(now),
            self._drain.next_deadline(), self._left_tapes.next_deadline(), saving,
        )  # fmt: skip
        return min((time for time in times if time is not None), default=None)
