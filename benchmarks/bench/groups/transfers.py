"""Arrays over tcp loopback."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from bench.both_ways import both_ways, random_values
from bench.chunks import Chunks
from bench.figures import Figure, at_least, compared
from bench.groups import Run
from bench.samples import speed_of
from bench.turns import timed
from bench.workers import session

TITLE = "Arrays over tcp loopback"

SIZES = (("64 MiB", 64 << 20), ("1 GiB", 1 << 30))


def measure(run: Run) -> Iterator[Figure]:
    """Put and fetch, each beside raw pyzmq chunks in the same direction."""
    with session(run.arch) as bench, Chunks(SIZES[-1][1]) as chunks:
        for name, nbytes in SIZES:
            values = random_values(nbytes)
            if nbytes == SIZES[0][1]:
                chunks.choose(values)
            put, fetch = timed(partial(chunks.put, values)), timed(partial(chunks.fetch, nbytes))
            for way in both_ways(bench, values, put, fetch, run.rounds):
                yield compared(
                    f"{way.name} of {name}",
                    way.taken,
                    way.beside,
                    against=f"raw pyzmq, chunks of {chunks.size[way.name] >> 20} MiB",
                    measure=speed_of(nbytes),
                    reach=at_least(0.9),
                )
