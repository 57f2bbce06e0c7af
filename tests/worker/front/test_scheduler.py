"""Jobs and engines, fed by hand: order, deadlines, interrupts, deaths and what is loaded again."""

from __future__ import annotations

import pytest

from front_bench import FrontBench
from tiremote.protocol.errors import Interrupted, KernelRuntimeError
from tiremote.protocol.messages import Cancel, Compile, Describe, Event, Hello, Interrupt, Status
from tiremote.protocol.values import Name
from tiremote.worker.front.settings import Settings
from tiremote.worker.link import Warned


def test_jobs_go_to_the_engine_in_order_and_no_more_than_the_window() -> None:
    """The engine has a few requests ahead of it, the rest waits in the front."""
    bench = FrontBench(Settings(window=2))
    token = bench.hello()
    requests = [bench.run(token) for _ in range(4)]
    assert len(bench.work) == 2
    bench.done(bench.work[0])
    bench.done(bench.work[1])
    bench.done(bench.work[2])
    bench.done(bench.work[3])
    assert all(bench.result(request)["value"] is None for request in requests)


def test_only_output_that_could_be_mistaken_is_marked_by_the_engine(bench: FrontBench) -> None:
    """The front knows whose output it is where a request goes to an engine that has nothing to do; of the requests
    behind that one the engine has to say where their output begins."""
    token = bench.hello()
    for events in (True, True, False):
        bench.run(token, events=events)
    first, second, third = (work for _, work in bench.work)
    assert (first.prints_as, second.prints_as, third.prints_as) == (first.key, None, None)
    for each in bench.work[:]:
        bench.done(each)
    bench.run(token, events=False)
    assert bench.work[-1][1].prints_as == 0


def test_work_waits_for_a_client_that_does_not_read(bench: FrontBench) -> None:
    """While a client has more bytes of answers to take than its budget, its next request is not run."""
    token = bench.hello()
    bench.undelivered = Settings().limits.session_bytes + 1
    bench.run(token)
    assert bench.work == []
    due = bench.front.next_deadline(bench.now)
    assert due is not None
    assert due - bench.now <= 0.1
    bench.undelivered = 0
    bench.wait(0.1)
    assert len(bench.work) == 1


def test_sessions_have_engines_of_their_own(bench: FrontBench) -> None:
    """Two sessions never share an engine."""
    for token in (bench.hello(), bench.hello(b"other")):
        bench.run(token)
    assert len({number for number, _ in bench.work}) == 2


def test_a_crash_fails_the_running_job_and_no_other(bench: FrontBench) -> None:
    """The job that ran gets `EngineCrashed` with the signal; those behind it run on the next engine."""
    token = bench.hello()
    guilty, innocent = bench.run(token, "bad"), bench.run(token, "good")
    bench.die(1, -11)
    error = bench.error(guilty)
    assert (error.code, error.data["signal"], error.data["request"]) == ("crashed", "SIGSEGV", guilty.id)
    number, _ = bench.work[-1]
    assert number != 1
    bench.done(bench.work[-1], value=3)
    assert bench.result(innocent)["value"] == 3


def test_what_an_engine_still_said_before_it_died_counts(bench: FrontBench) -> None:
    """An answer that was sent before the crash is the answer."""
    token = bench.hello()
    request = bench.run(token)
    bench.done(bench.work[0], value=1)
    bench.die(1)
    assert bench.result(request)["value"] == 1


def test_units_are_loaded_again_and_lost_contents_are_named(bench: FrontBench) -> None:
    """The error tells which units are back and which arrays and fields are not."""
    token = bench.hello()
    bench.load_unit(token, "sim", "SOURCE", name="pos", kind="field")
    bench.keep_array(token, "s.1.1", label="x")
    bench.keep_array(token, "s.1.2")
    request = bench.run(token)
    bench.die(1)
    (load,) = bench.loads
    assert (load[1].unit, load[1].source, load[1].version) == ("sim", "SOURCE", 1)
    assert bench.replies(request) == []  # it waits for the unit
    bench.loaded(load)
    error = bench.error(request)
    assert error.data["restored"] == ["sim"]
    assert error.data["lost"] == ["x", "ndarray s.1.2", "sim.pos"]
    assert bench.result(bench.ask(Describe(id="d", token=token)))["arrays"] == []


