"""Clients that come back, as the same or as another: what is sent again, to whom, and until when it is kept."""

from __future__ import annotations

from typing import Any

import pytest

from front_bench import FrontBench
from tiremote.protocol.errors import Interrupted, KernelRuntimeError
from tiremote.protocol.messages import (
    Bye,
    Cancel,
    Collect,
    Event,
    Fetch,
    Interrupt,
    Ok,
    Ping,
    Reply,
    Request,
    Requests,
    Run,
    Status,
)
from tiremote.protocol.packing import pack
from tiremote.protocol.values import Name
from tiremote.worker.front.settings import Settings
from tiremote.worker.link import Done

NEW = b"after the tunnel"
OTHER = b"another laptop"


def say(bench: FrontBench, *lines: str, job: int = -1) -> None:
    """The engine prints lines in a job, by default the last."""
    number, work = bench.work[job]
    for line in lines:
        bench.front.on_output(number, "stdout", work.key, f"{line}\n".encode(), bench.now)
    bench.pump()


def told(bench: FrontBench, identity: bytes, request: Any = None) -> list[str]:
    """What was sent there, short: texts of events, ``gap 1-3``, and ``ok`` or the code of an error."""
    return [short(reply) for to, reply in bench.sent if to == identity and (request is None or reply.id == request)]


def short(reply: Reply) -> str:
    if isinstance(reply, Event):
        return f"gap {reply.data['first']}-{reply.data['last']}" if reply.event == "gap" else reply.text.strip()
    return "ok" if isinstance(reply, Ok) else reply.code


def collect(bench: FrontBench, token: str, request: Any, identity: bytes = OTHER, **fields: Any) -> Collect:
    """Collects a request under the id ``c``."""
    made = Collect(**{"id": "c", "token": token, "request": request, "events": True, **fields})
    bench.ask(made, identity)
    return made


def lines(bench: FrontBench, token: str) -> list[dict[str, Any]]:
    """What `requests` lists."""
    listed: list[dict[str, Any]] = bench.result(bench.ask(Requests(id=f"list {bench.now}", token=token)))["requests"]
    bench.now += 1
    return listed


# The same client


def test_a_ping_on_a_new_connection_brings_what_was_missed_and_then_what_is_new(bench: FrontBench) -> None:
    """From the event after the last that came; the answer comes behind."""
    token = bench.hello()
    request = bench.run(token, events=True)
    say(bench, "one", "two", "three")
    bench.ask(Ping(id="p", token=token, pending=(request.id,), seen=(1,)), NEW)
    say(bench, "four")
    bench.done(bench.work[0])
    assert told(bench, NEW, request.id) == ["two", "three", "four", "ok"]


def test_a_ping_on_the_connection_that_stands_brings_nothing_again(bench: FrontBench) -> None:
    """What it does not have yet is on its way."""
    token = bench.hello()
    request = bench.run(token, events=True)
    say(bench, "one", "two")
    bench.ask(Ping(id="p", token=token, pending=(request.id,)))
    assert told(bench, b"laptop", request.id) == ["one", "two"]


def test_a_repeated_request_brings_its_events_before_its_answer(bench: FrontBench) -> None:
    """Whether it runs or was answered, from the event after the last that came."""
    token = bench.hello()
    request = bench.run(token, events=True)
    say(bench, "one", "two")
    again = Run(id=request.id, token=token, target=Name(name="step"), events=True, seen=1)
    bench.ask(again, NEW)
    assert told(bench, NEW) == ["two"]
    bench.done(bench.work[0])
    bench.ask(again, OTHER)
    assert told(bench, OTHER) == ["two", "ok"]
    assert len(bench.work) == 1


def test_what_could_not_be_delivered_holds_back_what_follows(bench: FrontBench) -> None:
    """Nothing overtakes it, the answer neither: the client asks for both when it is back."""
    token = bench.hello()
    request = bench.run(token, events=True)
    say(bench, "one")
    (seat,) = next(iter(bench.front._sessions)).seats.values()
    seat.jobs[request.id].listeners[0].route = None
    say(bench, "two")
    bench.done(bench.work[0])
    assert told(bench, b"laptop", request.id) == ["one"]
    pong = bench.ask(Ping(id="p", token=token, pending=(request.id,), seen=(1,)))
    assert bench.result(pong) == {"missing": [request.id]}
    bench.ask(Run(id=request.id, token=token, target=Name(name="step"), events=True, seen=1))
    assert told(bench, b"laptop", request.id) == ["one", "two", "ok"]


