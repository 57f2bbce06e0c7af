"""What is said to clients: answers, errors and events, as effects for the loop."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from tiremote.protocol.codec import encode, encode_ok, failure
from tiremote.protocol.errors import TiremoteError
from tiremote.protocol.messages import Event, Fetch, Ok, RequestId
from tiremote.protocol.receipts import Timing
from tiremote.worker.front.effects import Effect, Route, Send
from tiremote.worker.front.sessions import Job

_log = logging.getLogger(__name__)


class Answers:
    """Collects effects, in order. Every job is answered through here, once."""

    def __init__(self) -> None:
        self.effects: list[Effect] = []

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

    def send(self, route: Route, frames: Sequence[Any]) -> None:
        """Sends an answer that was given before."""
        self.effects.append(Send(route, list(frames)))

    def job_ok(self, job: Job, body: bytes, buffers: list[Any], timing: Timing) -> None:
        """Answers a job with the result that the engine packed."""
        self._finish(job, [encode_ok(job.request.id, body, timing), *buffers])

    def job_failed(self, job: Job, error: TiremoteError, timing: Timing | None = None) -> None:
        """Answers a job with an error."""
        _log.info("session %s: %s %r failed: %s", job.seat.session.id, job.request.op, job.request.id, error.code)
        self._finish(job, encode(failure(job.request.id, error, timing)))

    def event(self, job: Job, event: str, text: str) -> None:
        """Tells the client of a job something, if it wants to know."""
        if job.request.events and text:
            job.seq += 1
            self.effects.append(Send(job.route, encode(Event(id=job.request.id, seq=job.seq, event=event, text=text))))

    def flush_output(self, job: Job, now: float) -> None:
        """Sends what has waited long enough for the end of its line."""
        due = job.output.due()
        if due is not None and now >= due:
            for stream, text in job.output.flush():
                self.event(job, stream, text)

    def _finish(self, job: Job, frames: list[Any]) -> None:
        for stream, text in job.output.flush():
            self.event(job, stream, text)
        if (cut := job.output.finish()) is not None:
            self.event(job, "warning", cut)
        seat = job.seat
        if seat.jobs.pop(job.request.id, None) is None:
            return
        # Reading again is harmless and may be large: a fetch is repeated, not remembered.
        if not isinstance(job.request, Fetch):
            seat.record.add(job.request.id, frames)
        self.effects.append(Send(job.route, frames, seat.session.id))
