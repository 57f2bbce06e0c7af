"""What is sent, sent again and given up, decided without a socket or a clock: frames and the time go in and out.

A request is kept until it is answered. While any is, the worker is pinged with their ids, and those that its pong
calls missing are sent again: it answers a repeated id from its record and never runs it twice. After a cut nothing
is sent before such a pong, so that what was lost goes first and the order of requests stays the caller's. Both say
which events came, and the worker sends later ones again. A ping also tells which answers came, so that the worker
need not keep them: one more is sent for that when all is answered.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

from tiremote.protocol.codec import encode, error_of
from tiremote.protocol.errors import ProtocolError, TiremoteError, WorkerUnreachable
from tiremote.protocol.messages import Event, Failure, FollowedRequest, Ok, Ping, Reply, Request, RequestId
from tiremote.protocol.results import Pong
from tiremote.protocol.structures import structure

_log = logging.getLogger("tiremote.client")

#: Seconds between pings while something is pending.
PING_EVERY = 2.0

#: Bytes per second that the slowest link of use carries: so much longer may the silence last while a large message
#: is under way, because a message is heard only when it is whole.
SLOW_LINK = 1 << 20

#: Seconds between two ticks above which the process was stopped, or the machine slept: no silence of the worker's.
SLEPT = 5.0

#: Seconds after an answer until the worker is told that it came: many go into one ping, and a program that is killed
#: has hardly any that seem not to have come.
WORD_AFTER = 0.2

#: Answers that the worker is told of in one ping, as many as it keeps of one client.
RECEIVED = 10_000

#: Why there may be no connection although something listens there.
NO_HANDSHAKE = "what listens there is no worker, or it admits clients by their keys (CURVE) and not with these"


@dataclass(slots=True, eq=False)
class Pending:
    """A request that is not answered yet. ``settle`` is called once; ``weight`` is bytes there or back."""

    request: Request
    frames: Sequence[Any]
    settle: Callable[[Ok | TiremoteError], None]
    on_event: Callable[[Event], None] | None = None
    weight: int = 0
    #: The link has it: it is settled, sooner or later.
    handed_over: bool = False
    sent: bool = False
    events_seen: int = 0


class Core:
    """The client's side of one connection, sans-IO. ``quiet_limit``: seconds of silence until all pending fail."""

    def __init__(self, address: str, *, quiet_limit: float, advice: str = "") -> None:
        self.address = address
        self.quiet_limit = quiet_limit
        self.advice = advice
        self.token: str | None = None
        #: Why there is no connection, in words, where that is known.
        self.trouble = ""
        #: Set when the silence lasted too long: the connection should be made anew.
        self.wants_reconnect = False
        self._pending: dict[RequestId, Pending] = {}
        #: Of what is pending and was sent. Kept, not counted: thousands may be pending, and it is asked all the time.
        self._weight = 0
        self._outgoing: list[Sequence[Any]] = []
        self._connected = False
        self._ever_connected = False
        #: Pings under way: whether the pong lets the rest go, and the answers that the worker is told of.
        self._pings: dict[RequestId, tuple[bool, tuple[RequestId, ...]]] = {}
        #: Requests whose answers came, as far as the worker may not know it.
        self._received: dict[RequestId, None] = {}
        #: When the worker is to be told of them, whatever else there is to say; None: it was.
        self._word_due: float | None = None
        self._settling = False
        self._numbers = count(1)
        self._heard = 0.0
        self._pinged = 0.0
        self._ticked: float | None = None
        self._lost: str | None = None

    # What the caller wants

    def send(self, pending: Pending, now: float) -> None:
        """Takes a request; it goes out at once where it can."""
        if self._lost is not None:
            pending.settle(WorkerUnreachable(self._lost))
            return
        if not self._pending:
            self._heard = self._pinged = now
        self._pending[pending.request.id] = pending
        if self._may_send:
            self._emit(pending)

    def take(self) -> list[Sequence[Any]]:
        """The messages to put on the wire now, in order."""
        taken, self._outgoing = self._outgoing, []
        return taken

    @property
    def pending(self) -> tuple[RequestId, ...]:
        """The ids that are not answered yet, in the order they came."""
        return tuple(self._pending)

    @property
    def busy(self) -> bool:
        """Whether anything waits for an answer."""
        return bool(self._pending)

    @property
    def delivered(self) -> tuple[RequestId, ...]:
        """The ids of answers that came, of which the worker has not confirmed to know."""
        return tuple(self._received)

    # What the connection does

    def connected(self, now: float) -> None:
        """The handshake is through, for the first time or again."""
        self._connected = self._ever_connected = True
        self._settling = False
        self.trouble = ""
        self._heard = now
        # The ping that told of them may be lost.
        self._word_due = now + WORD_AFTER if self._received else None
        if self.token is not None and any(pending.sent for pending in self._pending.values()):
            self._settling = True
            self._ping(now)
            return
        # Before hello is answered there is no record to ask.
        for pending in self._pending.values():
            self._emit(pending)

    def disconnected(self) -> None:
        """What was under way may be lost; or no handshake came about."""
        self.trouble = "the connection was lost" if self._connected else NO_HANDSHAKE
        self._connected = self._settling = False
        self._outgoing.clear()
        self._pings.clear()

    def received(self, reply: Reply, now: float) -> None:
        """A message of the worker."""
        self._heard = now
        if isinstance(reply, Event):
            self._event(reply)
        elif reply.id is None:
            _log.warning("the worker could not read a message: %s", getattr(reply, "message", ""))
        elif reply.id in self._pings:
            self._pong(reply, *self._pings.pop(reply.id))
        else:
            pending = self._pending.get(reply.id)
            if pending is not None:
                if isinstance(pending.request, FollowedRequest):
                    self._note(reply.id, now)
                self._settle(pending, reply if isinstance(reply, Ok) else error_of(reply))

    def unreadable(self, request: RequestId | None, error: TiremoteError, now: float) -> None:
        """A message of the worker that does not decode; ``request`` is whom it was for, where that is known."""
        self._heard = now
        pending = None if request is None else self._pending.get(request)
        if pending is None:
            _log.warning("a message of the worker is not readable: %s", error)
        else:
            self._settle(pending, ProtocolError(f"the worker's answer is not readable: {error.message}"))

    def fail_all(self, error: Callable[[], TiremoteError]) -> None:
        """Nothing that is pending will be answered. Each gets an error of its own."""
        failed, self._pending = self._pending, {}
        self._weight = 0
        self._outgoing.clear()
        self._pings.clear()
        for pending in failed.values():
            pending.settle(error())

    def lost(self, why: str) -> None:
        """The worker is gone for good."""
        self._lost = why
        self.fail_all(lambda: WorkerUnreachable(why))

    # Time

    def tick(self, now: float) -> None:
        """Does what is due."""
        if self._ticked is not None and now - self._ticked > SLEPT:
            self._heard += now - self._ticked
        self._ticked = now
        quiet = now - self._heard
        ping_due = self._ping_due()
        if self._pending and quiet >= self._patience():
            self._give_up(quiet)
        elif ping_due is not None and now >= ping_due:
            self._ping(now)

    def next_tick(self, now: float) -> float | None:
        """Seconds until `tick` has something to do; None where it has nothing."""
        give_up = self._heard + self._patience() if self._pending else None
        times = [time for time in (give_up, self._ping_due()) if time is not None]
        return max(min(times) - now, 0.0) if times else None

    # Inside

    @property
    def _may_send(self) -> bool:
        return self._connected and not self._settling

    def _ping_due(self) -> float | None:
        if not self._connected:
            return None
        regular = self._pinged + PING_EVERY if self._pending else None
        return min((time for time in (regular, self._word_due) if time is not None), default=None)

    def _note(self, answered: RequestId, now: float) -> None:
        if self._word_due is None:
            self._word_due = now + WORD_AFTER
        self._received[answered] = None
        if len(self._received) > RECEIVED:
            del self._received[next(iter(self._received))]

    def _settle(self, pending: Pending, answer: Ok | TiremoteError) -> None:
        pending.settle(answer)
        # Not before: whoever moves the messages may be broken off, and then it is asked for again.
        if self._pending.pop(pending.request.id, None) is not None and pending.sent:
            self._weight -= pending.weight

    def _emit(self, pending: Pending) -> None:
        if not pending.sent:
            self._weight += pending.weight
        pending.sent = True
        request = pending.request
        if pending.events_seen and isinstance(request, FollowedRequest):
            self._outgoing.append(encode(replace(request, seen=pending.events_seen)))
        else:
            self._outgoing.append(pending.frames)

    def _ping(self, now: float) -> None:
        self._pinged, self._word_due = now, None
        ping: RequestId = f"ping-{next(self._numbers)}"
        asked = [] if self.token is None else [each for each in self._pending.items() if each[1].sent]
        # Most have no events yet: those behind the last that has are left out.
        last = max((position for position, (_, pending) in enumerate(asked, 1) if pending.events_seen), default=0)
        received = self.delivered
        self._pings[ping] = (self._settling, received)
        made = Ping(
            id=ping,
            token=self.token,
            pending=tuple(id_ for id_, _ in asked),
            seen=tuple(pending.events_seen for _, pending in asked[:last]),
            received=received,
        )
        self._outgoing.append(encode(made))

    def _pong(self, reply: Ok | Failure, settles: bool, received: tuple[RequestId, ...]) -> None:
        if isinstance(reply, Failure):
            # The worker does not know this client any more.
            self._received.clear()
            self.fail_all(lambda: error_of(reply))
            self._settling = False
            return
        try:
            missing = set(structure(Pong, reply.result, "the result of ping").missing)
        except TiremoteError as error:
            _log.warning("%s", error)
            return
        for id_ in received:
            self._received.pop(id_, None)
        if settles:
            self._settling = False
        for id_, pending in list(self._pending.items()):
            if id_ in missing or (settles and not pending.sent):
                self._emit(pending)

    def _event(self, event: Event) -> None:
        pending = self._pending.get(event.id)
        if pending is None or event.seq <= pending.events_seen:
            return
        pending.events_seen = event.seq
        if pending.on_event is not None:
            pending.on_event(event)

    def _patience(self) -> float:
        if not self._connected:
            return self.quiet_limit
        return self.quiet_limit + self._weight / SLOW_LINK

    def _give_up(self, quiet: float) -> None:
        if not self._ever_connected:
            text = f"nothing answers at {self.address} (tried for {quiet:.1f} s"
            text += f": {self.trouble})" if self.trouble else ")"
            text += "; check the address, that tiremote-worker runs there, and that a firewall lets the port through"
        else:
            text = f"the worker at {self.address} has said nothing for {quiet:.1f} s"
            text += f" ({self.trouble})" if self.trouble else ""
            text += "; check that its machine and tiremote-worker are up and the network between is"
            text += "; what was sent may still run there"
        text += f". {self.advice}" if self.advice else ""
        self.wants_reconnect = True
        self.fail_all(lambda: WorkerUnreachable(text))