def test_a_request_of_which_output_was_seen_and_that_is_not_known_is_not_run(bench: FrontBench) -> None:
    """It ran before: its id was forgotten, or it ran on the worker before this one."""
    token = bench.hello()
    request = Run(id=1, token=token, target=Name(name="step"), events=True, seen=3)
    assert "it is not run twice" in bench.error(bench.ask(request)).message
    assert bench.work == []


def test_events_that_are_not_kept_are_named() -> None:
    """The bound is for all requests of a client together."""
    bench = FrontBench(Settings(event_bytes=1000))
    token = bench.hello()
    request = bench.run(token, events=True)
    say(bench, *(f"line {n}" for n in range(1, 11)))
    bench.ask(Ping(id="p", token=token, pending=(request.id,), seen=(2,)), NEW)
    assert told(bench, NEW, request.id) == ["gap 3-7", "line 8", "line 9", "line 10"]


def test_an_answer_that_was_received_is_forgotten_with_its_events(bench: FrontBench) -> None:
    """Its id is not: it is never run twice."""
    token = bench.hello()
    request = bench.run(token, events=True)
    say(bench, "one")
    bench.done(bench.work[0])
    (seat,) = next(iter(bench.front._sessions)).seats.values()
    assert seat.record.nbytes > 0
    bench.ask(Ping(id="p", token=token, received=(request.id, "nobody's")))
    assert seat.record.nbytes == 0
    bench.ask(request, NEW)
    assert told(bench, NEW) == ["refused"]
    assert len(bench.work) == 1


# Another client of the session


@pytest.mark.parametrize("when", ["queued", "running", "answered"])
def test_another_client_gets_all_of_a_request_as_the_one_who_sent_it(bench: FrontBench, when: str) -> None:
    """Its events from the first, under the id of the request to collect, and its answer, with the op it is of."""
    token = bench.hello(session="lab", client="first")
    first = bench.run(token)
    request = bench.run(token, events=True)
    other = bench.hello(OTHER, session="lab")
    if when == "queued":
        collect(bench, other, request.id)
    bench.done(bench.work[0])
    say(bench, "one")
    if when == "running":
        collect(bench, other, request.id)
    say(bench, "two")
    bench.done(bench.work[1], value=7)
    if when == "answered":
        collect(bench, other, request.id)
    assert told(bench, OTHER, "c") == ["one", "two", "ok"]
    (answer,) = [reply for to, reply in bench.sent if to == OTHER and isinstance(reply, Ok) and reply.id == "c"]
    assert (answer.collected, answer.result["value"]) == ("run", 7)
    assert told(bench, b"laptop", request.id) == ["one", "two", "ok"]
    assert told(bench, b"laptop", first.id) == ["ok"]


def test_an_error_is_collected_as_it_is(bench: FrontBench) -> None:
    """Code and message are the original's."""
    token = bench.hello(session="lab")
    request = bench.run(token)
    bench.failed(bench.work[0], KernelRuntimeError("division by zero"))
    other = bench.hello(OTHER, session="lab")
    collect(bench, other, request.id)
    assert told(bench, OTHER, "c") == ["runtime"]


def test_buffers_go_along(bench: FrontBench) -> None:
    """An array that a run gave back is collected whole."""
    token = bench.hello(session="lab")
    request = bench.run(token)
    buffers: list[Any] = []
    body = pack({"value": None, "written": []}, buffers)
    number, work = bench.work[0]
    bench.front.on_engine(number, Done(key=work.key, ok=True, body=body), [b"12345678"], bench.now)
    bench.pump()
    other = bench.hello(OTHER, session="lab")
    bench.front.take()
    bench.front.on_client(OTHER, "", [pack({"v": 1, "op": "collect", "id": "c", "token": other,
                                            "request": request.id}, [])], bench.now)  # fmt: skip
    (effect,) = bench.front.take()
    assert effect.frames[1:] == [b"12345678"]  # type: ignore[union-attr]


