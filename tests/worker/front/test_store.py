"""What a worker keeps on disk, with real files: what is written is read again, whole or not at all."""

from __future__ import annotations

import contextlib
import os
import resource
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tiremote.protocol.errors import Refused
from tiremote.protocol.messages import Failure
from tiremote.protocol.packing import pack
from tiremote.protocol.receipts import ArrayHolding, Definition, Parameter, Timing, UnitHolding, UnitVersion
from tiremote.protocol.values import Handle, Name, Ref
from tiremote.worker.front.record import Answer
from tiremote.worker.front.state.checkpoints import checkpoint
from tiremote.worker.front.state.rows import (
    ArrayRow,
    Begun,
    CopyGone,
    FloorRow,
    Gone,
    HeldName,
    KeptCopy,
    RequestRow,
    Row,
    Save,
    SavedWord,
    SeatRow,
    SessionRow,
    UnitRow,
    VersionRow,
)
from tiremote.worker.front.state.store import Store
from tiremote.worker.host_copy import Piece
from tiremote.worker.page import Page

X = Handle(kind="ndarray", id="s.1.1")
FIELD = Name(unit="sim", name="x")
HELD = (HeldName(target=X, name="x"), HeldName(target=FIELD, name="sim.x"))

SESSION = SessionRow(
    session="s", name=None, owner="key", options={"arch": "cpu", "random_seed": 3, "fast_math": None}, lease=10.0,
    heard=3.5, seated=2, generation=4, lost_in=2, newest="sim", units=("sim", "other"), every_seconds=0.0, every_runs=7,
    exact=3,
)  # fmt: skip
ANSWER = Answer(
    op="run", target="run step", answered_at=5.0, body=b"\x80", timing=Timing(total=0.5), buffers=(memoryview(b"ab"),)
)
FAILED = Answer(
    op="run", target="run", answered_at=5.0, failure=Failure(id=2**64 - 1, code="crashed", message="m", data={"a": [1]})
)
DEFINITION = Definition(name="x", kind="field", parameters=(Parameter(name="a", takes="f32"),), meta={"shape": [3]})
UNIT = UnitHolding(unit="sim", version=2, loaded_by=7, definitions=(DEFINITION,))
VERSION = UnitVersion(version=1, loaded_by="a", loaded_at=1e9, source="x")
HANDLE = Handle(kind="ndarray", id="s.1.1", meta={"shape": [3]})
ROWS: tuple[Row, ...] = (
    SESSION,
    SeatRow(session="s", token="t", number=1, user="key", client="me"),
    SeatRow(
        session="s", token="u", number=2, user="key", client=None,
        unsaid=SavedWord(message="gone", signal="SIGSEGV", died_at=2.0, held=HELD),
    ),
    UnitRow(session="s", unit="sim", source="x = 'ä'\n", holding=UNIT),
    VersionRow(session="s", unit="sim", version=1, text=VERSION),
    ArrayRow(
        session="s", handle="s.1.1", holding=ArrayHolding(handle=HANDLE, label="x", nbytes=12, made_by=1, place=FIELD)
    ),
    RequestRow(
        session="s", token="t", request=pack("a-1", []), place=1, id="a-1",
        begun=Begun(run="gone", engine=1, number=5, op="run", target="run step"),
    ),
    RequestRow(session="s", token="t", request=pack(1, []), place=2, id=1, answer=ANSWER, events=4),
    RequestRow(session="s", token="t", request=pack("1", []), place=3, id="1", answer=FAILED),
    RequestRow(session="s", token="u", request=pack(2**64 - 1, []), place=4, id=2**64 - 1, why="received"),
    FloorRow(session="s", unit="sim", name="x", below=3),
)  # fmt: skip


def opened(path: Path, **fields: Any) -> Store:
    """A worker's store."""
    return Store(path, **{"copies_bytes": 1 << 30, "clock": time.monotonic, **fields})


@contextlib.contextmanager
def store_at(path: Path, **fields: Any) -> Iterator[Store]:
    """A worker's store, closed in order afterwards."""
    with contextlib.closing(opened(path, **fields)) as store:
        yield store


