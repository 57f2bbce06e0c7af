"""Remote arrays on a CUDA GPU beside the fastest that the driver can copy."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from bench.figures import Figure, compared
from bench.groups import Run, Skipped
from bench.pinned import PinnedCopies
from bench.processes import Child
from bench.samples import speed_of
from bench.turns import in_turns, timed
from bench.workers import session

TITLE = "Remote arrays on a CUDA GPU beside `cuMemcpy` from and to pinned memory"

NBYTES = 256 << 20


def measure(run: Run) -> Iterator[Figure]:
    """On one machine. Raises `Skipped` without CUDA."""
    if run.arch != "cuda":
        raise Skipped("it is about CUDA: TIREMOTE_BENCH_ARCH=cuda")
    values = np.random.default_rng(1).random(NBYTES // 4, dtype=np.float32)
    with session(run.arch, ipc=True) as bench, Child(PinnedCopies, NBYTES) as local:
        array = bench.gpu.ti.ndarray(bench.gpu.ti.f32, values.size)
        taken = in_turns(
            {
                "put": timed(lambda: array.from_numpy(values)),
                "pinned put": local.turn("put"),
                "fetch": timed(array.to_numpy),
                "pinned fetch": local.turn("fetch"),
            },
            run.rounds,
        )
    for way, copy in (("put", "cuMemcpyHtoD"), ("fetch", "cuMemcpyDtoH")):
        yield compared(
            f"{way} of 256 MiB",
            taken[way],
            taken[f"pinned {way}"],
            against=f"pinned {copy}",
            measure=speed_of(NBYTES),
        )
