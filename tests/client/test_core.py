"""What is sent, sent again and given up: no socket, and the time is a number."""

from __future__ import annotations

from typing import Any

import pytest

from tiremote.client.core import PING_EVERY, RECEIVED, SLEPT, SLOW_LINK, WORD_AFTER, Core, Pending
from tiremote.protocol.codec import decode_request, encode, failure
from tiremote.protocol.errors import CompileError, ProtocolError, UnknownName, WorkerUnreachable
from tiremote.protocol.messages import Event, Failure, Hello, Ok, Ping, Request, Run, Status
from tiremote.protocol.results import Pong
from tiremote.protocol.values import Name

ADDRESS = "tcp://gpu-box:5555"


class Wire:
    """A core, what it said, and what its requests were answered with."""

    def __init__(self, *, token: str | None = "t", connected: bool = True, quiet_limit: float = 15.0) -> None:
        self.core = Core(ADDRESS, quiet_limit=quiet_limit)
        self.core.token = token
        self.answers: dict[Any, Any] = {}
        self.events: list[Event] = []
        if connected:
            self.core.connected(0.0)

    def run(self, request: str, now: float = 0.0, weight: int = 0) -> None:
        self.send(Run(id=request, token="t", target=Name(name="k")), now, weight)

    def send(self, request: Request, now: float = 0.0, weight: int = 0) -> None:
        def settle(answer: Any) -> None:
            assert request.id not in self.answers
            self.answers[request.id] = answer

        self.core.send(Pending(request, encode(request), settle, self.events.append, weight), now)

    def sent(self) -> list[Request]:
        return [decode_request(frames) for frames in self.core.take()]

    def ids(self) -> list[Any]:
        return [request.id for request in self.sent()]

    def ok(self, request: Any, now: float, result: Any = None) -> None:
        self.core.received(Ok(id=request, result=result), now)

    def pong(self, ping: Request, now: float, *missing: str) -> None:
        self.ok(ping.id, now, {"missing": list(missing)})


def test_a_request_goes_out_once_the_connection_stands() -> None:
    """Nothing is sent before the handshake, everything in order after it."""
    wire = Wire(connected=False)
    wire.run("a")
    wire.run("b")
    assert wire.ids() == []
    wire.core.connected(1.0)
    assert wire.ids() == ["a", "b"]


def test_an_answer_settles_its_request_and_no_other() -> None:
    """Answers find their requests in any order, and one that nobody waits for is dropped."""
    wire = Wire()
    wire.run("a")
    wire.run("b")
    wire.ok("b", 0.1, 2)
    wire.ok("nobody", 0.1)
    wire.core.received(failure("a", CompileError("no")), 0.2)
    assert wire.answers["b"].result == 2
    assert isinstance(wire.answers["a"], CompileError)
    assert wire.core.pending == ()


def test_what_is_pending_is_asked_about_every_two_seconds() -> None:
    """A ping names all ids that were sent and are not answered."""
    wire = Wire()
    wire.run("a", 0.0)
    wire.run("b", 0.0)
    wire.sent()
    assert wire.core.next_tick(0.0) == PING_EVERY
    wire.core.tick(1.9)
    assert wire.sent() == []
    wire.core.tick(2.0)
    (ping,) = wire.sent()
    assert isinstance(ping, Ping)
    assert (ping.pending, ping.token) == (("a", "b"), "t")
    wire.pong(ping, 2.1)
    wire.core.tick(3.9)
    assert wire.sent() == []


def test_nothing_is_sent_while_nothing_is_pending() -> None:
    """An idle session is silent, and needs no waking."""
    wire = Wire()
    wire.core.tick(100.0)
    assert wire.sent() == []
    assert wire.core.next_tick(100.0) is None


def test_what_the_worker_calls_missing_is_sent_again_with_its_id() -> None:
    """The same request under the same id, so that the worker answers from its record and runs nothing twice."""
    wire = Wire()
    wire.run("a")
    wire.run("b")
    wire.sent()
    wire.core.tick(2.0)
    (ping,) = wire.sent()
    wire.pong(ping, 2.1, "b")
    assert wire.ids() == ["b"]


def test_what_was_answered_before_the_pong_is_not_sent_again() -> None:
    """The worker calls answered ids missing as well; the answer got here first."""
    wire = Wire()
    wire.run("a")
    wire.sent()
    wire.core.tick(2.0)
    (ping,) = wire.sent()
    wire.ok("a", 2.05)
    wire.pong(ping, 2.1, "a")
    assert wire.sent() == []


def test_after_a_cut_what_was_lost_goes_before_what_is_new() -> None:
    """The order of requests stays the caller's: until the pong tells what is missing, nothing new is sent."""
    wire = Wire()
    wire.run("a")
    wire.run("b")
    wire.sent()
    wire.core.disconnected()
    wire.run("c")
    wire.core.connected(1.0)
    (ping,) = wire.sent()
    assert isinstance(ping, Ping)
    wire.run("d")
    assert wire.sent() == []
    wire.pong(ping, 1.1, "b")
    assert wire.ids() == ["b", "c", "d"]


