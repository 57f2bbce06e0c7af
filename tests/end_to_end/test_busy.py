"""The front answers at once, whatever its engines do."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

from real_worker import RawSession, RealWorker
from tiremote.client import connect
from tiremote.protocol.messages import Compile, Describe, Interrupt, Request

#: How much slower the front may answer beside a busy engine: it shares two cores with it, and no lock.
RATIO = 20
ROUNDS = 500

KERNEL = """
@ti.kernel
def long(n: ti.i32) -> ti.i32:
    total = 0
    ti.loop_config(serialize=True)
    for i in range(n):
        for j in range(1_000_000):
            total += (i ^ j) % 7
    return total
"""

UNROLLED = """
@ti.kernel
def unrolled(x: ti.types.ndarray(ti.f32, 1)):
    for i in ti.static(range(60_000)):
        x[0] += ti.sin(x[0] + i)
"""


def answer_times(session: RawSession, rounds: int) -> dict[str, list[float]]:
    """Seconds of each of the three questions, asked in turns."""
    questions: dict[str, Callable[[], object]] = {
        "ping": session.ping,
        "status": session.status,
        "describe": lambda: session.ask(Describe),
    }
    times: dict[str, list[float]] = {name: [] for name in questions}
    for _ in range(rounds):
        for name, ask in questions.items():
            started = time.perf_counter()
            ask()
            times[name].append(time.perf_counter() - started)
    return times


def check_beside(session: RawSession, start: Callable[[], Request]) -> None:
    """Asks with the engine idle, then busy, and compares."""
    idle = answer_times(session, ROUNDS // 5)
    request = start()
    while session.status()["session"]["running"] is None:
        pass
    busy = answer_times(session, ROUNDS)
    assert session.status()["session"]["running"]["request"] == request.id, "it ended too early to show anything"
    for name in idle:
        before, beside = statistics.median(idle[name]), statistics.median(busy[name])
        assert beside < max(before * RATIO, 0.02), f"{name}: {before * 1e3:.2f} ms idle, {beside * 1e3:.2f} ms busy"
    session.ask(Interrupt)
    session.answer(request)


def test_the_front_answers_beside_a_kernel_that_holds_the_gil(session: RawSession) -> None:
    """Case 28: ping, status and describe do not wait for a kernel."""
    session.compile(KERNEL)
    session.run("long", 1)
    check_beside(session, lambda: session.start("long", 2_000_000))


def test_the_front_answers_beside_a_long_compile(session: RawSession) -> None:
    """Case 28: nor for a compile that takes half a minute."""
    check_beside(session, lambda: session.send(Compile, source=UNROLLED))


def test_a_busy_session_does_not_hold_up_another(session: RawSession, worker: RealWorker) -> None:
    """Case 29: sessions have engines of their own; one that is busy costs the others nothing but a core."""
    session.compile(KERNEL)
    request = session.start("long", 2_000_000)
    for _ in range(3):
        with RawSession(worker.address) as other:
            other.compile("def f(n):\n    return n + 1\n")
            assert [other.run("f", n) for n in range(20)] == list(range(1, 21))
    session.ask(Interrupt)
    session.answer(request)


def test_a_worker_that_keeps_no_engine_warm_is_ready_all_the_same(arch: str) -> None:
    """It says where it is and what it runs on, and its sessions begin."""
    with RealWorker("--spares", "0", arch=arch) as worker:
        assert f" arch={arch} " in worker.ready_line
        for _ in range(2):
            with connect(worker.address, arch=arch) as gpu:
                assert gpu.status().spares == 0