def test_the_answer_to_a_crash_does_not_wait_for_a_slow_reload(bench: FrontBench) -> None:
    """However long units take to load again, the client hears of the crash soon."""
    token = bench.hello()
    bench.load_unit(token)
    request = bench.run(token)
    bench.die(1)
    bench.wait(Settings().mourning + 0.01)
    assert bench.error(request).code == "crashed"


def test_a_unit_that_no_longer_loads_is_named_as_lost(bench: FrontBench) -> None:
    """A unit that fails when it is loaded again is said to be lost, with the reason."""
    token = bench.hello()
    bench.load_unit(token)
    request = bench.run(token)
    bench.die(1)
    bench.loaded(bench.loads[0], ok=False)
    assert bench.error(request).data["lost"][0].startswith("sim (it could not be loaded again: line 1 is wrong now")


def test_a_unit_that_kills_engines_when_it_is_loaded_is_given_up(bench: FrontBench) -> None:
    """A crash at every reload does not go on for ever; one alone may have been chance."""
    token = bench.hello()
    bench.load_unit(token)
    request = bench.run(token)
    bench.die(1)
    bench.die(bench.loads[0][0])
    bench.die(bench.loads[1][0])
    assert "while it was loaded again, twice" in bench.error(request).data["lost"][0]
    assert len(bench.loads) == 2


def test_an_engine_killed_by_chance_while_it_loads_costs_no_unit(bench: FrontBench) -> None:
    """A unit that loads at the second try is there."""
    token = bench.hello()
    bench.load_unit(token)
    request = bench.run(token)
    bench.die(1)
    bench.die(bench.loads[0][0], -9)
    bench.loaded(bench.loads[1])
    assert bench.error(request).data["restored"] == ["sim"]


def test_a_unit_that_hangs_while_it_is_loaded_again_is_interrupted(bench: FrontBench) -> None:
    """Where nothing runs because a unit never ends loading, an interrupt ends that."""
    token = bench.hello()
    bench.load_unit(token)
    bench.run(token)
    bench.die(1)
    waiting = bench.run(token)
    for load in range(2):
        bench.ask(Interrupt(id=f"i{load}", token=token))
        number, _ = bench.loads[load]
        assert bench.killed[-1] == number
        bench.die(number, -9)
    bench.done(bench.work[-1], value=1)
    assert bench.result(waiting)["value"] == 1


def test_a_unit_that_needs_a_later_one_is_loaded_after_it(bench: FrontBench) -> None:
    """Units are loaded again in the order of their last load: one that uses a newer one needs a second try."""
    token = bench.hello()
    bench.load_unit(token, "user")
    bench.load_unit(token, "used")
    request = bench.run(token)
    bench.die(1)
    bench.loaded(bench.loads[0], ok=False)
    bench.loaded(bench.loads[1])
    assert [load.unit for _, load in bench.loads] == ["user", "used", "user", "used"]
    assert bench.replies(request) == []
    bench.loaded(bench.loads[2])
    bench.loaded(bench.loads[3])
    error = bench.error(request)
    assert (error.data["restored"], error.data["lost"]) == (["user", "used"], [])


def test_a_second_try_is_the_last(bench: FrontBench) -> None:
    """What fails with every other unit there is given up."""
    token = bench.hello()
    bench.load_unit(token, "bad")
    bench.load_unit(token, "good")
    request = bench.run(token)
    bench.die(1)
    for number in range(4):
        bench.loaded(bench.loads[number], ok=number % 2 == 1)
    assert len(bench.loads) == 4
    error = bench.error(request)
    assert error.data["restored"] == ["good"]
    assert error.data["lost"][0].startswith("bad (it could not be loaded again")


def test_an_idle_engine_that_dies_costs_no_answer(bench: FrontBench) -> None:
    """A session whose engine died between two requests goes on with another."""
    token = bench.hello()
    bench.die(1, -9)
    request = bench.run(token)
    bench.done(bench.work[-1], value=2)
    assert bench.result(request)["value"] == 2
    assert bench.result(bench.ask(Status(id="s", token=token)))["session"]["generation"] == 2


def test_a_job_that_an_engine_never_began_is_not_failed_by_its_death(bench: FrontBench) -> None:
    """A request that was on its way to an engine when that died runs on the next, once."""
    token = bench.hello()
    request = bench.run(token)
    bench.die(1, -9, begun=False)
    bench.done(bench.work[-1], value=5)
    assert bench.result(request)["value"] == 5
    assert [number for number, _ in bench.work] == [1, 2]


