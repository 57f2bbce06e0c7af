"""The copies of one session's arrays, put together from the pieces in which they come."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

from tiremote.protocol.dtypes import dtype_of
from tiremote.protocol.messages import RequestId
from tiremote.protocol.values import Handle, Name, Ref
from tiremote.worker.front.crash_copies import CrashCopies
from tiremote.worker.host_copy import Moved, Piece

#: A copy is patched by what is put into parts of it, until there are so many: then it stays as of before.
_MOST_PATCHES = 256
#: An array that comes in more pieces than this is not kept.
_MOST_PARTS = 4096


@dataclass(frozen=True, kw_only=True, slots=True)
class Moment:
    """When ``request`` ended. ``order`` grows; ``at`` is in seconds."""

    request: RequestId | None
    op: str
    at: float
    order: int


@dataclass(kw_only=True, slots=True)
class Pieces:
    """Pieces in the order in which they are to be written, by the parts that they are for."""

    parts: dict[tuple[Any, Any], tuple[Piece, Any]] = field(default_factory=dict)
    nbytes: int = 0
    cost: int = 0

    def add(self, piece: Piece, data: Any) -> None:
        """At the end, instead of an earlier one for the same part."""
        replaced = self.parts.pop((piece.region, piece.flat), None)
        self.parts[piece.region, piece.flat] = (piece, data)
        self.nbytes += piece.nbytes - (0 if replaced is None else replaced[0].nbytes)
        self.cost += piece.cost - (0 if replaced is None else replaced[0].cost)

    def last_ranges(self) -> list[tuple[Piece, Any]]:
        """The flat ranges behind everything else, in their order: nothing was written over them."""
        last = takewhile(lambda part: part[0].flat is not None, reversed(self.parts.values()))
        return list(last)[::-1]


@dataclass(kw_only=True, slots=True)
class Kept:
    """A whole array as it was at that moment. ``exact``: the epoch in which it holds just that, if there is one."""

    target: Ref
    dtype: str
    shape: tuple[int, ...]
    moment: Moment
    pieces: Pieces
    exact: int | None
    #: Pieces that were put into it since.
    patches: int = 0


@dataclass(kw_only=True, slots=True)
class _Begun:
    """An array that comes in ranges: all numbers up to ``end`` are there, and some behind it."""

    order: int
    pieces: Pieces = field(default_factory=Pieces)
    end: int = 0

    def add(self, piece: Piece, data: Any) -> None:
        self.pieces.add(piece, data)
        if piece.flat is None or piece.flat[0] > self.end:
            return
        self.end = max(self.end, piece.flat[1])
        for start, stop in sorted(one.flat for one, _ in self.pieces.parts.values() if one.flat is not None):
            if start > self.end:
                break
            self.end = max(self.end, stop)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Original:
    """Which array was copied on the worker, when, and in which epoch."""

    target: Ref
    moment: Moment
    epoch: int


class SessionCopies:
    """``epoch`` counts the times that any of its arrays may have changed by other means than a put: pieces of one
    epoch belong together."""

    def __init__(self) -> None:
        self.epoch = 0
        #: Those that were touched last at the end.
        self.kept: dict[Ref, Kept] = {}
        self._begun: dict[Ref, _Begun] = {}
        #: Handles of what is itself a copy on the worker, to be fetched in peace, and whose it is.
        self._stand_ins: dict[Ref, _Original] = {}
        #: Of each unit, the epoch in which its fields held what loading it gives them, and what was put into since.
        self._loaded: dict[str, int] = {}
        self._written: set[Ref] = set()
        self.cost = 0
        #: Where somebody wants to know: whose copies were changed. True: one that was there is of something else.
        self.noted: dict[Ref, bool] | None = None
        #: What there was at the last crash.
        self.crash: CrashCopies | None = None

    def is_exact(self, target: Ref) -> bool:
        """Whether the copy of an array is what it holds now."""
        return target in self.kept and self.kept[target].exact == self.epoch

    def is_as_loaded(self, target: Ref) -> bool:
        """Whether a unit's array holds what loading the unit gives it."""
        if not isinstance(target, Name) or target.unit is None or target in self._written:
            return False
        return self._loaded.get(target.unit) == self.epoch

    def is_stand_in(self, target: Ref) -> bool:
        """Whether it is a copy on the worker, for the time that it takes to fetch it."""
        return target in self._stand_ins

    # ------------------------------------------------------------ what comes

    def put(self, moved: Moved, data: Any, moment: Moment) -> Kept | None:
        """A put has brought a piece; the copy, where that says what the array holds now."""
        self._written.add(moved.target)
        # It is no copy of another any more.
        self._stand_ins.pop(moved.target, None)
        if moved.whole:
            return self._keep(moved, _one(moved.piece, data), moment)
        if not self.is_exact(moved.target):
            return self._begin(moved, data, moment)
        known = self.kept[moved.target]
        if known.patches >= _MOST_PATCHES or known.pieces.nbytes + moved.piece.nbytes > 2 * bytes_of(moved):
            known.exact = None
            return self._begin_behind(known, moved, data, moment)
        known.patches += 1
        known.moment = moment
        self.cost -= known.pieces.cost
        known.pieces.add(moved.piece, data)
        self.cost += known.pieces.cost
        self.kept[moved.target] = self.kept.pop(moved.target)
        self._note(moved.target, gone=False)
        return known

    def _begin_behind(self, known: Kept, moved: Moved, data: Any, moment: Moment) -> Kept | None:
        """A copy takes no more pieces. The ranges that came last are perhaps the beginning of a put of the whole."""
        self._remove_begun(moved.target)
        begun = self._begun[moved.target] = _Begun(order=moment.order)
        for piece, part in known.pieces.last_ranges():
            begun.add(piece, part)
        self.cost += begun.pieces.cost
        return self._begin(moved, data, moment)

    def put_from(self, moved: Moved, moment: Moment) -> Kept | None:
        """An array has the contents of another now; the copy, where those are known."""
        self._written.add(moved.target)
        self._stand_ins.pop(moved.target, None)
        if moved.source is None or not self.is_exact(moved.source):
            self.is_outdated(moved.target)
            return None
        theirs = self.kept[moved.source].pieces
        return self._keep(moved, Pieces(parts=dict(theirs.parts), nbytes=theirs.nbytes, cost=theirs.cost), moment)

    def fetched(self, moved: Moved, data: Any, moment: Moment) -> Kept | None:
        """A piece was read; the copy, where it made one."""
        original = self._stand_ins.get(moved.target)
        if moved.whole:
            pieces = _one(moved.piece, data)
            return self._keep(moved, pieces, moment) if original is None else self._keep_as(original, moved, pieces)
        if original is None and self.is_exact(moved.target):
            return None
        return self._begin(moved, data, moment)

    def copied(self, handle: Handle, moved: Moved, moment: Moment) -> None:
        """An array was copied on the worker: what is fetched of the copy is the array's, as it is now."""
        self._stand_ins[handle] = _Original(target=moved.target, moment=moment, epoch=self.epoch)

    def _begin(self, moved: Moved, data: Any, moment: Moment) -> Kept | None:
        """A piece of an array that is not known: with enough of them it is."""
        begun = self._begun.pop(moved.target, None)
        if begun is None and moved.piece.flat is None:
            return None
        begun = self._begun[moved.target] = begun or _Begun(order=moment.order)
        begun.order = moment.order
        self.cost -= begun.pieces.cost
        begun.add(moved.piece, data)
        self.cost += begun.pieces.cost
        if len(begun.pieces.parts) > _MOST_PARTS or begun.pieces.nbytes > 4 * bytes_of(moved):
            self._remove_begun(moved.target)
        elif begun.end >= moved.size:
            original = self._stand_ins.get(moved.target)
            self._remove_begun(moved.target)
            if original is None:
                return self._keep(moved, begun.pieces, moment)
            return self._keep_as(original, moved, begun.pieces)
        return None

    def _keep_as(self, original: _Original, moved: Moved, pieces: Pieces) -> Kept | None:
        """What was fetched of a copy on the worker is kept as what that is a copy of."""
        known = self.kept.get(original.target)
        if known is not None and known.moment.order > original.moment.order:
            return None
        return self.hold(
            Kept(
                target=original.target,
                dtype=moved.dtype,
                shape=moved.shape,
                moment=original.moment,
                pieces=pieces,
                exact=original.epoch,
            )
        )

    def _keep(self, moved: Moved, pieces: Pieces, moment: Moment) -> Kept:
        kept = Kept(
            target=moved.target, dtype=moved.dtype, shape=moved.shape, moment=moment, pieces=pieces, exact=self.epoch
        )
        return self.hold(kept)

    def hold(self, kept: Kept) -> Kept:
        """Takes a copy that is whole, instead of an earlier one."""
        self._remove(kept.target)
        self.kept[kept.target] = kept
        self.cost += kept.pieces.cost
        self._note(kept.target, gone=False)
        return kept

    def _note(self, target: Ref, *, gone: bool) -> None:
        if self.crash is not None:
            self.crash.replaced(target)
        if self.noted is not None:
            self.noted[target] = gone or self.noted.get(target, False)

    # ------------------------------------------------------------ what changes

    def changed(self) -> None:
        """Some code ran: what the arrays hold is not known any more."""
        self.epoch += 1
        self._written.clear()
        for target in [one for one in self._begun if one not in self._stand_ins]:
            self._remove_begun(target)

    def loaded(self, unit: str) -> None:
        """A unit's fields hold what loading it gives."""
        self._loaded[unit] = self.epoch
        self._written -= {one for one in self._written if isinstance(one, Name) and one.unit == unit}

    def is_outdated(self, target: Ref) -> None:
        """Some code may write to it, or did so in a way that its copy does not have."""
        self._written.add(target)
        self._stand_ins.pop(target, None)
        self._remove_begun(target)
        if target in self.kept:
            self.kept[target].exact = None

    def engine_lost(self) -> None:
        """What had begun to come will not go on."""
        self._stand_ins.clear()
        self.changed()

    # ------------------------------------------------------------ what goes

    def remove(self, target: Ref) -> None:
        """Forgets what is known of an array."""
        if target in self.kept:
            self._note(target, gone=True)
        self._remove(target)

    def _remove(self, target: Ref) -> None:
        kept = self.kept.pop(target, None)
        self.cost -= 0 if kept is None else kept.pieces.cost
        self._remove_begun(target)

    def _remove_begun(self, target: Ref) -> None:
        begun = self._begun.pop(target, None)
        self.cost -= 0 if begun is None else begun.pieces.cost

    @property
    def spare(self) -> int:
        """Bytes of a crash, which go first where there is no room."""
        return 0 if self.crash is None else self.crash.cost

    def remove_oldest(self) -> None:
        """Of the whole ones and those that have begun to come, the one that was touched first."""
        kept, begun = next(iter(self.kept.values()), None), next(iter(self._begun.items()), None)
        if begun is None or (kept is not None and kept.moment.order < begun[1].order):
            self.remove(next(iter(self.kept)))
        else:
            self._remove_begun(begun[0])

    def drop(self, is_meant: Callable[[Ref], bool]) -> None:
        """Forgets arrays that are not there any more, and what would still come of them."""
        for target in [*self.kept, *self._begun]:
            if is_meant(target):
                self.remove(target)
        for handle, original in list(self._stand_ins.items()):
            if is_meant(handle) or is_meant(original.target):
                self.is_outdated(handle)


def _one(piece: Piece, data: Any) -> Pieces:
    pieces = Pieces()
    pieces.add(piece, data)
    return pieces


def bytes_of(moved: Moved) -> int:
    """Of the whole array, of which a piece was moved."""
    return moved.size * dtype_of(moved.dtype).itemsize


def is_inside(one: Ref, outer: Ref) -> bool:
    """Whether ``sim.grid.mass`` or ``sim.layers[0]`` is one and ``sim.grid`` or ``sim.layers`` the other."""
    if not (isinstance(one, Name) and isinstance(outer, Name)) or one.unit != outer.unit:
        return False
    return one.name.startswith((f"{outer.name}.", f"{outer.name}["))
