"""Many sessions on one worker."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack

import psutil

from bench.figures import Figure, at_most, compared, told
from bench.groups import Run
from bench.idle_front import IdleFront
from bench.processes import Child
from bench.programs import text_of
from bench.samples import Spread, time_in
from bench.served import SMALL
from bench.turns import TURN, Turn, in_turns, timed
from bench.workers import worker
from tiremote.client import RemoteArray, Session, connect

TITLE = "Many sessions: pings beside busy engines, and what an idle session costs"

#: Sessions whose engines are busy at a time.
COUNTS = (1, 4, 16)

#: Sessions that the front alone is tried with.
KNOWN = 1000


def measure(run: Run) -> Iterator[Figure]:
    """Over tcp loopback. The thousand sessions are in a front whose engines are played."""
    ms = time_in("ms")
    with ExitStack() as stack:
        started = stack.enter_context(worker(run.arch))
        opened = []
        for _ in range(COUNTS[-1]):
            gpu = stack.enter_context(connect(started.address))
            gpu.compile_and_load(text_of("busy"), "busy")
            x = gpu.ti.ndarray(gpu.ti.f32, SMALL)
            gpu["busy"].busy(x, 0.0)
            opened.append((gpu, x))
        idle = [each.memory_full_info().uss / (1 << 20) for each in psutil.Process(started.pid).children()]
        taken = in_turns({str(count): _pings(opened[:count]) for count in COUNTS}, run.rounds)
    alone = taken["1"]
    for count in COUNTS[1:]:
        many = taken[str(count)]
        yield compared(
            f"ping beside {count} busy sessions, p50", many, alone, against="beside one busy session", measure=ms
        )
        yield told(f"ping beside {count} busy sessions, p99", many.tail(0.99), measure=ms, reach=at_most(20.0))
    yield Figure(what="memory of an idle session's engine", unit="MiB", subject=Spread.of(idle))
    with Child(IdleFront, KNOWN) as many_known, Child(IdleFront, 1) as one:
        each = Spread.of([many_known.call("each") / 1024])
        yield Figure(what="memory of an idle session in the front", unit="KiB", subject=each)
        taken = in_turns(
            {"many": many_known.turn("ping", seconds=TURN), "one": one.turn("ping", seconds=TURN)}, run.rounds
        )
    yield compared(
        f"the front's own time for a ping, {KNOWN:,} idle sessions",
        taken["many"],
        taken["one"],
        against="one session",
        measure=time_in("us"),
    )


def _pings(opened: Sequence[tuple[Session, RemoteArray]]) -> Turn:
    """Pings of the first session while the engines of all of them launch."""
    ping = timed(opened[0][0].ping, seconds=2 * TURN)

    def turn() -> Sequence[float]:
        running = [gpu["busy"].busy.submit(x, 4 * TURN) for gpu, x in opened]
        taken = ping()
        for each in running:
            each.result()
        return taken

    return turn
