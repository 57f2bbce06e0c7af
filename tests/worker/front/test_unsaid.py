"""Clients that did not lose a request with an engine, and have to hear of it all the same."""

from __future__ import annotations

from front_bench import FrontBench
from tiremote.protocol.errors import EngineCrashed
from tiremote.protocol.messages import Compile, Failure
from tiremote.worker.front.sessions import Snapping
from tiremote.worker.front.settings import Settings


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
    bench.run(token)
    bench.done(bench.work[-1])
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


def test_what_was_sent_before_anybody_could_know_is_told_and_not_run(bench: FrontBench) -> None:
    """It would have run on older contents; what is sent after the answer runs."""
    token = bench.hello()
    bench.keep_array(token, label="x")
    sent = [bench.run(token) for _ in range(20)]
    work = len(bench.work)
    bench.die(1, begun=False)
    assert ["not run" in bench.error(one).message for one in sent] == [True] * 20
    assert bench.error(sent[0]).data["lost"] == ["x"]
    assert len(bench.work) == work
    after = bench.run(token)
    bench.done(bench.work[-1])
    assert bench.result(after)


def test_what_waits_behind_a_lost_request_is_not_run_on_older_contents(bench: FrontBench) -> None:
    """A hundred steps of which the tenth dies are no ninety steps from somewhere else; loads are loaded."""
    token = bench.hello()
    bench.keep_array(token, label="x")
    lost, behind = bench.run(token, "far"), bench.run(token)
    load = bench.ask(Compile(id="load", token=token, source="y = 1", unit="y"))
    bench.die(1)
    assert "during run far" in bench.error(lost).message
    assert bench.error(lost).data["lost"] == ["x"]
    assert "not run" in bench.error(behind).message
    bench.loaded_as(load, "y", 1)
    assert bench.result(load) is not None


def test_what_waits_behind_a_lost_request_runs_where_nothing_is_older(bench: FrontBench) -> None:
    """The session is as if the lost request had never run."""
    token = bench.hello()
    bench.load_unit(token)
    lost, behind = bench.run(token, "far"), bench.run(token)
    bench.die(1)
    bench.loaded(bench.loads[-1])
    assert "during run far" in bench.error(lost).message
    bench.done(bench.work[-1])
    assert bench.result(behind)


def test_a_loss_is_told_in_full_where_the_next_engine_dies_as_well(bench: FrontBench) -> None:
    """Those that were to take over end before they serve: what is lost is told all the same, not only that."""
    token = bench.hello()
    bench.load_unit(token)
    bench.keep_array(token, label="x")
    bench.ready = False
    lost = bench.run(token, "far")
    for number in range(1, 2 + Settings().failed_starts):
        bench.die(number)
    told = bench.error(lost)
    assert "during run far" in told.message
    assert (told.data["restored"], told.data["coming"], told.data["lost"]) == (["sim"], ["sim"], ["x"])


def test_what_a_death_during_a_snapshot_costs_is_told() -> None:
    """It was a session at work that was lost, and not one that was being brought back."""
    bench = FrontBench(Settings(snapshot_seconds=1.0))
    token = bench.hello()
    bench.keep_array(token, label="x")
    bench.wait(1.1)
    chores = bench.front.scheduler.pool.engines[1].chores
    assert [type(chore) for chore in chores.values()] == [Snapping]
    behind = bench.run(token)
    bench.die(1)
    assert bench.error(behind).data["lost"] == ["x"]


def test_what_was_on_its_way_when_its_client_was_told_is_not_run_either(bench: FrontBench) -> None:
    """A request says which engine its client knows of; one that knows of the new one runs."""
    token = bench.hello()
    bench.keep_array(token, label="x")
    lost = bench.run(token, "far", generation=1)
    bench.die(1)
    assert bench.error(lost).data["generation"] == 2
    work = len(bench.work)
    late = bench.run(token, generation=1)
    assert "not run" in bench.error(late).message
    assert bench.error(late).data["generation"] == 2
    assert len(bench.work) == work
    ran = bench.run(token, generation=2)
    bench.done(bench.work[-1])
    assert bench.result(ran)


def test_a_unit_that_nothing_ran_of_is_as_it_was_loaded(bench: FrontBench) -> None:
    """Its fields are not older than anybody thinks, until something is put there or run."""
    token = bench.hello()
    bench.load_unit(token, kind="field", name="x")
    bench.die(1, begun=False)
    bench.loaded(bench.loads[-1])
    ran = bench.run(token, generation=1)
    bench.done(bench.work[-1])
    assert bench.result(ran)
    bench.die(2, begun=False)
    bench.loaded(bench.loads[-1])
    assert "not run" in bench.error(bench.run(token, generation=1)).message
