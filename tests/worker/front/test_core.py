"""The front's core, fed by hand: hello, ids, limits, what is answered at once, and the end."""

from __future__ import annotations

import numpy as np
import pytest

from front_bench import INFO, FrontBench
from tiremote.protocol.codec import encode
from tiremote.protocol.messages import (
    Bye,
    Cancel,
    Compile,
    Describe,
    Failure,
    Hello,
    Interrupt,
    Ok,
    Ping,
    Put,
    Run,
    Status,
)
from tiremote.protocol.packing import pack
from tiremote.protocol.results import Limits
from tiremote.protocol.values import Name, wire_array
from tiremote.worker.front.settings import Settings
from tiremote.worker.link import Ready


def test_hello_opens_a_session_on_the_spare_and_makes_another(bench: FrontBench) -> None:
    """A new session gets the engine that was ready, and a new spare is started."""
    assert bench.spawned == [1]
    request = bench.ask(Hello(id=1))
    assert bench.result(request)["engine"] == {
        "runtime": "taichi",
        "version": "1.7.4",
        "arch": "cpu",
        "device": "bench",
    }
    assert bench.spawned == [1, 2]


def test_hello_tells_every_limit(bench: FrontBench) -> None:
    """A client in any language reads all limits from the answer to hello."""
    limits = bench.result(bench.ask(Hello(id=1)))["limits"]
    assert limits["buffer_bytes"] == Limits().buffer_bytes
    assert set(limits) == set(Limits.__slots__)


def test_versions_without_overlap_are_refused_with_both_ranges(bench: FrontBench) -> None:
    """A client from the future learns which versions the worker speaks."""
    error = bench.error(bench.ask(Hello(id=1, versions=(7, 9))))
    assert error.code == "version"
    assert error.data["supported"] == [1, 1]


def test_hello_of_a_later_version_is_still_read(bench: FrontBench) -> None:
    """The header's own version does not matter for hello: that is how the two find a common one."""
    header = {"v": 9, "op": "hello", "id": 1, "versions": [1, 9]}
    bench.front.on_client(b"new", "", [pack(header, [])], bench.now)
    bench.pump()
    ((identity, reply),) = bench.sent
    assert identity == b"new"
    assert isinstance(reply, Ok)
    assert reply.result["version"] == 1


def test_a_token_rejoins_and_a_name_is_shared(bench: FrontBench) -> None:
    """The token leads back to a private session, the name to a shared one, with a seat of its own."""
    token = bench.hello(session="lab")
    again = bench.result(bench.ask(Hello(id="again", token=token)))
    other = bench.result(bench.ask(Hello(id="other", session="lab")))
    assert (again["token"], again["rejoined"]) == (token, True)
    assert other["rejoined"] is True
    assert other["token"] != token
    assert bench.result(bench.ask(Status(id="s")))["sessions"] == 1


def test_under_keys_a_name_belongs_to_its_key(bench: FrontBench) -> None:
    """Another key that asks for the same session name gets a session of its own."""
    bench.hello(session="lab", user="key-a")
    other = bench.result(bench.ask(Hello(id="other", session="lab"), user="key-b"))
    assert other["rejoined"] is False


def test_a_token_of_another_key_is_refused(bench: FrontBench) -> None:
    """A stolen token is of no use to another key."""
    token = bench.hello(user="key-a")
    assert bench.error(bench.ask(Describe(id=1, token=token), user="key-b")).code == "unauthorized"


def test_rejoining_with_other_options_is_refused(bench: FrontBench) -> None:
    """A session's options stay what they were; a wish for others is not dropped silently."""
    bench.hello(session="lab", options={"default_fp": "f64"})
    error = bench.error(bench.ask(Hello(id=2, session="lab", options={"default_fp": "f32"})))
    assert error.code == "refused"
    assert "default_fp='f64'" in error.message


def test_work_without_a_token_is_refused(bench: FrontBench) -> None:
    """Only hello, ping and status need no token."""
    assert bench.error(bench.ask(Run(id=1, target=Name(name="f")))).code == "unauthorized"
    assert bench.result(bench.ask(Ping(id=2))) == {"missing": []}


