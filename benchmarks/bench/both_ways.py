"""Put and fetch of a remote array, in turns with what moves the same bytes beside it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from bench.samples import Samples
from bench.turns import Turn, in_turns, timed
from bench.workers import Bench


@dataclass(frozen=True, slots=True)
class Way:
    """``put`` or ``fetch``: how long it took the remote array, and what is beside it."""

    name: str
    taken: Samples
    beside: Samples


def random_values(nbytes: int) -> np.ndarray:
    """So many bytes of f32, always the same."""
    return np.random.default_rng(1).random(nbytes // 4, dtype=np.float32)


def both_ways(bench: Bench, values: np.ndarray, put: Turn, fetch: Turn, rounds: int) -> Iterator[Way]:
    """Measures a new remote array of these values, of f32, beside the two turns."""
    array = bench.gpu.ti.ndarray(bench.gpu.ti.f32, values.size)
    taken = in_turns(
        {
            "put": timed(lambda: array.from_numpy(values)),
            "put beside": put,
            "fetch": timed(array.to_numpy),
            "fetch beside": fetch,
        },
        rounds,
    )
    array.free()
    return (Way(name, taken[name], taken[f"{name} beside"]) for name in ("put", "fetch"))
