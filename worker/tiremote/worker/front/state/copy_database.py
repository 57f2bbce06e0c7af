"""Copies of arrays in a SQLite database of their own, written by a thread of its own: they may be large.

The front hands over what has changed and goes on. What waits is written in one transaction, of each array the newest
copy; a piece that was in the copy before is not written again. The disk is behind the front, never ahead of it.
"""

from __future__ import annotations

import contextlib
import logging
import sqlite3
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tiremote.protocol.messages import RequestId
from tiremote.protocol.values import Handle, Ref
from tiremote.worker.front.state.database import check_owner, give_back, mark_owner, refusing
from tiremote.worker.front.state.packing import packed, unpacked
from tiremote.worker.front.state.rows import CopyGone, KeptCopy
from tiremote.worker.host_copy import Piece

_log = logging.getLogger(__name__)

SCHEMA = 1
#: "tirc".
_APPLICATION = 0x74697263
_PAGE_BYTES = 1 << 16
#: What is given to SQLite at one time, which copies it.
_CHUNK_BYTES = 1 << 20
#: Bytes that are free in the file, above which, and above half of it, it is made smaller.
_FREE_BYTES = 64 << 20
#: Seconds until what could not be written is tried again.
_AGAIN = 3.0
#: The log is folded in when nothing has come for so many seconds, or when it has so many bytes.
_QUIET = 1.0
_LOG_BYTES = 64 << 20