def copy(number: int, data: bytes = b"abcd", target: Ref = X, session: str = "s", parts: int = 1) -> KeptCopy:
    """A copy of an array of bytes, in so many pieces."""
    size = len(data) // parts
    pieces = tuple(
        (Piece(dtype="u8", shape=(size,), flat=(start, start + size)), memoryview(data)[start : start + size])
        for start in range(0, len(data) or 1, size or 1)
    )
    return KeptCopy(
        session=session,
        number=number,
        target=target,
        request="r",
        op="put",
        at=1.0,
        dtype="u8",
        shape=(len(data),),
        pieces=pieces,
    )


def bytes_of(kept: KeptCopy) -> bytes:
    """What it holds."""
    return b"".join(bytes(data) for _, data in kept.pieces)


def chunks(path: Path) -> set[int]:
    """The rows in which the bytes of copies are."""
    with contextlib.closing(sqlite3.connect(path / "copies.db")) as connection:
        return {number for (number,) in connection.execute("SELECT id FROM chunks")}


def test_every_row_is_read_as_it_was_written(tmp_path: Path) -> None:
    """With ids of all kinds, which are not taken for one another, and with answers and errors whole."""
    with store_at(tmp_path / "s") as store:
        assert store.saved.rows == ()
        store.save(Save(clock=12.5, rows=ROWS))
    with store_at(tmp_path / "s") as store:
        assert store.saved.clock == 12.5
        assert set(map(repr, store.saved.rows)) == set(map(repr, _as_read(ROWS)))


def _as_read(rows: tuple[Row, ...]) -> tuple[Row, ...]:
    """Buffers come back as bytes."""
    plain = replace(ANSWER, buffers=(b"ab",))
    return tuple(
        replace(row, answer=plain) if isinstance(row, RequestRow) and row.answer is ANSWER else row for row in rows
    )


def test_rows_are_replaced_and_go_alone_by_what_they_belong_to_or_with_their_session(tmp_path: Path) -> None:
    """A key that is the beginning of others takes them along."""
    with store_at(tmp_path / "s") as store:
        store.save(Save(clock=1.0, rows=(*ROWS, replace(SESSION, session="other"))))
        store.save(Save(clock=2.0, rows=(replace(SESSION, generation=5),), gone=(Gone(RequestRow, ("s", "t")),)))
    with store_at(tmp_path / "s") as store:
        assert {row.generation for row in store.saved.rows if isinstance(row, SessionRow)} == {4, 5}
        assert {row.token for row in store.saved.rows if isinstance(row, RequestRow)} == {"u"}
        store.save(Save(clock=3.0, gone=(Gone(SessionRow, ("s",)),)))
    with store_at(tmp_path / "s") as store:
        assert [row.session for row in store.saved.rows] == ["other"]
        store.save(Save(clock=4.0, rows=(SESSION,), everything=True))
    with store_at(tmp_path / "s") as store:
        assert store.saved.rows == (SESSION,)


def test_copies_are_there_again_and_go_when_they_are_gone(tmp_path: Path) -> None:
    """Also those of a session that has ended; and it is known up to which all are there."""
    others = (copy(2, b"field", FIELD), copy(3, b"else", session="t"), copy(4, b"", Handle(kind="array", id="s.1.2")))
    with store_at(tmp_path / "s") as store:
        store.save(Save(clock=1.0, copies=(copy(1), *others)))
    with store_at(tmp_path / "s") as store:
        found = {(one.session, one.target): bytes_of(one) for one in store.saved.copies}
        assert found == {("s", X): b"abcd", ("s", FIELD): b"field", ("t", X): b"else", ("s", others[2].target): b""}
        assert store.saved.copied == 4
        store.save(Save(clock=2.0, copies=(CopyGone("s", X, 5), CopyGone("t", None, 6), copy(7, b"new", FIELD))))
    with store_at(tmp_path / "s") as store:
        assert {one.target: bytes_of(one) for one in store.saved.copies} == {FIELD: b"new", others[2].target: b""}
        assert store.saved.copied == 7
    assert len(chunks(tmp_path / "s")) == 1