def test_a_poisoned_engine_is_killed_and_its_word_not_taken(bench: FrontBench) -> None:
    """After a device error the engine is replaced, and the request that did it is named."""
    token = bench.hello()
    guilty, innocent = bench.run(token), bench.run(token)
    bench.failed(bench.work[0], KernelRuntimeError("CUDA"), poisoned="lost its device (CUDA_ERROR_ILLEGAL_ADDRESS)")
    assert bench.killed == [1]
    bench.done(bench.work[1])  # from the poisoned one
    bench.die(1, -9)
    error = bench.error(guilty)
    assert error.code == "crashed"
    assert "CUDA_ERROR_ILLEGAL_ADDRESS" in error.message
    assert error.data.get("signal") is None
    bench.done(bench.work[-1], value=4)
    assert bench.result(innocent)["value"] == 4


def test_what_an_engine_began_is_never_run_by_the_next(bench: FrontBench) -> None:
    """Also where its last answer was lost, as of one that lost its device and went on to the next request."""
    token = bench.hello()
    lost, begun, waiting = (bench.run(token) for _ in range(3))
    bench.front.on_exit(1, -9, bench.work[1][1].key, bench.now)
    bench.wait(Settings().mourning + 0.01)
    assert (bench.error(lost).code, bench.error(begun).code) == ("crashed", "crashed")
    assert [work.key for number, work in bench.work if number != 1] == [bench.work[2][1].key]
    bench.done(bench.work[-1], value=1)
    assert bench.result(waiting)["value"] == 1


def test_an_interrupt_of_a_request_that_lost_its_engine_does_not_reach_the_next(bench: FrontBench) -> None:
    """While its answer waits there is nothing left to stop; an engine that starts would die of the signal."""
    token = bench.hello()
    request = bench.run(token)
    bench.ready = False
    bench.die(1, -9)
    assert bench.replies(request) == []
    bench.ask(Interrupt(id="i", token=token, request=request.id))
    assert bench.nudged == []
    bench.wait(Settings().mourning + 0.01)
    assert bench.error(request).code == "crashed"


def test_code_that_stops_at_the_last_moment_is_not_killed_with_its_successor(bench: FrontBench) -> None:
    """When the grace is over and the engine is at the next request already, that one is spared."""
    token = bench.hello()
    late, following = bench.run(token), bench.run(token)
    bench.ask(Interrupt(id="i", token=token, request=late.id))
    bench.begun[1] = bench.work[1][1].key
    bench.wait(Settings().grace + 0.01)
    assert bench.killed == []
    bench.done(bench.work[0], value=1)
    bench.done(bench.work[1], value=2)
    assert (bench.result(late)["value"], bench.result(following)["value"]) == (1, 2)


def test_an_interrupt_asks_first_and_kills_when_that_does_not_help(bench: FrontBench) -> None:
    """Code that does not stop by itself within the grace costs its engine."""
    token = bench.hello()
    request = bench.run(token)
    bench.ask(Interrupt(id="i", token=token))
    assert bench.nudged == [(1, bench.work[0][1].key)]
    assert bench.killed == []
    bench.wait(Settings().grace + 0.01)
    assert bench.killed == [1]
    bench.die(1, -9)
    assert bench.error(request).code == "interrupted"
    assert bench.result(bench.ask(Status(id="s")))["crashes"] == 0  # it was asked for


def test_code_that_stops_when_asked_keeps_its_engine(bench: FrontBench) -> None:
    """A driver function that is stopped between two steps loses nothing."""
    token = bench.hello()
    request = bench.run(token)
    bench.ask(Interrupt(id="i", token=token, request=request.id))
    bench.failed(bench.work[0], Interrupted("stopped"))
    bench.wait(10.0)
    error = bench.error(request)
    assert (error.code, error.data["lost"]) == ("interrupted", [])
    assert bench.killed == []


def test_a_second_interrupt_does_not_wait_for_the_grace(bench: FrontBench) -> None:
    """One that is sent again after a cut is no second one."""
    token = bench.hello()
    bench.run(token)
    bench.begun[bench.work[0][0]] = bench.work[0][1].key
    for _ in range(2):
        bench.ask(Interrupt(id="first", token=token))
    bench.wait(0.0)
    assert bench.killed == []
    bench.ask(Interrupt(id="second", token=token))
    bench.wait(0.0)
    assert bench.killed == [bench.work[0][0]]
    bench.ask(Interrupt(id="third", token=token))
    bench.wait(0.0)
    assert len(bench.killed) == 1