def test_a_collecting_client_that_is_cut_off_goes_on_where_it_was(bench: FrontBench) -> None:
    """It pings and repeats itself like one that sent the request; nothing is collected twice."""
    token = bench.hello(session="lab")
    request = bench.run(token, events=True)
    other = bench.hello(OTHER, session="lab")
    collect(bench, other, request.id)
    say(bench, "one", "two")
    bench.ask(Ping(id="p", token=other, pending=("c",), seen=(1,)), NEW)
    say(bench, "three")
    assert told(bench, NEW, "c") == ["two", "three"]
    collect(bench, other, request.id, seen=3)
    bench.done(bench.work[0])
    assert told(bench, OTHER, "c") == ["one", "two", "ok"]
    pong = bench.ask(Ping(id="q", token=other, pending=("c",), seen=(3,)), b"later")
    assert bench.result(pong) == {"missing": ["c"]}
    collect(bench, other, request.id, b"later", seen=2)
    assert told(bench, b"later", "c") == ["three", "ok"]


def test_a_collected_answer_stays_for_the_one_who_sent_it(bench: FrontBench) -> None:
    """A laptop that sleeps gets it as well; when both have it, it goes."""
    token = bench.hello(session="lab")
    request = bench.run(token)
    bench.done(bench.work[0])
    other = bench.hello(OTHER, session="lab")
    collect(bench, other, request.id)
    bench.ask(Ping(id="p", token=other, received=("c",)), OTHER)
    assert lines(bench, other) == []
    bench.ask(request, NEW)
    assert told(bench, NEW) == ["ok"]
    bench.ask(Ping(id="q", token=token, received=(request.id,)), NEW)
    collect(bench, other, request.id, id="again")
    assert "its client has its answer" in bench.error(Collect(id="again", request=0)).message


def test_an_answer_waits_for_everybody_who_collects_it(bench: FrontBench) -> None:
    """The one who sent it has it, and the other has not yet."""
    token = bench.hello(session="lab")
    request = bench.run(token)
    other = bench.hello(OTHER, session="lab")
    collect(bench, other, request.id)
    bench.done(bench.work[0])
    bench.ask(Ping(id="p", token=token, received=(request.id,)))
    collect(bench, other, request.id, NEW)
    assert told(bench, NEW) == ["ok"]
    bench.ask(Ping(id="q", token=other, received=("c",)), NEW)
    (seat, _) = next(iter(bench.front._sessions)).seats.values()
    assert len(seat.record) == 0


def test_whoever_rejoined_by_the_token_stands_for_the_one_who_sent_it(bench: FrontBench) -> None:
    """The process that was killed never comes back to say that it has the answer."""
    token = bench.hello()
    request = bench.run(token)
    bench.done(bench.work[0])
    collect(bench, token, request.id)
    assert told(bench, OTHER, "c") == ["ok"]
    bench.ask(Ping(id="p", token=token, received=("c",)), OTHER)
    (seat,) = next(iter(bench.front._sessions)).seats.values()
    assert len(seat.record) == 0


def test_a_collecting_client_may_stop_the_request(bench: FrontBench) -> None:
    """By the id that it has for it, and both are told."""
    token = bench.hello(session="lab")
    running, waiting = bench.run(token), bench.run(token)
    other = bench.hello(OTHER, session="lab")
    collect(bench, other, running.id, id="r")
    collect(bench, other, waiting.id, id="w")
    cancelled = bench.ask(Cancel(id="x", token=other, request="w"), OTHER)
    assert bench.result(cancelled) == {"cancelled": True}
    stopped = bench.ask(Interrupt(id="y", token=other, request="r"), OTHER)
    assert bench.result(stopped) == {"stopped": running.id}
    bench.failed(bench.work[0], Interrupted("stopped"))
    for identity, ids in ((OTHER, "rw"), (b"laptop", (running.id, waiting.id))):
        assert [told(bench, identity, each) for each in ids] == [["interrupted"], ["interrupted"]]


# What cannot be collected


def test_what_there_is_not_is_said_with_what_there_is(bench: FrontBench) -> None:
    """Of this session only: an id of another one is not known here."""
    stranger = bench.hello()
    bench.ask(Run(id="secret", token=stranger, target=Name(name="f")))
    token = bench.hello(session="lab")
    request = bench.run(token)
    error = bench.error(collect(bench, token, "secret"))
    assert (error.code, error.data["known"]) == ("unknown-name", [str(request.id)])
    assert "to be collected; there is " in error.message


