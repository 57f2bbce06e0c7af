"""The directory of ``--state``: who may look into it, that one worker uses it, and the files in it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
from pathlib import Path
from typing import IO

from tiremote.protocol.errors import Refused
from tiremote.worker.front.processes import page_without_name
from tiremote.worker.page import Page

_PAGES = "engines"


class StateDirectory:
    """Locked from when it is made until `close`, or until the process ends, however that is.

    Raises `Refused` where another worker uses it, others may write into it, or it cannot be had.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._check()
            self._lock = _private(str(path / "lock"), os.O_RDWR | os.O_CREAT)
        except OSError as error:
            raise Refused(f"cannot keep sessions in {path}: {error.strerror or error}") from None
        try:
            self._take_lock()
            self._withdrawn = 0
            self._pages = path / _PAGES
            self._pages.mkdir(mode=0o700, exist_ok=True)
        except BaseException as error:
            os.close(self._lock)
            if isinstance(error, OSError):
                raise Refused(f"cannot keep sessions in {path}: {error.strerror or error}") from None
            raise

    def _check(self) -> None:
        told = self.path.stat()
        if told.st_uid != os.geteuid() or told.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise Refused(
                f"will not keep sessions in {self.path}: others can write there, and whoever can has all sessions. "
                f"Make it yours alone: chmod 700 {self.path}"
            )

    def _take_lock(self) -> None:
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            other = os.pread(self._lock, 32, 0).decode(errors="replace").strip()
            raise Refused(
                f"another worker (pid {other or 'unknown'}) keeps its sessions in {self.path}: end that one, or give "
                "this one a directory of its own"
            ) from None
        os.ftruncate(self._lock, 0)
        os.pwrite(self._lock, f"{os.getpid()}\n".encode(), 0)

    def file(self, name: str) -> Path:
        """The path of a file that nobody else may read; it is there. Raises `OSError`."""
        path = self.path / name
        # SQLite gives the files that it makes beside this one the same rights.
        os.close(_private(str(path), os.O_RDWR | os.O_CREAT))
        path.chmod(0o600)
        return path

    def page(self, run: str, engine: int) -> IO[bytes]:
        """A file for what an engine says it has begun, of a `Page`'s size: it outlives both it and the worker."""
        with contextlib.suppress(OSError):
            page = open(self._page(run, engine), "x+b", buffering=0, opener=_private)  # noqa: SIM115
            try:
                # Written, not cut to size: a full disk is an error here where it would be SIGBUS in the mapping.
                page.write(bytes(Page.SIZE))
            except OSError:
                page.close()
                raise
            return page
        return page_without_name()

    def never_begins(self, run: str, engine: int, key: int) -> bool:
        """Whether that engine of an earlier worker had not begun a request; it does not any more, should it still live.

        False where that is not known.
        """
        try:
            with self._page(run, engine).open("r+b") as file:
                page = Page(file.fileno())
        except (OSError, ValueError):
            return False
        # An engine says what it begins before it looks what is withdrawn.
        page.withdraw(key, self._withdrawn)
        self._withdrawn += 1
        begun = page.begun
        page.close()
        return begun < key

    def forget_page(self, run: str, engine: int) -> None:
        """Nobody will ask any more what that engine had begun."""
        with contextlib.suppress(OSError):
            self._page(run, engine).unlink(missing_ok=True)

    def forget_pages(self, *, but: str) -> None:
        """Likewise of every engine but those of one run."""
        with contextlib.suppress(OSError):
            for path in self._pages.iterdir():
                if not path.name.startswith(but):
                    path.unlink(missing_ok=True)

    def _page(self, run: str, engine: int) -> Path:
        return self._pages / f"{run}-{engine}"

    def close(self) -> None:
        """Lets another worker have it."""
        os.close(self._lock)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, 0o600)