def test_an_unknown_token_says_to_connect_again(bench: FrontBench) -> None:
    """After a restart of the worker a client learns that its session is gone."""
    error = bench.error(bench.ask(Run(id=1, token="gone", target=Name(name="f"))))
    assert error.code == "unknown-name"
    assert "connect again" in error.message


def test_a_repeated_id_is_answered_from_the_record(bench: FrontBench) -> None:
    """The same request, sent again after its answer was lost, is not run again."""
    token = bench.hello()
    request = bench.run(token)
    bench.done(bench.work[0], value=7)
    bench.ask(request, b"laptop-after-the-tunnel")
    assert len(bench.work) == 1
    (_, first), (identity, second) = [(i, r) for i, r in bench.sent if r.id == request.id]
    assert first == second
    assert identity == b"laptop-after-the-tunnel"


def test_a_repeat_of_a_running_request_moves_its_answer(bench: FrontBench) -> None:
    """A request that is sent again while it runs is answered once, where it was last asked from."""
    token = bench.hello()
    request = bench.run(token)
    bench.ask(request, b"new-connection")
    bench.done(bench.work[0])
    assert len(bench.work) == 1
    assert [identity for identity, reply in bench.sent if reply.id == request.id] == [b"new-connection"]


def test_a_ping_with_pending_ids_reattaches_and_names_what_is_missing(bench: FrontBench) -> None:
    """After a cut, a ping tells which requests to send again, and moves the others to the new connection."""
    token = bench.hello()
    answered, running = bench.run(token), bench.run(token)
    bench.done(bench.work[0])
    pong = bench.ask(Ping(id="p", token=token, pending=(answered.id, running.id, "never-came")), b"new")
    assert bench.result(pong) == {"missing": [answered.id, "never-came"]}
    bench.done(bench.work[1])
    assert [identity for identity, reply in bench.sent if reply.id == running.id] == [b"new"]


def test_two_clients_of_a_session_may_use_the_same_ids(bench: FrontBench) -> None:
    """Ids are unique for each token, not for the session."""
    one, two = bench.hello(session="lab"), bench.hello(b"other", session="lab")
    bench.ask(Run(id=1, token=one, target=Name(name="f")))
    bench.ask(Run(id=1, token=two, target=Name(name="f")), b"other")
    assert len(bench.work) == 2


@pytest.mark.parametrize(
    ("frames", "code"),
    [
        ([b"\xc1"], "protocol"),
        ([b"\x81\xa1"], "protocol"),
        ([pack([1, 2], [])], "protocol"),
        ([pack({"v": 1, "op": "run"}, [])], "protocol"),
        ([pack({"v": 1, "op": "fly", "id": 1}, [])], "protocol"),
        ([pack({"v": 2, "op": "run", "id": 1}, [])], "version"),
        ([pack({"v": 1, "op": "ping", "id": 1, "colour": "red"}, [])], "protocol"),
        ([pack({"v": 1, "op": "ping", "id": 1}, []), *[b""] * 200], "too-large"),
    ],
)
def test_a_malformed_message_gets_an_error_and_the_next_an_answer(
    bench: FrontBench, frames: list[bytes], code: str
) -> None:
    """Whatever comes, its sender is told what is wrong with it, and the worker goes on."""
    bench.front.on_client(b"stranger", "", frames, bench.now)
    bench.pump()
    _, reply = bench.sent[-1]
    assert isinstance(reply, Failure)
    assert reply.code == code
    assert bench.result(bench.ask(Ping(id="after"))) == {"missing": []}


