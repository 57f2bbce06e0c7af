"""The rows of `rows` in a SQLite database, written on the front's thread: a commit is a few writes and no fsync.

Write-ahead logging with ``synchronous=NORMAL``: what was committed is there when the process is killed at any moment,
and after a loss of power the database is as it was some commits before. What has to be synced, `Checkpoints` does.
"""

from __future__ import annotations

import contextlib
import sqlite3
from dataclasses import fields
from pathlib import Path
from typing import Any

from tiremote.protocol.errors import Refused, TiremoteError
from tiremote.worker.front.state.packing import packed, unpacked
from tiremote.worker.front.state.rows import ROWS, Key, Row, Save, SessionRow, key_of

#: Counts up when an earlier tiremote could not read what this one writes.
SCHEMA = 1
#: "tire": says whose file it is.
_APPLICATION = 0x74697265
#: Rows are small, and each page that one touches is written whole.
_PAGE_BYTES = 1024
#: To what the log is cut when it starts anew.
LOG_BYTES = 16 << 20
#: Seconds that a commit waits for a checkpoint that has to hold it up.
_PATIENCE = 30.0
#: Seconds that the time on disk may be behind.
_CLOCK_EVERY = 1.0

_COLUMN = {"str": "TEXT", "int": "INTEGER", "bytes": "BLOB"}


def _table(row: type[Row]) -> str:
    return row.__name__.removesuffix("Row").lower() + "s"


def _create(row: type[Row]) -> str:
    types = {field.name: _COLUMN.get(str(field.type)) for field in fields(row)}
    columns = [f"{name} {types[name]} NOT NULL" for name in row.key]
    columns += ["content BLOB NOT NULL", f"PRIMARY KEY ({', '.join(row.key)})"]
    return f"CREATE TABLE {_table(row)} ({', '.join(columns)}) WITHOUT ROWID"


def _upsert(row: type[Row]) -> str:
    return f"INSERT OR REPLACE INTO {_table(row)} VALUES ({', '.join('?' * (len(row.key) + 1))})"


def _delete(row: type[Row], names: int) -> str:
    where = " AND ".join(f"{name} = ?" for name in row.key[:names])
    return f"DELETE FROM {_table(row)} WHERE {where}"


_UPSERT = {row: _upsert(row) for row in ROWS}


class Database:
    """``path`` is a file that is there, empty or of an earlier worker.

    Raises `Refused` where it is neither, or of a later tiremote.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        #: What is written of the time.
        self._clock = float("-inf")
        self._connection = sqlite3.connect(path, timeout=_PATIENCE, isolation_level=None)
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
        run("PRAGMA journal_mode = WAL")
        run("PRAGMA synchronous = NORMAL")
        run("PRAGMA wal_autocheckpoint = 0")
        run(f"PRAGMA journal_size_limit = {LOG_BYTES}")
        if not version:
            run("BEGIN IMMEDIATE")
            for row in ROWS:
                run(_create(row))
            run("CREATE TABLE meta (name TEXT PRIMARY KEY, value) WITHOUT ROWID")
            run("INSERT INTO meta VALUES ('clock', 0.0)")
            mark_owner(self._connection, SCHEMA, _APPLICATION)
            run("COMMIT")
        give_back(self._connection)

    def _meta(self, name: str) -> Any:
        return self._connection.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()[0]

    def load(self) -> tuple[float, list[Row]]:
        """The clock, and every row. Raises `Refused`."""
        rows: list[Row] = []
        with refusing(self._path):
            for table in ROWS:
                for *key, content in self._connection.execute(f"SELECT * FROM {_table(table)}"):
                    rows.append(unpacked(table, content, dict(zip(table.key, key, strict=True))))
            return float(self._meta("clock")), rows

    def save(self, save: Save) -> None:
        """All of it or, with an `sqlite3.Error`, nothing."""
        statements: list[tuple[str, tuple[Any, ...]]] = [
            (_UPSERT[type(row)], (*key_of(row), packed(row, row.key))) for row in save.rows
        ]
        if save.clock - self._clock >= _CLOCK_EVERY:
            statements.append(("UPDATE meta SET value = ? WHERE name = 'clock'", (save.clock,)))
        run = self._connection.execute
        if len(statements) == 1 and not save.gone and not save.everything:
            # One statement is a transaction by itself, and this is what most requests come to.
            run(*statements[0])
        else:
            run("BEGIN IMMEDIATE")
            try:
                for table in ROWS if save.everything else ():
                    run(f"DELETE FROM {_table(table)}")
                for gone in save.gone:
                    self._delete(gone.table, gone.key)
                for statement, values in statements:
                    run(statement, values)
                run("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):
                    run("ROLLBACK")
                raise
        if save.clock - self._clock >= _CLOCK_EVERY:
            self._clock = save.clock

    def _delete(self, table: type[Row], key: Key) -> None:
        # With a session goes all that is in it.
        for each in ROWS if table is SessionRow else (table,):
            self._connection.execute(_delete(each, len(key)), key)

    def close(self) -> None:
        """Folds the log into the database, where nobody else has it open."""
        with contextlib.suppress(sqlite3.Error):
            self._connection.close()


class refusing(contextlib.AbstractContextManager[None]):  # noqa: N801 (used as a word of the language)
    """Tells of a file that cannot be read as `Refused`."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, sqlite3.Error) or (isinstance(error, TiremoteError) and not isinstance(error, Refused)):
            raise Refused(
                f"cannot read {self._path}: {error}. Move it away to start without what is in it, or give another "
                "--state"
            ) from None


def check_owner(connection: sqlite3.Connection, path: Path, schema: int, application: int) -> int:
    """The schema of a database of ours, 0 for a new one. Raises `Refused` for any other."""
    owner, version, tables = (
        connection.execute(text).fetchone()[0]
        for text in ("PRAGMA application_id", "PRAGMA user_version", "SELECT count(*) FROM sqlite_master")
    )
    if owner == application and version > schema:
        raise Refused(
            f"{path} was written by a later tiremote (format {version}, this one knows {schema}): start that one, or "
            "give another --state"
        )
    if owner != application and (owner or version or tables):
        raise Refused(f"{path} is a database of something else: give another --state")
    return int(version)


def mark_owner(connection: sqlite3.Connection, schema: int, application: int) -> None:
    """Says whose database it is, and in what format."""
    connection.execute(f"PRAGMA application_id = {application}")
    connection.execute(f"PRAGMA user_version = {schema}")


def give_back(connection: sqlite3.Connection) -> None:
    """Makes the file as small as what is in it."""
    # As a script: `execute` would take one step of it, which is one page.
    connection.executescript("PRAGMA incremental_vacuum")
