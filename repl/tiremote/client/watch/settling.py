"""From signals that something may have changed to batches of files that did, read when they held still."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from tiremote.client.watch.files import Reading, WatchedFile, read_source
from tiremote.client.watch.order import parsed

#: Seconds that a file's content must stay as it is. Editors write a source file within a few milliseconds; a tenth
#: of a second also joins the files of one "save all", and is still felt as at once.
QUIET = 0.1
#: The same for a file that is gone, empty or does not parse: deleted and not yet made again, truncated and not yet
#: written, or half written over a slow network. Nobody waits for the news of a mistake as for a result.
DOUBTFUL = 0.5
#: The least time between two readings of a file that does not hold still.
_STEP = 0.02


@dataclass(frozen=True, slots=True)
class Edit:
    """A file whose content is another than when it was last handed out."""

    file: WatchedFile
    reading: Reading


@dataclass(slots=True)
class _Seen:
    reading: Reading
    since: float
    quiet: float


class Settling:
    """Reads all files at each look: events of file systems are late, doubled or missing, contents are not."""

    def __init__(self, files: Sequence[WatchedFile], read: Callable[[WatchedFile], Reading] = read_source) -> None:
        self._files = files
        self._read = read
        self._given: dict[WatchedFile, Reading] = {}
        self._seen: dict[WatchedFile, _Seen] = {}
        #: When the files that are changing now can be handed out at the earliest; None: none is.
        self.due: float | None = None

    def look(self, now: float) -> tuple[Edit, ...]:
        """The files that changed, once all of them hold still: what was saved together is loaded together."""
        changing = []
        for file in self._files:
            reading = self._read(file)
            seen = self._seen.get(file)
            if seen is None or seen.reading != reading:
                doubtful = reading.problem or parsed(reading.text) is None
                seen = self._seen[file] = _Seen(reading, now, DOUBTFUL if doubtful else QUIET)
            if self._given.get(file) != reading:
                changing.append((file, seen))
        self.due = max((seen.since + seen.quiet for _, seen in changing), default=None)
        if self.due is None or now < self.due:
            return ()
        self.due = None
        batch = tuple(Edit(file, seen.reading) for file, seen in changing)
        self._given.update((edit.file, edit.reading) for edit in batch)
        return batch


def changes(
    files: Sequence[WatchedFile],
    signals: Iterable[None],
    *,
    clock: Callable[[], float],
    wait: Callable[[float], bool],
    read: Callable[[WatchedFile], Reading] = read_source,
) -> Iterator[tuple[Edit, ...]]:
    """Batches of changed files; the first has all of them. Ends with ``signals``, or when ``wait`` says True.

    Each of ``signals`` tells that a file may have changed. ``clock`` is in seconds; ``wait`` passes some.
    """
    settling = Settling(files, read)
    for _ in signals:
        while True:
            if batch := settling.look(clock()):
                yield batch
            elif settling.due is None:
                break
            elif wait(max(settling.due - clock(), _STEP)):
                return
