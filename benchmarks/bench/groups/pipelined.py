"""Many small calls on their way at a time."""

from __future__ import annotations

from collections.abc import Iterator

from bench.figures import Figure, at_least, compared
from bench.groups import Run
from bench.processes import Child
from bench.samples import rate_of
from bench.served import Served
from bench.turns import in_turns, timed
from bench.workers import Bench, session

TITLE = "Many calls in flight: 10,000 submits, then the wait for all"

COUNT = 10_000


def measure(run: Run) -> Iterator[Figure]:
    """Beside a local loop of the same launches with one sync at its end."""
    with session(run.arch) as bench, Child(Served, run.arch) as local:
        local.call("begin")
        taken = in_turns(
            {"tiremote": timed(lambda: submitted(bench, COUNT)), "local": local.turn("launches", COUNT)}, run.rounds
        )
    yield compared(
        "10,000 submits",
        taken["tiremote"],
        taken["local"],
        against="local loop of the launches",
        measure=rate_of(COUNT),
        reach=at_least(0.8),
    )


def submitted(bench: Bench, count: int) -> None:
    """Sends all, then waits for all."""
    for future in [bench.steps.step.submit(bench.x) for _ in range(count)]:
        future.result()
