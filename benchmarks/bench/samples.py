"""Seconds as they were taken, round by round, and what is told of them."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Spread:
    """A median with the quartiles around it."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Of at least one value."""
        if len(values) == 1:
            return cls(median=values[0], low=values[0], high=values[0])
        low, median, high = statistics.quantiles(values, n=4, method="inclusive")
        return cls(median=median, low=low, high=high)

    @property
    def width(self) -> float:
        """From quartile to quartile, as a share of the median."""
        return (self.high - self.low) / abs(self.median) if self.median else float(self.high > self.low)


@dataclass(frozen=True, kw_only=True)
class Samples:
    """Of one contender: for each round the seconds of what it did in it."""

    rounds: tuple[tuple[float, ...], ...]

    def tail(self, quantile: float) -> Samples:
        """That quantile of each round's seconds, by the nearest rank, as the round's only sample."""
        return Samples(rounds=tuple((_nearest(sorted(each), quantile),) for each in self.rounds))

    @property
    def medians(self) -> tuple[float, ...]:
        """Of each round."""
        return tuple(statistics.median(each) for each in self.rounds)

    def __add__(self, other: Samples) -> Samples:
        """What both take, one after the other: of each round the two medians together."""
        pairs = zip(self.medians, other.medians, strict=True)
        return Samples(rounds=tuple((one + another,) for one, another in pairs))


def _nearest(ordered: Sequence[float], quantile: float) -> float:
    return ordered[min(int(quantile * len(ordered)), len(ordered) - 1)]


@dataclass(frozen=True, kw_only=True)
class Measure:
    """How seconds are told: ``value`` makes a number of ``unit`` of them."""

    unit: str
    value: Callable[[float], float]


def time_in(unit: str) -> Measure:
    """Seconds in ``us``, ``ms`` or ``s``."""
    scale = {"us": 1e6, "ms": 1e3, "s": 1.0}[unit]
    return Measure(unit=unit, value=lambda seconds: seconds * scale)


def speed_of(nbytes: int) -> Measure:
    """GB/s at which so many bytes were moved."""
    return Measure(unit="GB/s", value=lambda seconds: nbytes / seconds / 1e9)


def rate_of(count: int, unit: str = "calls/s") -> Measure:
    """How many a second, of so many that were done."""
    return Measure(unit=unit, value=lambda seconds: count / seconds)
