"""A loop that runs on the worker."""

from __future__ import annotations

from collections.abc import Iterator

from bench.figures import Figure, at_least, compared
from bench.groups import Run
from bench.processes import Child
from bench.samples import rate_of
from bench.served import Served
from bench.turns import TURN, in_turns, timed
from bench.workers import session

TITLE = "A driver function of 1,000 steps on the worker"

COUNT = 1000


def measure(run: Run) -> Iterator[Figure]:
    """Beside the same function in a local program."""
    with session(run.arch) as bench, Child(Served, run.arch) as local:
        local.call("begin")
        taken = in_turns(
            {
                "tiremote": timed(lambda: bench.steps.steps(bench.x, COUNT), seconds=2 * TURN),
                "local": local.turn("launches", COUNT, seconds=2 * TURN),
            },
            run.rounds,
        )
    yield compared(
        "1,000 steps in one run",
        taken["tiremote"],
        taken["local"],
        against="the same function locally",
        measure=rate_of(COUNT, "steps/s"),
        reach=at_least(0.98),
    )
