"""What a request prints: bytes to text, in order, and no more of it than a client can want."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from typing import Literal

from tiremote.worker.link import MARKER, MARKER_BEGUN, MARKER_BYTES

Stream = Literal["stdout", "stderr"]


#: How long a piece of a line waits for the rest of it. Kernels print word by word: an event for each would be a flood.
_PATIENCE = 0.05


class Output:
    """The output of one request, in whole lines where they come soon. Past ``max_bytes`` it is counted and not sent."""

    def __init__(self, max_bytes: int) -> None:
        self._left = max_bytes
        self._cut_bytes = 0
        self._cut_lines = 0
        #: Made when something is printed: most requests print nothing.
        self._decoders: dict[Stream, codecs.IncrementalDecoder] = {}
        self._begun: dict[Stream, str] = {}
        self._since: float | None = None

    def feed(self, stream: Stream, data: bytes, now: float) -> str:
        """The text to send for these bytes: whole lines, with what of the first came before."""
        kept = data[: self._left]
        if len(kept) < len(data) and self._left > 0:
            # The cut falls behind a whole line, where there is one.
            kept = kept[: kept.rfind(b"\n") + 1] or kept
        self._left = self._left - len(kept) if len(kept) == len(data) else 0
        cut = data[len(kept) :]
        self._cut_bytes += len(cut)
        self._cut_lines += cut.count(b"\n")
        decoder = self._decoders.get(stream)
        if decoder is None:
            decoder = self._decoders[stream] = codecs.getincrementaldecoder("utf-8")("replace")
        text = self._begun.pop(stream, "") + decoder.decode(kept)
        end = text.rfind("\n") + 1
        if end < len(text):
            self._begun[stream] = text[end:]
        self._since = (self._since or now) if self._begun else None
        return text[:end]

    def due(self) -> float | None:
        """When the piece of a line that waits has waited long enough, None where none waits."""
        return None if self._since is None else self._since + _PATIENCE

    def flush(self) -> list[tuple[Stream, str]]:
        """The pieces of lines that wait."""
        begun, self._begun, self._since = self._begun, {}, None
        return list(begun.items())

    def finish(self) -> str | None:
        """What to say about the part that was not sent, None where there is none."""
        if not self._cut_bytes:
            return None
        return f"output cut: {self._cut_lines:,} more lines ({self._cut_bytes:,} bytes) were not sent"


class Demultiplexer:
    """One stream of an engine, cut at the markers that say which request prints from there on.

    An engine may start the next request before the front has seen the end of the last: only what stands in the
    stream itself tells the two apart.
    """

    def __init__(self) -> None:
        self._key = 0
        self._rest = b""

    def begin(self, key: int) -> tuple[int, bytes]:
        """From here on it is that request's, without a marker. What looked like the beginning of one was none: it is
        given with the key of the request before."""
        before, rest = self._key, self._rest
        self._key, self._rest = key, b""
        return before, rest

    def feed(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """(key of the request, its bytes) in order; key 0 is nobody's."""
        data = self._rest + data
        self._rest = b""
        start = 0
        # Somebody may print the markers' first character, a million times: only whole markers cost anything.
        for found in MARKER.finditer(data):
            if found.start() > start:
                yield self._key, data[start : found.start()]
            self._key, start = int(found[1], 16), found.end()
        begun = MARKER_BEGUN.search(data, max(start, len(data) - MARKER_BYTES + 1))
        end = begun.start() if begun else len(data)
        self._rest = data[end:]
        if start < end:
            yield self._key, data[start:end]
