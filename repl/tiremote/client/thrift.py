"""What is done so that less goes over a slow link: how it is known to be slow, and the two ways to send less."""

from __future__ import annotations

from collections.abc import Callable

from tiremote.client.compression import Compression, When
from tiremote.client.link_meter import LinkMeter
from tiremote.client.reuse import Reuse
from tiremote.protocol.results import HelloResult


class Thrift:
    """Of one connection. ``local``: both ends are on one machine, which is not measured."""

    def __init__(self, compress: When, reuse: When, *, local: bool, clock: Callable[[], float]) -> None:
        self._measures = not local and "auto" in (compress, reuse)
        self.meter = LinkMeter(clock)
        self.compression = Compression(compress, self.meter)
        self.reuse = Reuse(reuse, self.meter)

    def agreed(self, hello: HelloResult) -> None:
        """The worker has said what it can."""
        self.compression.agreed(hello)
        self.reuse.agreed(hello)
        self.meter.active = self._measures and (bool(self.compression.codings) or self.reuse.is_possible)
