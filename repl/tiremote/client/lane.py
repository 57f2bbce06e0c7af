"""The client's end of a lane: small calls straight to the engine, where that is on the same machine.

A call that is made again and again costs two processes less that way. It is an addition: whatever a lane cannot do, or
does not do in time, goes the way through the front, which answers it as if there were no lane.
"""

from __future__ import annotations

import contextlib
import socket
import sys
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgpack

from tiremote.client.remote import Remote
from tiremote.client.request_future import RequestFuture
from tiremote.protocol.errors import EngineError, ProtocolError, Refused
from tiremote.protocol.lanes import (
    MAX_SITES,
    NUMBERS,
    READ_BYTES,
    Frames,
    LaneResult,
    Lend,
    LendResult,
    OpenLane,
    framed,
)
from tiremote.protocol.plain import load
from tiremote.protocol.receipts import Timing
from tiremote.protocol.results import RunResult
from tiremote.protocol.values import Ref

if TYPE_CHECKING:
    from tiremote.client.exchange import Exchange

#: Calls in a row, no further apart than `_GAP` seconds and with nothing else between them, after which the engine is
#: asked for. So many more each time that it turns out not to pay, up to `_MOST_PATIENT`.
_PATIENT = 8
_MOST_PATIENT = 1024
_GAP = 0.02
#: Calls in one lend above which it has paid.
_WORTH = 32
#: Seconds for which a call is not made the long way: by that the front knows what is used, and that somebody is here.
_LONG_WAY_AFTER = 30.0


@dataclass(slots=True, eq=False)
class Site:
    """A call that may be made again: what it is of, but for the values of its numbers."""

    number: int
    #: The engine said that it can, when the client had lost so many engines, and at what time.
    losses: int = -1
    since: float = 0.0


