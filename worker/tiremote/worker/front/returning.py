"""Clients that come back: what one has not got is sent again, or to another that collects it."""

from __future__ import annotations

from collections.abc import Sequence

from tiremote.protocol.errors import Refused, UnknownName
from tiremote.protocol.messages import Collect, EngineRequest, Fetch, Ping, RequestId
from tiremote.worker.front.answers import Answers, codings_of
from tiremote.worker.front.record import Why
from tiremote.worker.front.routes import Listener, Route
from tiremote.worker.front.sessions import Job, Seat

#: Ids that an error names.
_SHOWN = 8

#: Requests to collect that are remembered of one client, so that it is known what it has received.
_MOST_COLLECTS = 1000

_NOT_KEPT: dict[Why, str] = {
    "received": "its client has its answer, which is no longer kept",
    "room": "its answer had to make room for others and is no longer kept",
    "fetch": "it was a fetch: what was read is not kept, fetch it again",
}


class Returning:
    """Sends again what is kept, through ``answers``."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers

    def repeated(self, route: Route, request: EngineRequest, seat: Seat) -> bool:
        """Whether the request came before: then it is answered, or will be, on this connection.

        Raises `Refused` where it was answered and the answer is not kept.
        """
        job = seat.jobs.get(request.id)
        if job is not None:
            self._attach(job, seat, request.id, route, request.seen)
            return True
        if seat.record.answer(request.id) is not None:
            self._again(seat, request.id, _listener(seat, request, route), request.seen)
            return True
        if request.id in seat.record:
            raise Refused(f"request {request.id!r} was answered, and its answer is no longer kept: it is not run twice")
        if request.seen and not isinstance(request, Fetch):
            raise Refused(
                f"request {request.id!r} has run before, for output of it was seen, and nothing else is known of it: "
                "it is not run twice"
            )
        return False

    def ask(self, route: Route, ping: Ping, seat: Seat) -> tuple[RequestId, ...]:
        """Directs what the client waits for to this connection. Those that are not under way come back."""
        missing = []
        for position, pending in enumerate(ping.pending):
            job = seat.job(pending)
            if job is None:
                missing.append(pending)
            else:
                self._attach(job, seat, pending, route, ping.seen[position] if position < len(ping.seen) else 0)
        self._receive(seat, ping.received)
        return tuple(missing)

    def collect(self, route: Route, request: Collect, seat: Seat) -> None:
        """Has the client told of a request as the one that sent it. Raises `UnknownName`, `Refused`."""
        owner, original = _owner(request, seat), request.request
        job = owner.jobs.get(original)
        answer = owner.record.answer(original)
        listener = _listener(seat, request, route)
        if job is not None:
            _check_codings(request, codings_of(job.request))
        elif answer is not None:
            _check_codings(request, () if answer.failure else answer.codings)
        else:
            why = _NOT_KEPT[owner.record.why_not(original) or "received"]
            raise Refused(f"request {original!r} was answered, and {why}")
        seat.collects[request.id] = (owner, original)
        while len(seat.collects) > _MOST_COLLECTS:
            seat.collects.popitem(last=False)
        if job is None:
            owner.record.claim(original, listener.claim)
            self._again(owner, original, listener, request.seen)
        elif not self._attach(job, seat, request.id, route, request.seen):
            job.listeners.append(listener)
            self._answers.events(listener, owner.record, original, request.seen)

    def leave(self, seat: Seat, received: tuple[RequestId, ...] | None) -> None:
        """The client goes, and has these answers, or (None) all that were sent. What runs goes on."""
        seat.record.leave(seat.token, received)
        self._receive(seat, tuple(seat.collects) if received is None else received)
        for job in seat.jobs.values():
            job.listeners[0].route = None
        for request in seat.collects:
            collected = seat.job(request)
            if collected is not None:
                collected.listeners = [each for each in collected.listeners if each.claim != (seat.token, request)]
        seat.collects.clear()

    def _attach(self, job: Job, seat: Seat, request: RequestId, route: Route, seen: int) -> bool:
        listener = next((each for each in job.listeners if each.claim == (seat.token, request)), None)
        if listener is None:
            return False
        # On a connection that stands everything is on its way, in order.
        if listener.route != route:
            listener.route = route
            self._answers.events(listener, job.seat.record, job.request.id, seen)
        return True

    def _again(self, owner: Seat, request: RequestId, listener: Listener, seen: int) -> None:
        answer = owner.record.answer(request)
        if answer is not None:
            self._answers.events(listener, owner.record, request, seen)
            self._answers.answer(listener, answer, owner.session)

    def _receive(self, seat: Seat, received: Sequence[RequestId]) -> None:
        for request in received:
            owner, original = seat.collects.pop(request, (seat, request))
            claims = [(seat.token, request)]
            if owner is seat:
                # Whoever rejoined by the token stands for the one that sent it.
                claims.append((seat.token, original))
            owner.record.receive(original, *claims)


def _listener(seat: Seat, request: EngineRequest | Collect, route: Route) -> Listener:
    collects = isinstance(request, Collect)
    return Listener(claim=(seat.token, request.id), route=route, events=request.events, collects=collects)


def _check_codings(request: Collect, coded: tuple[str, ...]) -> None:
    unread = [each for each in coded if each not in request.codings]
    if unread:
        raise Refused(
            f"the arrays of request {request.request!r} were asked for coded ({', '.join(unread)}): collect it with "
            "these codings, or have the client that sent it collect it"
        )


def _owner(request: Collect, seat: Seat) -> Seat:
    """The client whose request is to be collected: the asking one where it has one of that id."""
    wanted = request.request
    asked = [each for each in seat.session.seats.values() if request.seat in (None, each.number)]
    there = [each for each in asked if wanted in each.jobs or each.record.answer(wanted) is not None]
    having = there or [each for each in asked if each.record.why_not(wanted) is not None]
    if seat in having:
        return seat
    if len(having) > 1:
        seats = ", ".join(f"{each.number} ({each.client})" for each in having)
        raise Refused(f"several clients have a request {wanted!r}: say whose is meant, by its seat, one of {seats}")
    if having:
        return having[0]
    known = [str(each) for one in asked for each in [*one.jobs, *(id_ for id_, _ in one.record.uncollected())]]
    raise UnknownName(
        f"there is no request {wanted!r} in this session to be collected; "
        f"there is {', '.join(known[:_SHOWN]) or 'none'}{' and more' if len(known) > _SHOWN else ''}",
        name=str(wanted),
        known=tuple(known[:_SHOWN]),
    )
