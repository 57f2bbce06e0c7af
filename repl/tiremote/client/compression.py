"""Which arrays are made smaller on their way, decided for each by what the link carries and what a sample shows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal

import numpy as np

from tiremote.client.link_speed import LinkSpeed, UnderWay
from tiremote.protocol.coding import known_codings
from tiremote.protocol.errors import TiremoteError
from tiremote.protocol.messages import Fetch, Ok, Request, Run
from tiremote.protocol.results import HelloResult
from tiremote.protocol.values import Access, WireArray, wire_array

#: Where it is left to the client, told to do so, or told not to.
Compress = Literal["auto", True, False]

#: Bytes of an array that go first, by themselves, where the link is not known: at 10 Mbit/s that takes 0.2 s. With an
#: array of less than so many nothing would be won by it.
_PROBE = 256 << 10
_PROBED = 4 << 20

#: Enough for a link to be known, unless something else is wrong.
_MOST_PROBES = 3


class Compression:
    """Of one connection. ``local``: both ends are on one machine, which is not measured."""

    def __init__(self, mode: Compress, *, local: bool, clock: Callable[[], float]) -> None:
        self._measures = mode == "auto" and not local
        self._always = mode is True
        self._clock = clock
        #: Those that both sides read.
        self.codings: tuple[str, ...] = ()
        self.up, self.down = LinkSpeed(), LinkSpeed()

    def agreed(self, hello: HelloResult) -> None:
        """The worker has said what it reads and makes."""
        self.codings = tuple(each for each in known_codings() if each in hello.codings)

    @property
    def measures(self) -> bool:
        """Whether the link is to be looked at: nothing else costs anything where it is not."""
        return self._measures and bool(self.codings)

    # What to do

    def sent(self, array: np.ndarray, *, access: Access = "inout") -> WireArray:
        """An array ready to be sent, coded where that pays."""
        return wire_array(array, access=access).coded(self._wanted(self.up))

    def asked(self) -> tuple[str, ...]:
        """The codings that an answer may have."""
        return self._wanted(self.down)

    def probes(self, link: LinkSpeed, nbytes: int, itemsize: int) -> Iterator[int]:
        """Of an array of ``nbytes``: how many of its scalars should go by themselves, again and again, before it."""
        for _ in range(_MOST_PROBES if nbytes >= _PROBED else 0):
            if self.measures and link.is_unknown(self._clock()):
                yield _PROBE // itemsize

    def _wanted(self, link: LinkSpeed) -> tuple[str, ...]:
        if self._always:
            return self.codings
        return self.codings if self.measures and link.is_slow(self._clock()) else ()

    # What is learned

    def began(self, request: Request, sent: int, expects: int) -> tuple[LinkSpeed, UnderWay] | None:
        """A request is sent, of so many bytes; so many are expected to come."""
        link, nbytes = (self.up, sent) if sent >= expects else (self.down, expects)
        if not self.measures or (link is self.down and isinstance(request, Run | Fetch) and request.codings):
            # What comes coded is less than was expected, nobody knows by how much.
            return None
        under_way = link.began(nbytes, self._clock())
        return None if under_way is None else (link, under_way)

    def ended(self, measured: tuple[LinkSpeed, UnderWay], answer: Ok | TiremoteError) -> None:
        """It was answered."""
        link, under_way = measured
        elsewhere = None
        if isinstance(answer, Ok):
            # What the worker did meanwhile is no matter of the link.
            elsewhere = 0.0 if answer.timing is None else answer.timing.total
        link.ended(under_way, self._clock(), elsewhere)
