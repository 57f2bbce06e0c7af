"""What executing a text does outside of this process: it would be done again where the text is executed again."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Iterator
from typing import Any, Final

#: Python's audit events that tell of it.
_OUTSIDE: Final = {
    "os.remove": "removes a file",
    "os.rename": "renames a file",
    "os.rmdir": "removes a folder",
    "os.truncate": "truncates a file",
    "os.symlink": "makes a link",
    "os.link": "makes a link",
    "os.chmod": "changes a file",
    "os.kill": "signals a process",
    "os.fork": "starts a process",
    "os.forkpty": "starts a process",
    "os.posix_spawn": "starts a process",
    "os.system": "starts a process",
    "subprocess.Popen": "starts a process",
    "shutil.rmtree": "removes a folder",
    "shutil.move": "moves a file",
    "socket.connect": "connects to something",
    "socket.bind": "listens to the network",
    "socket.sendto": "sends something",
    "sqlite3.connect": "opens a database",
}
_WRITING: Final = os.O_WRONLY | os.O_RDWR


class Outside:
    """Notes what executing a text does outside of this process."""

    def __init__(self) -> None:
        self._seen: list[str] | None = None
        self._thread = 0
        sys.addaudithook(self._hook)

    @contextlib.contextmanager
    def watched(self) -> Iterator[list[str]]:
        """While it lasts, this thread's doings are noted; gives the list that they go to."""
        before = self._seen
        self._seen, self._thread = [], threading.get_ident()
        try:
            yield self._seen
        finally:
            self._seen = before

    def _hook(self, event: str, args: tuple[Any, ...]) -> None:
        seen = self._seen
        if seen is None or threading.get_ident() != self._thread:
            return
        if event == "open":
            path, _, flags = (*args, 0, 0, 0)[:3]
            # Python's own cache of imported modules is written when it is stale.
            if isinstance(flags, int) and flags & _WRITING and "__pycache__" not in str(path):
                seen.append(f"writes to {path}")
        elif event in _OUTSIDE:
            seen.append(_OUTSIDE[event])
