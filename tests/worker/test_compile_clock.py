"""The clock that runs while a request compiles: what it counts and what it tells."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tiremote.worker.engine.compile_clock import CompileClock


class ByHand:
    """A clock that goes on when it is told to."""

    def __init__(self) -> None:
        self.now = 100.0
        self.told: list[dict[str, Any]] = []
        self.clock = CompileClock(lambda: self.now)
        self.clock.tell = lambda **state: self.told.append(state)


@pytest.fixture
def by_hand() -> ByHand:
    return ByHand()


def test_compiles_of_a_request_add_up(by_hand: ByHand) -> None:
    """Each is told when it begins, with what was before it, and when it ends, also with an error."""
    with by_hand.clock.compiling():
        by_hand.now += 2.0
    by_hand.now += 5.0

    def fail() -> None:
        with by_hand.clock.compiling():
            by_hand.now += 1.0
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert by_hand.told == [
        {"compiled": 0.0, "spared": 0.0, "since": 100.0, "spare": None},
        {"compiled": 2.0, "spared": 0.0, "since": None, "spare": None},
        {"compiled": 2.0, "spared": 0.0, "since": 107.0, "spare": None},
        {"compiled": 3.0, "spared": 0.0, "since": None, "spare": None},
    ]
    by_hand.clock.restart()
    assert by_hand.clock.compiled == 0.0


def test_a_first_launch_is_spared_up_to_a_bound(by_hand: ByHand) -> None:
    """What it takes longer is none of the clock's, and none of it is compiling."""
    with by_hand.clock.launching_first(0.5):
        by_hand.now += 0.25
    with by_hand.clock.launching_first(0.5):
        by_hand.now += 100.0
    assert (by_hand.clock.compiled, by_hand.clock.spared) == (0.0, 0.75)
    assert [state["spare"] for state in by_hand.told] == [0.5, None, 0.5, None]


def test_another_thread_is_not_counted(by_hand: ByHand) -> None:
    """The link has one writer: what a thread of the user's compiles is told nobody."""

    def compile_there() -> None:
        with by_hand.clock.compiling(), by_hand.clock.launching_first(1.0):
            by_hand.now += 2.0

    with ThreadPoolExecutor() as pool:
        pool.submit(compile_there).result(10)
    assert (by_hand.told, by_hand.clock.compiled, by_hand.clock.spared) == ([], 0.0, 0.0)


def test_what_was_stopped_before_its_end_counts_until_then(by_hand: ByHand) -> None:
    """A launch that waits for its own result has made its machine code before."""
    with by_hand.clock.compiling():
        by_hand.now += 1.0
        by_hand.clock.stop()
        by_hand.now += 50.0
    assert by_hand.clock.compiled == 1.0
    assert len(by_hand.told) == 2
