"""A worker's memory on disk, as the loop has it: what was there, and what is to be there from now on."""

from __future__ import annotations

import logging
import secrets
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import IO

from tiremote.worker.front.state.checkpoints import Checkpoints
from tiremote.worker.front.state.copy_database import CopyDatabase
from tiremote.worker.front.state.database import Database
from tiremote.worker.front.state.directory import StateDirectory
from tiremote.worker.front.state.rows import RequestRow, Row, Save, Saved

_log = logging.getLogger(__name__)

#: Seconds until everything is tried again, when something could not be written.
_AGAIN = 3.0


class Store:
    """The directory at ``path``, for this worker alone, until `close`.

    ``saved`` is what an earlier worker left, with at most ``copies_bytes`` of copies. Raises `Refused`.
    """

    def __init__(self, path: Path, copies_bytes: int, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._run = secrets.token_hex(4)
        self._directory = StateDirectory(path)
        self._dead: list[int] = []
        self._trouble: str | None = None
        self._again_at = 0.0
        opened: list[Database | CopyDatabase | StateDirectory] = [self._directory]
        try:
            sessions = self._directory.file("sessions.db")
            self._database = Database(sessions)
            opened.append(self._database)
            self._copies = CopyDatabase(self._directory.file("copies.db"))
            opened.append(self._copies)
            time, rows = self._database.load()
            copied, copies = self._copies.load(copies_bytes)
        except BaseException:
            for each in reversed(opened):
                each.close()
            raise
        self.saved = Saved(
            run=self._run,
            clock=max([time, *(copy.at for copy in copies)]),
            rows=tuple(row for row in rows if not self._never_ran(row)),
            copies=tuple(copies),
            copied=copied,
        )
        self._checkpoints = Checkpoints(sessions)
        self._checkpoints.start()
        self._copies.start()

    def _never_ran(self, row: Row) -> bool:
        if not isinstance(row, RequestRow) or row.begun is None:
            return False
        return self._directory.never_begins(row.begun.run, row.begun.engine, row.begun.number)

    def trouble(self) -> str | None:
        """Why what happens now is not on disk; None where it is."""
        return self._trouble or self._copies.trouble

    def save(self, save: Save) -> None:
        """When it returns the rows are on disk, or `again_at` says when everything is to be saved."""
        if self._trouble is not None and not save.everything:
            return
        try:
            self._database.save(save)
        except Exception as error:
            # A fault of ours is no reason to end what runs.
            if self._trouble is None:
                ours = None if isinstance(error, sqlite3.Error) else error
                _log.warning("sessions cannot be written to %s: %s", self._directory.path, error, exc_info=ours)
            self._trouble = f"sessions cannot be written to {self._directory.path}: {error}"
            self._again_at = self._clock() + _AGAIN
            return
        if self._trouble is not None:
            _log.warning("sessions are written to %s again", self._directory.path)
            self._trouble = None
        self._copies.put(save.copies, only=save.everything)
        for engine in self._dead:
            self._directory.forget_page(self._run, engine)
        self._dead.clear()
        if save.everything:
            self._directory.forget_pages(but=self._run)

    def again_at(self) -> float | None:
        """When everything is to be saved anew; None where that need not be."""
        return None if self._trouble is None else self._again_at

    def page(self, engine: int) -> IO[bytes]:
        """A file for what an engine says it has begun."""
        return self._directory.page(self._run, engine)

    def engine_died(self, engine: int) -> None:
        """What it had begun is of no interest, once what came of that is saved."""
        self._dead.append(engine)

    def close(self) -> None:
        """Returns when everything is on disk that can be."""
        self._copies.close()
        self._checkpoints.close()
        self._database.close()
        self._directory.close()
