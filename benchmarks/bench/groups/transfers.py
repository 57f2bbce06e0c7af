"""Arrays over tcp loopback."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from bench.chunks import Chunks
from bench.figures import Figure, at_least, compared
from bench.groups import Run
from bench.samples import speed_of
from bench.turns import in_turns, timed
from bench.workers import session

TITLE = "Arrays over tcp loopback"

SIZES = (("64 MiB", 64 << 20), ("1 GiB", 1 << 30))


def measure(run: Run) -> Iterator[Figure]:
    """Put and fetch, each beside raw pyzmq chunks in the same direction."""
    with session(run.arch) as bench, Chunks(SIZES[-1][1]) as chunks:
        for name, nbytes in SIZES:
            values = np.random.default_rng(1).random(nbytes // 4, dtype=np.float32)
            array = bench.gpu.ti.ndarray(bench.gpu.ti.f32, values.size)
            if nbytes == SIZES[0][1]:
                chunks.choose(values)
            taken = in_turns(
                {
                    "put": timed(lambda: array.from_numpy(values)),  # noqa: B023
                    "raw put": timed(lambda: chunks.put(values)),  # noqa: B023
                    "fetch": timed(array.to_numpy),
                    "raw fetch": timed(lambda: chunks.fetch(nbytes)),  # noqa: B023
                },
                run.rounds,
            )
            array.free()
            for way in ("put", "fetch"):
                yield compared(
                    f"{way} of {name}",
                    taken[way],
                    taken[f"raw {way}"],
                    against=f"raw pyzmq, chunks of {chunks.size[way] >> 20} MiB",
                    measure=speed_of(nbytes),
                    reach=at_least(0.9),
                )
