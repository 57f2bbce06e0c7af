"""The engine's end of a lane, with sites and a link that are played: who is let in, what is answered, when it ends."""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import msgpack
import pytest

from tiremote.protocol.errors import ProtocolError, Refused
from tiremote.protocol.lanes import LENGTH, MAX_CALL, Lend, OpenLane
from tiremote.worker.engine.lanes import Lanes
from tiremote.worker.engine.nudges import Stopped
from tiremote.worker.engine.sites import Key, Sites
from tiremote.worker.page import Calls, Page

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="lanes are Unix sockets without a file")


class PlayedSites:
    """Site 1 adds its numbers up; all calls are kept."""

    def __init__(self) -> None:
        self.made: list[tuple[Key, list[Any]]] = []
        #: Called with each.
        self.then: Callable[[], None] = lambda: None

    def call(self, key: Key, numbers: Sequence[Any]) -> tuple[bool, Any]:
        self.made.append((key, list(numbers)))
        self.then()
        return (True, sum(numbers)) if key[1] == 1 else (False, None)


class Bench:
    """Lanes, and the link to the front that they watch."""

    def __init__(self) -> None:
        self.sites = PlayedSites()
        self.front, self._link = socket.socketpair()
        self.marks: list[bytes | None] = []
        self.stop = False
        self.lanes = Lanes(cast(Sites, self.sites), cast(Any, self), mark=self.marks.append, may_stop=self._may_stop)
        self.clients: list[socket.socket] = []

    def fileno(self) -> int:
        return self._link.fileno()

    def has_input(self, seconds: float) -> bool:
        self._link.settimeout(seconds or 0.0)
        try:
            return bool(self._link.recv(1, socket.MSG_PEEK))
        except BlockingIOError:
            return False

    def _may_stop(self) -> None:
        if self.stop:
            raise Stopped

    def client(self, secret: bytes | None = None) -> socket.socket:
        """A client that has connected and said the secret, or something else."""
        opened = self.lanes.open(OpenLane(id=1, token="t"))
        made = socket.socket(socket.AF_UNIX)
        self.clients.append(made)
        made.connect(f"\0{opened.address}")
        send(made, [opened.secret if secret is None else secret])
        return made

    def lend(self, number: int = 1) -> int:
        return self.lanes.lend(Lend(id=2, token="t", number=number)).calls

    def close(self) -> None:
        self.lanes.close()
        for each in (self.front, self._link, *self.clients):
            each.close()


def send(client: socket.socket, message: Any) -> None:
    body = msgpack.packb(message)
    client.sendall(LENGTH.pack(len(body)) + body)


def received(client: socket.socket) -> list[Any]:
    """What has come."""
    client.settimeout(0)
    try:
        data = client.recv(1 << 16)
    except BlockingIOError:
        data = b""
    messages = []
    while data:
        (length,) = LENGTH.unpack_from(data)
        messages.append(msgpack.unpackb(data[LENGTH.size : LENGTH.size + length]))
        data = data[LENGTH.size + length :]
    return messages


@pytest.fixture
def bench() -> Iterator[Bench]:
    bench = Bench()
    yield bench
    bench.close()


def test_calls_are_answered_in_order_and_then_the_lend_is_over(bench: Bench) -> None:
    """Each with its result and seconds; one of an unknown site with its number alone."""
    client = bench.client()
    for call, site in ((1, 1), (2, 9), (3, 1)):
        send(client, [1, call, site, [call, 0.5]])
    assert bench.lend() == 2
    (one, first, sum_), two, (three, third, other), end = received(client)
    assert (one, sum_, two, three, other, end) == (1, 1.5, [2], 3, 3.5, [None, 1])
    assert 0 <= first < 1
    assert 0 <= third < 1
    assert [key for key, _ in bench.sites.made] == [("t", 1), ("t", 9), ("t", 1)]


def test_the_page_has_each_call_while_it_is_made(bench: Bench) -> None:
    """Before it begins, and nothing once it has ended."""
    client = bench.client()
    seen: list[Any] = []
    bench.sites.then = lambda: seen.append(bench.marks[-1])
    send(client, [1, 1, 1, [4]])
    bench.lend()
    assert seen == [msgpack.packb([1, 1, 1, [4]])]
    assert bench.marks[-1] is None


