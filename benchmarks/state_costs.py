"""What ``--state`` costs, and how long a restart takes: ``python benchmarks/state_costs.py [ROUNDS]``.

Calls one by one and as fast as they can be sent, with and without, with the front's processor time for each. Then a
worker is killed, and asked to end, ROUNDS times (10): counted is from then to the first call that the next worker
answers on the state that was put back (4 MiB in an ndarray), its start included. Prints tables for docs/reliability.md.
"""

from __future__ import annotations

import os
import shlex
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import psutil

from tiremote.client import connect

SOURCE = """
@ti.kernel
def add(x: ti.types.ndarray(), n: ti.f32):
    for i in x:
        x[i] += n

def same(n):
    return n
"""
ARCH = os.environ.get("TIREMOTE_TEST_ARCH") or "cpu"
CALLS = 2000


class Worker:
    """A worker that can be started again on the same port."""

    def __init__(self, state: Path | None) -> None:
        self._state = [] if state is None else ["--state", str(state)]
        self.address = "tcp://127.0.0.1:0"
        self.start()

    def start(self) -> None:
        """Starts it, and waits until it is ready."""
        command = [sys.executable, "-m", "tiremote.worker", "--bind", self.address, "--arch", ARCH, *self._state]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.address = shlex.split(self.process.stdout.readline())[2]

    def end(self, number: signal.Signals) -> None:
        """Ends it."""
        self.process.send_signal(number)
        self.process.communicate()

    def cpu(self) -> float:
        """Seconds of processor time that the front has taken."""
        times = psutil.Process(self.process.pid).cpu_times()
        return float(times.user + times.system)


def calls(worker: Worker, send: Callable[[], None]) -> str:
    """How many a second, and what each costs the front."""
    cpu, started = worker.cpu(), time.perf_counter()
    send()
    seconds = time.perf_counter() - started
    return f"{CALLS / seconds:8.0f} calls/s {(worker.cpu() - cpu) / CALLS * 1e6:6.0f} us of the front's time each"


def throughput(state: Path | None) -> None:
    """Prints two lines."""
    worker = Worker(state)
    with connect(worker.address, arch=ARCH, on_output=None) as gpu:
        gpu.compile_and_load(SOURCE, "sim")
        same = gpu["sim"].same

        def one_by_one() -> None:
            for n in range(CALLS):
                same(n)

        def together() -> None:
            for future in [same.submit(n) for n in range(CALLS)]:
                future.result()

        one_by_one()
        name = "without --state" if state is None else "with --state"
        print(f"{name:16} one by one {calls(worker, one_by_one)}")
        print(f"{name:16} together   {calls(worker, together)}")
    worker.end(signal.SIGTERM)


def restarts(state: Path, rounds: int) -> None:
    """Prints one line for each way to end."""
    worker = Worker(state)
    with connect(worker.address, arch=ARCH, on_output=None, liveness=120.0) as gpu:
        gpu.compile_and_load(SOURCE, "sim")
        x = gpu.array(np.zeros(1 << 20, np.float32))
        for number in (signal.SIGTERM, signal.SIGKILL):
            times: list[float] = []
            for _ in range(rounds):
                if number == signal.SIGTERM:
                    gpu["sim"].add(x, 1.0)
                started = time.perf_counter()
                worker.end(number)
                worker.start()
                value = float(x[0])
                times.append(time.perf_counter() - started)
                if value != (len(times) if number == signal.SIGTERM else rounds):
                    sys.exit("the state that was put back is wrong")
            print(f"{number.name:8} {rounds} times: median {statistics.median(times):.2f} s, worst {max(times):.2f} s")
    worker.end(signal.SIGTERM)


def main() -> None:
    """Everything, in a directory of its own."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    with tempfile.TemporaryDirectory() as folder:
        for state in (None, Path(folder, "calls")):
            throughput(state)
        restarts(Path(folder, "restarts"), rounds)


if __name__ == "__main__":
    main()
