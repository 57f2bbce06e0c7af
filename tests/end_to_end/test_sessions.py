"""Sessions seen and ended from outside, by the commands."""

from __future__ import annotations

import subprocess
import sys

from real_worker import PATIENCE, RawSession, RealWorker
from tiremote.protocol.errors import Interrupted


def tiremote(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The command, with what it printed."""
    code = "from tiremote.repl.command import main; main(prog_name='tiremote')"
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=PATIENCE, check=False
    )


def test_a_session_that_nobody_can_reach_is_listed_and_ended(worker: RealWorker) -> None:
    """A program that died and left an endless function behind does not keep a GPU busy for a day."""
    with RawSession(worker.address) as session:
        session.compile("def spin():\n    print('spinning')\n    while True:\n        pass\n", "u")
        request = session.start("spin", unit="u", events=True)
        session.receive()  # it spins
        listed = tiremote("status", worker.address)
        name = session.hello["session"]
        assert f"{name} (private): 1 client, run u.spin for" in listed.stdout
        ended = tiremote("end", name, worker.address)
        assert ended.stdout == f"session {name} has ended\n"
        answer = session.answer(request)
        assert getattr(answer, "code", None) == Interrupted.code
    assert name not in tiremote("status", worker.address).stdout


def test_a_session_that_is_not_there_is_one_line(worker: RealWorker) -> None:
    """A mistyped name ends nothing and says what there is."""
    with RawSession(worker.address, session="lab"):
        ended = tiremote("end", "lap", worker.address)
        assert ended.returncode == 1
        assert ended.stderr == "tiremote: UnknownName: there is no session 'lap'; there are lab\n"
        assert tiremote("end", "lab", worker.address).returncode == 0