def test_a_copy_replaces_the_one_before_whatever_its_handle_tells(tmp_path: Path) -> None:
    """A handle is its kind and its id; the rest is not always there."""
    with store_at(tmp_path / "s") as store:
        store.save(Save(clock=1.0, copies=(copy(1, b"old", HANDLE),)))
    with store_at(tmp_path / "s") as store:
        store.save(Save(clock=2.0, copies=(copy(2, b"new", X),)))
    with store_at(tmp_path / "s") as store:
        assert [bytes_of(one) for one in store.saved.copies] == [b"new"]
        store.save(Save(clock=3.0, copies=(CopyGone("s", HANDLE, 3),)))
    with store_at(tmp_path / "s") as store:
        assert store.saved.copies == ()


def test_a_copy_that_was_patched_writes_the_patch_alone(tmp_path: Path) -> None:
    """Also where the pieces before were written by an earlier worker."""
    first = copy(1, b"aabbccdd", parts=4)
    patch = (Piece(dtype="u8", shape=(2,), flat=(2, 4)), b"BB")
    with store_at(tmp_path / "s") as store:
        store.save(Save(clock=1.0, copies=(first,)))
        _until(lambda: len(chunks(tmp_path / "s")) == 4)
        before = chunks(tmp_path / "s")
        store.save(Save(clock=2.0, copies=(replace(first, number=2, pieces=(*first.pieces, patch)),)))
    with store_at(tmp_path / "s") as store:
        assert len(chunks(tmp_path / "s") - before) == 1
        (kept,) = store.saved.copies
        assert [bytes(data) for _, data in kept.pieces] == [b"aa", b"bb", b"cc", b"dd", b"BB"]
        shorter = replace(kept, number=3, pieces=kept.pieces[2:])
        store.save(Save(clock=3.0, copies=(shorter,), everything=True))
    assert len(chunks(tmp_path / "s")) == 3
    assert chunks(tmp_path / "s") < before | {max(before) + 1}


def test_the_newest_copies_are_read_within_the_bytes_that_there_are(tmp_path: Path) -> None:
    """A worker with less memory for copies than the one before takes what it can."""
    targets = [Handle(kind="ndarray", id=f"s.1.{n}") for n in range(5)]
    with store_at(tmp_path / "s") as store:
        store.save(Save(clock=1.0, copies=tuple(copy(n, bytes(1000), target) for n, target in enumerate(targets, 1))))
    with store_at(tmp_path / "s", copies_bytes=2500) as store:
        assert {one.target for one in store.saved.copies} == set(targets[3:])


def test_a_large_copy_is_written_in_parts_and_read_as_one(tmp_path: Path) -> None:
    """SQLite copies what it is given, and a row has its limits."""
    data = os.urandom(5 << 20)
    with store_at(tmp_path / "s") as store:
        store.save(Save(clock=1.0, copies=(copy(1, data),)))
    with store_at(tmp_path / "s") as store:
        assert bytes_of(store.saved.copies[0]) == data
    assert len(chunks(tmp_path / "s")) == 5


def test_files_do_not_grow_for_ever(tmp_path: Path) -> None:
    """What is replaced and what is gone makes room, and much free room is given back."""
    text = UnitRow(session="s", unit="u", holding=UnitHolding(unit="u", version=1), source="x" * (1 << 20))
    with store_at(tmp_path / "s") as store:
        for number in range(1, 30):
            store.save(Save(clock=1.0, copies=(copy(number, os.urandom(1 << 20)),)))
            store.save(Save(clock=1.0, rows=(replace(text, unit=f"u{number % 3}"),)))
        store.save(Save(clock=1.0, gone=(Gone(UnitRow, ("s",)),)))
    with store_at(tmp_path / "s"):
        pass
    assert (tmp_path / "s" / "sessions.db").stat().st_size < 100_000
    assert (tmp_path / "s" / "copies.db").stat().st_size < 5 << 20


# -------------------------------------------------------------- who may


def test_nobody_else_can_read_what_is_kept(tmp_path: Path) -> None:
    """Tokens are in it: whoever has one has the session."""
    with store_at(tmp_path / "a" / "s") as store:
        store.save(Save(clock=1.0, rows=ROWS, copies=(copy(1),)))
        store.page(1).close()
        modes = {path: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "a" / "s").rglob("*")}
        assert len(modes) >= 7
        assert {mode for path, mode in modes.items() if path.is_file()} == {0o600}
    assert stat.S_IMODE((tmp_path / "a" / "s").stat().st_mode) == 0o700


