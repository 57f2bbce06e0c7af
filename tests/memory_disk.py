"""What a front has saved, in memory: a disk that never fails, and a worker that was killed at any moment."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count

from tiremote.protocol.values import Ref
from tiremote.worker.front.state.rows import CopyGone, KeptCopy, Key, RequestRow, Row, Save, Saved, SessionRow, key_of


class MemoryDisk:
    """Does with each `Save` what the databases do. Copies are written at once, or, while ``slow``, by `catch_up`."""

    def __init__(self) -> None:
        self.clock = 0.0
        self.rows: dict[tuple[type[Row], Key], Row] = {}
        self.copies: dict[tuple[str, Ref], KeptCopy] = {}
        self.copied = 0
        self.slow = False
        self.saves: list[Save] = []
        self._waiting: list[Save] = []
        self._runs = count(1)
        #: The run of the worker there is now.
        self.run = ""

    def write(self, save: Save) -> None:
        """Takes what a front saves."""
        self.saves.append(save)
        self.clock = save.clock
        if save.everything:
            self.rows.clear()
        for gone in save.gone:
            for table, key in list(self.rows):
                if gone.table in (table, SessionRow) and key[: len(gone.key)] == gone.key:
                    del self.rows[table, key]
        self.rows.update({(type(row), key_of(row)): row for row in save.rows})
        self._waiting.append(save)
        if not self.slow:
            self.catch_up()

    def catch_up(self) -> None:
        """Writes the copies that wait."""
        for save in self._waiting:
            if save.everything:
                self.copies.clear()
            for one in save.copies:
                self.copied = max(self.copied, one.number)
                if isinstance(one, KeptCopy):
                    self.copies[one.session, one.target] = one
                else:
                    self._forget(one)
        self._waiting.clear()

    def _forget(self, gone: CopyGone) -> None:
        for session, target in list(self.copies):
            if session == gone.session and gone.target in (None, target):
                del self.copies[session, target]

    def saved(self, begun: Mapping[int, int]) -> Saved:
        """What the next worker finds, ``begun`` being what each engine of this one began last."""
        self._waiting.clear()
        rows = [row for row in self.rows.values() if not (isinstance(row, RequestRow) and _never_ran(row, begun))]
        self.run = f"run-{next(self._runs)}"
        return Saved(
            run=self.run, clock=self.clock, rows=tuple(rows), copies=tuple(self.copies.values()), copied=self.copied
        )

    def of(self, table: type[Row]) -> list[Row]:
        """The rows of a table."""
        return [row for (kind, _), row in self.rows.items() if kind is table]


def _never_ran(row: RequestRow, begun: Mapping[int, int]) -> bool:
    return row.begun is not None and begun.get(row.begun.engine, 0) < row.begun.number
