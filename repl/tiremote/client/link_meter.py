"""The requests of a connection by which its link is measured, each way by itself. Sans-IO but for the clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tiremote.client.link_speed import MEASURED, LinkSpeed
from tiremote.protocol.errors import TiremoteError
from tiremote.protocol.messages import Fetch, Ok, Request, Run

#: Bytes of an array that go first, by themselves, where the link is not known: at 10 Mbit/s that takes 0.2 s. With an
#: array of less than so many nothing would be won by it.
_PROBE = 256 << 10
_PROBED = 4 << 20

#: Enough for a link to be known, unless something else is wrong.
_MOST_PROBES = 3


@dataclass(frozen=True, slots=True)
class UnderWay:
    """A request on its way: where its bytes go, how many, and since when."""

    up: bool
    nbytes: int
    began: float


class LinkMeter:
    """Of one connection. ``active``: somebody wants to know; nothing costs anything where nobody does."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.active = False
        self.up, self.down = LinkSpeed(), LinkSpeed()
        self._clock = clock

    def is_slow(self, link: LinkSpeed) -> bool:
        """Whether that way, ``up`` or ``down``, is known to be slow."""
        return self.active and link.is_slow(self._clock())

    def probes(self, link: LinkSpeed, nbytes: int, itemsize: int) -> Iterator[int]:
        """Of an array of ``nbytes``: how many of its scalars should go by themselves, again and again, before it."""
        for _ in range(_MOST_PROBES if nbytes >= _PROBED else 0):
            if self.active and link.is_unknown(self._clock()):
                yield _PROBE // itemsize

    def began(self, request: Request, sent: int, expects: int) -> UnderWay | None:
        """A request is sent, of so many bytes; so many are expected to come. None where that tells nothing."""
        up = sent >= expects
        if not self.active or max(sent, expects) < MEASURED:
            return None
        if not up and isinstance(request, Run | Fetch) and request.codings:
            # What comes coded is less than was expected, nobody knows by how much.
            return None
        return UnderWay(up, max(sent, expects), self._clock())

    def ended(self, message: UnderWay, answer: Ok | TiremoteError) -> None:
        """It was answered."""
        if not isinstance(answer, Ok):
            return
        # What the worker did meanwhile is no matter of the link: after the way there, and before that back.
        now, elsewhere = self._clock(), 0.0 if answer.timing is None else answer.timing.total
        if message.up:
            self.up.carried(message.nbytes, message.began, now - elsewhere)
        else:
            self.down.carried(message.nbytes, message.began + elsewhere, now)
