"""Stopping user code from outside: at its next step, only there, and only for the request that is meant."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tiremote.worker.engine.nudges import Nudges, Stopped
from tiremote.worker.page import Page

USER = "<user>"
LIBRARY = "<library>"


class Bench:
    """The page, the nudges, and code that is the user's or a library's by its file name."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.nudges = Nudges(page, lambda file: file == USER)
        self.names: dict[str, Any] = {"nudge": self.nudge}

    def nudge(self, key: int = 1) -> None:
        """What the front does."""
        self.page.nudged = key
        os.kill(os.getpid(), signal.SIGINT)

    def define(self, source: str, file: str) -> None:
        """Executes source as if it stood in that file."""
        exec(compile(source, file, "exec"), self.names)

    def run(self, call: str, key: int = 1) -> Any:
        """Calls user code as request ``key``."""
        with self.nudges.stoppable(key):
            return eval(compile(call, "<engine>", "eval"), self.names)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """Handlers as in an engine, put back afterwards."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGALRM)}
    trace = sys.gettrace()
    with (tmp_path / "page").open("w+b") as file:
        file.truncate(Page.SIZE)
        page = Page(file.fileno())
    yield Bench(page)
    page.close()
    sys.settrace(trace)
    for number, handler in before.items():
        signal.signal(number, handler)


def test_user_code_stops_where_it_is(bench: Bench) -> None:
    """A loop in Python is left at once."""
    bench.define("def spin():\n    nudge()\n    while True:\n        pass\n", USER)
    with pytest.raises(Stopped):
        bench.run("spin()")


@pytest.mark.parametrize(
    "loop",
    [
        "    while True:\n        work()\n        done.append(1)\n",
        "    while True: work(); done.append(1)\n",
        "    for _ in iter(int, 1): work()\n",
        "    [work() for _ in iter(int, 1)]\n",
    ],
)
def test_code_that_is_almost_always_elsewhere_stops_at_its_next_step(bench: Bench, loop: str) -> None:
    """A driver that spends its time inside a library stops when that returns, not by luck."""
    bench.define("def work():\n    if not done:\n        nudge()\n    finished.append(1)\n", LIBRARY)
    bench.define("done, finished = [], []\ndef drive():\n" + loop, USER)
    with pytest.raises(Stopped):
        bench.run("drive()")
    # The library's call went through to its end, and there was no other.
    assert len(bench.names["finished"]) == 1


def test_a_library_is_never_stopped_in_the_middle(bench: Bench) -> None:
    """Code that is not the user's runs to its end, and what it gave counts when the user's code is done with it."""
    bench.define("def work():\n    nudge()\n    return sum(range(1000))\n", LIBRARY)
    assert bench.run("work()") == 499500


def test_another_requests_nudge_is_not_taken(bench: Bench) -> None:
    """A signal that was meant for an earlier request does nothing."""
    bench.define("def calm():\n    nudge(7)\n    return 'calm'\n", USER)
    assert bench.run("calm()", key=8) == "calm"


def test_a_nudge_that_came_before_the_request_began_stops_it(bench: Bench) -> None:
    """The page is looked at when a request begins."""
    bench.page.nudged = 5
    with pytest.raises(Stopped):
        bench.run("1", key=5)


def test_nothing_is_traced_afterwards(bench: Bench) -> None:
    """Stopping leaves neither a timer nor a trace function behind."""
    bench.define("def work():\n    nudge()\n", LIBRARY)
    bench.define("def drive():\n    work()\n    return 1\n", USER)
    with pytest.raises(Stopped):
        bench.run("drive()")
    assert sys.gettrace() is None
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_a_nudge_while_user_code_sleeps_wakes_it(bench: Bench) -> None:
    """Waiting in C is cut short."""
    bench.define("import time\ndef nap():\n    time.sleep(1000)\n", USER)
    timer = threading.Timer(0.05, bench.nudge)
    timer.start()
    with pytest.raises(Stopped):
        bench.run("nap()")
    timer.join()
