"""A status, as the prompt and ``tiremote status`` show it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tiremote.protocol.results import Running, SessionLine, SessionStatus, WorkerStatus
from tiremote.repl.status_text import status_text


@pytest.mark.parametrize(
    ("op", "compiling", "shown"),
    [
        ("run", True, "run k for 12 s, compiling now"),
        ("run", False, "run k for 12 s"),
        ("compile", True, "compile k for 12 s"),
    ],
)
def test_a_long_call_says_whether_it_compiles(op: str, compiling: bool, shown: str) -> None:
    """The session that asks and those in a list show it alike; of a load it goes without saying."""
    running = Running(request=1, op=op, target=f"{op} k", seconds=12.0, compiling=compiling)
    status = WorkerStatus(
        pid=7,
        uptime=61.0,
        worker_version="0",
        engine=None,
        sessions=1,
        spares=0,
        requests=1,
        dropped=0,
        crashes=0,
        session=SessionStatus(session="s1", state="busy", generation=1, clients=1, queued=0, running=running),
        listed=(SessionLine(id="s1", name=None, state="busy", clients=1, unused=0.0, running=running),),
    )
    lines = status_text(status, "tcp://here:1").splitlines()
    assert any(line.endswith(f"{shown}, 0 queued") for line in lines)
    assert any(f"1 client, {shown}, 0 units" in line for line in lines)


def test_a_session_says_what_it_holds_and_what_that_weighs() -> None:
    """Bytes, trees against their limit, memory; and, where there is something to say, how it stands with recycling."""
    session = SessionStatus(
        session="s1", state="idle", generation=3, clients=1, queued=0, units=2, unit_bytes=4 << 20, arrays=1,
        array_bytes=1 << 20, copies_bytes=1 << 20, chunk_bytes=3 << 20, held_versions=1, snode_trees=7,
        engine_memory=200 << 20,
        device_free=100 << 30, device_total=139 << 30, leaked=40 << 20, recycled=2,
        recycle="not possible: a socket is open",
    )  # fmt: skip
    status = WorkerStatus(
        pid=7, uptime=61.0, worker_version="0", engine=None, sessions=1, spares=0, requests=1, dropped=0, crashes=0,
        session=session,
    )  # fmt: skip
    text = status_text(status, "tcp://here:1")
    assert "2 units with 4.0 MiB, 1 array of 1.0 MiB, copies of 1.0 MiB, 3.0 MiB of what was sent, not to be" in text
    assert "1 replaced version that somebody holds still" in text
    assert "7 of 512 SNode trees, its engine uses 200.0 MiB, the GPU has 100.0 GiB of 139.0 GiB free" in text
    assert "replaced 2 times because of leaked memory; not possible: a socket is open, with 40.0 MiB leaked" in text
    assert "recycled" not in status_text(replace(status, session=replace(session, recycled=0, recycle=None)), "a")
