"""The other ways to call the kernel, one after the other, each in turns with tiremote alone."""

from __future__ import annotations

import traceback
from collections.abc import Iterator

import numpy as np

from bench.both_ways import both_ways, random_values
from bench.figures import Figure, at_least, at_most, compared
from bench.groups import Run
from bench.peers import KINDS, Kind
from bench.samples import speed_of, time_in
from bench.turns import TURN, in_turns, timed
from bench.workers import Bench, session

TITLE = "Peers: the same kernel, and 64 MiB that end in a remote ndarray or come from one"

#: f32 of 64 MiB.
LARGE = (64 << 20) // 4


def measure(run: Run) -> Iterator[Figure]:
    """Only one peer runs at a time: some of them are busy while nobody asks them anything."""
    missing = [kind.name for kind in KINDS if not kind.installed]
    if missing:
        run.notes.append(f"Not installed, so not measured: {', '.join(missing)}")
    with session(run.arch) as bench:
        for kind in KINDS:
            if not kind.installed:
                continue
            try:
                yield from _beside(bench, kind, run)
            except Exception as error:
                # One of them that does not start here is no reason to know nothing of the others.
                traceback.print_exc()
                run.notes.append(f"{kind.name} failed: {type(error).__name__}")


def _beside(bench: Bench, kind: Kind, run: Run) -> Iterator[Figure]:
    with kind.start(run.arch, LARGE) as peer:
        taken = in_turns(
            {"tiremote": timed(bench.call, seconds=TURN), "peer": timed(peer.call, seconds=TURN)}, run.rounds
        )
        yield compared(
            "small run, p50",
            taken["tiremote"],
            taken["peer"],
            against=kind.name,
            measure=time_in("us"),
            reach=at_most(1.0),
        )
        if not kind.moves_arrays:
            return
        values = random_values(4 * LARGE)
        peer.put(values)
        if not np.array_equal(peer.fetch(), values):
            raise ValueError(f"what {kind.name} gave back is not what it got")
        for way in both_ways(bench, values, timed(lambda: peer.put(values)), timed(peer.fetch), run.rounds):
            yield compared(
                f"{way.name} of 64 MiB",
                way.taken,
                way.beside,
                against=kind.name,
                measure=speed_of(values.nbytes),
                reach=at_least(1.0),
            )
