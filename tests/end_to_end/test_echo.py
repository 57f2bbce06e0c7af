"""How long a key takes to be seen while a kernel prints."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import statistics
import struct
import subprocess
import sys
import termios
import time

from real_worker import RealWorker

PATIENCE = 15.0

PRINTS = b"@ti.kernel\rdef shout(n: ti.i32):\rfor i in range(n):\rprint('line', i)\r\r"

#: Seconds. Measured on 2 cores: a median of 2 ms, 36 ms at most where a piece of the flood was just being drawn.
MEDIAN = 0.02


class Pty:
    """`tiremote` on a pseudo terminal of its own."""

    def __init__(self, *arguments: str) -> None:
        code = "from tiremote.repl.command import main; main(prog_name='tiremote')"
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
        self.process = subprocess.Popen(
            [sys.executable, "-c", code, *arguments],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            env={**os.environ, "TERM": "xterm-256color"},
        )
        os.close(slave)
        self.seen = b""

    def read(self, timeout: float = 0.0) -> bytes:
        """What has come since, or comes within that time."""
        if not select.select([self._master], [], [], timeout)[0]:
            return b""
        try:
            data = os.read(self._master, 1 << 16)
        except OSError:  # the other side is closed
            data = b""
        # prompt_toolkit asks where the cursor is.
        if b"\x1b[6n" in data:
            os.write(self._master, b"\x1b[1;1R")
        self.seen += data
        return data

    def wait_for(self, text: bytes) -> None:
        deadline = time.monotonic() + PATIENCE
        while text not in self.seen:
            assert time.monotonic() < deadline, self.seen[-2000:]
            self.read(0.1)

    def type(self, text: bytes) -> None:
        os.write(self._master, text)

    def echo(self, key: bytes) -> float:
        """Seconds from a key to its echo, which the prompt draws in one piece or after its colours."""
        before = len(self.seen)
        began = time.perf_counter()
        self.type(key)
        while key not in self.seen[before:]:
            assert time.perf_counter() - began < PATIENCE, self.seen[-800:]
            self.read(0.1)
        return time.perf_counter() - began

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._master)


def test_a_key_is_seen_at_once_while_a_kernel_prints(worker: RealWorker) -> None:
    """200,000 lines come from a kernel that was submitted; what is typed meanwhile is not held up by them."""
    terminal = Pty(worker.address)
    try:
        terminal.wait_for(b">>>")
        terminal.type(PRINTS)
        terminal.wait_for(b"version 1")
        terminal.seen = b""
        terminal.type(b"f = shout.submit(200_000)\r")
        terminal.wait_for(b"line")
        # Capital letters that no printed line has.
        took = [terminal.echo(bytes([key])) for key in b"QWZXQWZXQWZXQWZXQWZX"]
        terminal.seen = b""
        terminal.wait_for(b"line")  # they came all the while
        assert statistics.median(took) < MEDIAN
    finally:
        terminal.close()