def test_a_call_that_came_too_late_is_not_made(bench: Bench) -> None:
    """Its client was told that the lend was over, and has made it the long way."""
    client = bench.client()
    bench.lend(1)
    send(client, [1, 5, 1, [1]])
    send(client, [2, 6, 1, [2]])
    assert bench.lend(2) == 1
    assert received(client)[1][0] == 6
    assert [numbers for _, numbers in bench.sites.made] == [[2]]


def test_what_else_waits_ends_the_lend_at_once(bench: Bench) -> None:
    """Also where the client has just come: it hears that it is over, and does not wait for ever."""
    client = bench.client()
    send(client, [1, 1, 1, [1]])
    bench.front.send(b"work")
    assert bench.lend() == 0
    assert received(client) == [[None, 1]]


def test_work_that_comes_during_a_call_ends_the_lend_behind_it(bench: Bench) -> None:
    """Calls that were sent meanwhile are not begun."""
    client = bench.client()

    def then() -> None:
        bench.front.send(b"work")
        send(client, [1, 2, 1, [2]])

    bench.sites.then = then
    send(client, [1, 1, 1, [1]])
    assert bench.lend() == 1
    assert [each[0] for each in received(client)] == [1, None]


def test_a_nudge_ends_it(bench: Bench) -> None:
    """Between two calls."""
    client = bench.client()
    bench.sites.then = lambda: setattr(bench, "stop", True)
    send(client, [1, 1, 1, [1]])
    with pytest.raises(Stopped):
        bench.lend()
    assert [each[0] for each in received(client)] == [1]


@pytest.mark.parametrize("secret", [b"", b"x" * 16, b"x" * 4096])
def test_who_does_not_know_the_secret_is_not_served(bench: Bench, secret: bytes) -> None:
    """Nor is anybody afterwards by that lane; the client can open another."""
    stranger = bench.client(secret)
    send(stranger, [1, 1, 1, [1]])
    with pytest.raises(Refused, match="secret"):
        bench.lend()
    with pytest.raises(Refused):
        bench.lend()
    assert bench.sites.made == []
    client = bench.client()
    send(client, [1, 1, 1, [1]])
    assert bench.lend() == 1


def test_nobody_comes(bench: Bench) -> None:
    """A lend without a lane, and one whose client never connected, are refused, and hold up nothing for long."""
    with pytest.raises(Refused, match="open_lane"):
        bench.lend()
    bench.lanes.open(OpenLane(id=1, token="t"))
    with pytest.raises(Refused, match="nobody came"):
        bench.lend()


@pytest.mark.parametrize("wrong", [None, 7, [], [1, 2, 3], [1, 2, 3, 4], ["1", 2, 3, []], {"lend": 1}])
def test_what_is_no_call_fails_the_lend(bench: Bench, wrong: Any) -> None:
    """With what came and what was expected."""
    client = bench.client()
    send(client, wrong)
    with pytest.raises(ProtocolError, match="over a lane go calls"):
        bench.lend()


def test_a_length_beyond_any_call_ends_the_connection(bench: Bench) -> None:
    """Nothing of that size is waited for."""
    client = bench.client()
    client.sendall(LENGTH.pack(MAX_CALL + 1) + b"x")
    assert bench.lend() == 0
    assert client.recv(10) == b""


def test_a_client_that_reads_nothing_is_let_go(bench: Bench) -> None:
    """The engine never waits for one."""
    client = bench.client()
    bench.sites.then = lambda: send(client, [1, 1, 1, [0] * 100])
    send(client, [1, 1, 1, []])
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
    assert bench.lend() > 0


def test_a_call_that_failed_is_none_of_the_next_request(tmp_path: Path) -> None:
    """The page tells of the request that was begun last, whatever became of the one before."""
    file = tmp_path / "page"
    file.write_bytes(bytes(Page.SIZE))
    with file.open("r+b") as opened:
        page = Page(opened.fileno())
    page.begun = 1
    page.mark_call(b"a call that raises")
    assert page.calls == Calls(calls=1, call=b"a call that raises")
    page.begun = 2
    assert page.calls == Calls()
    page.close()
