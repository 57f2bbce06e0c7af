"""What the clients of a session asked for and may still want, as a list."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from tiremote.protocol.messages import Lend, OpenLane
from tiremote.protocol.results import RequestLine, RequestsResult
from tiremote.worker.front.sessions import Job, Seat, Session, describe

#: Lines that are told: a message has to stay readable.
_MOST = 1000

#: What nobody but the client that asked has any use for.
_OF_LANES = (OpenLane.op, Lend.op)


def request_list(session: Session, begun: Job | None, now: float, wall_now: float) -> RequestsResult:
    """``begun`` is what the session's engine runs. ``now`` is of the front's clock, ``wall_now`` since 1970."""
    lines = _lines(session, begun, now, wall_now)
    listed = tuple(islice(lines, _MOST))
    return RequestsResult(requests=listed, omitted=sum(1 for _ in lines))


def _lines(session: Session, begun: Job | None, now: float, wall_now: float) -> Iterator[RequestLine]:
    for unanswered in (*(mourned.job for mourned in session.mourning), *session.explaining):
        yield _line(unanswered, "running", now)
    for job in (*(session.engine.inflight if session.engine else ()), *session.queue):
        if not job.withdrawn and job.request.op not in _OF_LANES:
            yield _line(job, "running" if job is begun else "queued", now)
    answered = [(seat, *each) for seat in session.seats.values() for each in seat.record.uncollected()]
    wanted = [each for each in answered if each[2].op not in _OF_LANES]
    for seat, request, answer in sorted(wanted, key=lambda each: -each[2].answered_at):
        yield RequestLine(
            request=request,
            op=answer.op,
            target=answer.target,
            seat=seat.number,
            client=seat.client,
            state="answered",
            seconds=max(wall_now - answer.answered_at, 0.0),
            code=answer.failure.code if answer.failure else None,
            nbytes=answer.nbytes,
        )


def _line(job: Job, state: str, now: float) -> RequestLine:
    since = job.received if state == "queued" or job.started is None else job.started
    seat: Seat = job.seat
    return RequestLine(
        request=job.request.id,
        op=job.request.op,
        target=describe(job),
        seat=seat.number,
        client=seat.client,
        state=state,
        seconds=now - since,
    )
