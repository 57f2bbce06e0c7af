"""Sessions as they were when an earlier worker ended, from what was on disk: without an engine, until one is needed.

It is as if the engine of each had died: it is brought back by the same `Recovery`, and the same is told.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from tiremote.protocol.codec import failure
from tiremote.protocol.errors import EngineCrashed
from tiremote.protocol.values import Handle
from tiremote.worker.front.copies import CopyStore, HostCopy
from tiremote.worker.front.history import UnitHistory
from tiremote.worker.front.losses import contents, report
from tiremote.worker.front.record import Answer, Record
from tiremote.worker.front.recovery import Recovery
from tiremote.worker.front.saver import BEAT
from tiremote.worker.front.session_table import SessionTable
from tiremote.worker.front.sessions import Loss, Seat, Session, SnapshotPlan, Unit, Word
from tiremote.worker.front.settings import Settings
from tiremote.worker.front.state.rows import (
    ArrayRow,
    Begun,
    FloorRow,
    KeptCopy,
    RequestRow,
    Saved,
    SeatRow,
    SessionRow,
    UnitRow,
    VersionRow,
)
from tiremote.worker.front.usage import Use

_log = logging.getLogger(__name__)


@dataclass(kw_only=True, slots=True)
class _Rows:
    """What belongs to one session."""

    session: SessionRow
    seats: list[SeatRow] = field(default_factory=list)
    units: dict[str, UnitRow] = field(default_factory=dict)
    versions: list[VersionRow] = field(default_factory=list)
    arrays: dict[str, ArrayRow] = field(default_factory=dict)
    requests: list[RequestRow] = field(default_factory=list)
    floors: dict[tuple[str, str], int] = field(default_factory=dict)
    copies: list[KeptCopy] = field(default_factory=list)


class Resume:
    """Puts sessions into ``sessions`` and their copies into ``copies``. ``wall_clock`` is seconds since 1970."""

    def __init__(
        self,
        sessions: SessionTable,
        copies: CopyStore,
        recovery: Recovery,
        settings: Settings,
        wall_clock: Callable[[], float],
    ) -> None:
        self._sessions = sessions
        self._copies = copies
        self._recovery = recovery
        self._settings = settings
        self._wall_clock = wall_clock

    def take(self, saved: Saved, now: float) -> None:
        """Everything that was saved."""
        offset = saved.clock - now
        for rows in _sorted_out(saved).values():
            exact = rows.session.exact
            self._take_session(rows, exact is not None and exact <= saved.copied, offset, now)

    def _take_session(self, rows: _Rows, exact: bool, offset: float, now: float) -> None:
        row = rows.session
        # On disk is who was heard up to a minute ago; nobody's lease is to end too early.
        heard = min(row.heard - offset + BEAT, now)
        plan = SnapshotPlan(every_seconds=row.every_seconds, every_runs=row.every_runs, since=now)
        session = Session(
            id=row.session,
            name=row.name,
            owner=row.owner,
            options={"runtime": self._settings.runtime, **row.options},
            lease=row.lease,
            last_seen=heard,
            last_busy=heard,
            seated=row.seated,
            generation=row.generation,
            lost_in=row.lost_in,
            newest=row.newest,
            snapshots=plan,
        )
        self._take_units(session, rows)
        for handle, array in rows.arrays.items():
            session.arrays[handle] = array.holding
            session.usage.arrays[handle] = Use(array.owner, heard)
        self._copies.add(session.id, [_host_copy(one, offset, now) for one in rows.copies if _holds(one, rows)])
        if exact and not any(each.begun for each in rows.requests):
            for unit in session.units:
                self._copies.loaded(session.id, unit)
            for copy in self._copies.of(session.id):
                self._copies.was_put_back(session.id, copy.target)
        self._take_seats(session, rows, offset)
        self._tell(session, rows, now)
        self._take_stock(session)
        self._sessions.adopt(session)
        _log.info("session %s is there again", session.id)

    def _take_units(self, session: Session, rows: _Rows) -> None:
        for name in rows.session.units:
            row = rows.units[name]
            history = UnitHistory(name, self._settings.history)
            versions = [each.text for each in rows.versions if each.unit == name]
            history.restore(sorted(versions, key=lambda one: one.version))
            session.units[name] = Unit(holding=row.holding, source=row.source, history=history, arrays=row.arrays)
            session.usage.units[name] = Use(row.owner, session.last_seen)

    def _take_seats(self, session: Session, rows: _Rows, offset: float) -> None:
        for row in rows.seats:
            record = Record(self._settings.answer_bytes, self._settings.event_bytes)
            # Gone, until it is heard again.
            session.seats[row.token] = Seat(
                token=row.token,
                number=row.number,
                session=session,
                user=row.user,
                client=row.client,
                record=record,
                last_seen=float("-inf"),
            )
            if row.unsaid is not None:
                said = row.unsaid
                session.unsaid[row.token] = Word(
                    error=EngineCrashed(said.message, signal=said.signal),
                    loss=Loss(died_at=said.died_at - offset, held={one.target: one.name for one in said.held}),
                )
        for each in sorted(rows.requests, key=lambda one: one.place):
            seat = session.seats.get(each.token)
            if seat is not None and each.begun is None:
                claim = (each.token, each.id)
                seat.record.restore(each.id, each.answer, each.why, claim, received=each.received)
                seat.record.journal.restore(each.id, each.events)

    def _tell(self, session: Session, rows: _Rows, now: float) -> None:
        """Answers what ran when the worker ended, and leaves word for those of whom nothing ran."""
        loss = session.loss = Loss(died_at=now, held=contents(session, self._copies))
        told = set()
        for each in rows.requests:
            seat = session.seats.get(each.token)
            if each.begun is None or seat is None:
                continue
            error = EngineCrashed(f"the worker was restarted during {each.begun.target}")
            error.request, error.generation = each.id, session.generation + 1
            report(error, session, loss, self._copies)
            seat.record.restore(each.id, self._answer(each, each.begun, error), None, (each.token, each.id))
            told.add(each.token)
        self._recovery.leave_word(session, EngineCrashed("the worker was restarted"), now)
        for token in told:
            session.unsaid.pop(token, None)

    def _answer(self, row: RequestRow, begun: Begun, error: EngineCrashed) -> Answer:
        return Answer(op=begun.op, target=begun.target, answered_at=self._wall_clock(), failure=failure(row.id, error))

    def _take_stock(self, session: Session) -> None:
        there = {one.target.id for one in self._copies.of(session.id) if isinstance(one.target, Handle)}
        for handle, holding in session.arrays.items():
            if handle in there or holding.place is not None:
                session.stock[handle] = holding
        session.arrays.clear()


def _sorted_out(saved: Saved) -> dict[str, _Rows]:
    """What was saved, by session. Rows of a session that has none of its own are left out, and then deleted."""
    found = {row.session: _Rows(session=row) for row in saved.rows if isinstance(row, SessionRow)}
    for row in saved.rows:
        mine = found.get(row.session)
        if mine is None:
            continue
        match row:
            case SeatRow():
                mine.seats.append(row)
            case UnitRow():
                mine.units[row.unit] = row
            case VersionRow():
                mine.versions.append(row)
            case ArrayRow():
                mine.arrays[row.handle] = row
            case RequestRow():
                mine.requests.append(row)
            case FloorRow():
                mine.floors[row.unit, row.name] = row.below
    for copy in sorted(saved.copies, key=lambda one: one.number):
        if copy.session in found:
            found[copy.session].copies.append(copy)
    return found


def _holds(copy: KeptCopy, rows: _Rows) -> bool:
    """Whether a copy is still of what has its name."""
    if isinstance(copy.target, Handle):
        return copy.target.id in rows.arrays
    return copy.number > rows.floors.get((copy.target.unit or "", copy.target.name), 0)


def _host_copy(copy: KeptCopy, offset: float, now: float) -> HostCopy:
    return HostCopy(
        target=copy.target,
        request=copy.request,
        op=copy.op,
        at=min(copy.at - offset, now),
        order=copy.number,
        dtype=copy.dtype,
        shape=copy.shape,
        pieces=copy.pieces,
    )
