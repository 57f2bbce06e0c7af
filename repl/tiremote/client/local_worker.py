"""A worker on this machine, started for one session and ended with it."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import IO

from tiremote.protocol.errors import WorkerUnreachable

#: Seconds within which a worker says that it is ready: it imports Taichi first, on a machine that may be busy.
START = 90.0

#: Seconds that it gets to end, after its standard input closed and again after it was told to terminate.
STOP = 5.0

#: A socket's path is 107 bytes at most on Linux, 103 on macOS.
_LONGEST_PATH = 100

_READY = re.compile(r"tiremote-worker ready (\S+) ")


class LocalWorker:
    """The process. It ends by itself when its standard input does, so a client that is killed leaves none behind."""

    def __init__(self, command: Sequence[str], folder: str | None = None) -> None:
        self._folder = folder
        self._stderr: deque[str] = deque(maxlen=200)
        self._ready: str | None = None
        self._announced = threading.Event()
        self._on_end: Callable[[str], None] | None = None
        self._ended = False
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            errors="replace",
            # In a group of its own: Ctrl-C in a terminal is for the client, which tells the worker what to stop.
            start_new_session=os.name == "posix",
            creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
        )
        self._readers = [
            threading.Thread(target=self._read_stdout, args=(self._process.stdout,), daemon=True),
            threading.Thread(target=self._read_stderr, args=(self._process.stderr,), daemon=True),
        ]
        for reader in self._readers:
            reader.start()

    @classmethod
    def start(cls, *, arch: str | None = None, runtime: str | None = None, timeout: float = START) -> LocalWorker:
        """Starts one and waits until it is ready. Raises `WorkerUnreachable` with what it said on standard error."""
        address, folder = _private_address()
        command = [sys.executable, "-m", "tiremote.worker", "--bind", address, "--until-eof"]
        command += ["--arch", arch] if arch is not None else []
        command += ["--runtime", runtime] if runtime is not None else []
        return cls._started(command, folder, timeout)

    @classmethod
    def _started(cls, command: Sequence[str], folder: str | None, timeout: float) -> LocalWorker:
        worker = cls(command, folder)
        try:
            worker.wait_until_ready(timeout)
        except BaseException:
            worker.stop()
            raise
        return worker

    def wait_until_ready(self, timeout: float) -> None:
        """Raises `WorkerUnreachable` where the process ends, or ``timeout`` seconds do, before it says it is ready."""
        self._announced.wait(timeout)
        if self._ready is not None:
            return
        if not self._announced.is_set():
            raise WorkerUnreachable(f"the local worker was not ready after {timeout:.0f} s{self._last_words()}")
        for reader in self._readers:
            reader.join(STOP)
        code = self._process.wait()
        said = "".join(self._stderr)
        missing = re.search(r"No module named '?(psutil|tiremote\.worker)\b", said)
        if missing:
            raise WorkerUnreachable(
                f"a local worker needs what is not installed here ({missing[1]}): pip install 'tiremote[worker]', "
                "or connect to the address of a worker elsewhere"
            )
        raise WorkerUnreachable(f"the local worker did not start, it ended with {code}{self._last_words()}")

    @property
    def address(self) -> str:
        """Where it listens."""
        if self._ready is None:
            raise RuntimeError("the local worker is not ready")
        return self._ready

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether the process is there, as far as its output tells: one that is about to end has closed that."""
        return not self._ended and self._process.poll() is None

    def when_it_ends(self, tell: Callable[[str], None]) -> None:
        """``tell`` is called once, on another thread, when the process has closed its output, which is its end."""
        self._on_end = tell

    def stop(self) -> None:
        """Ends it: by end of input, then by asking, then by force. May be called twice."""
        process = self._process
        with contextlib.suppress(OSError):
            if process.stdin is not None:
                process.stdin.close()
        for harder in (process.terminate, process.kill, None):
            try:
                process.wait(STOP)
                break
            except subprocess.TimeoutExpired:
                if harder is not None:
                    harder()
        for reader, pipe in zip(self._readers, (process.stdout, process.stderr), strict=True):
            # A grandchild may still hold the pipe: its reader is a daemon and may stay.
            reader.join(1.0)
            if pipe is not None and not reader.is_alive():
                pipe.close()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _read_stdout(self, pipe: IO[str]) -> None:
        for line in pipe:
            matched = _READY.match(line)
            if matched and self._ready is None:
                self._ready = matched[1]
                self._announced.set()
        self._announced.set()
        self._ended = True
        if self._on_end is not None:
            self._on_end(f"the local worker has ended{self._last_words()}; connect() starts another")

    def _read_stderr(self, pipe: IO[str]) -> None:
        self._stderr.extend(pipe)

    def _last_words(self) -> str:
        said = [line.strip() for line in list(self._stderr) if line.strip()]
        return f": {said[-1]}" if said else ", and said nothing"


def _private_address() -> tuple[str, str | None]:
    """A socket that only this user can reach, and its folder; without such sockets a port on the loopback."""
    if os.name == "posix":
        folder = tempfile.mkdtemp(prefix="tiremote-")
        path = os.path.join(folder, "worker.ipc")
        if len(os.fsencode(path)) <= _LONGEST_PATH:
            return f"ipc://{path}", folder
        shutil.rmtree(folder, ignore_errors=True)
    return "tcp://127.0.0.1:0", None