def test_a_directory_that_others_can_write_is_refused(tmp_path: Path) -> None:
    """They could put a session of theirs there."""
    (tmp_path / "s").mkdir()
    (tmp_path / "s").chmod(0o770)
    with pytest.raises(Refused, match="others can write"):
        opened(tmp_path / "s")


def test_a_path_that_is_no_directory_is_refused(tmp_path: Path) -> None:
    """In a sentence."""
    (tmp_path / "s").write_text("")
    with pytest.raises(Refused, match="cannot keep sessions in"):
        opened(tmp_path / "s")


def test_a_second_worker_is_refused_and_told_who_has_it(tmp_path: Path) -> None:
    """Until the first has closed it."""
    with store_at(tmp_path / "s"), pytest.raises(Refused, match=rf"another worker \(pid {os.getpid()}\)"):
        opened(tmp_path / "s")
    with store_at(tmp_path / "s"):
        pass


@pytest.mark.parametrize("file", ["sessions.db", "copies.db"])
def test_what_a_later_tiremote_wrote_is_refused_and_left_alone(tmp_path: Path, file: str) -> None:
    """It would be spoilt."""
    with store_at(tmp_path / "s") as store:
        store.save(Save(clock=1.0, rows=ROWS))
    with contextlib.closing(sqlite3.connect(tmp_path / "s" / file)) as connection:
        connection.execute("PRAGMA user_version = 99")
    with pytest.raises(Refused, match=r"later tiremote \(format 99"):
        opened(tmp_path / "s")
    with contextlib.closing(sqlite3.connect(tmp_path / "s" / file)) as connection:
        connection.execute("PRAGMA user_version = 1")
    with store_at(tmp_path / "s") as store:
        assert len(store.saved.rows) == len(ROWS)


@pytest.mark.parametrize("file", ["sessions.db", "copies.db"])
def test_what_cannot_be_read_is_refused_and_left_alone(tmp_path: Path, file: str) -> None:
    """A file of something else, or of nothing at all."""
    (tmp_path / "s").mkdir(mode=0o700)
    (tmp_path / "s" / file).write_bytes(b"no database" * 1000)
    with pytest.raises(Refused, match="Move it away"):
        opened(tmp_path / "s")
    assert (tmp_path / "s" / file).read_bytes() == b"no database" * 1000
    (tmp_path / "s" / file).unlink()
    with contextlib.closing(sqlite3.connect(tmp_path / "s" / file)) as connection:
        connection.execute("CREATE TABLE mine (x)")
    with pytest.raises(Refused, match="database of something else"):
        opened(tmp_path / "s")


# -------------------------------------------------------------- what an engine had begun


def test_a_request_counts_as_begun_if_its_engine_said_so(tmp_path: Path) -> None:
    """Whatever else was sent to it; one that still lives is told not to begin the others."""
    rows = []
    with store_at(tmp_path / "s") as store:
        with store.page(1) as file:
            page = Page(file.fileno())
        page.begun = 6
        for number in (5, 6, 7):
            begun = Begun(run=store.saved.run, engine=1, number=number, op="run", target="run")
            rows.append(RequestRow(session="s", token="t", request=pack(number, []), place=1, id=number, begun=begun))
        store.save(Save(clock=1.0, rows=(SESSION, *rows)))
    with store_at(tmp_path / "s") as store:
        assert store.saved.rows == (SESSION, *rows[:2])
        assert 7 in page.withdrawn
        with store.page(1):
            pass
        store.save(Save(clock=2.0, rows=store.saved.rows, everything=True))
        assert len(list((tmp_path / "s" / "engines").iterdir())) == 1
    with store_at(tmp_path / "s") as store:
        assert store.saved.rows == (SESSION, *rows[:2])
    page.close()


def test_the_page_of_an_engine_goes_when_what_came_of_it_is_saved(tmp_path: Path) -> None:
    """Not before: a worker that is killed in between finds it."""
    with store_at(tmp_path / "s") as store:
        store.page(1).close()
        store.page(2).close()
        store.engine_died(1)
        assert len(list((tmp_path / "s" / "engines").iterdir())) == 2
        store.save(Save(clock=1.0))
        assert len(list((tmp_path / "s" / "engines").iterdir())) == 1


# -------------------------------------------------------------- a disk that is full, and logs that grow


