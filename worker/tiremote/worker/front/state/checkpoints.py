"""Folds the database's log into it, on a thread of its own: that syncs, which the front's thread has no time for."""

from __future__ import annotations

import contextlib
import logging
import sqlite3
import threading
from pathlib import Path

from tiremote.worker.front.state.database import LOG_BYTES

_log = logging.getLogger(__name__)

_EVERY = 1.0
#: A log of so many bytes is folded in even if the front has to wait for it.
_STARVED = 16 * LOG_BYTES


class Checkpoints:
    """Looks at the log of the database at ``path`` every second, until `close`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._log_file = path.with_name(path.name + "-wal")
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="checkpoints", daemon=True)

    def start(self) -> None:
        """From now on."""
        self._thread.start()

    def close(self) -> None:
        """Ends the thread; what it is at is finished."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        connection = sqlite3.connect(self._path, timeout=_EVERY, isolation_level=None)
        try:
            connection.execute("PRAGMA synchronous = NORMAL")
            while not self._stop.wait(_EVERY):
                try:
                    checkpoint(connection, self._size())
                except sqlite3.Error as error:
                    # The disk may be full: the next look may find it otherwise.
                    _log.debug("%s: no checkpoint: %s", self._path, error)
        finally:
            connection.close()

    def _size(self) -> int:
        with contextlib.suppress(OSError):
            return self._log_file.stat().st_size
        return 0


def checkpoint(connection: sqlite3.Connection, size: int, limit: int = LOG_BYTES, starved: int = _STARVED) -> bool:
    """Folds a log of ``size`` bytes in where it is over the ``limit``; whether it is sure to start anew then.

    While the front commits all the time something is always left. Over ``starved`` bytes it has to wait until not.
    """
    if size <= limit:
        return False
    connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
    if size <= starved:
        # The first commit to a new log syncs its head: better here than there.
        with contextlib.suppress(sqlite3.OperationalError):
            connection.execute("UPDATE meta SET value = value WHERE name = 'clock'")
        return False
    busy, _, _ = connection.execute("PRAGMA wal_checkpoint(RESTART)").fetchone()
    return not busy
