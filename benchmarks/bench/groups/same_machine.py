"""Arrays between two processes of one machine."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from bench.both_ways import both_ways, random_values
from bench.figures import Figure, at_least, compared
from bench.groups import Run
from bench.peers import KINDS
from bench.samples import speed_of
from bench.turns import in_turns, timed
from bench.workers import Bench, session

TITLE = "Arrays on one machine: a worker at an ipc:// address"

SIZES = (("64 MiB", 64 << 20), ("1 GiB", 1 << 30))


def measure(run: Run) -> Iterator[Figure]:
    """Put and fetch, beside one memcpy in this process, and beside Ray's object store."""
    with session(run.arch, ipc=True) as bench:
        for name, nbytes in SIZES:
            yield from _beside_memcpy(bench, name, nbytes, run)
        ray = next(kind for kind in KINDS if kind.needs == "ray")
        if not ray.installed:
            run.notes.append("Ray is not installed, so not measured")
            return
        values = random_values(SIZES[0][1])
        with ray.start(run.arch, values.size) as peer:
            ways = both_ways(bench, values, timed(lambda: peer.put(values)), timed(peer.fetch), run.rounds)
    for way in ways:
        yield compared(
            f"{way.name} of {SIZES[0][0]}",
            way.taken,
            way.beside,
            against=ray.name,
            measure=speed_of(values.nbytes),
            reach=at_least(1.0),
        )


def _beside_memcpy(bench: Bench, name: str, nbytes: int, run: Run) -> Iterator[Figure]:
    values = random_values(nbytes)
    other = np.zeros_like(values)
    array = bench.gpu.ti.ndarray(bench.gpu.ti.f32, values.size)
    taken = in_turns(
        {
            "put": timed(lambda: array.from_numpy(values)),
            "memcpy": timed(lambda: np.copyto(other, values)),
            "fetch": timed(array.to_numpy),
        },
        run.rounds,
    )
    array.free()
    for way in ("put", "fetch"):
        yield compared(
            f"{way} of {name}",
            taken[way],
            taken["memcpy"],
            against="one memcpy",
            measure=speed_of(nbytes),
            reach=at_least(0.7),
        )
