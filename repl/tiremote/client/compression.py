"""Which arrays are made smaller on their way, decided for each by what the link carries and what a sample shows."""

from __future__ import annotations

from typing import Literal

import numpy as np

from tiremote.client.link_meter import LinkMeter
from tiremote.client.link_speed import LinkSpeed
from tiremote.protocol.coding import known_codings
from tiremote.protocol.results import HelloResult
from tiremote.protocol.values import Access, WireArray, wire_array

#: Left to the client, told to do so, or told not to.
When = Literal["auto", True, False]


class Compression:
    """Of one connection."""

    def __init__(self, when: When, meter: LinkMeter) -> None:
        self._when = when
        self._meter = meter
        #: Those that both sides read.
        self.codings: tuple[str, ...] = ()

    def agreed(self, hello: HelloResult) -> None:
        """The worker has said what it reads and makes."""
        self.codings = tuple(each for each in known_codings() if each in hello.codings)

    def sent(self, array: np.ndarray, *, access: Access = "inout") -> WireArray:
        """An array ready to be sent, coded where that pays."""
        return wire_array(array, access=access).coded(self.for_sending())

    def for_sending(self) -> tuple[str, ...]:
        """The codings of which an array that is sent may have one."""
        return self._wanted(self._meter.up)

    def asked(self) -> tuple[str, ...]:
        """The codings that an answer may have."""
        return self._wanted(self._meter.down)

    def _wanted(self, link: LinkSpeed) -> tuple[str, ...]:
        if self._when is True:
            return self.codings
        return self.codings if self._when == "auto" and self._meter.is_slow(link) else ()
