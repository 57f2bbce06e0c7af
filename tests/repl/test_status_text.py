"""A status, as the prompt and ``tiremote status`` show it."""

from __future__ import annotations

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
