"""``python killed_writer.py DIRECTORY SEED ROUNDS``: a process that saves is killed at a random moment, many times.

Prints what it found. After each kill what is on disk must be one whole state: the last that the writer knew to be
saved, or the one that it was saving.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sqlite3
import sys
import threading
import time
from pathlib import Path

from tiremote.protocol.packing import pack
from tiremote.protocol.receipts import ArrayHolding, Timing, UnitHolding, UnitVersion
from tiremote.protocol.values import Handle
from tiremote.worker.front.record import Answer
from tiremote.worker.front.state.checkpoints import checkpoint
from tiremote.worker.front.state.rows import (
    ArrayRow,
    Begun,
    CopyGone,
    Gone,
    KeptCopy,
    RequestRow,
    Row,
    Save,
    SeatRow,
    SessionRow,
    UnitRow,
    VersionRow,
)
from tiremote.worker.front.state.store import Store
from tiremote.worker.host_copy import Piece

#: Versions and answers that there are at a time.
DEPTH = 5
ARRAYS = tuple(Handle(kind="ndarray", id=f"s.1.{n}") for n in range(3))
PIECES = 4
PIECE_BYTES = 40_000


def rows_at(n: int) -> list[Row]:
    """All rows of the nth state."""
    session = SessionRow(
        session="s", name="lab", owner="", options={"arch": "cpu"}, lease=1.0, heard=float(n), seated=1,
        generation=n, lost_in=0, newest="sim", units=("sim",), every_seconds=0.0, every_runs=0, exact=None,
    )  # fmt: skip
    rows: list[Row] = [session, SeatRow(session="s", token="t", number=1, user="", client=None)]
    rows.append(UnitRow(session="s", unit="sim", holding=UnitHolding(unit="sim", version=n), source="x" * n))
    rows.append(ArrayRow(session="s", handle="s.1.1", holding=ArrayHolding(handle=ARRAYS[0], label=str(n))))
    for m in range(max(n - DEPTH + 1, 1), n + 1):
        rows.append(VersionRow(session="s", unit="sim", version=m, text=UnitVersion(version=m, source="x" * m)))
        rows.append(request_at(m, answered=m < n))
    return rows


def request_at(m: int, *, answered: bool) -> RequestRow:
    """The mth request: with its engine, or answered."""
    answer = Answer(op="run", target="run step", answered_at=1.0, body=b"b" * m, timing=Timing(total=float(m)))
    begun = Begun(run="r", engine=1, number=m, op="run", target="run step")
    return RequestRow(
        session="s", token="t", request=pack(m, []), place=m, id=m,
        answer=answer if answered else None, begun=None if answered else begun,
    )  # fmt: skip


def save_at(n: int, *, everything: bool) -> Save:
    """From the state before to the nth; every array is copied, and one of them in pieces."""
    fresh = [row for row in rows_at(n) if everything or not _is_old(row, n)]
    gone = n - DEPTH
    gones = (Gone(VersionRow, ("s", "sim", gone)), Gone(RequestRow, ("s", "t", pack(gone, [])))) if gone > 0 else ()
    copies: list[KeptCopy | CopyGone] = [copy_at(n, number) for number in range(len(ARRAYS))]
    return Save(clock=float(n), rows=tuple(fresh), gone=gones, copies=tuple(copies), everything=everything)


def _is_old(row: Row, n: int) -> bool:
    if isinstance(row, VersionRow):
        return row.version < n
    return isinstance(row, RequestRow) and row.place < n - 1


def copy_at(n: int, array: int) -> KeptCopy:
    """Of an array that holds n everywhere."""
    pieces = tuple(
        (Piece(dtype="u8", shape=(PIECE_BYTES,), flat=(part, part + PIECE_BYTES)), bytes([n % 256]) * PIECE_BYTES)
        for part in range(0, PIECES * PIECE_BYTES, PIECE_BYTES)
    )
    return KeptCopy(
        session="s", number=n * len(ARRAYS) + array, target=ARRAYS[array], request=n, op="put", at=float(n),
        dtype="u8", shape=(PIECES * PIECE_BYTES,), pieces=pieces,
    )  # fmt: skip


def write(directory: Path, acknowledged: int, chance: random.Random) -> None:
    """Saves one state after the other, and tells of each when it is saved."""
    store = Store(directory, 1 << 30, time.monotonic)
    last = int(store.saved.clock)
    threading.Thread(target=fold, args=(directory / "sessions.db",), daemon=True).start()
    steps = chance.choice([3, 100_000])
    for n in range(last or 1, last + steps):
        store.save(save_at(n, everything=n == (last or 1)))
        assert store.trouble() is None, store.trouble()
        os.write(acknowledged, n.to_bytes(8, "little"))
    store.close()


def fold(path: Path) -> None:
    """Checkpoints without end, which a worker has once in a while."""
    with contextlib.closing(sqlite3.connect(path, timeout=1.0, isolation_level=None)) as connection:
        while True:
            with contextlib.suppress(sqlite3.OperationalError):
                checkpoint(connection, 1, limit=0, starved=0)


def check(directory: Path, told: int) -> int:
    """The state on disk, which has to be whole: the one that was told last, or the next."""
    store = Store(directory, 1 << 30, time.monotonic)
    saved = store.saved
    store.close()
    n = int(saved.clock)
    assert n in (told, told + 1), f"state {n} is on disk, {told} was acknowledged"
    assert set(map(repr, saved.rows)) == set(map(repr, rows_at(n) if n else [])), f"state {n} is not whole"
    moments = {copy.request for copy in saved.copies}
    assert len(moments) <= 1, f"copies of {moments} are mixed"
    for copy in saved.copies:
        assert isinstance(copy.request, int)
        assert copy.request <= n, f"a copy of {copy.request} is ahead of state {n}"
        assert {bytes(data) for _, data in copy.pieces} == {bytes([copy.request % 256]) * PIECE_BYTES}
        assert len(copy.pieces) == PIECES
    assert len(saved.copies) in (0, len(ARRAYS))
    return n


def main(directory: Path, seed: int, rounds: int) -> None:
    """Kills a writer so many times."""
    chance = random.Random(seed)
    told = killed = 0
    for _ in range(rounds):
        end, acknowledged = os.pipe()
        writer = os.fork()
        if writer == 0:
            os.close(end)
            write(directory, acknowledged, chance)
            os._exit(0)
        os.close(acknowledged)
        time.sleep(chance.random() ** 2 * 0.15)
        with contextlib.suppress(ProcessLookupError):
            os.kill(writer, signal.SIGKILL)
        killed += os.WIFSIGNALED(os.waitpid(writer, 0)[1])
        with os.fdopen(end, "rb") as acknowledgements:
            data = acknowledgements.read()
        told = int.from_bytes(data[-8:], "little") if data else told
        told = check(directory, told)
    print(f"{killed} of {rounds} writers were killed, and {told} states saved")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
