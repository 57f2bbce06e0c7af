"""Two limits of one run, fed by hand: what compiles, what does not, and when the front has to look again."""

from __future__ import annotations

from typing import Any

import pytest

from front_bench import FrontBench
from tiremote.protocol.messages import Request, Status
from tiremote.worker.front.settings import Settings
from tiremote.worker.link import Compiling


@pytest.fixture
def bench() -> FrontBench:
    """A front with one engine, and no second that anything else is due in."""
    return FrontBench(Settings(lease=1e6))


def started(bench: FrontBench, **limits: float) -> Request:
    """A run with these limits, begun now."""
    return bench.run(bench.hello(), **limits)


def tell(bench: FrontBench, **state: Any) -> None:
    """The engine tells what it does for the last job."""
    number, work = bench.work[-1]
    bench.front.on_engine(
        number, Compiling(**{"key": work.key, "compiled": 0.0, "spared": 0.0, **state}), [], bench.now
    )
    bench.pump()


def due_in(bench: FrontBench) -> Any:
    """Seconds until the front wakes by itself, None where only the lease is due some day."""
    due = bench.front.next_deadline(bench.now)
    return None if due is None or due - bench.now > 1e5 else pytest.approx(due - bench.now)


def stopped(bench: FrontBench) -> bool:
    """Whether the job is being stopped."""
    return bench.nudged != []


def error_data(bench: FrontBench, request: Request) -> tuple[str, Any, Any]:
    """The engine is killed, and the client hears why."""
    bench.wait(Settings().grace)
    bench.die(1, -9)
    error = bench.error(request)
    assert error.code == "deadline"
    return error.message, error.data["deadline"], error.data.get("phase")


def test_without_a_second_limit_a_compile_counts(bench: FrontBench) -> None:
    """One deadline is for all of a run."""
    request = started(bench, deadline=2.0)
    tell(bench, since=bench.now)
    assert due_in(bench) == 2.0
    bench.wait(2.0)
    assert stopped(bench)
    assert error_data(bench, request) == ("run step ran longer than its deadline of 2.0 s", 2.0, None)


def test_a_long_compile_is_not_held_against_the_deadline(bench: FrontBench) -> None:
    """The clock of the run stands while a kernel compiles, and goes on where it stood."""
    request = started(bench, deadline=2.0, compile_deadline=60.0)
    assert due_in(bench) == 2.0
    bench.wait(1.5)
    tell(bench, since=bench.now)
    assert due_in(bench) == 60.0
    bench.wait(50.0)
    tell(bench, compiled=50.0)
    assert due_in(bench) == 0.5
    bench.wait(0.4)
    assert not stopped(bench)
    bench.wait(0.2)
    assert stopped(bench)
    message, *rest = error_data(bench, request)
    assert message == "run step ran longer than its deadline of 2.0 s, compiling not counted"
    assert rest == [2.0, "run"]


def test_all_compiles_of_a_run_count_together(bench: FrontBench) -> None:
    """The second one has what the first one left, and the error says that it was the compiling."""
    request = started(bench, deadline=60.0, compile_deadline=2.0)
    tell(bench, since=bench.now)
    bench.wait(1.5)
    tell(bench, compiled=1.5)
    bench.wait(10.0)
    tell(bench, compiled=1.5, since=bench.now)
    assert due_in(bench) == 0.5
    bench.wait(0.6)
    assert stopped(bench)
    message, *rest = error_data(bench, request)
    assert message == "run step compiled longer than its compile_deadline of 2.0 s"
    assert rest == [2.0, "compile"]


def test_a_compile_that_was_too_long_is_noticed_after_it(bench: FrontBench) -> None:
    """Where the front comes too late, the run is stopped all the same."""
    started(bench, deadline=60.0, compile_deadline=2.0)
    tell(bench, since=bench.now)
    bench.now += 3.0
    tell(bench, compiled=3.0)
    bench.wait(0.0)
    assert stopped(bench)


def test_a_compile_without_a_limit_on_the_run(bench: FrontBench) -> None:
    """What runs may run for ever, what compiles may not."""
    started(bench, compile_deadline=2.0)
    assert due_in(bench) is None
    tell(bench, since=bench.now)
    assert due_in(bench) == 2.0
    tell(bench, compiled=0.1)
    assert due_in(bench) is None
    bench.wait(1000.0)
    assert not stopped(bench)


def test_a_first_launch_is_spared_for_a_while(bench: FrontBench) -> None:
    """Machine code is made in it: for so long it counts neither as compiling nor as running."""
    started(bench, deadline=1.0, compile_deadline=2.0)
    tell(bench, since=bench.now)
    bench.wait(1.9)
    tell(bench, compiled=1.9, since=bench.now, spare=2.0)
    assert due_in(bench) == 3.0
    bench.wait(2.9)
    assert not stopped(bench)
    bench.wait(0.2)
    assert stopped(bench)


def test_what_a_first_launch_did_not_need_is_not_kept(bench: FrontBench) -> None:
    """When it is over only what it took was spared."""
    started(bench, deadline=1.0, compile_deadline=60.0)
    tell(bench, compiled=5.0, since=bench.now, spare=5.0)
    bench.now += 5.5
    tell(bench, compiled=5.0, spared=0.3)
    assert due_in(bench) == 0.8


def test_what_an_engine_tells_of_a_job_that_is_over_changes_nothing(bench: FrontBench) -> None:
    """A message about another job is none about the one that runs."""
    token = bench.hello()
    bench.run(token)
    bench.run(token, deadline=1.0, compile_deadline=60.0)
    first, second = (work.key for _, work in bench.work)
    bench.done(bench.work[0])
    tell(bench, key=first, since=bench.now)
    assert due_in(bench) == 1.0
    tell(bench, key=second, since=bench.now)
    assert due_in(bench) == 60.0


def test_status_tells_whether_a_call_compiles(bench: FrontBench) -> None:
    """In a compile, and not in a first launch or after it."""
    token = bench.hello()
    bench.run(token)

    def compiling() -> Any:
        status = bench.result(bench.ask(Status(id=f"status-{bench.now}", token=token)))
        bench.now += 1.0
        return status["session"]["running"]["compiling"]

    assert compiling() is False
    tell(bench, since=bench.now)
    assert compiling() is True
    tell(bench, compiled=1.0, since=bench.now, spare=1.0)
    assert compiling() is False
    tell(bench, compiled=1.0, spared=0.1)
    assert compiling() is False
