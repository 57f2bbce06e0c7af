"""Clients that did not lose a request with an engine, and have to hear of it all the same."""

from __future__ import annotations

from front_bench import FrontBench
from tiremote.protocol.errors import EngineCrashed
from tiremote.protocol.messages import Failure


def test_the_next_request_after_an_idle_death_is_told_and_not_run(bench: FrontBench) -> None:
    """It might work on older contents without knowing; the one after it runs."""
    token = bench.hello()
    bench.keep_array(token, label="x")
    bench.die(1, begun=False)
    work = len(bench.work)
    told = bench.error(bench.run(token))
    assert told.code == EngineCrashed.code
    assert "while nothing ran" in told.message
    assert "not run" in told.message
    assert told.data["lost"] == ["x"]
    assert len(bench.work) == work
    again = bench.run(token)
    bench.done(bench.work[-1])
    assert bench.result(again)


def test_an_idle_death_that_costs_nothing_is_not_told(bench: FrontBench) -> None:
    """A session without arrays and fields goes on as if nothing had been."""
    token = bench.hello()
    bench.load_unit(token)
    bench.die(1, begun=False)
    run = bench.run(token)
    bench.loaded(bench.loads[-1])
    bench.done(bench.work[-1])
    assert bench.result(run)


def test_a_load_runs_and_the_word_waits_for_what_depends_on_the_state(bench: FrontBench) -> None:
    """A file that is saved after an idle death is loaded."""
    token = bench.hello()
    bench.load_unit(token, kind="field", name="x")
    bench.die(1, begun=False)
    bench.loaded(bench.loads[-1])
    assert bench.result(bench.load_unit(token, version=2, kind="field", name="x"))
    assert isinstance(bench.answer(bench.run(token)), Failure)


def test_every_other_client_of_the_session_is_told_once(bench: FrontBench) -> None:
    """The one whose request was lost has it in that answer, the other in its next."""
    mine = bench.hello(session="lab")
    theirs = bench.hello(b"other", session="lab")
    bench.keep_array(mine, label="x")
    lost = bench.run(mine, "far")
    bench.die(1)
    assert "during run far" in bench.error(lost).message
    ran = bench.run(mine)
    bench.done(bench.work[-1])
    assert bench.result(ran)
    told = bench.run(theirs, identity=b"other")
    assert "during run far" in bench.error(told).message
    ran = bench.run(theirs, identity=b"other")
    bench.done(bench.work[-1])
    assert bench.result(ran)


def test_a_request_that_the_dead_engine_had_not_begun_is_the_one_that_is_told(bench: FrontBench) -> None:
    """It was sent before anybody could know, and would have run on older contents; those behind it run."""
    token = bench.hello()
    bench.keep_array(token, label="x")
    first, second = bench.run(token), bench.run(token)
    bench.die(1, begun=False)
    assert "while nothing ran" in bench.error(first).message
    bench.done(bench.work[-1])
    assert bench.result(second)
