"""Remote arrays beside Taichi's own copies in a local program."""

from __future__ import annotations

from collections.abc import Iterator

from bench.both_ways import random_values
from bench.figures import Figure, at_least, compared
from bench.groups import Run
from bench.processes import Child
from bench.samples import speed_of
from bench.served import Served
from bench.turns import in_turns, timed
from bench.workers import session

TITLE = "Remote arrays beside Taichi's own `from_numpy` and `to_numpy` in a local program"

NBYTES = 64 << 20


def measure(run: Run) -> Iterator[Figure]:
    """Of an ndarray of 64 MiB, on one machine and over tcp loopback."""
    values = random_values(NBYTES)
    with (
        session(run.arch, ipc=True) as near,
        session(run.arch) as far,
        Child(Served, run.arch, values.size) as local,
    ):
        local.call("begin")
        arrays = {
            name: bench.gpu.ti.ndarray(bench.gpu.ti.f32, values.size)
            for name, bench in (("ipc", near), ("tcp loopback", far))
        }
        turns = {"put": local.turn("put_own"), "fetch": local.turn("fetch")}
        for name, array in arrays.items():
            turns[f"put, {name}"] = timed(lambda array=array: array.from_numpy(values))  # type: ignore[misc]
            turns[f"fetch, {name}"] = timed(array.to_numpy)
        taken = in_turns(turns, run.rounds)
    for name in arrays:
        for way, method in (("put", "from_numpy"), ("fetch", "to_numpy")):
            yield compared(
                f"{way} of 64 MiB, {name}",
                taken[f"{way}, {name}"],
                taken[way],
                against=f"local {method}",
                measure=speed_of(NBYTES),
                reach=at_least(1.0),
            )