@dataclass(frozen=True, kw_only=True, slots=True)
class _Stored:
    """A piece, and the rows that have its bytes."""

    piece: Piece
    chunks: tuple[int, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Copy:
    """What is written of a copy beside its bytes."""

    session: str
    number: int
    target: Ref
    request: RequestId | None
    op: str
    at: float
    dtype: str
    shape: tuple[int, ...]
    pieces: tuple[_Stored, ...]

    @property
    def nbytes(self) -> int:
        """Bytes of its pieces."""
        return sum(stored.piece.nbytes for stored in self.pieces)


_Key = tuple[str, Ref]


@dataclass(kw_only=True, slots=True)
class _Waiting:
    """What is to be written. None: the copy is gone. ``only``: so is every other."""

    copies: dict[_Key, KeptCopy | None] = field(default_factory=dict)
    ended: set[str] = field(default_factory=set)
    only: bool = False
    number: int = 0

    def add(self, change: KeptCopy | CopyGone) -> None:
        self.number = max(self.number, change.number)
        if isinstance(change, KeptCopy):
            self.copies[change.session, change.target] = change
        elif change.target is not None:
            self.copies[change.session, change.target] = None
        else:
            self.ended.add(change.session)
            self.copies = {key: copy for key, copy in self.copies.items() if key[0] != change.session}

    def followed_by(self, later: _Waiting) -> _Waiting:
        if later.only:
            return later
        mine = {key: copy for key, copy in self.copies.items() if key[0] not in later.ended}
        return _Waiting(
            copies={**mine, **later.copies},
            ended=self.ended | later.ended,
            only=self.only,
            number=max(self.number, later.number),
        )

    def __bool__(self) -> bool:
        return bool(self.copies or self.ended or self.only or self.number)


class CopyDatabase:
    """``path`` is a file that is there, empty or of an earlier worker. Raises `Refused` for any other.

    ``trouble`` is why nothing can be written now, None while it can.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.trouble: str | None = None
        self._stored: dict[_Key, _Copy] = {}
        self._waiting = _Waiting()
        #: Bytes in the log, about.
        self._logged = 0
        self._closing = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="copies", daemon=True)
        self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        try:
            with refusing(path):
                self._open()
        except BaseException:
            self._connection.close()
            raise

    def _open(self) -> None:
        run = self._connection.execute
        version = check_owner(self._connection, self._path, SCHEMA, _APPLICATION)
        if not version:
            run(f"PRAGMA page_size = {_PAGE_BYTES}")
            run("PRAGMA auto_vacuum = INCREMENTAL")
        # A small array is there at once, without a sync; a large one costs that it is written twice.
        run("PRAGMA journal_mode = WAL")
        run("PRAGMA synchronous = NORMAL")
        run("PRAGMA wal_autocheckpoint = 0")
        if not version:
            run("BEGIN IMMEDIATE")
            run("CREATE TABLE copies (session TEXT, target BLOB, content BLOB, PRIMARY KEY (session, target))")
            run("CREATE TABLE chunks (id INTEGER PRIMARY KEY, data BLOB)")
            run("CREATE TABLE meta (name TEXT PRIMARY KEY, value)")
            run("INSERT INTO meta VALUES ('copied', 0)")
            mark_owner(self._connection, SCHEMA, _APPLICATION)
            run("COMMIT")

    # ------------------------------------------------------------ in

    def load(self, max_bytes: int) -> tuple[int, list[KeptCopy]]:
        """Up to which number all copies are there, and the newest of them within so many bytes. Raises `Refused`."""
        with refusing(self._path):
            (copied,) = self._connection.execute("SELECT value FROM meta WHERE name = 'copied'").fetchone()
            for (content,) in self._connection.execute("SELECT content FROM copies"):
                record = unpacked(_Copy, content, {})
                self._stored[record.session, record.target] = record
            kept = []
            for record in sorted(self._stored.values(), key=lambda one: -one.number):
                max_bytes -= record.nbytes
                if max_bytes < 0:
                    break
                kept.append(self._read(record))
            return int(copied), kept

    def _read(self, record: _Copy) -> KeptCopy:
        return KeptCopy(
            session=record.session,
            number=record.number,
            target=record.target,
            request=record.request,
            op=record.op,
            at=record.at,
            dtype=record.dtype,
            shape=record.shape,
            pieces=tuple((stored.piece, b"".join(map(self._chunk, stored.chunks))) for stored in record.pieces),
        )

    def _chunk(self, number: int) -> bytes:
        return bytes(self._connection.execute("SELECT data FROM chunks WHERE id = ?", (number,)).fetchone()[0])

    # ------------------------------------------------------------ out

    def start(self) -> None:
        """From now on the database is the thread's."""
        self._thread.start()

    def put(self, changes: Iterable[KeptCopy | CopyGone], *, only: bool = False) -> None:
        """Has the changes written, some time. ``only``: nothing else is there any more."""
        later = _Waiting(only=only)
        for change in changes:
            later.add(change)
        if later:
            with self._changed:
                self._waiting = self._waiting.followed_by(later)
                self._changed.notify()

    def close(self) -> None:
        """Returns when everything is written, or it turns out that it cannot be."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        if self._thread.ident is not None:
            self._thread.join()
        self._connection.close()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._waiting and not self._closing:
                    if not self._changed.wait(_QUIET if self._logged else None):
                        break
                batch, self._waiting = self._waiting, _Waiting()
                closing = self._closing
            if not batch and closing:
                return
            try:
                if batch:
                    self._write(batch)
                    self.trouble = None
                if self._logged > _LOG_BYTES or not batch:
                    self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
                    self._logged = 0
            except Exception as error:
                if self.trouble is None:
                    ours = None if isinstance(error, sqlite3.Error | MemoryError) else error
                    _log.warning("copies of arrays cannot be written to %s: %s", self._path, error, exc_info=ours)
                self.trouble = f"copies of arrays cannot be written to {self._path}: {error}"
                if closing:
                    return
                self._put_back(batch)

    def _put_back(self, batch: _Waiting) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._closing, timeout=_AGAIN)
            self._waiting = batch.followed_by(self._waiting)

    def _write(self, batch: _Waiting) -> None:
        run = self._connection.execute
        gone = [key for key in self._stored if key[0] in batch.ended or (batch.only and key not in batch.copies)]
        gone += [key for key, copy in batch.copies.items() if copy is None]
        written: dict[_Key, _Copy] = {}
        run("BEGIN IMMEDIATE")
        try:
            for key in gone:
                self._delete(key)
            for key, copy in batch.copies.items():
                if copy is not None:
                    written[key] = self._replace(key, copy)
            run("UPDATE meta SET value = max(value, ?) WHERE name = 'copied'", (batch.number,))
            run("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                run("ROLLBACK")
            raise
        for key in gone:
            self._stored.pop(key, None)
        self._stored.update(written)
        self._logged += _PAGE_BYTES + sum(each.nbytes for each in written.values())
        self._shrink()

    def _delete(self, key: _Key) -> None:
        record = self._stored.get(key)
        if record is not None:
            self._delete_chunks(number for stored in record.pieces for number in stored.chunks)
            self._connection.execute(
                "DELETE FROM copies WHERE session = ? AND target = ?", (record.session, _target_key(record.target))
            )

    def _delete_chunks(self, numbers: Iterable[int]) -> None:
        self._connection.executemany("DELETE FROM chunks WHERE id = ?", ((number,) for number in numbers))

    def _replace(self, key: _Key, copy: KeptCopy) -> _Copy:
        before = self._stored.get(key)
        # A copy that was patched has the very pieces of the one before.
        known = {} if before is None else {id(stored.piece): stored for stored in before.pieces}
        pieces = []
        for piece, data in copy.pieces:
            stored = known.pop(id(piece), None)
            pieces.append(stored or _Stored(piece=piece, chunks=tuple(self._insert(data))))
        self._delete_chunks(number for stored in known.values() for number in stored.chunks)
        record = _Copy(
            session=copy.session,
            number=copy.number,
            target=copy.target,
            request=copy.request,
            op=copy.op,
            at=copy.at,
            dtype=copy.dtype,
            shape=copy.shape,
            pieces=tuple(pieces),
        )
        content = (record.session, _target_key(record.target), packed(record))
        self._connection.execute("INSERT OR REPLACE INTO copies VALUES (?, ?, ?)", content)
        return record

    def _insert(self, data: Any) -> Iterator[int]:
        # One without bytes cannot be cast.
        view = memoryview(data).cast("B") if memoryview(data).nbytes else memoryview(b"")
        for start in range(0, view.nbytes, _CHUNK_BYTES):
            made = self._connection.execute(
                "INSERT INTO chunks (data) VALUES (?)", (view[start : start + _CHUNK_BYTES],)
            )
            if made.lastrowid is None:
                raise AssertionError("a row that was inserted has a number")
            yield made.lastrowid

    def _shrink(self) -> None:
        free, pages = (
            self._connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("freelist_count", "page_count")
        )
        if free * _PAGE_BYTES > _FREE_BYTES and 2 * free > pages:
            give_back(self._connection)


def _target_key(target: Ref) -> bytes:
    # What a handle tells beside its id is not always the same.
    return packed([target.kind, target.id] if isinstance(target, Handle) else [target.unit, target.name, None])
