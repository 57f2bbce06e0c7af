"""Copies of arrays on the front's side: what came or went anyway, kept to be put back when an engine is lost."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from tiremote.protocol.dtypes import dtype_of
from tiremote.protocol.messages import RequestId
from tiremote.protocol.values import Handle, Name, Ref
from tiremote.worker.host_copy import Moved, Piece

#: A copy is patched by what is put into parts of it, until there are so many: then it stays as of before.
_MOST_PIECES = 256
#: An array that comes in more pieces than this is not kept.
_MOST_PARTS = 4096


@dataclass(frozen=True, kw_only=True, slots=True)
class HostCopy:
    """What an array held when ``request`` had ended at ``at``: pieces to be written one after the other.

    ``order`` grows with every copy: where two arrays are one under two names, the later copy is the one that holds.
    """

    target: Ref
    request: RequestId | None
    op: str
    at: float
    order: int
    size: int
    pieces: tuple[tuple[Piece, Any], ...]

    @property
    def nbytes(self) -> int:
        """What it takes."""
        return sum(piece.cost for piece, _ in self.pieces)


#: A part of an array: what a piece is for.
_Part = tuple[Any, Any]


@dataclass(kw_only=True, slots=True)
class _Begun:
    """An array that comes in several pieces, of which some are there, in the order in which they came."""

    pieces: dict[_Part, tuple[Piece, Any]] = field(default_factory=dict)
    nbytes: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class _Original:
    """Which array was copied, when, and by which request."""

    target: Ref
    request: RequestId | None
    at: float
    epoch: int


class _SessionCopies:
    """The copies of one session, the one that was made last at the end.

    ``epoch`` counts the times that any of its arrays may have changed by other means than a put: pieces of one epoch
    belong together.
    """

    def __init__(self) -> None:
        self.epoch = 0
        self.nbytes = 0
        self.copies: dict[Ref, HostCopy] = {}
        #: Of each copy, the epoch in which the array held the same.
        self.exact: dict[Ref, int] = {}
        self.begun: dict[Ref, _Begun] = {}
        #: Of each unit, the epoch in which its fields held what loading it gives them.
        self.loaded: dict[str, int] = {}
        #: What was put into since.
        self.written: set[Ref] = set()
        #: Handles of what is itself a copy, to be fetched in peace, and whose it is.
        self.stands_for: dict[Ref, _Original] = {}

    def keep(self, copy: HostCopy, *, exact: bool) -> None:
        self.remove(copy.target)
        self.copies[copy.target] = copy
        self.nbytes += copy.nbytes
        if exact:
            self.exact[copy.target] = self.epoch

    def remove(self, target: Ref) -> None:
        copy = self.copies.pop(target, None)
        self.exact.pop(target, None)
        self.nbytes -= 0 if copy is None else copy.nbytes
        self.remove_begun(target)

    def remove_begun(self, target: Ref) -> None:
        begun = self.begun.pop(target, None)
        self.nbytes -= 0 if begun is None else begun.nbytes

    def changed(self) -> None:
        self.epoch += 1
        for target in list(self.begun):
            if target not in self.stands_for:
                self.remove_begun(target)

    def remove_oldest(self) -> None:
        self.remove(next(iter(self.copies or self.begun)))

    def targets(self) -> list[Ref]:
        return list(dict.fromkeys([*self.copies, *self.begun]))


class CopyStore:
    """The copies of all sessions, within ``max_bytes``: beyond, the oldest of the session that has most go.

    Bytes are not copied: whoever gives them leaves them as they are.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._orders = count(1)
        self._sessions: dict[str, _SessionCopies] = {}

    @property
    def nbytes(self) -> int:
        """What all copies take together."""
        return sum(one.nbytes for one in self._sessions.values())

    def nbytes_of(self, session: str) -> int:
        """What a session's copies take."""
        mine = self._sessions.get(session)
        return 0 if mine is None else mine.nbytes

    def is_exact(self, session: str, target: Ref) -> bool:
        """Whether an array would hold what it holds now if it were put back, or loaded with its unit."""
        mine = self._sessions.get(session)
        if mine is None:
            return False
        if target not in mine.copies and isinstance(target, Name) and target.unit is not None:
            return mine.loaded.get(target.unit) == mine.epoch and target not in mine.written
        return mine.exact.get(target) == mine.epoch

    def loaded(self, session: str, unit: str) -> None:
        """A unit was loaded, and nothing of an earlier version kept: its fields hold what loading it again gives."""
        mine = self._sessions.setdefault(session, _SessionCopies())
        mine.loaded[unit] = mine.epoch
        mine.written -= {one for one in mine.written if isinstance(one, Name) and one.unit == unit}

    def was_put_back(self, session: str, target: Ref) -> None:
        """The array holds what its copy says."""
        mine = self._sessions.get(session)
        if mine is not None and target in mine.copies:
            mine.exact[target] = mine.epoch

    def get(self, session: str, target: Ref) -> HostCopy | None:
        """The copy of an array, None where there is none."""
        mine = self._sessions.get(session)
        return None if mine is None else mine.copies.get(target)

    def of(self, session: str) -> tuple[HostCopy, ...]:
        """A session's copies, in the order in which they are to be put back."""
        mine = self._sessions.get(session)
        return () if mine is None else tuple(sorted(mine.copies.values(), key=lambda one: one.order))

    def add(self, session: str, copies: Iterable[HostCopy]) -> None:
        """Takes copies that were kept elsewhere, in the order in which they are to be put back."""
        mine = self._sessions.setdefault(session, _SessionCopies())
        for one in copies:
            mine.keep(replace(one, order=next(self._orders)), exact=False)
        self._make_room()

    def changed(self, session: str) -> None:
        """Some code ran: what the arrays hold is not known any more."""
        mine = self._sessions.get(session)
        if mine is not None:
            mine.changed()

    def moved(
        self, session: str, moved: Moved, data: Any, *, request: RequestId | None, op: str, now: float
    ) -> HostCopy | None:
        """A piece of an array has come (``put``) or gone (``fetch``, ``snapshot``); the copy that this made, if any."""
        mine = self._sessions.setdefault(session, _SessionCopies())
        if op == "put" and isinstance(moved.target, Name):
            mine.written.add(moved.target)
        if _bytes_of(moved) > self._max_bytes:
            return None
        pieces: tuple[tuple[Piece, Any], ...] = (
            ((moved.piece, data),) if moved.whole else _with_part(mine, moved, data, op)
        )
        if not pieces:
            self._make_room()
            return None
        mine.remove_begun(moved.target)
        original = mine.stands_for.get(moved.target) if op == "fetch" else None
        of = original or _Original(target=moved.target, request=request, at=now, epoch=mine.epoch)
        known = mine.copies.get(of.target)
        if known is not None and known.at > of.at:
            return None
        copy = HostCopy(
            target=of.target,
            request=of.request,
            op=op,
            at=of.at,
            order=next(self._orders),
            size=moved.size,
            pieces=pieces,
        )
        mine.keep(copy, exact=of.epoch == mine.epoch)
        self._make_room()
        return mine.copies.get(of.target)

    def copied(self, session: str, handle: Handle, moved: Moved, *, request: RequestId | None, now: float) -> None:
        """An array was copied on the worker, so that it can be fetched as it is now: what is fetched is the array's."""
        mine = self._sessions.setdefault(session, _SessionCopies())
        mine.stands_for[handle] = _Original(target=moved.target, request=request, at=now, epoch=mine.epoch)

    def _make_room(self) -> None:
        while self.nbytes > self._max_bytes:
            max(self._sessions.values(), key=lambda one: one.nbytes).remove_oldest()

    def drop(self, session: str, target: Ref) -> None:
        """Forgets the copy of an array, with those of what is inside it."""
        self._drop(session, lambda one: one == target or _is_inside(one, target))

    def drop_handle(self, session: str, handle: str) -> None:
        """Forgets the copy of what was kept under a handle."""
        self._drop(session, lambda one: isinstance(one, Handle) and one.id == handle)
        mine = self._sessions.get(session)
        for one in [] if mine is None else list(mine.stands_for):
            if isinstance(one, Handle) and one.id == handle and mine is not None:
                del mine.stands_for[one]

    def drop_unit(self, session: str, unit: str) -> None:
        """Forgets the copies of a unit's arrays."""
        self._drop(session, lambda one: isinstance(one, Name) and one.unit == unit)

    def _drop(self, session: str, is_meant: Callable[[Ref], bool]) -> None:
        mine = self._sessions.get(session)
        for one in [] if mine is None else [each for each in mine.targets() if is_meant(each)]:
            if mine is not None:
                mine.remove(one)

    def forget(self, session: str) -> None:
        """The session is over."""
        self._sessions.pop(session, None)


