"""Taking samples: contenders have their turns one after the other, in each round."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping, Sequence

from bench.samples import Samples

#: Does its work and tells the seconds of each time.
Turn = Callable[[], Sequence[float]]

#: Seconds that one turn of small calls lasts.
TURN = 0.2


def timed(call: Callable[[], object], *, seconds: float = 0.0, most: int = 1000) -> Turn:
    """Calls at least once, and again until the seconds are over or it was called so often."""

    def turn() -> list[float]:
        taken: list[float] = []
        end = time.perf_counter() + seconds
        while not taken or (time.perf_counter() < end and len(taken) < most):
            started = time.perf_counter()
            call()
            taken.append(time.perf_counter() - started)
        return taken

    return turn


def in_turns(contenders: Mapping[str, Turn], rounds: int, *, warm: int = 1) -> dict[str, Samples]:
    """Has each do its turn in each round, another one first each time; ``warm`` turns before are not counted."""
    names = list(contenders)
    taken: dict[str, list[tuple[float, ...]]] = {name: [] for name in names}
    for number in range(-warm, rounds):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            # What the one before left behind is not the next one's to clear away.
            gc.collect()
            seconds = tuple(contenders[name]())
            if number >= 0:
                taken[name].append(seconds)
    return {name: Samples(rounds=tuple(each)) for name, each in taken.items()}