def test_a_fault_of_the_front_costs_one_answer(bench: FrontBench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is wrong in the worker itself, it is told to whom it concerns and ends nobody's session."""
    token = bench.hello()

    def broken(*_: object) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setattr(bench.front.scheduler, "submit", broken)
        assert bench.error(bench.run(token)).code == "internal"
    request = bench.run(token)
    bench.done(bench.work[0], value=1)
    assert bench.result(request)["value"] == 1


def test_a_message_without_a_header_is_counted(bench: FrontBench) -> None:
    """Where there is nothing to answer, the drop is counted."""
    for frames in ([], [b""]):
        bench.front.on_client(b"stranger", "", frames, bench.now)
    assert bench.front.take() == []
    assert bench.result(bench.ask(Status(id=1)))["dropped"] == 2


def test_an_empty_delimiter_frame_is_echoed(bench: FrontBench) -> None:
    """A REQ socket's empty frame comes back before the answer."""
    bench.front.on_client(b"req", "", [b"", *encode(Ping(id=1))], bench.now)
    (effect,) = bench.front.take()
    assert effect.route.delimited  # type: ignore[union-attr]


def test_a_size_that_lies_is_refused(bench: FrontBench) -> None:
    """An array whose buffer is shorter than its shape says never reaches an engine."""
    token = bench.hello()
    header, _ = encode(Put(id=1, token=token, array=wire_array(np.zeros(4, np.float32))))
    bench.front.on_client(b"laptop", "", [header, b"\0" * 15], bench.now)
    bench.pump()
    _, reply = bench.sent[-1]
    assert isinstance(reply, Failure)
    assert "16 bytes" in reply.message
    assert "15" in reply.message
    assert bench.work == []


def test_waiting_bytes_of_a_session_are_bounded() -> None:
    """A client that sends faster than its engine takes is refused, not remembered without end."""
    bench = FrontBench(Settings(limits=Limits(session_bytes=100), window=1))
    token = bench.hello()
    bench.run(token)
    array = wire_array(np.zeros(60, np.uint8))
    bench.ask(Put(id="first", token=token, array=array))
    error = bench.error(bench.ask(Put(id="second", token=token, array=array)))
    assert error.code == "too-large"
    bench.done(bench.work[0])
    bench.ask(Put(id="third", token=token, array=array))
    assert bench.replies(Put(id="third", token=token, array=array)) == []


def test_a_source_that_is_too_long_is_refused() -> None:
    """The limit on a source counts its bytes, and is said with both numbers."""
    bench = FrontBench(Settings(limits=Limits(source_bytes=10)))
    token = bench.hello()
    for number, (source, size) in enumerate([("x" * 11, 11), ("\u00fc" * 6, 12)]):
        error = bench.error(bench.ask(Compile(id=number, token=token, source=source)))
        assert (error.code, error.data) == ("too-large", {"size": size, "limit": 10})


def test_status_tells_what_runs_and_since_when(bench: FrontBench) -> None:
    """The request, its target and its seconds are told while the engine is busy."""
    token = bench.hello(client="mia")
    request = bench.run(token, "slow")
    bench.run(token)
    bench.wait(12.5)
    session = bench.result(bench.ask(Status(id="s", token=token)))["session"]
    assert session["running"] == {
        "request": request.id, "op": "run", "target": "run slow", "seconds": 12.5, "client": "mia", "compiling": False,
    }  # fmt: skip
    assert (session["state"], session["queued"]) == ("busy", 1)


def test_describe_is_answered_from_what_engines_reported(bench: FrontBench) -> None:
    """Units and arrays are listed without asking the engine."""
    token = bench.hello()
    bench.load_unit(token, "sim")
    bench.keep_array(token, label="x", nbytes=40)
    bench.run(token)
    told = bench.result(bench.ask(Describe(id="d", token=token)))
    assert [unit["unit"] for unit in told["units"]] == ["sim"]
    assert told["newest"] == "sim"
    assert [array["label"] for array in told["arrays"]] == ["x"]
    assert told["nbytes"] == 40


@pytest.mark.parametrize("window", [1, 8])
def test_cancel_takes_a_waiting_request_out(window: int) -> None:
    """A request that waits, here or on its way to the engine, is cancelled; one that runs is not."""
    bench = FrontBench(Settings(window=window))
    token = bench.hello()
    running, waiting = bench.run(token), bench.run(token)
    assert bench.result(bench.ask(Cancel(id="c1", token=token, request=waiting.id)))["cancelled"] is True
    assert bench.error(waiting).code == "interrupted"
    assert bench.result(bench.ask(Cancel(id="c2", token=token, request=running.id)))["cancelled"] is False


def test_interrupt_of_nothing_says_so(bench: FrontBench) -> None:
    """An interrupt that finds nothing running is no error."""
    assert bench.result(bench.ask(Interrupt(id=1, token=bench.hello())))["stopped"] is None


def test_bye_with_end_ends_the_session_and_its_token(bench: FrontBench) -> None:
    """What waits in an ended session is answered, and its token is no longer known."""
    token = bench.hello()
    request = bench.run(token)
    assert bench.result(bench.ask(Bye(id="b", token=token, end=True)))["session_ended"] is True
    assert bench.error(request).code == "interrupted"
    assert bench.killed == [1]
    assert bench.error(bench.run(token)).code == "unknown-name"


def test_sessions_are_listed_and_can_be_ended_from_outside(bench: FrontBench) -> None:
    """A session whose client is gone, its token with it, is found and ended, by its own key alone."""
    token = bench.hello(session="lab", user="key-a")
    bench.hello(b"other", user="key-b")
    request = bench.run(token, "endless", user="key-a")
    bench.wait(40.0)
    (line,) = bench.result(bench.ask(Status(id="s"), user="key-a"))["listed"]
    assert (line["name"], line["state"], line["clients"], line["unused"]) == ("lab", "busy", 0, 40.0)
    assert line["running"]["target"] == "run endless"
    assert bench.error(bench.ask(Bye(id="b", end=True, session="lab"), user="key-b")).code == "unknown-name"
    assert bench.error(bench.ask(Bye(id="c", session="lab"), user="key-a")).code == "unauthorized"
    assert bench.result(bench.ask(Bye(id="d", end=True, session=line["id"]), user="key-a"))["session_ended"] is True
    assert bench.error(request).code == "interrupted"
    assert bench.killed == [1]


def test_a_client_that_has_said_bye_is_not_counted_and_its_answers_are_not_kept(bench: FrontBench) -> None:
    """Who has left is no client any more; its ids are still not run twice."""
    token = bench.hello(session="lab")
    request = bench.run(token)
    bench.done(bench.work[0])
    bench.ask(Bye(id="b", token=token))
    other = bench.hello(b"other", session="lab")
    assert bench.result(bench.ask(Status(id="s", token=other)))["session"]["clients"] == 1
    bench.ask(request)
    assert [reply.op for reply in bench.replies(request)] == ["ok", "error"]
    assert len(bench.work) == 1


def test_a_session_outlives_its_client_by_its_lease_and_not_longer(bench: FrontBench) -> None:
    """A detached session is there until its lease is over, then its engine goes."""
    token = bench.hello(lease=60.0)
    assert bench.result(bench.ask(Bye(id="b", token=token)))["session_ended"] is False
    bench.wait(59.0)
    assert bench.result(bench.ask(Hello(id="back", token=token)))["rejoined"] is True
    bench.wait(61.0)
    assert bench.error(bench.ask(Hello(id="late", token=token))).code == "unknown-name"


def test_a_lease_shorter_than_an_engines_start_does_not_swallow_hello() -> None:
    """Hello is answered when its engine is ready, and only then may the session run out."""
    bench = FrontBench(ready=False)
    request = bench.ask(Hello(id=1, lease=0.1))
    bench.wait(5.0)
    assert bench.replies(request) == []
    for _ in ("prepared", "open"):
        bench.front.on_engine(1, Ready(info=INFO), [], bench.now)
        bench.wait(0.0)
    assert bench.result(request)["lease"] == 0.1
    bench.wait(5.0)
    assert bench.result(bench.ask(Status(id="s")))["sessions"] == 0


def test_a_hello_that_waits_is_answered_when_its_session_ends(bench: FrontBench) -> None:
    """Somebody else of the session, or a drain, may end it while its engine is being replaced."""
    token = bench.hello(session="lab")
    bench.ready = False
    bench.die(1)
    waiting = bench.ask(Hello(id="waiting", session="lab"))
    assert bench.replies(waiting) == []
    bench.ask(Bye(id="b", token=token, end=True))
    assert bench.error(waiting).code == "interrupted"
    late = bench.ask(Hello(id="late", session="other"))
    bench.front.drain(bench.now)
    bench.wait(Settings().drain + 0.1)
    assert bench.error(late).code == "interrupted"


def test_a_lease_does_not_end_a_running_job(bench: FrontBench) -> None:
    """Work that takes longer than the lease is not thrown away."""
    token = bench.hello(lease=10.0)
    request = bench.run(token)
    bench.wait(100.0)
    assert bench.front.next_deadline(bench.now) is None
    bench.done(bench.work[0])
    assert bench.result(request) == {"value": None, "written": []}


def test_sessions_are_bounded_and_an_unused_empty_one_makes_room() -> None:
    """A full worker refuses, unless a session that holds nothing was left by its client."""
    bench = FrontBench(Settings(limits=Limits(sessions=2)))
    kept = bench.hello()
    bench.load_unit(kept)
    bench.hello()
    assert bench.error(bench.ask(Hello(id="third"))).code == "refused"
    bench.wait(31.0)
    assert bench.result(bench.ask(Hello(id="fourth")))["rejoined"] is False
    assert bench.result(bench.ask(Describe(id="d", token=kept)))["newest"] == "sim"


def test_a_refused_hello_takes_no_seat() -> None:
    """A client that is turned away does not push another out of a named session."""
    bench = FrontBench(Settings(seats=1))
    token = bench.hello(session="lab")
    assert bench.error(bench.ask(Hello(id=1, session="lab", options={"debug": True}))).code == "refused"
    assert bench.result(bench.ask(Describe(id="d", token=token)))["generation"] == 1


def test_seats_of_a_named_session_are_bounded() -> None:
    """Clients that come by name again and again without their token do not add up for ever."""
    bench = FrontBench(Settings(seats=2))
    first = bench.hello(session="lab")
    bench.wait(1.0)
    bench.hello(session="lab")
    bench.wait(1.0)
    bench.hello(session="lab")
    assert bench.error(bench.ask(Describe(id="d", token=first))).code == "unknown-name"


def test_a_drain_lets_running_work_end_and_takes_no_more(bench: FrontBench) -> None:
    """After SIGTERM what runs is answered, new work is refused, then the worker stops."""
    token = bench.hello()
    request = bench.run(token)
    bench.front.drain(bench.now)
    bench.pump()
    assert bench.error(bench.run(token)).code == "refused"
    assert not bench.stopped
    bench.done(bench.work[0])
    bench.wait(0.0)
    assert bench.result(request)["value"] is None
    for number in bench.spawned:
        bench.die(number, 0)
    bench.wait(0.0)
    assert bench.stopped


def test_a_drain_waits_for_the_answer_to_a_crash(bench: FrontBench) -> None:
    """A request whose engine dies while the worker drains is answered before that leaves."""
    token = bench.hello()
    bench.load_unit(token)
    request = bench.run(token)
    bench.front.drain(bench.now)
    bench.die(1)
    bench.wait(0.01)
    assert not bench.stopped
    bench.wait(Settings().mourning)
    assert bench.error(request).code == "crashed"


def test_a_drain_that_takes_too_long_ends_what_runs(bench: FrontBench) -> None:
    """Work that outlasts the drain is answered as interrupted."""
    token = bench.hello()
    request = bench.run(token)
    bench.front.drain(bench.now)
    bench.wait(Settings().drain + 0.1)
    assert bench.error(request).code == "interrupted"


def test_an_engine_that_cannot_start_with_the_options_fails_hello(bench: FrontBench) -> None:
    """Hello is answered with the reason, and no half-open session stays."""
    bench.ready = False
    request = bench.ask(Hello(id=1, options={"arch": "cuda"}))
    bench.front.on_engine(1, Ready(failure=["refused", "no cuda here", {}]), [], bench.now)
    bench.pump()
    assert bench.error(request).message == "no cuda here"
    assert bench.result(bench.ask(Status(id="s")))["sessions"] == 0
    assert bench.result(bench.ask(Status(id="t")))["engine"]["arch"] == INFO.arch
