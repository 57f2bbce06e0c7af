"""What is said to clients: answers, errors and events, as effects for the loop."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tiremote.protocol.codec import encode, failure
from tiremote.protocol.errors import TiremoteError
from tiremote.protocol.messages import EngineRequest, Event, Fetch, Ok, RequestId, Run
from tiremote.protocol.receipts import Timing
from tiremote.worker.front.effects import Effect, Send
from tiremote.worker.front.record import Answer, Record
from tiremote.worker.front.routes import Listener, Route
from tiremote.worker.front.sessions import Job, Session, describe

_log = logging.getLogger(__name__)


class Answers:
    """Collects effects, in order. Every job is answered through here, once.

    ``max_kept`` bounds the bytes of answers and events that the clients of one session can be given again.
    """

    def __init__(self, max_kept: int, wall_clock: Callable[[], float] = time.time) -> None:
        self.effects: list[Effect] = []
        self.wall_clock = wall_clock
        self._max_kept = max_kept

    def take(self) -> list[Effect]:
        """The effects so far."""
        taken = list(self.effects)
        self.effects.clear()
        return taken

    def ok(self, route: Route, request: RequestId, result: Any) -> None:
        """Answers a request that needed no engine."""
        self.effects.append(Send(route, encode(Ok(id=request, result=result))))

    def fail(self, route: Route, request: RequestId | None, error: TiremoteError) -> None:
        """Answers with an error a request that never became a job."""
        self.effects.append(Send(route, encode(failure(request, error))))

    def events(self, listener: Listener, record: Record, request: RequestId, seen: int) -> None:
        """Tells a listener again what happened after event number ``seen``."""
        for event in record.journal.since(request, seen):
            self._tell(listener, event)

    def answer(self, listener: Listener, answer: Answer, session: Session) -> None:
        """Gives a listener the answer; one that is cut off will ask for it."""
        if listener.route is not None:
            frames = answer.frames(listener.claim[1], collected=listener.collects)
            self.effects.append(Send(listener.route, frames, session.id, listener))

    def job_ok(self, job: Job, body: bytes, buffers: list[Any], timing: Timing) -> None:
        """Answers a job with the result that the engine packed."""
        self._finish(job, self._answer(job, body=body, buffers=tuple(buffers), timing=timing))

    def job_failed(self, job: Job, error: TiremoteError, timing: Timing | None = None) -> None:
        """Answers a job with an error."""
        _log.info("session %s: %s %r failed: %s", job.seat.session.id, job.request.op, job.request.id, error.code)
        self._finish(job, self._answer(job, failure=failure(job.request.id, error, timing)))

    def event(self, job: Job, event: str, text: str) -> None:
        """Tells the clients of a job something, if the one that sent it wants to know."""
        if job.request.events and text:
            told = job.seat.record.journal.add(job.request.id, event, text)
            for listener in job.listeners:
                self._tell(listener, told)

    def flush_output(self, job: Job, now: float) -> None:
        """Sends what has waited long enough for the end of its line."""
        due = job.output.due()
        if due is not None and now >= due:
            for stream, text in job.output.flush():
                self.event(job, stream, text)

    def _tell(self, listener: Listener, event: Event) -> None:
        if listener.route is not None and listener.events:
            frames = encode(replace(event, id=listener.claim[1]))
            self.effects.append(Send(listener.route, frames, listener=listener))

    def _answer(self, job: Job, **outcome: Any) -> Answer:
        return Answer(
            op=job.request.op,
            target=describe(job),
            answered_at=self.wall_clock(),
            codings=codings_of(job.request),
            **outcome,
        )

    def _finish(self, job: Job, answer: Answer) -> None:
        for stream, text in job.output.flush():
            self.event(job, stream, text)
        if (cut := job.output.finish()) is not None:
            self.event(job, "warning", cut)
        seat, request = job.seat, job.request.id
        seat.session.unsaved = True
        if seat.jobs.pop(request, None) is None:
            return
        if isinstance(job.request, Fetch):
            seat.record.add_fetched(request)
        else:
            seat.record.add(request, answer, {listener.claim for listener in job.listeners})
            self._make_room(seat.session)
        for listener in job.listeners:
            self.answer(listener, answer, seat.session)

    def _make_room(self, session: Session) -> None:
        """What is kept for those who were not heard of for longest goes first."""
        while sum(seat.record.nbytes for seat in session.seats.values()) > self._max_kept:
            holding = [seat for seat in session.seats.values() if len(seat.record)]
            if not holding:
                return
            min(holding, key=lambda seat: seat.last_seen).record.forget_oldest()


def codings_of(request: EngineRequest) -> tuple[str, ...]:
    """What arrays in the answer may be coded with."""
    return request.codings if isinstance(request, Run | Fetch) else ()
