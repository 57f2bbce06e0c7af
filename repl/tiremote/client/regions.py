"""NumPy's basic indexing, turned into what travels: an index or (start, stop, step) for each axis."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from tiremote.protocol.messages import Axis

OutIndex = tuple[int | slice, ...]


@dataclass(frozen=True, slots=True)
class Span:
    """``count`` positions of one axis from ``start`` on, ``step`` apart. ``kept`` False: one, whose axis goes away."""

    start: int
    step: int
    count: int
    kept: bool = True

    @property
    def wire(self) -> Axis:
        if not self.kept:
            return self.start
        stop = self.start + self.step * self.count
        # Below 0 a stop would count from the end.
        return (self.start, None if stop < 0 else stop, self.step)

    def part(self, first: int, count: int) -> Span:
        """``count`` of its positions, from number ``first`` on."""
        return replace(self, start=self.start + first * self.step, count=count)


@dataclass(frozen=True, slots=True)
class Region:
    """One `Span` for each axis of an array."""

    spans: tuple[Span, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Of what NumPy's indexing gives."""
        return tuple(span.count for span in self.spans if span.kept)

    @property
    def size(self) -> int:
        return prod(span.count for span in self.spans)

    @property
    def wire(self) -> tuple[Axis, ...]:
        """As `Put` and `Fetch` take it."""
        return tuple(span.wire for span in self.spans)

    def is_whole(self, shape: tuple[int, ...]) -> bool:
        """Whether it is the array itself."""
        return all(span == Span(0, 1, n) for span, n in zip(self.spans, shape, strict=True))

    def pieces(self, most: int) -> Iterator[tuple[Region, OutIndex]]:
        """Regions of at most ``most`` positions that make it up, and where each lies in what indexing gives."""
        yield from _pieces(self.spans, (), (), max(most, 1))


def _pieces(
    rest: tuple[Span, ...], before: tuple[Span, ...], out: OutIndex, most: int
) -> Iterator[tuple[Region, OutIndex]]:
    size = prod(span.count for span in rest)
    if not rest or size <= most:
        yield Region((*before, *rest)), out
        return
    first, rest = rest[0], rest[1:]
    inside = size // first.count
    rows = max(most // inside, 1)
    for start in range(0, first.count, rows):
        count = min(rows, first.count - start)
        part = (*before, first.part(start, count))
        index = (*out, slice(start, start + count)) if first.kept else out
        if inside > most:
            yield from _pieces(rest, part, index, most)
        else:
            yield Region((*part, *rest)), index


def parse(index: Any, shape: tuple[int, ...], element_shape: tuple[int, ...] = ()) -> Region:
    """What ``index`` means for an array of ``shape``, whose elements come whole.

    Raises `IndexError`, in one line, for what is not taken.
    """
    parts = list(index) if isinstance(index, tuple) else [index]
    given = len(parts)
    ellipses = [number for number, part in enumerate(parts) if part is Ellipsis]
    if len(ellipses) > 1:
        raise IndexError("an index has one ellipsis (...) at most")
    missing = len(shape) - (given - len(ellipses))
    if missing < 0 and None not in [part for part in parts if part is None or isinstance(part, slice)]:
        elements = f" with elements of shape {element_shape}, which are set whole" if element_shape else ""
        raise IndexError(
            f"{given - len(ellipses)} indices for an array of shape {shape}{elements}: give at most {len(shape)}"
        )
    where = ellipses[0] if ellipses else given
    parts[where : where + len(ellipses)] = [slice(None)] * max(missing, 0)
    return Region(tuple(_span(part, axis, n) for axis, (part, n) in enumerate(zip(parts, shape, strict=False))))


def split(index: Any, shape: tuple[int, ...], element_shape: tuple[int, ...]) -> tuple[Any, tuple[Any, ...]]:
    """The part of an index that is for the array's own dimensions, and what is left for those of its elements.

    Raises `IndexError` where more is left than elements have dimensions.
    """
    parts = index if isinstance(index, tuple) else (index,)
    if len(parts) <= len(shape) or any(part is Ellipsis or part is None for part in parts):
        return index, ()
    if len(parts) > len(shape) + len(element_shape):
        elements = f", the last {len(element_shape)} of them the elements'" if element_shape else ""
        full = shape + element_shape
        raise IndexError(f"{len(parts)} indices for an array of shape {full}{elements}: give at most {len(full)}")
    return parts[: len(shape)], parts[len(shape) :]


def _span(part: Any, axis: int, n: int) -> Span:
    if isinstance(part, slice):
        positions = range(*part.indices(n))
        return Span(positions.start, positions.step, len(positions))
    if part is None:
        raise IndexError("numpy.newaxis is not taken here: reshape what was fetched instead")
    if isinstance(part, bool | np.bool_ | list | np.ndarray):
        raise IndexError(
            "a remote array takes integers, slices and ... as an index; for a mask or a list of positions "
            "index the fetched array, x.to_numpy()[...], or write a kernel"
        )
    try:
        position = operator.index(part)
    except TypeError:
        raise IndexError(f"an index is an integer, a slice or ..., not {type(part).__name__}") from None
    if not -n <= position < n:
        raise IndexError(f"index {position} is out of bounds for axis {axis} of size {n}")
    return Span(position % n, 1, 1, kept=False)
