"""What a large array costs beside itself."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import psutil

from bench import peak
from bench.figures import Figure, Reach, at_most
from bench.groups import Run, Skipped
from bench.processes import Child
from bench.samples import Spread
from bench.workers import worker
from tiremote.client import connect

TITLE = "Peak memory of client and front above the array itself"

#: The array of the figure, and what is taken where there is not so much memory.
LARGEST, SMALLEST = 4 << 30, 256 << 20

#: Client, engine, what is fetched, and room for everything else.
_TIMES = 4

MIB = 1 << 20


class Client:
    """A client of its own process, so that its memory is nobody else's."""

    def __init__(self, address: str, arch: str, nbytes: int) -> None:
        self._gpu = connect(address, arch=arch)
        self._values = np.full(nbytes // 4, 1.5, np.float32)
        self._array = self._gpu.ti.ndarray(self._gpu.ti.f32, self._values.size)

    def close(self) -> None:
        """Ends the session."""
        self._gpu.close()

    def put(self) -> int:
        """Bytes above what was there before, the array among it."""
        before = peak.restart("self")
        self._array.from_numpy(self._values)
        return peak.most("self") - before

    def fetch(self) -> int:
        """Bytes above what was there before, and above the array that comes."""
        before = peak.restart("self")
        fetched = self._array.to_numpy()
        above = peak.most("self") - before - fetched.nbytes
        if fetched[0] != 1.5 or fetched[-1] != 1.5:
            raise ValueError("what was fetched is not what was put")
        return above


def measure(run: Run) -> Iterator[Figure]:
    """Over tcp loopback, once: memory has no noise to speak of. Raises `Skipped` where nothing tells the peak."""
    if not peak.available():
        raise Skipped("this system does not tell a process's peak memory")
    nbytes = fitting(psutil.virtual_memory().available)
    what = f"{nbytes / (1 << 30):g} GiB"
    with worker(run.arch) as started, Child(Client, started.address, run.arch, nbytes, patience=600.0) as client:
        for way in ("put", "fetch"):
            before = peak.restart(started.pid)
            above = client.call(way)
            yield _mib(f"client, {way} of {what}", above, at_most(64))
            yield _mib(f"front, {way} of {what}", peak.most(started.pid) - before, at_most(64))


def fitting(available: int) -> int:
    """Bytes of the largest array that so much memory has room for, `SMALLEST` at least."""
    nbytes = LARGEST
    while nbytes > SMALLEST and nbytes * _TIMES > available:
        nbytes //= 2
    return nbytes


def _mib(what: str, nbytes: int, reach: Reach) -> Figure:
    return Figure(what=what, unit="MiB", subject=Spread.of([nbytes / MIB]), reach=reach)
