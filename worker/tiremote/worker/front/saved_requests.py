"""Which requests of a session are never to run again, as far as that is not on disk yet."""

from __future__ import annotations

from typing import Any

from tiremote.protocol.messages import Fetch, RequestId
from tiremote.worker.front.sessions import Job, Seat, Session, describe
from tiremote.worker.front.state.packing import packed
from tiremote.worker.front.state.rows import Begun, Gone, RequestRow

#: Of a larger answer only the id is kept.
ANSWER_BYTES = 64 << 10

#: The token of a client, and the id that it gave.
_Key = tuple[str, RequestId]


class SavedRequests:
    """What was written of one session's requests last; ``run`` names the time that this worker is up."""

    def __init__(self, run: str) -> None:
        self._run = run
        self._place = 0
        #: By the tokens of clients: requests whose answers were kept or forgotten since.
        self._noted: dict[str, dict[RequestId, None]] = {}
        #: Those that are with an engine, and the number of that.
        self._begun: dict[_Key, int] = {}

    def watch(self, seat: Seat) -> None:
        """A client is there, with what is on record of it."""
        noted = self._noted[seat.token] = dict.fromkeys(seat.record.known())
        seat.record.watch(noted.setdefault)

    def forget(self, token: str) -> None:
        """A client is not there any more."""
        del self._noted[token]

    def changes(self, session: Session) -> tuple[list[RequestRow], list[Gone]]:
        """What is to be written, and what is not to be there any more."""
        begun = self._find_begun(session)
        changed: dict[_Key, None] = {}
        for token, noted in self._noted.items():
            if noted:
                changed.update(dict.fromkeys((token, request) for request in noted))
                noted.clear()
        for key in (*begun, *self._begun):
            now = begun.get(key)
            if self._begun.get(key) != (None if now is None else now[1]):
                changed[key] = None
        self._begun = {key: engine for key, (_, engine) in begun.items()}
        rows: list[RequestRow] = []
        gone: list[Gone] = []
        for token, request in changed:
            seat = session.seats.get(token)
            if seat is None:
                continue
            if request in seat.record:
                rows.append(self._answered(seat, request))
            elif (token, request) in begun:
                job, engine = begun[token, request]
                op, target = job.request.op, describe(job)
                told = Begun(run=self._run, engine=engine, number=job.key, op=op, target=target)
                rows.append(self._row(seat, request, begun=told))
            else:
                gone.append(Gone(RequestRow, (session.id, token, packed(request))))
        return rows, gone

    def _find_begun(self, session: Session) -> dict[_Key, tuple[Job, int]]:
        """What an engine may have begun and not answered. A fetch only reads: it is read again."""
        found: dict[_Key, tuple[Job, int]] = {}
        if session.engine is not None:
            for job in session.engine.inflight:
                if not (job.withdrawn or isinstance(job.request, Fetch)):
                    found[job.seat.token, job.request.id] = (job, session.engine.number)
        for mourned in session.mourning:
            key = (mourned.job.seat.token, mourned.job.request.id)
            # Others wait there that never were with an engine.
            if key in self._begun:
                found[key] = (mourned.job, self._begun[key])
        return found

    def _answered(self, seat: Seat, request: RequestId) -> RequestRow:
        answer = seat.record.answer(request)
        if answer is None or answer.nbytes > ANSWER_BYTES:
            return self._row(seat, request, why=seat.record.why_not(request) or "room")
        return self._row(
            seat,
            request,
            answer=answer,
            events=seat.record.journal.last(request),
            received=seat.record.is_received(request),
        )

    def _row(self, seat: Seat, request: RequestId, **what: Any) -> RequestRow:
        self._place += 1
        return RequestRow(
            session=seat.session.id,
            token=seat.token,
            request=packed(request),
            place=self._place,
            id=request,
            **what,
        )
