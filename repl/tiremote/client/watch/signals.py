"""Signals that watched files may have changed. The one module that knows watchfiles."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

from tiremote.client.watch.files import WatchedFile

#: Seconds after which the files are looked at without any event: network folders send none for what others write,
#: and nothing tells of a folder that was moved away and made again.
LOOK_AGAIN = 1.0
#: Milliseconds, as watchfiles counts: how often it asks for events, and how long it gathers them.
_STEP, _GATHER = 25, 50
#: As many links in a row as Linux follows.
_MOST_LINKS = 40


def signals(files: Sequence[WatchedFile], stop: threading.Event) -> Iterator[None]:
    """Yields at once, then when something happens in a folder of theirs, and each `LOOK_AGAIN` seconds, till ``stop``.

    Folders are watched, not files: most editors write a new file and rename it over the old one, which a watch on
    the old one does not see.
    """
    # Here, since most sessions watch nothing: it loads asyncio and a native library.
    import watchfiles

    yield
    while not stop.is_set():
        folders = _folders(files)
        if not folders:
            stop.wait(LOOK_AGAIN)
            yield
            continue
        try:
            for _ in watchfiles.watch(
                *folders,
                watch_filter=None,
                debounce=_GATHER,
                step=_STEP,
                stop_event=stop,
                rust_timeout=int(LOOK_AGAIN * 1000),
                yield_on_timeout=True,
                raise_interrupt=False,
                recursive=False,
                ignore_permission_denied=True,
            ):
                yield
                if _folders(files) != folders:
                    break
        except (OSError, RuntimeError):  # the latter is how watchfiles reports what it did not foresee
            # A folder went between being found and being watched, or the system has no watch left: look by the clock.
            stop.wait(LOOK_AGAIN)
            yield


def _folders(files: Sequence[WatchedFile]) -> dict[Path, tuple[int, int]]:
    """The folders that are there, each with what tells it from another of the same name."""
    found = {}
    for file in files:
        for folder in {path.parent for path in _links(file.path)}:
            try:
                status = folder.stat()
            except OSError:
                continue
            found[folder] = (status.st_dev, status.st_ino)
    return found


def _links(path: Path) -> Iterator[Path]:
    """The path, and where it points, and where that points: each may be replaced."""
    for _ in range(_MOST_LINKS):
        yield path
        try:
            target = os.readlink(path)
        except OSError:  # no link, or nothing there
            return
        path = Path(os.path.abspath(path.parent / target))
