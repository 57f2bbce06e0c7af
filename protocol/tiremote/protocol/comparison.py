"""What a comparison of two versions tells: how far their results differ, and how long each takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """One array or number after a launch of either side, both begun from the same state.

    ``name`` is ``argument x``, ``x`` or ``sim.mass`` for what a unit holds, or ``returned value``. ``max_abs`` and
    ``max_rel`` (by the larger of the two magnitudes) are over all elements; NaN on one side alone counts as infinite,
    on both as none. ``at`` is where ``max_abs`` is, ``before`` and ``after`` are the numbers there. All four are None
    where ``note`` says why there are none.
    """

    name: str
    same_bits: bool
    dtype: str | None = None
    shape: tuple[int, ...] = ()
    max_abs: float | None = None
    max_rel: float | None = None
    at: tuple[int, ...] | None = None
    before: float | int | None = None
    after: float | int | None = None
    nan_before: int = 0
    nan_after: int = 0
    note: str = ""

    def __str__(self) -> str:
        what = f"{self.dtype} {self.shape}" if self.shape else self.dtype or ""
        if self.note:
            told = self.note
        elif self.same_bits:
            told = "the same bits"
        elif self.at is None:
            told = "the same numbers in other bits"
        else:
            where = f" at {list(self.at)}" if self.at else ""
            told = f"differs by up to {self.max_abs:.3g} (relative {self.max_rel:.3g}){where}"
            told += f": {_number(self.before)} and {_number(self.after)}"
        if self.nan_before or self.nan_after:
            told += f"; NaN {self.nan_before} and {self.nan_after}"
        return f"{self.name}{f' ({what})' if what else ''}: {told}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Timed:
    """One side. ``version`` is None for a text that was only tried.

    ``compile`` are the seconds until it could run: building it, and what its first launch took more than the others.
    ``launches`` are those of each launch with the wait for the device, in order; the rest is made of them.
    """

    version: int | None
    compile: float
    launches: tuple[float, ...]
    median: float
    minimum: float
    lower_quartile: float
    upper_quartile: float

    @property
    def label(self) -> str:
        """What it is, for people."""
        return "the text" if self.version is None else f"version {self.version}"

    def __str__(self) -> str:
        spread = f"quartiles {time_text(self.lower_quartile)} to {time_text(self.upper_quartile)}"
        times = f"median {time_text(self.median)}, min {time_text(self.minimum)}, {spread}"
        return f"{self.label:<12} {times}, compiled in {time_text(self.compile)}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """``ratio`` is the median of after / before over launches that followed one another: below 1 after is faster.

    ``differences`` has every array argument, what either side wrote into besides, and the returned value.
    ``warnings`` name state that could not be copied.
    """

    unit: str
    name: str
    before: Timed
    after: Timed
    ratio: float
    ratio_lower_quartile: float
    ratio_upper_quartile: float
    differences: tuple[Difference, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def same_bits(self) -> bool:
        """Whether all that was compared is equal to the bit."""
        return all(each.same_bits for each in self.differences)

    def __str__(self) -> str:
        count = len(self.before.launches)
        lines = [f"{self.unit}.{self.name}, {count} launch{'es' if count > 1 else ''} of each side in turns"]
        lines += [f"  before {self.before}", f"  after  {self.after}"]
        lines.append(f"  after takes {self._ratio_text()}")
        lines += [f"  {each}" for each in self.differences]
        lines += [f"  warning: {text}" for text in self.warnings]
        return "\n".join(lines)

    def _ratio_text(self) -> str:
        spread = f"quartiles {self.ratio_lower_quartile:.3g} to {self.ratio_upper_quartile:.3g}"
        unsure = self.ratio_lower_quartile <= 1 <= self.ratio_upper_quartile
        return (
            f"{self.ratio:.3g} of the time of before ({spread}){': no difference beyond the spread' if unsure else ''}"
        )


def timed(version: int | None, compile_seconds: float, launches: Sequence[float]) -> Timed:
    """A side from the times of its launches."""
    lower, median, upper = quartiles(launches)
    return Timed(
        version=version,
        compile=compile_seconds,
        launches=tuple(launches),
        median=median,
        minimum=min(launches),
        lower_quartile=lower,
        upper_quartile=upper,
    )


def quartiles(numbers: Sequence[float]) -> tuple[float, float, float]:
    """Lower quartile, median and upper quartile, between neighbours in proportion."""
    ordered = sorted(numbers)
    found = []
    for quarter in (1, 2, 3):
        place = (len(ordered) - 1) * quarter / 4
        below = int(place)
        above = min(below + 1, len(ordered) - 1)
        found.append(ordered[below] + (ordered[above] - ordered[below]) * (place - below))
    return found[0], found[1], found[2]


def time_text(seconds: float) -> str:
    """For people."""
    return (
        f"{seconds:.3g} s"
        if seconds >= 1
        else f"{seconds * 1e3:.3g} ms"
        if seconds >= 1e-3
        else f"{seconds * 1e6:.3g} us"
    )


def _number(value: float | int | None) -> str:
    return f"{value:.9g}" if isinstance(value, float) else str(value)
