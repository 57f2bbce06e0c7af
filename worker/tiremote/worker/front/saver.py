"""What of the front's sessions has to be written to disk: found by comparing them with what was written last.

Nobody who changes a session says what is to be saved. Whoever may have changed something of it sets ``unsaved``, and
here it is compared, by the identity of what never changes itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tiremote.protocol.receipts import UnitHolding
from tiremote.protocol.values import Name
from tiremote.worker.front.copies import CopyStore, HostCopy
from tiremote.worker.front.history import UnitHistory
from tiremote.worker.front.noted import either
from tiremote.worker.front.saved_requests import SavedRequests
from tiremote.worker.front.session_table import SessionTable
from tiremote.worker.front.sessions import Session, Unit, Word
from tiremote.worker.front.state.rows import (
    ArrayRow,
    CopyGone,
    FloorRow,
    Gone,
    HeldName,
    KeptCopy,
    RequestRow,
    Row,
    Save,
    Saved,
    SavedWord,
    SeatRow,
    SessionRow,
    UnitRow,
    VersionRow,
)

#: How far what is on disk of a session's lease may be behind.
BEAT = 60.0


@dataclass(kw_only=True, slots=True)
class _SavedUnit:
    holding: UnitHolding
    source: str
    arrays: tuple[str, ...]
    history: UnitHistory
    versions: set[int]

    def is_of(self, unit: Unit) -> bool:
        """Whether the unit is as it was then."""
        same = self.holding is unit.holding and self.source is unit.source and self.history is unit.history
        return same and self.arrays == unit.arrays


@dataclass(eq=False, kw_only=True, slots=True)
class _Image:
    """What was written of a session last."""

    #: When it was heard, as it is written; and what its own was then, which is a minute later after a restart.
    heard: float
    needed: float
    requests: SavedRequests
    facts: tuple[object, ...] = ()
    #: By the tokens of its clients, what each is to be told.
    words: dict[str, Word | None] = field(default_factory=dict)
    units: dict[str, _SavedUnit] = field(default_factory=dict)
    #: The last number among its copies.
    copied: int = 0
    floors: dict[Name, int] = field(default_factory=dict)


@dataclass(kw_only=True, slots=True)
class _Batch:
    rows: list[Row] = field(default_factory=list)
    gone: list[Gone] = field(default_factory=list)
    copies: list[KeptCopy | CopyGone] = field(default_factory=list)


class Saver:
    """Sans-IO. ``is_exact(session)`` says whether the copies of its arrays are what they hold.

    What is to be saved first is everything there is.
    """

    def __init__(
        self,
        sessions: SessionTable,
        copies: CopyStore,
        is_exact: Callable[[Session], bool],
        saved: Saved,
        now: float,
    ) -> None:
        self._sessions = sessions
        self._copies = copies
        self._is_exact = is_exact
        #: From the front's clock to that of the disk.
        self._offset = saved.clock - now
        self._now = now
        self._run = saved.run
        self._beat_at = now + BEAT
        self._beats = False
        self._everything = True
        self._images: dict[str, _Image] = {}
        floors = [row for row in saved.rows if isinstance(row, FloorRow)]
        #: Grows with each copy, and with each floor under copies.
        self._number = max([saved.copied, *(one.number for one in saved.copies), *(row.below for row in floors)])
        self._heard = {row.session: row.heard - self._offset for row in saved.rows if isinstance(row, SessionRow)}
        self._floors: dict[str, dict[Name, int]] = {}
        for row in floors:
            self._floors.setdefault(row.session, {})[Name(unit=row.unit, name=row.name)] = row.below

    def tick(self, now: float) -> None:
        """Has it written down every minute that time has passed, and who was heard."""
        self._now = now
        if now < self._beat_at:
            return
        self._beat_at = now + BEAT
        self._beats = len(self._sessions) > 0
        for session in self._sessions:
            image = self._images.get(session.id)
            if image is not None and image.needed != session.last_needed:
                image.needed = image.heard = session.last_needed
                session.unsaved = True

    def next_deadline(self) -> float | None:
        """When `tick` has something to do."""
        return self._beat_at if len(self._sessions) else None

    def save_everything(self) -> None:
        """What is on disk is not what was to be saved: it is written anew."""
        for session_id, image in self._images.items():
            self._floors[session_id] = image.floors
            self._heard[session_id] = image.heard
        self._images.clear()
        self._everything = True

    def collect(self) -> Save | None:
        """What has changed since this was asked last, None for nothing."""
        batch = _Batch()
        everything, self._everything = self._everything, False
        for session in self._sessions:
            if session.unsaved or everything:
                session.unsaved = False
                self._add_session(batch, session)
        if len(self._images) > len(self._sessions):
            for ended in [each for each in self._images if each not in self._sessions]:
                del self._images[ended]
                batch.gone.append(Gone(SessionRow, (ended,)))
                batch.copies.append(CopyGone(ended, None, self._next_number()))
        beats, self._beats = self._beats, False
        if not (batch.rows or batch.gone or batch.copies or beats or everything):
            return None
        return Save(
            clock=self._now + self._offset,
            rows=tuple(batch.rows),
            gone=tuple(batch.gone),
            copies=tuple(batch.copies),
            everything=everything,
        )

    def _next_number(self) -> int:
        self._number += 1
        return self._number

    def _add_session(self, batch: _Batch, session: Session) -> None:
        image = self._images.get(session.id)
        if image is None:
            image = self._images[session.id] = self._begin(batch, session)
        self._add_seats(batch, session, image)
        self._add_units(batch, session, image)
        for handle in either(session.arrays.take(), session.stock.take()):
            holding = session.arrays.get(handle) or session.stock.get(handle)
            if holding is None:
                batch.gone.append(Gone(ArrayRow, (session.id, handle)))
            else:
                use = session.usage.arrays.get(handle)
                owner = None if use is None else use.owner
                batch.rows.append(ArrayRow(session=session.id, handle=handle, holding=holding, owner=owner))
        self._add_copies(batch, session, image)
        rows, gone = image.requests.changes(session)
        batch.rows += rows
        batch.gone += gone
        self._add_row(batch, session, image)

    def _begin(self, batch: _Batch, session: Session) -> _Image:
        session.arrays.watch()
        session.stock.watch()
        needed = session.last_needed
        heard = self._heard.pop(session.id, needed)
        floors = self._floors.pop(session.id, {})
        image = _Image(heard=heard, needed=needed, requests=SavedRequests(self._run), floors=floors)
        for name, below in image.floors.items():
            batch.rows.append(FloorRow(session=session.id, unit=name.unit or "", name=name.name, below=below))
        self._copies.take_changes(session.id)
        for copy in self._copies.of(session.id):
            self._add_copy(batch, session, image, copy)
        return image

    def _add_row(self, batch: _Batch, session: Session, image: _Image) -> None:
        plan = session.snapshots
        exact = image.copied if self._is_exact(session) else None
        facts = (
            image.heard + self._offset, session.lease, session.seated, session.generation, session.lost_in,
            session.newest, plan.every_seconds, plan.every_runs, exact, *session.units,
        )  # fmt: skip
        # Most of what happens changes none of them.
        if facts == image.facts:
            return
        image.facts = facts
        batch.rows.append(
            SessionRow(
                session=session.id,
                name=session.name,
                owner=session.owner,
                options=session.options,
                lease=session.lease,
                heard=image.heard + self._offset,
                seated=session.seated,
                generation=session.generation,
                lost_in=session.lost_in,
                newest=session.newest,
                units=tuple(session.units),
                every_seconds=plan.every_seconds,
                every_runs=plan.every_runs,
                exact=exact,
            )
        )

    def _add_seats(self, batch: _Batch, session: Session, image: _Image) -> None:
        for token, seat in session.seats.items():
            word = session.unsaid.get(token)
            if token not in image.words:
                image.requests.watch(seat)
            elif image.words[token] is word:
                continue
            image.words[token] = word
            batch.rows.append(
                SeatRow(
                    session=session.id,
                    token=token,
                    number=seat.number,
                    user=seat.user,
                    client=seat.client,
                    unsaid=None if word is None else self._saved_word(word),
                )
            )
        if len(image.words) > len(session.seats):
            for token in [each for each in image.words if each not in session.seats]:
                del image.words[token]
                image.requests.forget(token)
                batch.gone += [Gone(table, (session.id, token)) for table in (SeatRow, RequestRow)]

    def _saved_word(self, word: Word) -> SavedWord:
        return SavedWord(
            message=word.error.message,
            signal=word.error.signal,
            died_at=word.loss.died_at + self._offset,
            held=tuple(HeldName(target=target, name=name) for target, name in word.loss.held.items()),
        )

    def _add_units(self, batch: _Batch, session: Session, image: _Image) -> None:
        for name, unit in session.units.items():
            known = image.units.get(name)
            if known is not None and known.is_of(unit):
                continue
            use = session.usage.units.get(name)
            batch.rows.append(
                UnitRow(
                    session=session.id,
                    unit=name,
                    holding=unit.holding,
                    source=unit.source,
                    arrays=unit.arrays,
                    owner=None if use is None else use.owner,
                )
            )
            saved = set() if known is None else known.versions
            if known is not None and known.history is not unit.history:
                batch.gone.append(Gone(VersionRow, (session.id, name)))
                saved = set()
            versions = unit.history.numbers()
            batch.gone += [Gone(VersionRow, (session.id, name, number)) for number in saved - versions]
            batch.rows += [
                VersionRow(session=session.id, unit=name, version=number, text=unit.history.get(number))
                for number in versions
                if number not in saved
            ]
            image.units[name] = _SavedUnit(
                holding=unit.holding,
                source=unit.source,
                arrays=unit.arrays,
                history=unit.history,
                versions=set(versions),
            )
        if len(image.units) > len(session.units):
            for name in [each for each in image.units if each not in session.units]:
                del image.units[name]
                batch.gone += [Gone(table, (session.id, name)) for table in (UnitRow, VersionRow)]

    # ------------------------------------------------------------ copies

    def _add_copies(self, batch: _Batch, session: Session, image: _Image) -> None:
        for change in self._copies.take_changes(session.id):
            target = change.target
            if change.replaced:
                image.copied = self._next_number()
                batch.copies.append(CopyGone(session.id, target, image.copied))
                # A handle is never used again; and the disk may be slow to forget what had this name.
                if isinstance(target, Name):
                    image.floors[target] = image.copied
                    unit = target.unit or ""
                    batch.rows.append(FloorRow(session=session.id, unit=unit, name=target.name, below=image.copied))
            if change.copy is not None:
                self._add_copy(batch, session, image, change.copy)

    def _add_copy(self, batch: _Batch, session: Session, image: _Image, copy: HostCopy) -> None:
        image.copied = self._next_number()
        batch.copies.append(
            KeptCopy(
                session=session.id,
                number=image.copied,
                target=copy.target,
                request=copy.request,
                op=copy.op,
                at=copy.at + self._offset,
                dtype=copy.dtype,
                shape=copy.shape,
                pieces=copy.pieces,
            )
        )
