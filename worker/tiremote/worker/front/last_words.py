"""What Python says on standard error when a signal ends it: where it was, in users' own texts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from tiremote.protocol.errors import SourceFrame
from tiremote.worker.unit_files import read_unit_file

#: Python's own are a few KiB; what the user's code printed before them does not matter.
_MOST_BYTES = 64 << 10

_THREAD = re.compile(r"^(?:Current thread|Thread) 0x[0-9a-f]+", re.M)
_PLACE = re.compile(r'^  File "(?P<file>[^"]*)", line (?P<line>\d+) in (?P<function>.*)$', re.M)

#: The unit and its text that a name and a version in a file name stand for.
TextOf = Callable[[str, int], tuple[str, str] | None]


class LastWords:
    """The end of what an engine wrote to standard error."""

    def __init__(self) -> None:
        self._bytes = b""

    def feed(self, data: bytes) -> None:
        """It wrote something."""
        self._bytes = (self._bytes + data)[-_MOST_BYTES:]

    def frames(self, text_of: TextOf) -> tuple[SourceFrame, ...]:
        """Where it was in the texts, outermost first; nothing where that was not said."""
        threads = _THREAD.split(self._bytes.decode("utf-8", "replace"))[1:]
        # The one that was running stands last; where it ran no Python, another waits for it.
        found = (tuple(_frames(thread, text_of)) for thread in reversed(threads))
        return next((frames for frames in found if frames), ())


def _frames(thread: str, text_of: TextOf) -> Iterator[SourceFrame]:
    for place in reversed(list(_PLACE.finditer(thread))):
        named, line = read_unit_file(place["file"]), int(place["line"])
        known = None if named is None else text_of(*named)
        if named is None or known is None:
            continue
        unit, text = known
        lines = text.splitlines()
        yield SourceFrame(
            unit=unit,
            version=named[1],
            function="" if place["function"] == "<module>" else place["function"],
            line=line,
            column=0,
            end_column=0,
            text=lines[line - 1] if 0 < line <= len(lines) else "",
        )