class Lane:
    """One client's way to its session's engine. Usable from every thread: one at a time goes over it."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._lock = threading.Lock()
        self._sites: dict[tuple[Any, ...], Site] = {}
        self._numbers = 0
        #: None before it is tried, and where there is none to be had.
        self._socket: socket.socket | None = None
        self._hopeless = sys.platform != "linux"
        self._frames = Frames()
        self._lend: RequestFuture[LendResult] | None = None
        self._lends = 0
        #: Of the last lend.
        self._calls = 0
        #: The error of a lend that a call has raised.
        self._told: BaseException | None = None
        self._telling = threading.Lock()
        self._patience = _PATIENT
        self._in_a_row = 0
        self._last = 0.0
        self._sent = 0

    # ------------------------------------------------------------ which calls

    def site(self, target: Ref, method: str | None, args: tuple[Any, ...]) -> Site | None:
        """The site of a call, None where it can have none."""
        if self._hopeless:
            return None
        key: list[Any] = [target, method]
        for each in args:
            kind = type(each)
            if kind in NUMBERS:
                key.append(kind)
            elif isinstance(each, Remote):
                key.append(each._target)
            else:
                return None
        place = tuple(key)
        found = self._sites.get(place)
        if found is None:
            self._numbers += 1
            found = self._sites[place] = Site(self._numbers)
            if len(self._sites) > MAX_SITES:
                del self._sites[next(iter(self._sites))]
        return found

    def made(self, site: Site, result: RunResult) -> None:
        """It was called the long way; what the engine said of it."""
        now, sent = self._exchange.clock(), self._exchange.sent
        in_a_row = sent == self._sent + 1 and now - self._last < _GAP
        self._in_a_row = self._in_a_row + 1 if in_a_row and result.remembered else 0
        self._last, self._sent = now, sent
        site.losses, site.since = self._exchange.losses if result.remembered else -1, now

    def takes(self, site: Site) -> bool:
        """Whether the call is to be made over the lane."""
        if site.losses != self._exchange.losses:
            return False
        now = self._exchange.clock()
        if now - site.since > _LONG_WAY_AFTER:
            return False
        if self._sent != self._exchange.sent:
            # Something else of this client's has gone out since, which is to be done first.
            return False
        if self._lend is None and (self._in_a_row < self._patience or now - self._last > _GAP):
            return False
        return not self._exchange.moves_here

    # ------------------------------------------------------------ calls

    def call(self, site: Site, args: tuple[Any, ...]) -> tuple[bool, Any]:
        """Makes a call: whether it was made, and its result. Raises what it raises."""
        if not self._lock.acquire(blocking=False):
            return False, None
        try:
            return self._call(site, args)
        finally:
            self._lock.release()

    def _call(self, site: Site, args: tuple[Any, ...]) -> tuple[bool, Any]:
        if self._lend is not None and self._lend.done():
            self._over()
        if self._lend is None and (self._in_a_row < self._patience or not self._begin()):
            return False, None
        lend = self._lend
        if lend is None:
            return False, None
        numbers = [each for each in args if type(each) in NUMBERS]
        try:
            self._calls += 1
            answer = self._asked(msgpack.packb([self._lends, self._calls, site.number, numbers]))
        except OverflowError:
            return False, None
        except KeyboardInterrupt:
            self._drop()
            raise KeyboardInterrupt from self._now_told(self._exchange.stop(lend))
        except BaseException:
            # In the middle of a message, perhaps: what it was is not known any more.
            self._drop()
            raise
        if answer is None:
            # The connection has ended. Why, the answer to the lend tells: where it is none, the call was never begun.
            self._drop()
            self._raise_from(lend)
            return False, None
        self._last = self._exchange.clock()
        if len(answer) == 3:
            _, seconds, value = answer
            self._exchange.last_timing = Timing(launch=seconds, total=seconds)
            return True, value
        if answer[0] is None:
            self._over()
        else:
            site.losses = -1
        return False, None

    def _raise_from(self, lend: RequestFuture[LendResult]) -> None:
        error = lend.exception()
        if error is None or isinstance(error, Refused):
            return
        self._now_told(error)
        raise error

    def _now_told(self, error: BaseException | None) -> BaseException | None:
        """A call raises it: no other request is to."""
        with self._telling:
            self._told = error
            untold = self._exchange.untold
            if untold is not None and untold is error:
                self._exchange.untold = None
        return error

    def _begin(self) -> bool:
        """Asks for the engine, without waiting for it; False where there is no lane."""
        if self._socket is None and not self._open():
            return False
        sock = self._socket
        self._lends += 1
        self._calls = 0
        request = Lend(id="", number=self._lends, events=self._exchange.events)
        lend: RequestFuture[LendResult] = self._exchange.submit(request, LendResult, lambda result: result)
        self._sent = self._exchange.sent
        self._lend = lend

        def ended(_: object) -> None:
            error = lend.exception()
            if error is None:
                return
            with self._telling:
                # Where no call waits for it any more, the next request is to tell what was lost.
                if error is not self._told and isinstance(error, EngineError) and (error.restored or error.lost):
                    self._exchange.untold = error
            if sock is not None:
                # Whoever waits for an answer over the lane waits for none any more.
                with contextlib.suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)

        lend.add_done_callback(ended)
        return True

    def _open(self) -> bool:
        try:
            told = self._exchange.call(OpenLane(id=""), LaneResult)
        except (ProtocolError, Refused):
            # An older worker, say.
            told = LaneResult()
        self._sent = self._exchange.sent
        if told.address is not None:
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                sock.connect(f"\0{told.address}")
                sock.sendall(framed(msgpack.packb([told.secret])))
            except OSError:
                sock.close()
            else:
                self._socket = sock
                self._frames = Frames()
                return True
        # The worker is elsewhere.
        self._hopeless = True
        self._sites.clear()
        return False

    def _asked(self, message: bytes) -> list[Any] | None:
        """Sends a call and waits; the answer, or that the lend is over, or None where the connection is."""
        sock = self._socket
        if sock is None:
            return None
        try:
            sock.sendall(framed(message))
            while True:
                while (came := self._frames.next()) is None:
                    data = sock.recv(READ_BYTES)
                    if not data:
                        return None
                    self._frames.feed(data)
                answer = load(came)
                if not isinstance(answer, list) or not answer:
                    raise ProtocolError("what came over the lane is no answer")
                # An earlier lend was over when nobody waited.
                if answer[0] is not None or answer[1] == self._lends:
                    return answer
        except OSError:
            return None

    def _over(self) -> None:
        """The engine has taken itself back."""
        if self._lend is None:
            return
        self._lend = None
        paid = self._calls >= _WORTH
        self._patience = _PATIENT if paid else min(2 * self._patience, _MOST_PATIENT)
        self._in_a_row = self._patience if paid else 0

    def _drop(self) -> None:
        self._lend = None
        self._in_a_row = 0
        sock, self._socket = self._socket, None
        if sock is not None:
            sock.close()

    # ------------------------------------------------------------ what else happens

    def close(self) -> None:
        """The session is closed here. Whoever waits on another thread hears of it by the answer to the lend."""
        with self._lock:
            self._drop()