def test_a_fetch_is_not_kept_and_says_so(bench: FrontBench) -> None:
    """While it waits it can be collected; afterwards it is read again instead."""
    token = bench.hello(session="lab")
    request = bench.ask(Fetch(id="f", token=token, target=Name(name="x")))
    other = bench.hello(OTHER, session="lab")
    collect(bench, other, "f")
    bench.done(bench.work[0])
    assert told(bench, OTHER, "c") == ["ok"]
    error = bench.error(collect(bench, other, "f", id="late"))
    assert error.message == ("request 'f' was answered, and it was a fetch: what was read is not kept, fetch it again")
    bench.ask(request, NEW)
    assert len(bench.work) == 2
    assert [line["request"] for line in lines(bench, token)] == ["f"]


def test_an_answer_that_made_room_says_so() -> None:
    """The bound is in bytes, for each client and for all of a session."""
    bench = FrontBench(Settings(answer_bytes=3000, kept_bytes=4000))
    token = bench.hello(session="lab")
    requests = [bench.run(token) for _ in range(2)]
    for work in list(bench.work):
        bench.done(work, value="x" * 2000)
    assert "had to make room" in bench.error(collect(bench, token, requests[0].id)).message
    other = bench.hello(OTHER, session="lab")
    bench.now += 1
    bench.run(other, identity=OTHER)
    bench.done(bench.work[2], value="x" * 2500)
    assert "had to make room" in bench.error(collect(bench, other, requests[1].id, id="d")).message
    assert len(lines(bench, other)) == 1


def test_one_id_of_two_clients_needs_the_seat(bench: FrontBench) -> None:
    """Who has one of that id means that; who has not says which."""
    tokens = [bench.hello(identity, session="lab", client=identity.decode()) for identity in (b"a", b"b", b"c")]
    for token, identity in zip(tokens[:2], (b"a", b"b"), strict=True):
        bench.ask(Run(id=1, token=token, target=Name(name=identity.decode())), identity)
    error = bench.error(collect(bench, tokens[2], 1))
    assert error.message.endswith("say whose is meant, by its seat, one of 1 (a), 2 (b)")
    collect(bench, tokens[2], 1, id="second", seat=2)
    collect(bench, tokens[0], 1, id="own", identity=b"a")
    for number, work in enumerate(list(bench.work)):
        bench.done(work, value=number)
    values = {reply.id: reply.result["value"] for _, reply in bench.sent if isinstance(reply, Ok) and reply.collected}
    assert values == {"second": 1, "own": 0}


# The list


def test_requests_are_listed_with_whose_they_are_and_since_when(bench: FrontBench) -> None:
    """What runs, what waits, and what was answered to nobody who is known to have it, newest first."""
    token = bench.hello(session="lab", client="first")
    done = [bench.run(token) for _ in range(2)]
    bench.done(bench.work[0])
    bench.front._answers.wall_clock = lambda: 2e9
    bench.failed(bench.work[1], KernelRuntimeError("no"))
    bench.begun.clear()
    running, queued = bench.run(token, "step"), bench.run(token, "later")
    bench.now += 5
    other = bench.hello(OTHER, session="lab", client="second")
    listed = lines(bench, other)
    assert [(line["request"], line["state"]) for line in listed] == [
        (running.id, "running"), (queued.id, "queued"), (done[1].id, "answered"), (done[0].id, "answered"),
    ]  # fmt: skip
    assert [(line["op"], line["target"], line["client"], line["seat"]) for line in listed[:2]] == [
        ("run", "run step", "first", 1), ("run", "run later", "first", 1),
    ]  # fmt: skip
    assert [line["seconds"] for line in listed[:2]] == [5.0, 5.0]
    assert [line["code"] for line in listed[2:]] == ["runtime", None]
    assert listed[3]["nbytes"] > 0


def test_a_long_list_is_cut_and_says_so(bench: FrontBench) -> None:
    """What runs is in it however many wait."""
    token = bench.hello()
    requests = [bench.run(token) for _ in range(1010)]
    result = bench.result(bench.ask(Requests(id="list", token=token)))
    assert (len(result["requests"]), result["omitted"]) == (1000, 10)
    assert result["requests"][0]["request"] == requests[0].id


# Leaving


def leave(bench: FrontBench, token: str, **fields: Any) -> None:
    """Says bye."""
    request: Request = Bye(id=f"bye {bench.now}", token=token, **fields)
    bench.result(bench.ask(request))
    bench.now += 1


