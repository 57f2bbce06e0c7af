"""How long until a session works again after each kind of fault: ``python benchmarks/recovery_times.py [ROUNDS]``.

A fault is injected ROUNDS times (15). Counted is from the fault, or from the ``interrupt`` and the deadline that end an
endless kernel, to the first call that is answered on the state that was put back; each round checks that state. Beside
it, in the same run, stands what starting over costs: a new Python that imports Taichi and initialises it.
Prints a table for docs/reliability.md.
"""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tiremote.client import RemoteArray, Session, connect
from tiremote.protocol.errors import EngineError

SOURCE = """
import os

total = ti.field(ti.f32, 1 << 18)

@ti.kernel
def add(x: ti.types.ndarray(), n: ti.f32):
    for i in x:
        x[i] += n
    for i in total:
        total[i] += n

@ti.kernel
def far(x: ti.types.ndarray()):
    x[1_500_000_000] = 1.0

@ti.kernel
def endless() -> ti.i32:
    n = 0
    ti.loop_config(serialize=True)
    for i in range(2_000_000_000):
        for j in range(2_000_000_000):
            n += (i ^ j) % 7
    return n

def spin():
    while True:
        pass

def kill(number):
    os.kill(os.getpid(), number)

def lose_device():
    raise RuntimeError("CUDA_ERROR_ILLEGAL_ADDRESS")
"""
COLD = "import taichi as ti; ti.init(arch=getattr(ti, {arch!r}), log_level='error'); ti.sync()"
ARCH = os.environ.get("TIREMOTE_TEST_ARCH") or "cpu"


@dataclass
class Bench:
    """A session with 4 MiB in an ndarray and 1 MiB in a field, both in copies on the worker."""

    gpu: Session
    x: RemoteArray
    rounds: int

    def ready_again(self) -> None:
        """Returns when a call has worked on the state that was put back."""
        while True:
            try:
                self.gpu["sim"].add(self.x, 1.0)
                break
            except EngineError:
                continue
        if self.x[0] != 2 or self.gpu["sim"].total[5] != 4:
            sys.exit("the state that was put back is wrong")

    def prepare(self) -> None:
        """Known contents, their copies, and a spare engine."""
        self.x.from_numpy(np.ones(self.x.shape, np.float32))
        self.gpu["sim"].total.from_numpy(np.full(1 << 18, 3, np.float32))
        while not self.gpu.status().spares:
            time.sleep(0.01)  # measuring begins when it is there
        time.sleep(0.5)  # and has warmed up, as it would have in a session of more than a second

    def measure(self, name: str, fault: Callable[[], float]) -> list[float]:
        """Seconds of each round; ``fault`` returns when it was."""
        seconds = []
        for _ in range(self.rounds):
            self.prepare()
            began = fault()
            self.ready_again()
            seconds.append(time.monotonic() - began)
        report(name, seconds)
        return seconds

    # -- the faults

    def killed_while_idle(self) -> float:
        """SIGKILL from outside, as by the kernel's out-of-memory killer."""
        session = self.gpu.status().session
        assert session is not None
        assert session.engine_pid is not None
        began = time.monotonic()
        os.kill(session.engine_pid, signal.SIGKILL)
        return began

    def runs_into(self, call: Callable[[], object]) -> float:
        """A call that loses its engine."""
        began = time.monotonic()
        try:
            call()
        except EngineError:
            return began
        sys.exit("that should have lost its engine")

    def interrupted(self, name: str) -> float:
        """A call that runs for ever and is stopped."""
        future = self.gpu.kernel(f"sim.{name}").submit()
        while self.gpu.status().session.running is None:  # type: ignore[union-attr]
            pass
        began = time.monotonic()
        self.gpu.interrupt(future)
        future.exception()
        return began

    def exceeded(self) -> float:
        """A call that runs into its deadline, from which on it counts."""
        began = time.monotonic()
        try:
            self.gpu.kernel("sim.endless").with_options(deadline=0.2)()
        except EngineError:
            return began + 0.2
        sys.exit("an endless kernel has ended")


def report(name: str, seconds: list[float]) -> None:
    """One row."""
    print(f"| {name} | {len(seconds)} | {statistics.median(seconds):.2f} | {max(seconds):.2f} |", flush=True)


def cold_start() -> float:
    """Seconds of a Python that imports Taichi and initialises it."""
    began = time.monotonic()
    subprocess.run([sys.executable, "-c", COLD.format(arch=ARCH)], check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - began


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    print("| fault | rounds | median s | worst s |\n|---|---|---|---|")
    with connect(arch=ARCH, on_output=None) as gpu:
        gpu.compile_and_load(SOURCE, "sim")
        bench = Bench(gpu, gpu.array(np.ones(1 << 20, np.float32)), rounds)
        bench.prepare()
        gpu["sim"].add(bench.x, 0.0)
        sim = gpu["sim"]
        bench.measure("killed while idle (SIGKILL)", bench.killed_while_idle)
        for number in (signal.SIGSEGV, signal.SIGABRT):
            died = lambda number=number: bench.runs_into(lambda: sim.kill(int(number)))  # noqa: E731
            bench.measure(f"died in a call ({number.name})", died)
        bench.measure("index far out of bounds in a kernel", lambda: bench.runs_into(lambda: sim.far(bench.x)))
        bench.measure("device error", lambda: bench.runs_into(sim.lose_device))
        bench.measure("endless kernel, interrupted", lambda: bench.interrupted("endless"))
        bench.measure("endless Python code, interrupted", lambda: bench.interrupted("spin"))
        bench.measure("endless kernel, at its deadline", bench.exceeded)
    report("a new Python with `import taichi; ti.init()`", [cold_start() for _ in range(min(rounds, 7))])


if __name__ == "__main__":
    main()