def test_a_pong_that_is_lost_after_a_cut_is_asked_for_again() -> None:
    """The ping that everything waits for is repeated."""
    wire = Wire()
    wire.run("a")
    wire.core.disconnected()
    wire.core.connected(1.0)
    wire.sent()
    wire.run("b")
    wire.core.tick(3.0)
    (ping,) = wire.sent()
    wire.pong(ping, 3.1)
    assert wire.ids() == ["b"]


def test_hello_is_sent_again_after_a_cut_without_asking() -> None:
    """Before hello is answered there is no record of this client to ask about."""
    wire = Wire(token=None)
    wire.send(Hello(id="h"))
    assert wire.ids() == ["h"]
    wire.core.disconnected()
    wire.core.connected(1.0)
    assert wire.ids() == ["h"]


def test_silence_fails_all_that_waits() -> None:
    """After the quiet limit each waiting request gets an error of its own, with address, time and advice."""
    wire = Wire(quiet_limit=15.0)
    wire.run("a", 0.0)
    wire.run("b", 3.0)
    for now in range(2, 15, 2):
        wire.core.tick(float(now))
        wire.sent()
    assert wire.answers == {}
    wire.core.tick(15.0)
    errors = [wire.answers["a"], wire.answers["b"]]
    assert all(isinstance(error, WorkerUnreachable) for error in errors)
    assert errors[0] is not errors[1]
    assert ADDRESS in str(errors[0])
    assert "15.0 s" in str(errors[0])
    assert "check" in str(errors[0])
    assert wire.core.wants_reconnect


def test_any_word_of_the_worker_ends_the_silence() -> None:
    """Events and pongs count as well as answers: work may take as long as it takes."""
    wire = Wire(quiet_limit=15.0)
    wire.run("a")
    for now in range(2, 100, 2):
        wire.core.tick(float(now))
        for ping in wire.sent():
            if isinstance(ping, Ping):
                wire.pong(ping, now + 0.1)
    assert wire.answers == {}


def test_a_later_request_starts_a_silence_of_its_own() -> None:
    """Seconds in which nothing was asked do not count."""
    wire = Wire(quiet_limit=15.0)
    for now in range(100):
        wire.core.tick(float(now))
    wire.run("a", 100.0)
    wire.core.tick(101.0)
    assert wire.answers == {}


def test_a_large_message_may_take_the_time_of_a_slow_link() -> None:
    """A message is heard only when it is whole, so its bytes lengthen the wait, while the connection stands."""
    wire = Wire(quiet_limit=15.0)
    wire.run("a", 0.0, weight=20 * SLOW_LINK)
    for now in range(2, 36, 3):
        wire.core.tick(float(now))
        assert (now >= 35) == bool(wire.answers)
    wire = Wire(quiet_limit=15.0)
    wire.run("a", 0.0, weight=20 * SLOW_LINK)
    wire.core.disconnected()
    wire.core.tick(0.0)
    for now in (4.0, 8.0, 12.0, 15.0):
        wire.core.tick(now)
    assert isinstance(wire.answers["a"], WorkerUnreachable)


def test_a_large_message_buys_no_patience_once_it_is_answered() -> None:
    """Nor does one that was sent twice buy twice as much."""
    wire = Wire()
    wire.run("large", weight=20 * SLOW_LINK)
    wire.run("b")
    wire.sent()
    wire.core.tick(2.0)
    (ping,) = wire.sent()
    wire.pong(ping, 2.0, "large")
    wire.ok("large", 3.0)
    for now in range(3, 19, 3):
        wire.core.tick(float(now))
        assert (now >= 18) == bool("b" in wire.answers)


def test_sleep_is_not_the_workers_silence() -> None:
    """A process that was stopped, or a laptop that slept, waits on from where it was."""
    wire = Wire(quiet_limit=15.0)
    wire.run("a")
    wire.core.tick(1.0)
    wire.core.tick(3600.0)
    assert wire.answers == {}
    now = 3600.0
    while not wire.answers:
        now += SLEPT / 2
        wire.core.tick(now)
    assert now >= 3613.0


def test_a_worker_that_never_answered_gives_another_text() -> None:
    """Where no connection ever stood the text tells what to check there, and why it failed if that is known."""
    wire = Wire(connected=False, quiet_limit=4.0)
    wire.core.trouble = "no connection is accepted"
    wire.run("a")
    wire.core.tick(0.0)
    wire.core.tick(4.0)
    text = str(wire.answers["a"])
    assert text.startswith(f"nothing answers at {ADDRESS} (tried for 4.0 s: no connection is accepted)")
    assert "\n" not in text


def test_a_worker_that_does_not_know_the_client_fails_all_with_its_own_error() -> None:
    """After a restart of the worker its answer to the ping is what callers get."""
    wire = Wire()
    wire.run("a")
    wire.sent()
    wire.core.tick(2.0)
    (ping,) = wire.sent()
    wire.core.received(Failure(id=ping.id, code="unknown-name", message="no session has this token"), 2.1)
    assert isinstance(wire.answers["a"], UnknownName)


