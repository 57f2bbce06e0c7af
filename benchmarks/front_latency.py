"""How fast the front answers while its engine is busy: ``python benchmarks/front_latency.py [SECONDS]``.

Asks ping, status and describe in turns, for SECONDS each (10, and three times that for the compile): with the engine
idle, inside a kernel that holds Python's lock, and during a compile of more than half a minute. Prints milliseconds.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numpy as np

from tiremote.client import RequestFuture, Session, connect
from tiremote.protocol.errors import Interrupted

SOURCE = """
@ti.kernel
def long(n: ti.i32) -> ti.i32:
    total = 0
    ti.loop_config(serialize=True)
    for i in range(n):
        for j in range(1_000_000):
            total += (i ^ j) % 7
    return total

@ti.kernel
def unrolled(x: ti.types.ndarray()):
    for i in ti.static(range(3000)):
        x[0] += ti.sin(x[0] + i)
"""


def answers(gpu: Session, seconds: float) -> dict[str, np.ndarray]:
    """Milliseconds of each question, shape (rounds,)."""
    questions: dict[str, Callable[[], object]] = {"ping": gpu.ping, "status": gpu.status, "describe": gpu.describe}
    times: dict[str, list[float]] = {name: [] for name in questions}
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for name, ask in questions.items():
            started = time.perf_counter()
            ask()
            times[name].append((time.perf_counter() - started) * 1e3)
    return {name: np.array(values) for name, values in times.items()}


def report(state: str, times: dict[str, np.ndarray]) -> None:
    """One line for each question."""
    for name, ms in times.items():
        print(
            f"{state:8} {name:9} {ms.size:6} asked: median {np.median(ms):5.2f} ms, "
            f"99 % {np.quantile(ms, 0.99):5.2f} ms, worst {ms.max():6.2f} ms"
        )


def beside(gpu: Session, state: str, work: RequestFuture, seconds: float) -> None:
    """Asks while the work runs, and makes sure that it did all the time."""
    while gpu.status().session.running is None:  # type: ignore[union-attr]
        pass
    report(state, answers(gpu, seconds))
    running = gpu.status().session.running  # type: ignore[union-attr]
    if running is None:
        raise SystemExit(f"the {state} ended too early: {work.exception()}")
    print(f"         the engine had been busy for {running.seconds:.1f} s")
    gpu.interrupt(work)
    if not isinstance(work.exception(), Interrupted):
        raise SystemExit(f"the {state} ended with {work.exception()!r}")


def main(seconds: float) -> None:
    """Measures the three states."""
    with connect() as gpu:
        print(gpu.info.engine)
        gpu.compile_and_load(SOURCE, "busy")
        gpu["busy"].long(1)
        report("idle", answers(gpu, seconds))
        beside(gpu, "kernel", gpu["busy"].long.submit(2_000_000), seconds)
        beside(gpu, "compile", gpu["busy"].unrolled.submit(gpu.ti.ndarray(gpu.ti.f32, 1)), 3 * seconds)


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 10.0)
