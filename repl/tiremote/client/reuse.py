"""Whether what the worker's session has already is left out: over slow links, for it costs a hash of every byte."""

from __future__ import annotations

from tiremote.client.compression import When
from tiremote.client.link_meter import LinkMeter
from tiremote.protocol.chunks import FindChunks
from tiremote.protocol.results import HelloResult

#: Arrays and parts of this many bytes or more go in chunks.
_SMALLEST = 1 << 20

#: Seconds that an answer may take beside the time in which the link would carry the array itself.
_PATIENCE = 0.5


class Reuse:
    """Of one connection: whether it pays, and by what the session's chunks are known."""

    def __init__(self, when: When, meter: LinkMeter) -> None:
        self._when = when
        self._meter = meter
        self._kept = 0
        self.key = b""

    def agreed(self, hello: HelloResult) -> None:
        """The worker has said what it keeps."""
        self._kept = hello.chunk_cache if FindChunks.op in hello.ops else 0
        self.key = hello.chunk_key.encode()

    @property
    def is_possible(self) -> bool:
        """Whether the worker keeps chunks, and enough of them to be worth it."""
        return self._kept >= _SMALLEST

    def is_wanted(self, nbytes: int) -> bool:
        """Whether an array of that size is to go in chunks."""
        if nbytes < _SMALLEST or not self.is_possible or self._when is False:
            return False
        return self._when is True or self._meter.is_slow(self._meter.up)

    def patience(self, nbytes: int) -> float:
        """Seconds after which asking is no better than sending."""
        return _PATIENCE + nbytes / (self._meter.up.rate or nbytes)
