"""How long a call takes on the worker: a request that makes it again and again, and what that tells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from tiremote.protocol.comparison import quartiles, time_text
from tiremote.protocol.errors import ProtocolError
from tiremote.protocol.request import EngineRequest
from tiremote.protocol.values import Ref

#: Calls of one request: it takes its time, and every time is told.
MOST_CALLS = 100_000

_BLOCKS = " ▁▂▃▄▅▆▇█"
_BINS = 24


@dataclass(frozen=True, kw_only=True, slots=True)
class Bench(EngineRequest):
    """Calls ``target`` (or its ``method``) ``warmup`` times and then ``repeats`` times, and waits for each.

    Each call is made with the arguments as they came. What is on the worker changes as by any call.
    """

    op: ClassVar[str] = "bench"

    target: Ref
    method: str | None = None
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    warmup: int = 3
    repeats: int = 30

    def __post_init__(self) -> None:
        EngineRequest.__post_init__(self)
        if not 0 <= self.warmup <= MOST_CALLS:
            raise ProtocolError(f"warmup is a number of calls from 0 to {MOST_CALLS:,}; {self.warmup} came")
        if not 1 <= self.repeats <= MOST_CALLS:
            raise ProtocolError(f"repeats is a number of calls from 1 to {MOST_CALLS:,}; {self.repeats} came")


@dataclass(frozen=True, kw_only=True, slots=True)
class Benchmark:
    """``launches`` are the seconds of each call but for the ``warmup`` calls before them, in order.

    ``compile``: seconds in which kernels were compiled, nearly always in the first of those.
    """

    name: str
    warmup: int
    compile: float
    launches: tuple[float, ...]

    @property
    def median(self) -> float:
        """In seconds."""
        return quartiles(self.launches)[1]

    @property
    def minimum(self) -> float:
        """In seconds."""
        return min(self.launches)

    @property
    def spread(self) -> float:
        """The distance of the quartiles as a part of the median: 0 where every call took the same time."""
        lower, median, upper = quartiles(self.launches)
        return (upper - lower) / median if median else 0.0

    def __str__(self) -> str:
        lower, median, upper = map(time_text, quartiles(self.launches))
        count = len(self.launches)
        least, most = time_text(min(self.launches)), time_text(max(self.launches))
        return (
            f"{self.name}: median {median}, quartiles {lower} to {upper}, {count} call{'s' if count > 1 else ''} after "
            f"{self.warmup}, compiled in {time_text(self.compile)}\n  {least} {picture(self.launches)} {most}"
        )


def picture(numbers: Sequence[float]) -> str:
    """How they are distributed from the least to the largest, in blocks."""
    least, most = min(numbers), max(numbers)
    bins = [0] * _BINS
    for number in numbers:
        place = 0 if most == least else int((number - least) / (most - least) * _BINS)
        bins[min(place, _BINS - 1)] += 1
    fullest = max(bins)
    # Where there is one at all, something is to be seen.
    return "".join(_BLOCKS[-(-count * (len(_BLOCKS) - 1) // fullest)] for count in bins)
