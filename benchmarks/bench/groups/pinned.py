"""Remote arrays on a CUDA GPU beside the fastest that the driver can copy."""

from __future__ import annotations

from collections.abc import Iterator

from bench.both_ways import both_ways, random_values
from bench.figures import Figure, compared
from bench.groups import Run, Skipped
from bench.pinned import PinnedCopies
from bench.processes import Child
from bench.samples import speed_of
from bench.workers import session

TITLE = "Remote arrays on a CUDA GPU beside `cuMemcpy` from and to pinned memory"

NBYTES = 256 << 20

#: What the driver calls it.
COPIES = {"put": "cuMemcpyHtoD", "fetch": "cuMemcpyDtoH"}


def measure(run: Run) -> Iterator[Figure]:
    """On one machine. Raises `Skipped` without CUDA."""
    if run.arch != "cuda":
        raise Skipped("it is about CUDA: TIREMOTE_BENCH_ARCH=cuda")
    with session(run.arch, ipc=True) as bench, Child(PinnedCopies, NBYTES) as local:
        ways = both_ways(bench, random_values(NBYTES), local.turn("put"), local.turn("fetch"), run.rounds)
    for way in ways:
        yield compared(
            f"{way.name} of 256 MiB",
            way.taken,
            way.beside,
            against=f"pinned {COPIES[way.name]}",
            measure=speed_of(NBYTES),
        )