def test_a_worker_that_is_gone_for_good_fails_what_waits_and_what_comes() -> None:
    """A local worker's end is known at once."""
    wire = Wire()
    wire.run("a")
    wire.core.lost("the local worker has ended")
    wire.run("b")
    assert [str(wire.answers[one]) for one in "ab"] == ["the local worker has ended"] * 2


def test_events_arrive_once_and_in_order() -> None:
    """An event that comes again after a request was sent again is dropped."""
    wire = Wire()
    wire.run("a")
    for seq in (1, 2, 1, 2, 3):
        wire.core.received(Event(id="a", seq=seq, event="stdout", text=str(seq)), 0.1)
    wire.core.received(Event(id="nobody", seq=1, event="stdout", text="x"), 0.1)
    assert [event.text for event in wire.events] == ["1", "2", "3"]


def test_an_answer_that_does_not_decode_fails_its_request() -> None:
    """Whoever waits for it is told, and the rest goes on."""
    wire = Wire()
    wire.run("a")
    wire.run("b")
    wire.core.unreadable("a", ProtocolError("truncated"), 0.1)
    wire.core.unreadable(None, ProtocolError("truncated"), 0.1)
    assert isinstance(wire.answers["a"], ProtocolError)
    assert wire.core.pending == ("b",)


@pytest.mark.parametrize("result", [{"missing": 3}, None, Pong().missing])
def test_a_pong_that_makes_no_sense_is_no_reason_to_fail(result: Any) -> None:
    """It counts as a word of the worker, and the next ping asks again."""
    wire = Wire()
    wire.run("a")
    wire.sent()
    wire.core.tick(2.0)
    (ping,) = wire.sent()
    wire.ok(ping.id, 2.1, result)
    assert wire.answers == {}


def event(request: str, seq: int) -> Event:
    return Event(id=request, seq=seq, event="stdout", text=str(seq))


def test_what_is_asked_for_again_says_which_events_came() -> None:
    """The ping for each that is pending, the request that is sent again for itself, so that no event is lost."""
    wire = Wire()
    for request in "abc":
        wire.run(request)
    wire.sent()
    wire.core.received(event("b", 1), 0.1)
    wire.core.received(event("b", 2), 0.1)
    wire.core.disconnected()
    wire.core.connected(1.0)
    (ping,) = wire.sent()
    assert isinstance(ping, Ping)
    assert (ping.pending, ping.seen) == (("a", "b", "c"), (0, 2))
    wire.pong(ping, 1.1, "a", "b")
    a, b = wire.sent()
    assert isinstance(a, Run)
    assert isinstance(b, Run)
    assert (a.seen, b.seen) == (0, 2)


def test_the_worker_is_told_which_answers_came() -> None:
    """A moment later, for many at a time, and no more once it has confirmed that; other answers it does not keep."""
    wire = Wire()
    for request in "ab":
        wire.run(request)
        wire.ok(request, 1.0)
    wire.send(Status(id="s"))
    wire.ok("s", 1.0)
    wire.sent()
    assert wire.core.delivered == ("a", "b")
    assert wire.core.next_tick(1.0) == pytest.approx(WORD_AFTER)
    wire.core.tick(1.0 + WORD_AFTER)
    (ping,) = wire.sent()
    assert isinstance(ping, Ping)
    assert (ping.pending, ping.received) == ((), ("a", "b"))
    wire.run("c")
    wire.ok("c", 1.3)
    wire.pong(ping, 1.4)
    assert wire.core.delivered == ("c",)
    assert wire.core.next_tick(1.4) is not None


def test_an_answer_of_which_the_word_was_lost_is_told_again() -> None:
    """With the connection."""
    wire = Wire()
    wire.run("a")
    wire.ok("a", 0.0)
    wire.core.tick(1.0)
    wire.sent()
    assert wire.core.next_tick(1.0) is None
    wire.core.disconnected()
    assert wire.core.next_tick(2.0) is None
    wire.core.connected(3.0)
    wire.core.tick(3.0 + WORD_AFTER)
    (ping,) = wire.sent()
    assert isinstance(ping, Ping)
    assert ping.received == ("a",)


def test_no_more_answers_are_told_than_a_worker_keeps() -> None:
    """A client that is cut off for long does not grow without end."""
    wire = Wire()
    for number in range(RECEIVED + 10):
        wire.run(str(number))
        wire.ok(str(number), 0.0)
    assert len(wire.core.delivered) == RECEIVED
    assert wire.core.delivered[0] == "10"


def test_an_answer_that_did_not_decode_was_not_received() -> None:
    """Another client may know how to read it."""
    wire = Wire()
    wire.run("a")
    wire.core.unreadable("a", ProtocolError("truncated"), 0.1)
    assert wire.core.delivered == ()


def test_a_gap_is_passed_on_and_what_comes_behind_it_too() -> None:
    """It stands for the events up to its number."""
    wire = Wire()
    wire.run("a")
    wire.core.received(event("a", 1), 0.1)
    wire.core.received(Event(id="a", seq=5, event="gap", text="lost", data={"first": 2, "last": 5}), 0.1)
    for seq in (5, 6):
        wire.core.received(event("a", seq), 0.1)
    assert [one.text for one in wire.events] == ["1", "lost", "6"]