def _with_part(mine: _SessionCopies, moved: Moved, data: Any, op: str) -> tuple[tuple[Piece, Any], ...]:
    """The pieces of the whole, where it is known with this part; none where it is not, or was known already."""
    target, piece = moved.target, moved.piece
    known = mine.copies.get(target)
    if known is not None and mine.exact.get(target) == mine.epoch:
        if op != "put":
            return ()
        patched = {(one.region, one.flat): (one, bytes_) for one, bytes_ in known.pieces}
        _add(patched, piece, data)
        if len(patched) <= _MOST_PIECES and sum(one.nbytes for one, _ in patched.values()) <= 2 * _bytes_of(moved):
            return tuple(patched.values())
        del mine.exact[target]
        return ()
    begun = mine.begun.get(target)
    if begun is None:
        if piece.flat is None:
            return ()
        begun = mine.begun[target] = _Begun()
    if len(begun.pieces) >= _MOST_PARTS or sum(one.nbytes for one, _ in begun.pieces.values()) > 2 * _bytes_of(moved):
        mine.remove_begun(target)
        return ()
    before = begun.nbytes
    begun.nbytes += _add(begun.pieces, piece, data)
    mine.nbytes += begun.nbytes - before
    ranges = [one.flat for one, _ in begun.pieces.values() if one.flat is not None]
    return tuple(begun.pieces.values()) if _covered(ranges) >= moved.size else ()


def _add(pieces: dict[_Part, tuple[Piece, Any]], piece: Piece, data: Any) -> int:
    """Puts a piece at the end, instead of an earlier one for the same part; by how many bytes there are more now."""
    replaced = pieces.pop((piece.region, piece.flat), None)
    pieces[piece.region, piece.flat] = (piece, data)
    return piece.cost - (0 if replaced is None else replaced[0].cost)


def _bytes_of(moved: Moved) -> int:
    """Of the whole array, of which a piece was moved."""
    return moved.size * dtype_of(moved.piece.dtype).itemsize


def _covered(ranges: Iterable[tuple[int, int]]) -> int:
    """How many numbers from the first on are there."""
    end = 0
    for start, stop in sorted(ranges):
        if start > end:
            break
        end = max(end, stop)
    return end


def _is_inside(one: Ref, outer: Ref) -> bool:
    """Whether ``sim.grid.mass`` or ``sim.layers[0]`` is one and ``sim.grid`` or ``sim.layers`` the other."""
    if not (isinstance(one, Name) and isinstance(outer, Name)) or one.unit != outer.unit:
        return False
    return one.name.startswith((f"{outer.name}.", f"{outer.name}["))
