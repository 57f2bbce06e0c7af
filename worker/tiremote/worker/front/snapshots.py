"""What comes of an engine's arrays anyway, and snapshots: copies of everything, on demand and by themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tiremote.protocol.code_requests import LoadRequest
from tiremote.protocol.errors import MissingChunks
from tiremote.protocol.messages import (
    Alloc,
    Bench,
    ClearGradients,
    CloseTape,
    EngineRequest,
    Fetch,
    FindChunks,
    Lend,
    OpenTape,
    Put,
    RequestId,
    Run,
    Snapshot,
)
from tiremote.protocol.packing import unpack
from tiremote.protocol.results import Limits, SnapshotResult
from tiremote.protocol.values import CHUNKS, Handle
from tiremote.worker.front.copies import CopyStore, HostCopy
from tiremote.worker.front.handles_in import handles_in
from tiremote.worker.front.losses import name_of
from tiremote.worker.front.pool import EnginePool
from tiremote.worker.front.sessions import Job, Session, Snapping
from tiremote.worker.host_copy import Moved
from tiremote.worker.link import Copied, Done, Snap

#: What comes from an engine of ours is bounded where it is made.
_ANY_SIZE = Limits(header_bytes=1 << 31)

#: What may change more of a session than it says.
_CHANGING = Run | Bench | Lend | Put | LoadRequest | OpenTape | CloseTape | ClearGradients


class Snapshots:
    """Has engines copy what their sessions hold, and keeps the copies."""

    def __init__(self, pool: EnginePool, copies: CopyStore, new_key: Callable[[], int]) -> None:
        self._pool = pool
        self._copies = copies
        self._new_key = new_key

    def note(self, session: Session, job: Job, done: Done, buffers: list[Any], now: float) -> None:
        """Keeps what a put has brought or a fetch has taken, and remembers that something ran.

        ``buffers`` are the answer's, or what moved, decoded.
        """
        request = job.request
        if job.withdrawn or _lacked_chunks(request, done):
            # It never began, or found that it could not.
            return
        if isinstance(request, Snapshot) and not done.ok:
            session.snapshots.taken.clear()
        session.snapshots.behind |= not isinstance(request, Fetch | Snapshot | FindChunks)
        moved = done.moved if done.ok else None
        if isinstance(request, Put) and moved is not None:
            if moved.whole:
                session.put_back.pop(moved.target, None)
            # What of a put is not in a copy is to be in the next snapshot.
            data = buffers[0] if done.beside else _sent(job, request)
            session.snapshots.runs += self._note_put(session, data, request, moved, now) is None
        elif isinstance(request, Alloc) and moved is not None:
            for holding in done.changes.arrays if done.changes else ():
                self._copies.copied(session.id, holding.handle, moved, request=request.id, now=now)
        elif isinstance(request, Fetch) and moved is not None:
            self._copies.moved(session.id, moved, buffers[0], request=request.id, op="fetch", now=now)
        elif isinstance(request, _CHANGING) or (isinstance(request, Alloc) and request.target):
            for handle in _handles(request):
                self._copies.is_given(session.id, handle)
            self._copies.changed(session.id)
            session.snapshots.runs += 1

    def _note_put(self, session: Session, data: Any, request: Put, moved: Moved, now: float) -> HostCopy | None:
        if data is None:
            return self._copies.put_from(session.id, moved, request=request.id, now=now)
        return self._copies.moved(session.id, moved, data, request=request.id, op="put", now=now)

    def is_due(self, session: Session, now: float) -> bool:
        """Whether a copy should be made before anything else runs."""
        due = session.snapshots.due_at()
        return due is not None and now >= due

    def start(self, session: Session) -> None:
        """Has the session's engine, which has nothing else to do, copy everything."""
        engine = session.engine
        if engine is None:
            raise AssertionError("a session that has run something has an engine")
        key = self._new_key()
        engine.chores[key] = Snapping()
        session.snapshots.runs, session.snapshots.behind = 0, False
        self._pool.tell(engine, Snap(key=key))

    def took(self, session: Session, request: RequestId | None, copied: Copied, buffers: list[Any], now: float) -> None:
        """Some arrays of a snapshot have come; ``request`` None: one of the front's own."""
        for moved, data in zip(copied.moved, buffers, strict=True):
            copy = self._copies.moved(session.id, moved, data, request=request, op="snapshot", now=now)
            session.snapshots.taken[moved.target] = None if copy is None else (copy.order, copy.nbytes)

    def ended(self, session: Session, now: float) -> None:
        """A snapshot was made, or could not be."""
        if isinstance(session.suspect, Snapping):
            session.suspect = None
        session.snapshots.taken.clear()
        session.snapshots.since = now

    def answer(self, session: Session, request: Snapshot, body: bytes, now: float) -> SnapshotResult:
        """The snapshot that a client asked for was made; what it is told."""
        plan = session.snapshots
        if request.every_seconds is not None:
            plan.every_seconds = request.every_seconds
        if request.every_runs is not None:
            plan.every_runs = request.every_runs
        copied = []
        nbytes = 0
        skipped = unpack(body, (), _ANY_SIZE)
        for target, taken in plan.taken.items():
            name, copy = name_of(session, target), self._copies.get(session.id, target)
            if taken is not None and copy is not None and copy.order == taken[0]:
                copied.append(name)
                nbytes += taken[1]
            else:
                skipped[name] = "the worker's memory for copies is too small for it: start it with a larger --copies"
        plan.runs, plan.behind = 0, False
        self.ended(session, now)
        return SnapshotResult(
            copied=tuple(sorted(copied)),
            skipped=skipped,
            nbytes=nbytes,
            every_seconds=plan.every_seconds,
            every_runs=plan.every_runs,
        )

    def died(self, session: Session) -> None:
        """Its engine is gone: what runs until everything is there again is nothing that has to be copied."""
        session.snapshots.taken.clear()
        session.snapshots.runs = 0


def _lacked_chunks(request: EngineRequest, done: Done) -> bool:
    in_chunks = isinstance(request, Put) and request.array is not None and request.array.descriptor.coding == CHUNKS
    return in_chunks and not done.ok and unpack(done.body)[0] == MissingChunks.code


def _sent(job: Job, request: Put) -> Any:
    """The bytes that came with a put, None where it has a source."""
    return None if request.array is None else job.buffers[request.array.descriptor.buffer or 0]


def _handles(request: EngineRequest) -> Iterator[Handle]:
    """Those of a run's arguments, however deep, and of what is written to."""
    if isinstance(request, Run | Bench):
        yield from handles_in(request.args, request.kwargs)
    elif isinstance(request, Put | Alloc):
        yield from handles_in(request.target)
