"""The sessions there are, their seats, and who may take one."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

from tiremote.protocol.errors import ProtocolError, Refused, Unauthorized, UnknownName
from tiremote.protocol.messages import Hello, Request
from tiremote.worker.front.record import Record
from tiremote.worker.front.sessions import Seat, Session, SnapshotPlan
from tiremote.worker.front.settings import Settings
from tiremote.worker.runtimes import check_runtime

_log = logging.getLogger(__name__)


class SessionTable:
    """Finds and makes sessions and seats, within the worker's limits. ``release(session, now)`` frees its engine."""

    def __init__(self, settings: Settings, release: Callable[[Session, float], None]) -> None:
        self._settings = settings
        self._release = release
        self._numbers = count(1)
        self._sessions: dict[str, Session] = {}
        self._seats: dict[str, Seat] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def __contains__(self, session: str) -> bool:
        return session in self._sessions

    def __iter__(self) -> Iterator[Session]:
        return iter(list(self._sessions.values()))

    def seat(self, user: str, request: Request, now: float) -> Seat | None:
        """Whose token a request carries, None for none. Raises `UnknownName`, `Unauthorized`."""
        if request.token is None:
            return None
        seat = self._seats.get(request.token)
        if seat is None:
            raise UnknownName(
                "no session has this token: it has ended, or the worker was restarted; connect again", name="token"
            )
        if seat.user != user:
            raise Unauthorized("this token was given to another key")
        seat.last_seen = seat.session.last_seen = now
        seat.session.unsaved = True
        return seat

    def named(self, name: str | None, user: str) -> Session | None:
        """The session of that name. Raises `ProtocolError` for what is no name."""
        if name is None:
            return None
        if not 0 < len(name) <= 100 or not name.isprintable():
            raise ProtocolError("a session's name is 1 to 100 printable characters")
        # Under CURVE each key has names of its own: another's session cannot be entered by guessing.
        return next((each for each in self._sessions.values() if each.name == name and each.owner == user), None)

    def of(self, user: str) -> list[Session]:
        """The sessions that a key may see."""
        return [each for each in self._sessions.values() if each.owner == user]

    def listed(self, session: str, user: str) -> Session:
        """A session of that key by its id or name. Raises `UnknownName`."""
        mine = self.of(user)
        found = next((each for each in mine if session in (each.id, each.name)), None)
        if found is None:
            known = tuple(each.name or each.id for each in mine)
            raise UnknownName(
                f"there is no session {session!r}; there are {', '.join(known) or 'none'}", name=session, known=known
            )
        return found

    def make(self, request: Hello, user: str, now: float) -> Session:
        """A new session. Raises `Refused` where there are too many, or its runtime is not there."""
        options = self._options(request)
        self._make_room(now)
        session = Session(
            id=f"s{next(self._numbers)}-{secrets.token_hex(3)}",
            name=request.session,
            owner=user,
            options=options,
            lease=self._settings.lease,
            last_seen=now,
            last_busy=now,
            snapshots=SnapshotPlan(every_seconds=self._settings.snapshot_seconds, every_runs=0, since=now),
        )
        self._sessions[session.id] = session
        _log.info("session %s opened by %s", session.id, request.client or "a client")
        return session

    def _options(self, request: Hello) -> dict[str, Any]:
        options = {**self._settings.options, **request.options}
        runtime = options.pop("runtime", None) or self._settings.runtime
        check_runtime(runtime, self._settings.runtimes)
        return {**options, "runtime": runtime}

    def _make_room(self, now: float) -> None:
        """Where there are as many sessions as may be, one that holds nothing and that nobody uses makes room."""
        if len(self._sessions) < self._settings.limits.sessions:
            return
        empty = [
            session
            for session in self._sessions.values()
            if not (session.units or session.holdings() or session.is_awaited())
            and now - session.last_seen > self._settings.attached
        ]
        if not empty:
            raise Refused(
                f"this worker has {len(self._sessions)} sessions, as many as it takes: end one (bye with end), "
                "or start the worker with a higher --max-sessions"
            )
        self.end(min(empty, key=lambda session: session.last_seen), now)

    def make_seat(self, session: Session, request: Hello, user: str, now: float) -> Seat:
        """A seat for a client that says hello. Raises `Refused` where all are taken and busy."""
        if len(session.seats) >= self._settings.seats:
            idle = [seat for seat in session.seats.values() if not seat.is_awaiting()]
            if not idle:
                raise Refused(f"{len(session.seats)} clients with running requests are in this session already")
            # One that left nothing behind goes first.
            self._unseat(min(idle, key=lambda seat: (any(seat.record.uncollected()), seat.last_seen)))
        session.seated += 1
        seat = Seat(
            token=secrets.token_urlsafe(16),
            number=session.seated,
            session=session,
            user=user,
            client=request.client,
            record=Record(self._settings.answer_bytes, self._settings.event_bytes),
            last_seen=now,
        )
        session.seats[seat.token] = self._seats[seat.token] = seat
        session.unsaved = True
        return seat

    def adopt(self, session: Session) -> None:
        """Takes a session with its seats, as it was in an earlier worker."""
        self._sessions[session.id] = session
        self._seats.update(session.seats)
        number = int(session.id[1:].partition("-")[0])
        self._numbers = count(max(number + 1, next(self._numbers)))

    def _unseat(self, seat: Seat) -> None:
        seat.session.seats.pop(seat.token, None)
        seat.session.unsaid.pop(seat.token, None)
        self._seats.pop(seat.token, None)

    def end(self, session: Session, now: float) -> None:
        """Ends a session with everything in it."""
        _log.info("session %s ended", session.id)
        self._release(session, now)
        self.forget(session)

    def forget(self, session: Session) -> None:
        """Takes a session that has no engine out of the table."""
        for seat in list(session.seats.values()):
            self._unseat(seat)
        self._sessions.pop(session.id, None)

    def expire(self, now: float) -> None:
        """Ends the sessions whose lease is over and that have nothing to do."""
        for session in self:
            busy = session.is_awaited()
            if busy or session.was_busy:
                # What ended while nobody was there is kept for as long as if somebody had just left.
                session.last_busy = now
            session.was_busy = busy
            if not busy and now - session.last_needed > session.lease:
                self.end(session, now)

    def next_deadline(self) -> float | None:
        """When `expire` has something to do."""
        idle = (session for session in self._sessions.values() if not session.is_awaited())
        return min((session.last_needed + session.lease for session in idle), default=None)
