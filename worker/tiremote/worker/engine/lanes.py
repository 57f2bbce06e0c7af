"""The engine's end of lanes: it listens for clients on its own machine, and serves the one that it is lent to."""

from __future__ import annotations

import hmac
import os
import secrets
import select
import socket
import struct
import sys
import time
from collections.abc import Callable
from typing import Any, Protocol

import msgpack

from tiremote.protocol.errors import ProtocolError, Refused, shown
from tiremote.protocol.lanes import (
    IDLE,
    LENGTH,
    LONGEST,
    MAX_CALL,
    READ_BYTES,
    Frames,
    LaneResult,
    Lend,
    LendResult,
    OpenLane,
    framed,
)
from tiremote.protocol.plain import load
from tiremote.worker.engine.sites import Sites

#: Lanes of one session: beyond, the one that was opened first is closed.
_MOST_LANES = 16

#: Linux alone has Unix sockets that are no files, and are gone with their process however it ends.
_HAS_LANES = sys.platform == "linux"

#: Seconds for what has come already where a client does as it should.
_HERE_ALREADY = 0.5

_CREDENTIALS = struct.Struct("3i")


class Link(Protocol):
    """Of the link to the front what lanes need to know."""

    def fileno(self) -> int: ...
    def has_input(self, seconds: float) -> bool: ...


class Lanes:
    """Those of one session. ``mark(call)`` is told what begins, and None when it has ended; ``may_stop`` is called
    between calls, and raises where the front wants that."""

    def __init__(
        self,
        sites: Sites,
        link: Link | None,
        *,
        mark: Callable[[bytes | None], None] = lambda _: None,
        may_stop: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._sites = sites
        self._link = link
        self._mark = mark
        self._may_stop = may_stop
        self._clock = clock
        self._lanes: dict[str | None, _Lane] = {}

    def open(self, request: OpenLane) -> LaneResult:
        """Listens for this client, instead of an earlier lane of the same."""
        if not _HAS_LANES or self._link is None:
            return LaneResult()
        earlier = self._lanes.pop(request.token, None)
        if earlier is not None:
            earlier.close()
        while len(self._lanes) >= _MOST_LANES:
            self._lanes.pop(next(iter(self._lanes))).close()
        lane = self._lanes[request.token] = _Lane(self._link.fileno())
        return LaneResult(address=lane.address, secret=lane.secret)

    def close(self) -> None:
        """Ends all of them."""
        while self._lanes:
            self._lanes.popitem()[1].close()

    def lend(self, request: Lend) -> LendResult:
        """Serves the client until the link has something else, nothing came for a while, or it has lasted long enough.

        Raises `Refused` where it has no lane, and what a call raises.
        """
        lane = self._lanes.get(request.token)
        if lane is None or lane.closed or self._link is None:
            raise Refused("this client has no lane to lend to: open_lane makes one")
        lane.meet()
        calls = 0
        until = self._clock() + LONGEST
        if not self._link.has_input(0):
            while (now := self._clock()) < until and not lane.closed:
                self._may_stop()
                if not lane.wait(min(IDLE, until - now)):
                    break
                for call in lane.receive():
                    calls += self._serve(lane, request, call)
        lane.send(msgpack.packb([None, request.number]))
        return LendResult(calls=calls)

    def _serve(self, lane: _Lane, request: Lend, message: bytes) -> int:
        lend, call, site, numbers = _read(message)
        if lend != request.number:
            # It was sent when an earlier one was over: its client knows that it was not run.
            return 0
        began = self._clock()
        self._mark(message)
        done, value = self._sites.call((request.token, site), numbers)
        self._mark(None)
        seconds = self._clock() - began
        lane.send(msgpack.packb([call, seconds, value] if done else [call]))
        return int(done)


def _read(message: bytes) -> tuple[int, int, int, list[Any]]:
    value = load(message)
    if isinstance(value, list) and len(value) == 4:
        lend, call, site, numbers = value
        if type(lend) is type(call) is type(site) is int and type(numbers) is list:
            return lend, call, site, numbers
    raise ProtocolError(f"over a lane go calls, [lend, call, site, numbers]; {shown(value)} came")


class _Lane:
    """A listener, and then the one connection that it was for. ``link`` is the descriptor of the link to the front."""

    def __init__(self, link: int) -> None:
        self.address = f"tiremote-{os.getpid()}-{secrets.token_hex(8)}"
        self.secret = secrets.token_bytes(16)
        self.closed = False
        self._frames = Frames()
        self._poller = select.poll()
        self._poller.register(link, select.POLLIN)
        self._listens = True
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.bind(f"\0{self.address}")
        self._socket.listen(1)

    def close(self) -> None:
        self.closed = True
        self._socket.close()

    def meet(self) -> None:
        """Lets the client in, who came before it asked for the engine. Raises `Refused` where that was not so."""
        if not self._listens:
            return
        self._listens = False
        listener = self._socket
        with listener:
            listener.settimeout(_HERE_ALREADY)
            try:
                self._socket, _ = listener.accept()
                self._socket.settimeout(_HERE_ALREADY)
                known = _is_own_user(self._socket) and self._hears_secret()
            except OSError:
                known = False
        if not known:
            self.close()
            raise Refused("nobody came to the lane who knows its secret: connect and say it, and lend then")
        self._socket.setblocking(False)
        self._poller.register(self._socket.fileno(), select.POLLIN)

    def _hears_secret(self) -> bool:
        # Its first call may be right behind.
        (length,) = LENGTH.unpack(self._socket.recv(LENGTH.size, socket.MSG_WAITALL).ljust(LENGTH.size, b"\0"))
        said = self._socket.recv(min(length, MAX_CALL), socket.MSG_WAITALL)
        return hmac.compare_digest(said, msgpack.packb([self.secret]))

    def wait(self, seconds: float) -> bool:
        """Whether something of the client's comes within that time, and nothing over the link."""
        return [fd for fd, _ in self._poller.poll(1000 * seconds)] == [self._socket.fileno()]

    def send(self, message: bytes) -> None:
        """A client that is gone is no error; one that reads nothing of what it asks for is as good as gone."""
        if not self.closed:
            data = framed(message)
            try:
                whole = self._socket.send(data) == len(data)
            except OSError:
                whole = False
            if not whole:
                self.close()

    def receive(self) -> list[bytes]:
        """Takes what has come, which `wait` has said; the messages that are whole."""
        try:
            came = self._socket.recv(READ_BYTES)
            self._frames.feed(came)
            messages = list(iter(self._frames.next, None))
        except (OSError, ProtocolError):
            came = b""
        if not came:
            self.close()
            return []
        return messages


def _is_own_user(connection: socket.socket) -> bool:
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, user, _ = _CREDENTIALS.unpack(credentials)
    return bool(user == os.getuid())