def test_an_interrupt_of_a_waiting_request_takes_it_out() -> None:
    """Interrupting what has not started leaves what runs alone."""
    bench = FrontBench(Settings(window=1))
    token = bench.hello()
    bench.run(token)
    waiting = bench.run(token)
    bench.ask(Interrupt(id="i", token=token, request=waiting.id))
    assert bench.error(waiting).code == "interrupted"
    assert bench.nudged == []


def test_a_withdrawn_request_is_not_run_by_the_next_engine_either(bench: FrontBench) -> None:
    """What was cancelled stays cancelled when the engine it was on its way to dies."""
    token = bench.hello()
    bench.run(token)
    waiting = bench.run(token)
    bench.ask(Interrupt(id="i", token=token, request=waiting.id))
    assert bench.withdrawn == [bench.work[1][1].key]
    bench.die(1)
    assert len(bench.work) == 2
    assert bench.error(waiting).code == "interrupted"


def test_what_begins_while_it_is_cancelled_is_not_called_cancelled(bench: FrontBench) -> None:
    """A request that the engine began before it could see the cancellation is answered by the engine."""
    token = bench.hello()
    bench.run(token)
    waiting = bench.run(token)
    bench.begins_at_once = True
    assert bench.result(bench.ask(Cancel(id="c", token=token, request=waiting.id))) == {"cancelled": False}
    bench.done(bench.work[0])
    bench.done(bench.work[1], value=1)
    assert bench.result(waiting)["value"] == 1


def test_a_field_with_a_handle_is_lost_once(bench: FrontBench) -> None:
    """A field that a handle was taken of is named once among what is lost."""
    token = bench.hello()
    bench.load_unit(token, "sim", name="pos", kind="field")
    bench.keep_array(token, label="sim.pos", place=Name(unit="sim", name="pos"))
    request = bench.run(token)
    bench.die(1)
    bench.loaded(bench.loads[0])
    bench.put_back_all()
    assert bench.error(request).data["lost"] == ["sim.pos"]


def test_a_deadline_counts_from_the_start_of_the_run(bench: FrontBench) -> None:
    """Time spent waiting behind another request is not held against a deadline."""
    token = bench.hello()
    bench.run(token)
    request = bench.run(token, deadline=2.0)
    bench.wait(10.0)
    bench.done(bench.work[0])
    bench.wait(1.9)
    assert bench.nudged == []
    bench.wait(0.2)
    assert bench.nudged == [(1, bench.work[1][1].key)]
    bench.wait(Settings().grace)
    bench.die(1, -9)
    error = bench.error(request)
    assert (error.code, error.data["deadline"]) == ("deadline", 2.0)


def test_a_deadline_does_not_count_while_units_are_loaded_again(bench: FrontBench) -> None:
    """A request that goes to the next engine starts when the units are there: no unit is lost to its deadline."""
    token = bench.hello()
    bench.load_unit(token)
    request = bench.run(token, deadline=2.0)
    bench.die(1, begun=False)
    bench.wait(10.0)
    assert (bench.nudged, bench.killed) == ([], [])
    bench.loaded(bench.loads[0])
    bench.done(bench.work[-1], value=3)
    assert bench.result(request)["value"] == 3


def test_the_next_deadline_is_known_to_the_loop(bench: FrontBench) -> None:
    """The loop sleeps exactly until something is due."""
    token = bench.hello(lease=500.0)
    assert bench.front.next_deadline(bench.now) == bench.now + 500.0
    bench.run(token, deadline=2.0)
    assert bench.front.next_deadline(bench.now) == bench.now + 2.0


def test_output_is_tagged_by_request_and_comes_before_its_answer(bench: FrontBench) -> None:
    """Two requests that print get their own lines, numbered from 1, the answer last."""
    token = bench.hello()
    one, two = bench.run(token, events=True), bench.run(token, events=True)
    (_, first), (_, second) = bench.work
    bench.front.on_output(1, "stdout", second.key, b"from two\n", bench.now)
    bench.front.on_output(1, "stdout", first.key, b"from one\n", bench.now)
    bench.pump()
    bench.done(bench.work[0])
    assert [reply.text for reply in bench.replies(one) if isinstance(reply, Event)] == ["from one\n"]
    assert [reply.op for reply in bench.replies(one)] == ["event", "ok"]
    assert [(reply.text, reply.seq) for reply in bench.replies(two) if isinstance(reply, Event)] == [("from two\n", 1)]