@contextlib.contextmanager
def no_room() -> Iterator[None]:
    """No file can grow: what a full disk does to a process."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_a_full_disk_is_told_and_everything_is_written_when_there_is_room(tmp_path: Path) -> None:
    """Until then what is on disk is the last whole state."""
    now = 100.0
    with store_at(tmp_path / "s", clock=lambda: now) as store:
        store.save(Save(clock=1.0, rows=(SESSION,)))
        with no_room():
            store.save(Save(clock=2.0, rows=(replace(SESSION, generation=5),)))
            trouble = store.trouble()
            assert trouble is not None
            assert "cannot be written" in trouble
            assert store.again_at() == 103.0
            now = 103.0
            store.save(Save(clock=3.0, rows=(replace(SESSION, generation=6),), everything=True))
            assert store.again_at() == 106.0
        store.save(Save(clock=4.0, rows=(replace(SESSION, generation=7),)))
        with contextlib.closing(sqlite3.connect(tmp_path / "s" / "sessions.db")) as connection:
            assert connection.execute("SELECT value FROM meta WHERE name = 'clock'").fetchone() == (1.0,)
        store.save(Save(clock=5.0, rows=(replace(SESSION, generation=8),), everything=True))
        assert store.trouble() is None
        assert store.again_at() is None
    with store_at(tmp_path / "s") as store:
        assert store.saved.rows == (replace(SESSION, generation=8),)


def test_copies_that_cannot_be_written_are_told_and_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The newest of each array, when there is room."""
    monkeypatch.setattr("tiremote.worker.front.state.copy_database._AGAIN", 0.05)
    with store_at(tmp_path / "s") as store:
        store.save(Save(clock=1.0))
        with no_room():
            store._copies.put([copy(1, bytes(1 << 20))])
            _until(lambda: store.trouble() is not None)
            store._copies.put([copy(2, b"newest")])
        _until(lambda: store.trouble() is None)
    with store_at(tmp_path / "s") as store:
        assert [bytes_of(one) for one in store.saved.copies] == [b"newest"]


def test_a_worker_that_ends_on_a_full_disk_ends(tmp_path: Path) -> None:
    """What cannot be written is not waited for."""
    store = opened(tmp_path / "s")
    with no_room():
        store._copies.put([copy(1, bytes(1 << 20))])
        store.close()
    with store_at(tmp_path / "s") as store:
        assert store.saved.copies == ()


def test_the_log_is_folded_in_also_while_the_front_writes_without_a_pause(tmp_path: Path) -> None:
    """It starts anew, and does not grow with what is written."""
    with store_at(tmp_path / "s") as store:
        done = threading.Event()

        def fold() -> None:
            with contextlib.closing(
                sqlite3.connect(tmp_path / "s" / "sessions.db", isolation_level=None)
            ) as connection:
                while not checkpoint(connection, log.stat().st_size, limit=1 << 20, starved=1 << 20):
                    pass
            done.set()

        log = tmp_path / "s" / "sessions.db-wal"
        thread = threading.Thread(target=fold)
        thread.start()
        rows = 0
        while not done.is_set():
            rows += 1
            store.save(Save(clock=float(rows), rows=(replace(SESSION, generation=rows, newest="n" * 1000),)))
        thread.join()
        size = log.stat().st_size
        for _ in range(200):
            rows += 1
            store.save(Save(clock=float(rows), rows=(replace(SESSION, generation=rows),)))
        assert log.stat().st_size <= size
        assert store.trouble() is None
    with store_at(tmp_path / "s") as store:
        assert store.saved.clock == rows


def test_a_writer_that_is_killed_at_any_moment_leaves_the_previous_state_or_the_next(tmp_path: Path) -> None:
    """Never a part of one: sessions, units, requests and copies of arrays, over many kills."""
    seed = int.from_bytes(os.urandom(4), "little")
    print(f"seed {seed}")
    script = Path(__file__).with_name("killed_writer.py")
    told = subprocess.run(
        [sys.executable, str(script), str(tmp_path / "s"), str(seed), "30"], capture_output=True, text=True, timeout=100
    )
    assert told.returncode == 0, told.stderr
    assert "of 30 writers were killed" in told.stdout


def _until(done: Any) -> None:
    give_up = time.monotonic() + 30.0
    while not done():
        assert time.monotonic() < give_up
        os.sched_yield()
