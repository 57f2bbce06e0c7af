"""Copies of arrays on the front's side: what came or went anyway, kept to be put back when an engine is lost."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from tiremote.protocol.messages import RequestId
from tiremote.protocol.values import Handle, Name, Ref
from tiremote.worker.cargo import INLINE_BYTES
from tiremote.worker.front.crash_copies import CrashCopies
from tiremote.worker.front.session_copies import Kept, Moment, Pieces, SessionCopies, bytes_of, is_inside
from tiremote.worker.host_copy import Moved, Piece
from tiremote.worker.slots import is_lent

#: Large bytes are left where they came, each in a mapping of its own, of which a process has about twice as many.
_MOST_MAPPINGS = 32_768


@dataclass(frozen=True, kw_only=True, slots=True)
class HostCopy:
    """What an array of that dtype and shape held when ``request`` had ended at ``at``: pieces to be written one after
    the other.

    ``order`` grows with every copy: where two arrays are one under two names, the later copy is the one that holds.
    """

    target: Ref
    dtype: str
    shape: tuple[int, ...]
    request: RequestId | None
    op: str
    at: float
    order: int
    pieces: tuple[tuple[Piece, Any], ...]

    @property
    def nbytes(self) -> int:
        """What it takes."""
        return sum(piece.cost for piece, _ in self.pieces)


@dataclass(frozen=True, slots=True)
class CopyChange:
    """The copy that there is now; ``replaced``: one that was there before is not of what has that name now."""

    target: Ref
    copy: HostCopy | None
    replaced: bool


class CopyStore:
    """The copies of all sessions, within ``max_bytes``: beyond, the oldest of the session that has most go.

    Large bytes are not copied, unless they lie in slots: whoever gives them leaves them as they are.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        # Small ones lie in memory that they share with others, which would stay for them: ZeroMQ reads many at once.
        self._small = max(INLINE_BYTES, max_bytes // _MOST_MAPPINGS)
        self._orders = count(1)
        self._sessions: dict[str, SessionCopies] = {}
        self._watched = False

    # ------------------------------------------------------------ what there is

    @property
    def nbytes(self) -> int:
        """What all copies take together."""
        return sum(one.cost + one.spare for one in self._sessions.values())

    def nbytes_of(self, session: str) -> int:
        """What a session's copies take."""
        mine = self._sessions.get(session)
        return 0 if mine is None else mine.cost + mine.spare

    def is_exact(self, session: str, target: Ref) -> bool:
        """Whether an array would hold what it holds now if it were put back, or loaded with its unit."""
        mine = self._sessions.get(session)
        return mine is not None and (mine.is_exact(target) if target in mine.kept else mine.is_as_loaded(target))

    def is_stand_in(self, session: str, target: Ref) -> bool:
        """Whether it is a copy on the worker, for the time that it takes to fetch it."""
        return session in self._sessions and self._sessions[session].is_stand_in(target)

    def get(self, session: str, target: Ref) -> HostCopy | None:
        """The copy of an array, None where there is none."""
        mine = self._sessions.get(session)
        kept = None if mine is None else mine.kept.get(target)
        return None if kept is None else _told(kept)

    def of(self, session: str) -> tuple[HostCopy, ...]:
        """A session's copies, in the order in which they are to be put back."""
        mine = self._sessions.get(session)
        kept = [] if mine is None else sorted(mine.kept.values(), key=lambda one: one.moment.order)
        return tuple(map(_told, kept))

    # ------------------------------------------------------------ what comes

    def moved(
        self, session: str, moved: Moved, data: Any, *, request: RequestId | None, op: str, now: float
    ) -> HostCopy | None:
        """A piece of an array has come (``put``) or gone (``fetch``, ``snapshot``); the copy that this made, if any.

        After a put that made none, what there is of the array is older than what it holds.
        """
        mine = self._of(session)
        moment = self._moment(request, op, now)
        if max(moved.piece.cost, bytes_of(moved)) > self._max_bytes:
            if op == "put":
                mine.is_outdated(moved.target)
            return None
        if moved.piece.nbytes <= self._small or is_lent(data):
            data = bytes(data)
        take = mine.put if op == "put" else mine.fetched
        return self._made(mine, take(moved, data, moment))

    def put_from(self, session: str, moved: Moved, *, request: RequestId | None, now: float) -> HostCopy | None:
        """An array has the contents of another now, ``moved.source``; the copy, where those are known."""
        mine = self._of(session)
        return self._made(mine, mine.put_from(moved, self._moment(request, "put", now)))

    def copied(self, session: str, handle: Handle, moved: Moved, *, request: RequestId | None, now: float) -> None:
        """An array was copied on the worker, so that it can be fetched as it is now: what is fetched is the array's."""
        self._of(session).copied(handle, moved, self._moment(request, "fetch", now))

    def add(self, session: str, copies: Iterable[HostCopy]) -> None:
        """Takes copies that were kept elsewhere, in the order in which they are to be put back."""
        mine = self._of(session)
        for one in copies:
            pieces = Pieces()
            for piece, data in one.pieces:
                pieces.add(piece, data)
            moment = self._moment(one.request, one.op, one.at)
            mine.hold(
                Kept(target=one.target, dtype=one.dtype, shape=one.shape, moment=moment, pieces=pieces, exact=None)
            )
        self._make_room()

    def _of(self, session: str) -> SessionCopies:
        mine = self._sessions.get(session)
        if mine is None:
            mine = self._sessions[session] = SessionCopies()
            mine.noted = {} if self._watched else None
        return mine

    def _moment(self, request: RequestId | None, op: str, now: float) -> Moment:
        return Moment(request=request, op=op, at=now, order=next(self._orders))

    def _made(self, mine: SessionCopies, kept: Kept | None) -> HostCopy | None:
        self._make_room()
        return None if kept is None or mine.kept.get(kept.target) is not kept else _told(kept)

    def _make_room(self) -> None:
        while self.nbytes > self._max_bytes:
            most = max(self._sessions.values(), key=lambda one: one.spare)
            if most.crash is not None and most.spare:
                most.crash.make_room()
            else:
                max(self._sessions.values(), key=lambda one: one.cost).remove_oldest()

    # ------------------------------------------------------------ a crash

    def keep_crash(self, session: str, header: bytes, buffers: Sequence[Any], nbytes: int) -> CrashCopies:
        """An engine died with that message: it and the copies that there are now are kept for its explanation.

        They take the place of those of an earlier crash, and are the first to make room.
        """
        mine = self._of(session)
        own = tuple(bytes(one) if memoryview(one).nbytes <= self._small else one for one in buffers)
        mine.crash = CrashCopies(self.of(session), header, own, nbytes)
        self._make_room()
        return mine.crash

    def of_crash(self, session: str) -> CrashCopies | None:
        """What is kept of the session's last crash."""
        mine = self._sessions.get(session)
        return None if mine is None else mine.crash

    # ------------------------------------------------------------ what was changed

    def watch(self) -> None:
        """Notes what `take_changes` is to tell. Call it before there is a copy."""
        self._watched = True

    def take_changes(self, session: str) -> list[CopyChange]:
        """What was changed in the copies of a session since this was asked last, in the order of the copies."""
        mine = self._sessions.get(session)
        if mine is None or not mine.noted:
            return []
        changes = [CopyChange(target, self.get(session, target), gone) for target, gone in mine.noted.items()]
        mine.noted.clear()
        return sorted(changes, key=lambda one: one.copy.order if one.copy else 0)

    # ------------------------------------------------------------ what changes

    def changed(self, session: str) -> None:
        """Some code ran: what the arrays hold is not known any more."""
        if session in self._sessions:
            self._sessions[session].changed()

    def loaded(self, session: str, unit: str) -> None:
        """A unit was loaded, and nothing of an earlier version kept: its fields hold what loading it again gives."""
        self._of(session).loaded(unit)

    def is_given(self, session: str, handle: Handle) -> None:
        """Some code has got the array of a handle, and may write to it at any time."""
        if session in self._sessions:
            self._sessions[session].is_outdated(handle)

    def was_put_back(self, session: str, target: Ref) -> None:
        """The array holds what its copy says."""
        mine = self._sessions.get(session)
        if mine is not None and target in mine.kept:
            mine.kept[target].exact = mine.epoch

    def engine_lost(self, session: str) -> None:
        """No array of the session is there any more."""
        if session in self._sessions:
            self._sessions[session].engine_lost()

    # ------------------------------------------------------------ what goes

    def drop(self, session: str, target: Ref) -> None:
        """Forgets the copy of an array, with those of what is inside it."""
        self._drop(session, lambda one: one == target or is_inside(one, target))

    def drop_handle(self, session: str, handle: str) -> None:
        """Forgets the copy of what was kept under a handle."""
        self._drop(session, lambda one: isinstance(one, Handle) and one.id == handle)

    def drop_unit(self, session: str, unit: str) -> None:
        """Forgets the copies of a unit's arrays."""
        self._drop(session, lambda one: isinstance(one, Name) and one.unit == unit)

    def _drop(self, session: str, is_meant: Callable[[Ref], bool]) -> None:
        if session in self._sessions:
            self._sessions[session].drop(is_meant)

    def forget(self, session: str) -> None:
        """The session is over."""
        self._sessions.pop(session, None)


def _told(kept: Kept) -> HostCopy:
    moment = kept.moment
    return HostCopy(
        target=kept.target,
        dtype=kept.dtype,
        shape=kept.shape,
        request=moment.request,
        op=moment.op,
        at=moment.at,
        order=moment.order,
        pieces=tuple(kept.pieces.parts.values()),
    )
