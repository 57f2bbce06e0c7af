"""A worker that is started again: its sessions are there as they were saved, without a disk, a process or a clock."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from front_bench import FrontBench
from memory_disk import MemoryDisk
from tiremote.protocol.errors import DeadlineExceeded, EngineCrashed, TiremoteError
from tiremote.protocol.messages import (
    Alloc,
    Bye,
    Cleanup,
    Collect,
    Describe,
    Event,
    Fetch,
    Hello,
    History,
    Ok,
    Ping,
    Request,
    Requests,
    Run,
    Snapshot,
    Status,
)
from tiremote.protocol.receipts import Definition, UnitHolding
from tiremote.protocol.values import Handle, Name
from tiremote.worker.front.effects import ToEngine
from tiremote.worker.front.saved_requests import ANSWER_BYTES
from tiremote.worker.front.saver import BEAT
from tiremote.worker.front.settings import Settings
from tiremote.worker.front.state.rows import RequestRow, Save, SessionRow
from tiremote.worker.link import Changes, Ready, Work

X = Handle(kind="ndarray", id="s.1.1")
FIELD = Name(unit="sim", name="x")


@pytest.fixture
def bench() -> FrontBench:
    """A front that keeps its sessions on a disk."""
    return FrontBench(disk=MemoryDisk())


def restart(bench: FrontBench, settings: Settings | None = None, *, down: float = 0.0, **fields: Any) -> FrontBench:
    """The worker is killed, and another started when it was ``down`` for so many seconds; its clock is another."""
    disk = bench.disk
    assert disk is not None
    again = FrontBench(settings, disk=disk, saved=disk.saved(bench.begun), now=5.0 + down, **fields)
    again._ids = bench._ids
    return again


def begin(bench: FrontBench) -> None:
    """The engine begins the job that was sent to it last."""
    number, message = bench.work[-1]
    bench.begun[number] = message.key


def missing(bench: FrontBench, token: str, *requests: Request) -> list[Any]:
    """Which of the requests a client has to send again."""
    ping = bench.ask(Ping(id="ping", token=token, pending=tuple(each.id for each in requests)))
    return list(bench.result(ping)["missing"])


def compiled(bench: FrontBench, token: str, source: str, version: int, **definition: Any) -> None:
    """A version of the unit ``sim`` is loaded."""
    bench.load_unit(token, source=source, version=version, **definition)


# -------------------------------------------------------------- what is there again


def test_a_session_has_its_units_its_history_and_its_token_again(bench: FrontBench) -> None:
    """They are told without an engine; the next run has one, into which the units are loaded as they were."""
    token = bench.hello()
    compiled(bench, token, "x = 1", 1)
    compiled(bench, token, "x = 2", 2)
    bench.load_unit(token, unit="other")
    again = restart(bench)
    assert again.result(again.ask(Describe(id="d", token=token)))["newest"] == "other"
    versions = again.result(again.ask(History(id="h", token=token, unit="sim")))
    assert (versions["current"], [each["version"] for each in versions["versions"]]) == (2, [1, 2])
    one = again.result(again.ask(History(id="h1", token=token, unit="sim", version=1)))
    assert one["versions"][0]["source"] == "x = 1"
    assert again.loads == []
    run = again.run(token)
    assert [(load.unit, load.version, load.source) for _, load in again.loads] == [
        ("sim", 2, "x = 2"),
        ("other", 1, "x = 1"),
    ]
    for load in again.loads:
        again.loaded(load)
    again.done(again.work[-1], value=7)
    assert again.result(run)["value"] == 7


def test_a_session_is_found_by_its_name_and_only_by_its_owner(bench: FrontBench) -> None:
    """With the options that it was made with; under CURVE each key has names of its own."""
    bench.hello(user="anna", session="lab", options={"random_seed": 3})
    again = restart(bench)
    mine = again.ask(Hello(id="mine", session="lab"), user="anna")
    theirs = again.ask(Hello(id="theirs", session="lab"), user="otto")
    assert again.result(mine)["rejoined"] is True
    assert again.result(mine)["options"]["random_seed"] == 3
    assert again.result(theirs)["rejoined"] is False
    assert len(again.front._sessions) == 2


def test_an_idle_session_says_so_and_counts_what_will_be_put_back(bench: FrontBench) -> None:
    """Nobody has to start its engine to see what is in it."""
    token = bench.hello(session="lab")
    bench.put_array(token, b"abcd", label="x")
    again = restart(bench)
    (line,) = again.result(again.ask(Status(id="s")))["listed"]
    assert (line["state"], line["arrays"], line["array_bytes"], line["clients"]) == ("idle", 1, 4, 0)
    (array,) = again.result(again.ask(Describe(id="d", token=token)))["arrays"]
    assert array["label"] == "x"


def test_handles_of_the_next_engine_are_new_ones(bench: FrontBench) -> None:
    """The number of the engine goes into them, and goes on counting."""
    token = bench.hello()
    again = restart(bench)
    again.run(token)
    assert again.result(again.ask(Status(id="s", token=token)))["session"]["generation"] == 2


def test_arrays_are_put_back_under_their_handles(bench: FrontBench) -> None:
    """From what was put, fetched or copied last."""
    token = bench.hello()
    bench.load_unit(token, kind="field", name="x")
    bench.put_array(token, b"abcd")
    bench.put_into(token, FIELD, b"ef")
    again = restart(bench)
    run = again.run(token)
    again.loaded(again.loads[0])
    again.put_back_all()
    assert [message.target for _, message in again.put_backs] == [X, FIELD]
    assert again.put_back_bytes == [[b"abcd"], [b"ef"]]
    again.done(again.work[-1])
    assert again.result(run)


def test_plans_for_snapshots_go_on(bench: FrontBench) -> None:
    """A client that asked for one every ten runs has asked for good."""
    token = bench.hello()
    asked = bench.ask(Snapshot(id="s", token=token, every_runs=10, every_seconds=60.0))
    bench.snapped(*_work(bench), {})
    assert bench.result(asked)
    again = restart(bench)
    asked = again.ask(Snapshot(id="t", token=token))
    again.snapped(*_work(again), {})
    told = again.result(asked)
    assert (told["every_runs"], told["every_seconds"]) == (10, 60.0)


def _work(bench: FrontBench) -> tuple[int, int]:
    number, message = bench.work[-1]
    return number, message.key


def test_what_was_ended_dropped_or_cleaned_up_is_not_there_again(bench: FrontBench) -> None:
    """It leaves nothing on disk."""
    bench.ask(Bye(id="bye", token=bench.hello(), end=True))
    token = bench.hello()
    bench.put_array(token, b"abcd")
    bench.load_unit(token)
    bench.ask(Cleanup(id="c", token=token, everything=True))
    bench.done(bench.work[-1], changes=Changes(dropped=(X.id,), dropped_units=("sim",)))
    assert bench.disk is not None
    assert {table.__name__ for table, _ in bench.disk.rows} == {"SessionRow", "SeatRow", "RequestRow"}
    assert bench.disk.copies == {}
    again = restart(bench)
    described = again.result(again.ask(Describe(id="d", token=token)))
    assert (described["units"], described["arrays"]) == ([], [])
    again.ask(Bye(id="bye", token=token, end=True))
    assert bench.disk.rows == {}


# -------------------------------------------------------------- requests


def test_an_answer_that_was_given_is_given_again(bench: FrontBench) -> None:
    """The request does not run a second time; nor does one whose client has said that it has the answer."""
    token = bench.hello()
    first, second = bench.run(token), bench.run(token)
    bench.done(bench.work[0], value="first")
    bench.done(bench.work[1], value="second")
    bench.ask(Ping(id="p", token=token, received=(second.id,)))
    again = restart(bench)
    assert missing(again, token, first, second) == [first.id, second.id]
    assert again.result(again.ask(first))["value"] == "first"
    assert "no longer kept" in again.error(again.ask(second)).message
    assert again.work == []


def test_a_large_answer_is_not_kept_and_its_request_not_run_again(bench: FrontBench) -> None:
    """As if it had had to make room for others."""
    token = bench.hello()
    run = bench.run(token)
    bench.done(bench.work[0], value="x" * (ANSWER_BYTES + 1))
    again = restart(bench)
    assert "not run twice" in again.error(again.ask(run)).message


def test_an_answer_that_nobody_had_is_collected_by_another_client(bench: FrontBench) -> None:
    """The program that asked died with the worker."""
    mine = bench.hello(session="lab")
    run = bench.run(mine)
    bench.done(bench.work[0], value=7)
    again = restart(bench)
    theirs = again.hello(b"other", session="lab")
    listed = again.ask(Requests(id="list", token=theirs), b"other")
    (line,) = again.result(listed)["requests"]
    assert (line["request"], line["op"], line["target"], line["seat"]) == (run.id, "run", "run step", 1)
    collect = again.ask(Collect(id="collect", token=theirs, request=run.id), b"other")
    assert again.result(collect)["value"] == 7


def test_an_answer_that_was_collected_is_not_listed_again(bench: FrontBench) -> None:
    """That somebody has it outlives the worker; the client that sent the request may still come and ask."""
    mine = bench.hello(session="lab")
    run = bench.run(mine)
    bench.done(bench.work[0], value=7)
    theirs = bench.hello(b"other", session="lab")
    bench.ask(Collect(id="collect", token=theirs, request=run.id), b"other")
    bench.ask(Ping(id="p", token=theirs, received=("collect",)), b"other")
    again = restart(restart(bench))
    listed = again.ask(Requests(id="list", token=theirs), b"other")
    assert again.result(listed)["requests"] == []
    assert again.result(again.ask(run))["value"] == 7
    assert again.work == []


def test_output_that_is_not_kept_is_told_as_a_gap(bench: FrontBench) -> None:
    """The answer comes, and what was printed before it is known to be missing."""
    token = bench.hello()
    run = bench.run(token, events=True)
    bench.front.on_output(1, "stdout", bench.work[0][1].key, b"one\ntwo\n", bench.now)
    bench.done(bench.work[0])
    again = restart(bench)
    again.ask(replace(run, seen=0))
    gap, answer = again.replies(run)
    assert isinstance(gap, Event)
    assert (gap.event, gap.data) == ("gap", {"first": 1, "last": 1})
    assert isinstance(answer, Ok)


def test_what_ran_when_the_worker_ended_is_not_run_again(bench: FrontBench) -> None:
    """Its client is told what is there again, as of when, and what is lost."""
    token = bench.hello()
    bench.load_unit(token, kind="field", name="y")
    put = bench.put_array(token, b"abcd", label="x")
    bench.wait(2.0)
    bench.keep_array(token, handle="s.1.2", label="z")
    lost = bench.run(token, "far")
    begin(bench)
    again = restart(bench, down=1e6)
    assert missing(again, token, lost) == [lost.id]
    error = again.error(again.ask(lost))
    assert error.code == EngineCrashed.code
    assert error.message == "the worker was restarted during run far"
    assert error.data["request"] == lost.id
    assert error.data["restored"] == ["sim"]
    (as_of,) = error.data["as_of"]
    assert (as_of["name"], as_of["request"], as_of["op"]) == ("x", put.id, "put")
    assert as_of["seconds"] == pytest.approx(2.0)
    assert set(error.data["lost"]) == {"sim.y", "z"}
    assert again.work == []


def test_it_is_told_the_same_when_the_worker_is_started_a_third_time(bench: FrontBench) -> None:
    """What was answered at the second start is on disk as well."""
    token = bench.hello()
    lost = bench.run(token, "far")
    begin(bench)
    again = restart(restart(bench))
    assert "restarted during run far" in again.error(again.ask(lost)).message


def test_what_had_not_begun_is_sent_again_and_runs(bench: FrontBench) -> None:
    """Whether it was with the engine already, or waited; in the order in which it is sent."""
    token = bench.hello()
    requests = [bench.run(token) for _ in range(12)]
    assert len(bench.work) == Settings().window
    again = restart(bench)
    assert missing(again, token, *requests) == [each.id for each in requests]
    for request in requests:
        again.ask(request)
    assert "restarted during" in again.error(requests[0]).message
    for number, request in enumerate(requests[1:]):
        again.done(again.work[number], value=number)
        assert again.result(request)["value"] == number


def test_a_fetch_that_ran_is_run_again(bench: FrontBench) -> None:
    """It only reads."""
    token = bench.hello()
    fetch = bench.ask(Fetch(id="f", token=token, target=X))
    begin(bench)
    again = restart(bench)
    again.ask(fetch)
    again.done(again.work[-1], value="read")
    assert again.result(fetch)["value"] == "read"


def test_a_request_that_its_engine_died_with_is_answered_if_the_worker_ends_too(bench: FrontBench) -> None:
    """While the answer waits for what is restored, it is on disk that the request began."""
    token = bench.hello()
    bench.load_unit(token)
    lost = bench.run(token, "far")
    begin(bench)
    bench.die(1)
    assert bench.replies(lost) == []
    again = restart(bench)
    assert "restarted during run far" in again.error(again.ask(lost)).message


def test_requests_that_an_engine_died_before_run_on_the_next_worker(bench: FrontBench) -> None:
    """They wait again, and are on disk no longer."""
    token = bench.hello()
    bench.load_unit(token)
    lost, waits = bench.run(token), bench.run(token)
    bench.begun[1] = bench.work[-2][1].key
    bench.die(1)
    again = restart(bench)
    again.ask(waits)
    again.loaded(again.loads[0])
    again.done(again.work[-1], value="ran")
    assert again.result(waits)["value"] == "ran"
    assert "restarted" in again.error(again.ask(lost)).message


def test_a_request_is_on_disk_before_its_engine_has_it_and_its_answer_before_its_client(bench: FrontBench) -> None:
    """Whatever the moment at which the worker is killed, no request runs twice."""
    token = bench.hello()
    run = Run(id="r", token=token, target=Name(name="step"))
    bench.front.on_client(b"laptop", "", [bytes(memoryview(frame)) for frame in _frames(run)], bench.now)
    effects = bench.front.take()
    assert isinstance(effects[0], Save)
    (row,) = (row for row in effects[0].rows if isinstance(row, RequestRow))
    assert row.begun is not None
    assert [effect.message for effect in effects[1:] if isinstance(effect, ToEngine)] == [
        Work(key=row.begun.number, header=_frames(run)[0], prints_as=0)
    ]


def _frames(request: Request) -> list[bytes]:
    from tiremote.protocol.codec import encode

    return [bytes(memoryview(frame)) for frame in encode(request)]


# -------------------------------------------------------------- what is lost, and who is told


def test_every_client_is_told_once_what_the_restart_has_cost(bench: FrontBench) -> None:
    """Nobody goes on with older contents without knowing; the one whose request was lost has it in that answer."""
    mine, theirs = bench.hello(session="lab"), bench.hello(b"other", session="lab")
    bench.put_array(mine, b"abcd", label="x")
    lost = bench.run(mine, "far")
    begin(bench)
    again = restart(bench)
    assert "during run far" in again.error(again.ask(lost)).message
    told = again.run(theirs, identity=b"other")
    again.put_back_all()
    assert again.error(told).message == "the worker was restarted; this request was not run"
    assert [one["name"] for one in again.error(told).data["as_of"]] == ["x"]
    for token in (mine, theirs):
        ran = again.run(token)
        again.done(again.work[-1])
        assert again.result(ran)


def test_requests_that_were_sent_before_their_client_could_know_are_not_run(bench: FrontBench) -> None:
    """Also those that are sent again; whoever was told which engine comes next goes on with that."""
    token = bench.hello()
    bench.put_array(token, b"abcd", label="x")
    lost = bench.run(token, "far", generation=1)
    begin(bench)
    waits = bench.run(token, generation=1)
    again = restart(bench)
    again.ask(lost)
    told = again.error(lost).data["generation"]
    again.ask(waits)
    again.put_back_all()
    again.wait(1.0)
    assert "which this client did not know" in again.error(waits).message
    run = again.run(token, generation=told)
    again.done(again.work[-1])
    assert again.result(run)


def test_a_restart_that_costs_nothing_is_not_told(bench: FrontBench) -> None:
    """Everything was copied after the last run: a client that is still there sees a pause, and no more."""
    token = bench.hello()
    bench.keep_array(token)
    bench.ask(Snapshot(id="s", token=token))
    bench.snapped(*_work(bench), {X: b"abcd"})
    for _ in range(2):
        bench = restart(bench)
    run = bench.run(token)
    bench.put_back_all()
    bench.done(bench.work[-1])
    assert bench.result(run)


def test_it_is_told_if_the_disk_was_behind_with_the_copies(bench: FrontBench) -> None:
    """What the front had copied is not what is put back."""
    token = bench.hello()
    assert bench.disk is not None
    bench.put_array(token, b"abcd")
    bench.disk.slow = True
    bench.put_into(token, X, b"efgh")
    again = restart(bench)
    told = again.run(token)
    again.put_back_all()
    again.wait(1.0)
    assert "restarted" in again.error(told).message
    assert again.put_back_bytes == [[b"abcd"]]


def test_a_word_that_was_left_for_a_client_waits_for_it_over_a_restart(bench: FrontBench) -> None:
    """Another client has everything copied meanwhile, so that the restart itself costs nothing."""
    mine, theirs = bench.hello(session="lab"), bench.hello(b"other", session="lab")
    bench.keep_array(mine, label="x")
    bench.die(1, begun=False)
    bench.answer(bench.run(mine))
    bench.ask(Snapshot(id="s", token=mine))
    bench.snapped(*_work(bench), {})
    again = restart(bench)
    ran = again.run(mine)
    again.done(again.work[-1])
    assert again.result(ran)
    told = again.run(theirs, identity=b"other")
    assert "while nothing ran" in again.error(told).message
    assert again.error(told).data["lost"] == ["x"]


def test_a_copy_of_what_was_declared_anew_is_not_put_back(bench: FrontBench) -> None:
    """Also where the disk was too slow to forget it."""
    token = bench.hello()
    assert bench.disk is not None
    compiled(bench, token, "x = 1", 1, kind="field", name="x")
    bench.put_into(token, FIELD, b"old")
    bench.disk.slow = True
    request = bench.load_unit(token, source="x = 2", version=2, kind="field", name="x")
    bench.run(token)
    holding = UnitHolding(
        unit="sim", version=2, definitions=(Definition(name="x", kind="field"),), loaded_by=request.id
    )
    bench.done(bench.work[-1], changes=Changes(units=(holding,), reset=(FIELD,)))
    again = restart(restart(bench))
    assert again.front.scheduler.copies.of(again.front._sessions.of("")[0].id) == ()


def test_a_copy_of_the_new_declaration_is_put_back(bench: FrontBench) -> None:
    """The floor under the old ones is not under it."""
    token = bench.hello()
    compiled(bench, token, "x = 1", 1, kind="field", name="x")
    bench.put_into(token, FIELD, b"old")
    bench.run(token)
    bench.done(bench.work[-1], changes=Changes(reset=(FIELD,)))
    bench.put_into(token, FIELD, b"new")
    again = restart(restart(bench))
    again.run(token)
    again.loaded(again.loads[0])
    assert again.put_back_bytes == [[b"new"]]


def test_an_array_without_a_copy_is_gone_and_its_handle_stale(bench: FrontBench) -> None:
    """It is not listed any more."""
    token = bench.hello()
    alloc = bench.ask(Alloc(id="a", token=token, shape=(3,)))
    bench.done(bench.work[-1], changes=Changes(arrays=()))
    bench.keep_array(token)
    again = restart(bench)
    assert again.result(again.ask(Describe(id="d", token=token)))["arrays"] == []
    assert again.result(again.ask(alloc))


def test_a_session_that_this_worker_cannot_run_is_kept(bench: FrontBench) -> None:
    """Its clients get the reason, and a worker that can run it finds everything."""
    token = bench.hello(options={"arch": "cuda"})
    bench.put_array(token, b"abcd")
    bench.ask(Snapshot(id="s", token=token))
    bench.snapped(*_work(bench), {X: b"abcd"})
    other = restart(bench, ready=False)
    run = other.run(token)
    other.front.on_engine(1, Ready(), [], other.now)
    other.pump()
    other.front.on_engine(1, Ready(failure=["refused", "no CUDA here", {}]), [], other.now)
    other.pump()
    assert other.error(run).message == "no CUDA here"
    again = restart(other)
    run = again.run(token)
    assert again.put_back_bytes == [[b"abcd"]]
    again.put_back_all()
    again.done(again.work[-1])
    assert again.result(run)


# -------------------------------------------------------------- leases


def test_a_lease_stands_still_while_no_worker_is_up(bench: FrontBench) -> None:
    """However long that takes; then it goes on, and ends."""
    token = bench.hello(lease=100.0)
    bench.wait(70.0)
    again = restart(bench, down=1e6)
    again.wait(25.0)
    assert len(again.front._sessions) == 1
    again.wait(BEAT + 10.0)
    assert len(again.front._sessions) == 0
    assert again.disk is not None
    assert again.disk.of(SessionRow) == []
    error = again.error(again.ask(Ping(id="p", token=token)))
    assert error.code == "unknown-name"


def test_a_lease_does_not_begin_anew_with_each_restart(bench: FrontBench) -> None:
    """A session that nobody comes back to ends, though the worker is killed every minute."""
    bench.hello(lease=10 * BEAT)
    for _ in range(12):
        bench.wait(BEAT + 1.0)
        bench = restart(bench)
    bench.wait(1.0)
    assert len(bench.front._sessions) == 0


def test_a_client_that_was_heard_a_moment_before_has_its_whole_lease(bench: FrontBench) -> None:
    """Who was heard is written down once a minute; nobody pays for that."""
    token = bench.hello(lease=BEAT / 2)
    bench.wait(BEAT / 2 - 1.0)
    bench.ask(Ping(id="p", token=token))
    bench.wait(BEAT / 2 - 2.0)
    again = restart(bench)
    again.wait(BEAT / 2 - 1.0)
    assert len(again.front._sessions) == 1


# -------------------------------------------------------------- the end of a worker


def test_an_orderly_end_copies_what_has_changed_and_ends_no_session() -> None:
    """What runs ends first; then arrays are copied, and the worker goes."""
    bench = FrontBench(Settings(spares=0), disk=MemoryDisk())
    token = bench.hello()
    bench.keep_array(token)
    run = bench.run(token)
    bench.front.drain(bench.now)
    bench.pump()
    assert bench.snaps == []
    bench.done(bench.work[-1])
    assert bench.result(run)
    bench.wait(0.0)
    (snap,) = bench.snaps
    bench.snapped(snap[0], snap[1].key, {X: b"last"})
    bench.wait(0.0)
    bench.die(1, returncode=0, begun=False)
    bench.wait(0.0)
    assert bench.stopped
    again = restart(bench)
    run = again.run(token)
    assert again.put_back_bytes == [[b"last"]]
    again.put_back_all()
    again.done(again.work[-1])
    assert again.result(run)


def test_a_session_that_holds_what_was_copied_already_costs_no_time_at_the_end() -> None:
    """Nothing ran since."""
    bench = FrontBench(Settings(spares=0), disk=MemoryDisk())
    token = bench.hello()
    bench.keep_array(token)
    bench.ask(Snapshot(id="s", token=token))
    bench.snapped(*_work(bench), {X: b"last"})
    bench.front.drain(bench.now)
    bench.pump()
    assert bench.snaps == []


def test_a_request_that_comes_too_late_is_for_the_next_worker() -> None:
    """It is not answered: its client asks after it, and sends it again to whoever is there then."""
    bench = FrontBench(disk=MemoryDisk())
    token = bench.hello()
    first = bench.run(token)
    bench.front.drain(bench.now)
    late = bench.run(token)
    assert bench.replies(late) == []
    assert missing(bench, token, first, late) == [late.id]
    bench.done(bench.work[0])
    again = restart(bench)
    again.ask(late)
    again.done(again.work[-1], value="late")
    assert again.result(late)["value"] == "late"


def test_what_does_not_end_in_time_is_told_by_the_next_worker() -> None:
    """The first worker cannot know what becomes of it."""
    bench = FrontBench(Settings(drain=5.0, spares=0), disk=MemoryDisk())
    token = bench.hello()
    run, waits = bench.run(token), bench.run(token)
    bench.front.drain(bench.now)
    bench.wait(5.0)
    assert bench.killed == [1]
    bench.die(1, returncode=-9)
    bench.wait(0.0)
    assert bench.stopped
    assert bench.replies(run) == bench.replies(waits) == []
    again = restart(bench)
    assert "restarted during run step" in again.error(again.ask(run)).message
    again.ask(waits)
    again.done(again.work[-1])
    assert again.result(waits)


# -------------------------------------------------------------- the disk


def test_what_changes_nothing_is_not_written(bench: FrontBench) -> None:
    """A client that asks how things are costs the disk nothing; once a minute it is noted that it was heard."""
    token = bench.hello()
    assert bench.disk is not None
    before = len(bench.disk.saves)
    for op in (Ping(id="p", token=token), Status(id="s", token=token), Describe(id="d", token=token)):
        bench.ask(op)
    assert len(bench.disk.saves) == before
    bench.wait(BEAT)
    assert len(bench.disk.saves) == before + 1


def test_everything_is_written_again_when_something_could_not_be(bench: FrontBench) -> None:
    """The disk was full for a while: afterwards it has all there is, and nothing else."""
    token = bench.hello()
    bench.load_unit(token)
    bench.put_array(token, b"abcd")
    disk = bench.disk
    assert disk is not None
    bench.disk = None
    compiled(bench, token, "x = 2", 2)
    run = bench.run(token)
    bench.done(bench.work[-1], value="unsaved")
    bench.disk = disk
    bench.front.save_everything()
    bench.pump()
    again = restart(bench)
    assert again.result(again.ask(run))["value"] == "unsaved"
    assert again.result(again.ask(History(id="h", token=token, unit="sim")))["current"] == 2


def test_without_a_disk_nothing_is_saved() -> None:
    """A worker without --state does no more than before."""
    bench = FrontBench()
    token = bench.hello()
    bench.run(token)
    bench.done(bench.work[-1])
    assert not any(isinstance(effect, Save) for effect in bench.front.take())
    assert bench.result(bench.ask(Status(id="s")))["state"] is None


def test_status_says_whether_sessions_are_kept(bench: FrontBench) -> None:
    """And why not, where that does not work now."""
    assert bench.result(bench.ask(Status(id="s")))["state"] == "kept"
    bench.front._trouble = lambda: "the disk is full"
    assert bench.result(bench.ask(Status(id="t")))["state"] == "the disk is full"


def test_errors_of_requests_are_kept_as_they_were(bench: FrontBench) -> None:
    """With their data."""
    token = bench.hello()
    run = bench.run(token)
    error: TiremoteError = DeadlineExceeded("too long", deadline=0.5, phase="run")
    bench.failed(bench.work[-1], error)
    told = bench.error(run)
    again = restart(bench)
    assert again.error(again.ask(run)) == told
