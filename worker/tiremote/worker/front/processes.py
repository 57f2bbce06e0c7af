"""Engine processes as the loop sees them: a link, two pipes of output, an exit code."""

from __future__ import annotations

import contextlib
import os
import secrets
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from typing import IO

from tiremote.worker.front.output import Demultiplexer, Stream
from tiremote.worker.link import make_link
from tiremote.worker.page import Calls, Page

_READ_BYTES = 1 << 16
_READS = 8
#: A text has one hash in all engines: a session that was moved may have kept some.
_HASHING = {"PYTHONHASHSEED": str(secrets.randbelow(1 << 32))}


def page_without_name() -> IO[bytes]:
    """A file for an engine's `Page` that goes with whoever has it open."""
    page = tempfile.TemporaryFile()  # noqa: SIM115 (closed where it is used)
    page.truncate(Page.SIZE)
    return page


class EngineProcess:
    """One spawned engine. It dies with the front, however that ends. ``page`` is a file for its `Page`, closed here."""

    def __init__(self, number: int, runtime: str, page: IO[bytes]) -> None:
        self.number = number
        #: It is being told more than its link takes at once.
        self.waiting = False
        self._withdrawn = 0
        self.channel, theirs = make_link()
        # The page tells a nudged engine which request is meant: the signal alone could hit the next one.
        with page:
            self._page = Page(page.fileno())
            try:
                self.process = subprocess.Popen(
                    [
                        sys.executable, "-m", "tiremote.worker.engine",
                        str(theirs.fileno()), str(page.fileno()), runtime,
                    ],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    pass_fds=[theirs.fileno(), page.fileno()],
                    # A Ctrl-C in the worker's terminal is for the front, which drains. And a group of its own, to
                    # be killed with.
                    start_new_session=True,
                    env={**_HASHING, **os.environ, "PYTHONUNBUFFERED": "1", "TIREMOTE_FRONT": str(os.getpid())},
                )  # fmt: skip
            finally:
                theirs.close()
        if self.process.stdout is None or self.process.stderr is None:
            raise AssertionError("both streams are pipes")
        self.pipes: dict[int, Stream] = {self.process.stdout.fileno(): "stdout", self.process.stderr.fileno(): "stderr"}
        self._cut = {stream: Demultiplexer() for stream in self.pipes.values()}
        #: Asked for both pipes at once: most requests print nothing.
        self._printed = select.poll()
        for fd in self.pipes:
            os.set_blocking(fd, False)
            self._printed.register(fd, select.POLLIN)

    @property
    def pid(self) -> int:
        """The process's id."""
        return self.process.pid

    def nudge(self, key: int) -> None:
        """Asks the user's code of request ``key`` to stop."""
        self._page.nudged = key
        self._signal(os.kill, signal.SIGINT)

    def withdraw(self, key: int) -> None:
        """Has the engine pass over a request that it has not begun."""
        self._page.withdraw(key, self._withdrawn)
        self._withdrawn += 1

    def kill(self) -> None:
        """Ends the process at once, with every process that its user's code started."""
        self._signal(os.killpg, signal.SIGKILL)

    def _signal(self, send: Callable[[int, int], None], number: signal.Signals) -> None:
        # Only `close` waits for the process: until then its pid, and its group's, are nobody else's.
        if self.process.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                send(self.pid, number)

    def printed(self) -> list[int]:
        """The pipes that have something, or have ended."""
        return [fd for fd, _ in self._printed.poll(0)]

    def read_output(self, fd: int) -> list[tuple[Stream, int, bytes]]:
        """(stream, key of the request, bytes) of what was printed there since; forgets the pipe at its end.

        Reads more than a pipe holds, so everything that was printed before a message is there before it, and
        not for ever, however fast the engine prints.
        """
        stream = self.pipes[fd]
        pieces = []
        try:
            for _ in range(_READS):
                data = os.read(fd, _READ_BYTES)
                if not data:
                    del self.pipes[fd]
                    self._printed.unregister(fd)
                    break
                pieces += [(stream, key, piece) for key, piece in self._cut[stream].feed(data)]
        except BlockingIOError:
            pass
        return pieces

    def begin_output(self, key: int) -> list[tuple[Stream, int, bytes]]:
        """What is printed from here on is request ``key``'s; gives what earlier ones have printed, as `read_output`."""
        pieces = [piece for fd in self.printed() for piece in self.read_output(fd)]
        for stream, cut in self._cut.items():
            before, rest = cut.begin(key)
            pieces += [(stream, before, rest)] if rest else []
        return pieces

    @property
    def begun(self) -> int:
        """The key of the request that it began last."""
        return self._page.begun

    @property
    def calls(self) -> Calls:
        """What it does over a lane."""
        return self._page.calls

    def close(self) -> None:
        """Lets go of everything but the process itself."""
        self.channel.close()
        for pipe in (self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()
        self.pipes.clear()
        self._page.close()

    def wait(self) -> int:
        """Waits for the end of the process, which a GPU's driver can hold up; its exit code, negative for a signal."""
        return self.process.wait()
