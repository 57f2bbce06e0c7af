"""tiremote's side: a worker of its own for a benchmark, and sessions on it."""

from __future__ import annotations

import shlex
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.processes import PATIENCE
from bench.programs import text_of
from bench.served import SMALL
from tiremote.client import RemoteArray, RemoteUnit, Session, connect


@dataclass(frozen=True, kw_only=True)
class Worker:
    """Where it listens, and its front's process."""

    address: str
    pid: int


@contextmanager
def worker(arch: str, *, ipc: bool = False) -> Iterator[Worker]:
    """One on the loopback, or with ``ipc`` on a socket of this machine; it ends with the block, and with us."""
    with tempfile.TemporaryDirectory(prefix="tiremote-bench-") as folder:
        address = f"ipc://{Path(folder, 'worker.ipc')}" if ipc else "tcp://127.0.0.1:0"
        command = [sys.executable, "-m", "tiremote.worker", "--bind", address, "--arch", arch, "--until-eof"]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                late = threading.Timer(PATIENCE, process.kill)
                late.start()
                line = process.stdout.readline()
                late.cancel()
                if not line:
                    raise RuntimeError("the worker did not start")
                yield Worker(address=shlex.split(line)[2], pid=process.pid)
            finally:
                process.stdin.close()
                try:
                    process.wait(20)
                except subprocess.TimeoutExpired:
                    process.kill()


@dataclass(frozen=True, kw_only=True)
class Bench:
    """A session with the program of small calls in it, and its array."""

    gpu: Session
    steps: RemoteUnit
    x: RemoteArray

    def call(self) -> None:
        """One launch, and the wait for it."""
        self.steps.step(self.x)


@contextmanager
def session(arch: str, *, ipc: bool = False) -> Iterator[Bench]:
    """On a worker of its own."""
    with worker(arch, ipc=ipc) as started, connect(started.address) as gpu:
        gpu.compile_and_load(text_of("steps"), "steps")
        x = gpu.ti.ndarray(gpu.ti.f32, SMALL)
        yield Bench(gpu=gpu, steps=gpu["steps"], x=x)
