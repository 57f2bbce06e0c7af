"""Engines of several runtimes behind one front."""

from __future__ import annotations

import pytest

from front_bench import FrontBench
from memory_disk import MemoryDisk
from tiremote.protocol.errors import Refused
from tiremote.protocol.messages import Bye, Hello
from tiremote.worker.front.settings import Settings
from tiremote.worker.runtimes import RUNTIMES, check_runtime

THREE = Settings(options={"arch": "cpu"}, runtimes=("taichi", "gstaichi", "quadrants"))


@pytest.fixture
def bench() -> FrontBench:
    return FrontBench(THREE)


def runtimes(bench: FrontBench) -> dict[int, str]:
    """Of the engines that there are."""
    return {number: engine.runtime for number, engine in bench.front.scheduler.pool.engines.items()}


def test_a_session_gets_an_engine_of_the_runtime_it_asks_for(bench: FrontBench) -> None:
    """Of the worker's own a spare is kept; one of another is started for the session."""
    assert runtimes(bench) == {1: "taichi"}
    hello = bench.result(bench.ask(Hello(id=1, options={"runtime": "quadrants"})))
    assert runtimes(bench) == {1: "taichi", 2: "quadrants"}
    assert hello["options"] == {"arch": "cpu", "runtime": "quadrants"}
    assert hello["runtimes"] == ["taichi", "gstaichi", "quadrants"]
    assert bench.opens[-1][0] == 2
    assert "runtime" not in bench.opens[-1][1].options


@pytest.mark.parametrize("asked", [{}, {"runtime": None}, {"runtime": "taichi"}])
def test_a_session_that_asks_for_none_gets_the_workers(bench: FrontBench, asked: dict[str, str | None]) -> None:
    """And so the spare."""
    hello = bench.result(bench.ask(Hello(id=1, options=asked)))
    assert hello["options"]["runtime"] == "taichi"
    assert bench.opens[-1][0] == 1


def test_the_next_engine_has_the_sessions_runtime_too(bench: FrontBench) -> None:
    """After a crash, whatever the spare has."""
    bench.hello(options={"runtime": "gstaichi"})
    bench.die(2)
    assert runtimes(bench) == {1: "taichi", 3: "gstaichi"}


def test_an_engine_that_cannot_start_costs_the_worker_no_spare(bench: FrontBench) -> None:
    """Only the session that wanted its runtime hears of it."""
    bench.ready = False
    request = bench.ask(Hello(id=1, options={"runtime": "quadrants"}))
    for number in range(2, 2 + THREE.failed_starts):
        bench.die(number, 1)
    assert bench.error(request).code == "crashed"
    bench.ready = True
    bench.hello()
    assert list(runtimes(bench).values()) == ["taichi", "taichi"]


def test_what_a_session_leaves_of_another_runtime_is_not_kept(bench: FrontBench) -> None:
    """An engine that was started for a session that has ended meanwhile."""
    token = bench.hello(options={"runtime": "quadrants"})
    session = next(iter(bench.front._sessions))
    bench.front.scheduler.pool.want_spare(session)
    bench.pump()
    assert runtimes(bench) == {1: "taichi", 2: "quadrants", 3: "quadrants"}
    bench.ask(Bye(id=2, token=token, end=True))
    bench.die(2, 0)
    assert bench.killed == [3]


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ("jax", "there is no runtime 'jax'; there are taichi, gstaichi, quadrants"),
        (3, "there is no runtime 3"),
        (True, ""),
    ],
)
def test_what_is_no_runtime_is_refused(bench: FrontBench, asked: object, told: str) -> None:
    """With those that there are, and no session is made."""
    error = bench.error(bench.ask(Hello(id=1, options={"runtime": asked})))
    assert error.code == "refused"
    assert told in error.message
    assert len(bench.front._sessions) == 0


@pytest.mark.parametrize("name", RUNTIMES)
def test_a_runtime_that_is_not_installed_is_named_with_what_installs_it(name: str) -> None:
    """Without importing anything."""
    there = tuple(each for each in RUNTIMES if each != name)
    with pytest.raises(Refused, match=rf"pip install 'tiremote\[{RUNTIMES[name].extra}\]'.*installed are {there[0]}"):
        check_runtime(name, there)
    with pytest.raises(Refused, match="installed are none"):
        check_runtime(name, ())


def test_a_session_is_taken_up_again_on_its_runtime() -> None:
    """By a worker whose own is another."""
    bench = FrontBench(THREE, disk=MemoryDisk())
    token = bench.hello(options={"runtime": "quadrants"})
    bench.restart()
    bench.run(token)
    assert sorted(runtimes(bench).values()) == ["quadrants", "taichi"]