def test_output_nobody_asked_for_is_not_sent(bench: FrontBench) -> None:
    """Without events a request gets its answer alone."""
    token = bench.hello()
    request = bench.run(token)
    bench.front.on_output(1, "stdout", bench.work[0][1].key, b"hello\n", bench.now)
    bench.done(bench.work[0])
    assert [reply.op for reply in bench.replies(request)] == ["ok"]


def test_a_piece_of_a_line_waits_a_moment_for_the_rest(bench: FrontBench) -> None:
    """Words printed one by one arrive as a line; a dot without a line end arrives soon."""
    token = bench.hello()
    request = bench.run(token, events=True)
    key = bench.work[0][1].key
    for word in (b"a ", b"line", b"\nand"):
        bench.front.on_output(1, "stdout", key, word, bench.now)
    bench.pump()
    assert [reply.text for reply in bench.replies(request)] == ["a line\n"]  # type: ignore[union-attr]
    bench.wait(0.06)
    assert [reply.text for reply in bench.replies(request)] == ["a line\n", "and"]  # type: ignore[union-attr]


def test_a_flood_is_cut_and_says_how_much() -> None:
    """Past its limit a request's output is counted, and the count is told before the answer."""
    bench = FrontBench(Settings(output_bytes=100))
    token = bench.hello()
    request = bench.run(token, events=True)
    for _ in range(100):
        bench.front.on_output(1, "stdout", bench.work[0][1].key, b"0123456789\n" * 10, bench.now)
    bench.done(bench.work[0])
    events = [reply for reply in bench.replies(request) if isinstance(reply, Event)]
    assert [event.event for event in events] == ["stdout", "warning"]
    assert len(events[0].text) <= 100
    assert "991 more lines" in events[1].text


def test_a_warning_reaches_the_client_of_its_request(bench: FrontBench) -> None:
    """What an engine warns of comes as an event."""
    token = bench.hello()
    request = bench.run(token, events=True)
    bench.front.on_engine(1, Warned(key=bench.work[0][1].key, text="on the CPU"), [], bench.now)
    bench.pump()
    (event,) = bench.replies(request)
    assert isinstance(event, Event)
    assert (event.event, event.text) == ("warning", "on the CPU")


def test_spares_that_cannot_start_are_not_tried_for_ever() -> None:
    """Engines that die in a row before they start stop being started, and the reason is kept."""
    bench = FrontBench(Settings(failed_starts=3), ready=False)
    for number in (1, 2, 3):
        bench.die(number, 1)
    assert bench.spawned == [1, 2, 3]
    assert "exit code 1" in str(bench.front.scheduler.pool.unprepared)


def test_an_answer_that_waits_is_not_replaced_by_the_next_engines_failure(bench: FrontBench) -> None:
    """What was interrupted stays interrupted where the next engine does not start."""
    token = bench.hello()
    request = bench.run(token)
    bench.ask(Interrupt(id="i", token=token))
    bench.wait(Settings().grace + 0.01)
    bench.ready = False
    bench.die(1, -9)
    for number in range(2, 2 + Settings().failed_starts):
        bench.die(number, -9)
    assert bench.error(request).code == "interrupted"


def test_a_session_whose_engine_dies_while_it_starts_is_told(bench: FrontBench) -> None:
    """Hello does not wait for ever for an engine that never comes up, and one that was only unlucky is no reason."""
    bench.ready = False
    request = bench.ask(Hello(id=1))
    for number in range(1, Settings().failed_starts):
        bench.die(number, -9)
    assert bench.replies(request) == []
    bench.die(Settings().failed_starts, -9)
    assert bench.error(request).code == "crashed"


def test_a_failed_compile_changes_nothing(bench: FrontBench) -> None:
    """Only what an engine reports as loaded is loaded."""
    token = bench.hello()
    bench.load_unit(token, "sim")
    bench.ask(Compile(id="bad", token=token, source="def", unit="sim"))
    bench.failed(bench.work[-1], KernelRuntimeError("no"))
    bench.die(1)
    assert bench.loads[0][1].source == "x = 1"


@pytest.mark.parametrize("spares", [0, 1, 3])
def test_as_many_spares_as_wanted_are_kept(spares: int) -> None:
    """A session takes a spare, and the number is made up again; the first tells what they run on, also of none."""
    bench = FrontBench(Settings(spares=spares))
    assert len(bench.spawned) == max(spares, 1)
    bench.hello()
    assert len(bench.spawned) == max(spares + 1, 1)