def test_work_of_a_client_that_left_goes_on_and_waits(bench: FrontBench) -> None:
    """With what it printed before and after; nothing is sent to where the client was."""
    token = bench.hello(session="lab")
    answered, running = bench.run(token), bench.run(token, events=True)
    bench.done(bench.work[0])
    say(bench, "before")
    leave(bench, token, received=())
    say(bench, "after")
    bench.done(bench.work[1], value=7)
    assert told(bench, b"laptop", running.id) == ["before"]
    other = bench.hello(OTHER, session="lab")
    assert {line["request"] for line in lines(bench, other)} == {answered.id, running.id}
    collect(bench, other, running.id)
    assert told(bench, OTHER, "c") == ["before", "after", "ok"]


def test_a_client_that_says_nothing_of_its_answers_has_them_all(bench: FrontBench) -> None:
    """Small clients in other languages leave nothing behind but what they did not wait for."""
    token = bench.hello(session="lab")
    answered, running = bench.run(token), bench.run(token)
    bench.done(bench.work[0])
    leave(bench, token)
    bench.done(bench.work[1])
    other = bench.hello(OTHER, session="lab")
    assert [line["request"] for line in lines(bench, other)] == [running.id]
    assert "no longer kept" in bench.error(collect(bench, other, answered.id)).message


def test_a_collecting_client_that_leaves_is_told_nothing_more(bench: FrontBench) -> None:
    """The request stays with the one who sent it."""
    token = bench.hello(session="lab")
    request = bench.run(token, events=True)
    other = bench.hello(OTHER, session="lab")
    collect(bench, other, request.id)
    leave(bench, other, received=())
    say(bench, "one")
    bench.done(bench.work[0])
    assert told(bench, OTHER, "c") == []
    assert told(bench, b"laptop", request.id) == ["one", "ok"]
    bench.ask(Ping(id="p", token=token, received=(request.id,)))
    (seat, _) = next(iter(bench.front._sessions)).seats.values()
    assert len(seat.record) == 0


def test_the_lease_counts_from_the_end_of_the_work() -> None:
    """An answer to nobody is there for as long as if somebody had just left."""
    bench = FrontBench()
    token = bench.hello(session="lab", lease=60.0)
    request = bench.run(token)
    leave(bench, token, received=())
    bench.wait(600.0)
    bench.done(bench.work[0], value=7)
    bench.wait(1.0)
    bench.wait(58.0)
    other = bench.hello(OTHER, session="lab")
    collect(bench, other, request.id)
    assert told(bench, OTHER, "c") == ["ok"]
    bench.wait(61.0)
    assert bench.result(bench.ask(Status(id="s")))["sessions"] == 0


def test_a_seat_with_answers_that_wait_is_the_last_to_be_given_away() -> None:
    """Where all seats are taken, one that left nothing behind makes room first."""
    bench = FrontBench(Settings(seats=2))
    left = bench.hello(session="lab")
    request = bench.run(left)
    bench.done(bench.work[0])
    bench.now += 1
    bench.hello(b"idle", session="lab")
    bench.now += 1
    newest = bench.hello(OTHER, session="lab")
    collect(bench, newest, request.id)
    assert told(bench, OTHER, "c") == ["ok"]


def test_an_answer_whose_arrays_may_be_coded_is_collected_by_whoever_reads_them(bench: FrontBench) -> None:
    """Others are refused, while it runs and when it is answered, unless the answer is an error."""
    token = bench.hello(session="lab")
    other = bench.hello(session="lab")
    run = Run(id=1, token=token, target=Name(name="step"), codings=("shuffle-zstd",))
    bench.ask(run)
    assert bench.error(collect(bench, other, 1)).code == "refused"
    bench.done(bench.work[-1])
    assert "coded (shuffle-zstd)" in bench.error(collect(bench, other, 1, id="d")).message
    assert isinstance(bench.answer(collect(bench, other, 1, id="e", codings=("shuffle-zstd", "another"))), Ok)
    failed = Run(id=2, token=token, target=Name(name="step"), codings=("shuffle-zstd",))
    bench.ask(failed)
    bench.failed(bench.work[-1], KernelRuntimeError("it failed"))
    assert bench.error(collect(bench, other, 2, id="f")).code == "runtime"
