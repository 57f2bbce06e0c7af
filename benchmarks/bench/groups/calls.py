"""One small call that is waited for."""

from __future__ import annotations

from collections.abc import Iterator

from bench.echo import Echo
from bench.figures import Figure, at_most, compared
from bench.groups import Run
from bench.processes import Child
from bench.samples import time_in
from bench.served import Served
from bench.turns import TURN, in_turns, timed
from bench.workers import session

TITLE = "A small call: one launch and sync on an ndarray that stays there"

FLOOR = "raw pyzmq round trip + local launch and sync"


def measure(run: Run) -> Iterator[Figure]:
    """Over tcp loopback; the floor is two turns, added."""
    with session(run.arch) as bench, Echo() as echo, Child(Served, run.arch) as local:
        local.call("begin")
        taken = in_turns(
            {
                "tiremote": timed(bench.call, seconds=TURN),
                "echo": timed(echo.call, seconds=TURN),
                "local": local.turn("call", seconds=TURN),
                "ping": timed(bench.gpu.ping, seconds=TURN),
            },
            run.rounds,
        )
    us, calls, floor = time_in("us"), taken["tiremote"], taken["echo"] + taken["local"]
    yield compared("small run, p50", calls, floor, against=FLOOR, measure=us, reach=at_most(1.5))
    tails = [taken[name].tail(0.99) for name in ("tiremote", "echo", "local")]
    yield compared("small run, p99", tails[0], tails[1] + tails[2], against="p99 of both", measure=us)
    yield compared("small run, p50", calls, taken["local"], against="local launch and sync", measure=us)
    yield compared("ping of the front, p50", taken["ping"], taken["echo"], against="raw pyzmq round trip", measure=us)
