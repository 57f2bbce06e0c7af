"""A figure: what was measured, beside what, and whether that is what was to be reached."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bench.samples import Measure, Samples, Spread

#: Quartiles further apart than this share of the median mean nothing.
TOO_WIDE = 0.5


@dataclass(frozen=True, kw_only=True)
class Reach:
    """A bound of the ratio, or of the figure itself where it has no floor."""

    bound: float
    #: ``most`` or ``least``.
    side: str

    def holds(self, value: float) -> bool:
        """Whether that is within it."""
        return value <= self.bound if self.side == "most" else value >= self.bound


def at_most(bound: float) -> Reach:
    """Where less is better."""
    return Reach(bound=bound, side="most")


def at_least(bound: float) -> Reach:
    """Where more is better."""
    return Reach(bound=bound, side="least")


@dataclass(frozen=True, kw_only=True)
class Figure:
    """``ratio`` is the subject's value through the floor's, of each round's pair."""

    what: str
    unit: str
    subject: Spread
    against: str = ""
    floor: Spread | None = None
    ratio: Spread | None = None
    reach: Reach | None = None

    @property
    def verdict(self) -> str:
        """``hit`` or ``missed``; with a question mark, or ``too wide``, where the quartiles lie on both sides."""
        judged = self.ratio or self.subject
        if self.reach is None:
            return "too wide" if judged.width > TOO_WIDE else ""
        if self.reach.holds(judged.low) == self.reach.holds(judged.high):
            return "hit" if self.reach.holds(judged.median) else "missed"
        if judged.width > TOO_WIDE:
            return "too wide"
        return "hit?" if self.reach.holds(judged.median) else "missed?"


def compared(
    what: str,
    subject: Samples,
    floor: Samples,
    *,
    against: str,
    measure: Measure,
    reach: Reach | None = None,
) -> Figure:
    """Of samples taken in turns: the medians of one round are a pair."""
    ours, theirs = (_values(each, measure) for each in (subject, floor))
    return Figure(
        what=what,
        unit=measure.unit,
        subject=Spread.of(ours),
        against=against,
        floor=Spread.of(theirs),
        ratio=Spread.of([one / other for one, other in zip(ours, theirs, strict=True)]),
        reach=reach,
    )


def told(what: str, subject: Samples, *, measure: Measure, reach: Reach | None = None) -> Figure:
    """Of samples that stand for themselves: ``reach`` bounds the figure."""
    return Figure(what=what, unit=measure.unit, subject=Spread.of(_values(subject, measure)), reach=reach)


def _values(samples: Samples, measure: Measure) -> Sequence[float]:
    return [measure.value(seconds) for seconds in samples.medians]
