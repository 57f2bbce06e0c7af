"""Parts of an array: NumPy's basic indexing as plain data, and ranges of its scalars in C order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from tiremote.protocol.errors import KernelArgumentError


@dataclass(frozen=True, slots=True)
class AxisRange:
    """``count`` positions of one axis: start, start + step, ... ``kept`` False: an index, whose axis goes away."""

    start: int
    step: int
    count: int
    kept: bool = True

    @property
    def index(self) -> int | slice:
        """The same for NumPy."""
        if not self.kept:
            return self.start
        stop = self.start + self.step * self.count
        return slice(self.start, None if stop < 0 else stop, self.step)

    @property
    def last(self) -> int:
        return self.start + self.step * (self.count - 1)


@dataclass(frozen=True, slots=True)
class Region:
    """One `AxisRange` for each axis of ``full_shape``."""

    axes: tuple[AxisRange, ...]
    full_shape: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """What NumPy's indexing gives."""
        return tuple(axis.count for axis in self.axes if axis.kept)

    @property
    def size(self) -> int:
        return prod(axis.count for axis in self.axes)

    @property
    def index(self) -> tuple[int | slice, ...]:
        return tuple(axis.index for axis in self.axes)

    @property
    def strides(self) -> tuple[int, ...]:
        """Of the whole array, in scalars."""
        strides, step = [], 1
        for n in reversed(self.full_shape):
            strides.append(step)
            step *= n
        return tuple(reversed(strides))

    def hull(self) -> tuple[int, int]:
        """The smallest range of scalars, (start, stop), that holds a region that is not empty."""
        pairs = list(zip(self.axes, self.strides, strict=True))
        return (
            sum(min(axis.start, axis.last) * stride for axis, stride in pairs),
            sum(max(axis.start, axis.last) * stride for axis, stride in pairs) + 1,
        )

    def is_contiguous(self) -> bool:
        """Whether it is its hull, in order."""
        if self.size == 0:
            return True
        start, stop = self.hull()
        return stop - start == self.size and all(axis.step > 0 for axis in self.axes if axis.count > 1)


def parse_region(region: Sequence[Any], full_shape: tuple[int, ...]) -> Region:
    """Checks a region: for each axis an index or (start, stop, step), as in NumPy; missing axes are whole.

    Raises `KernelArgumentError` (parameter ``region``) with the axis and its bounds.
    """
    if len(region) > len(full_shape):
        raise _refused(f"{len(region)} indices came for an array of shape {full_shape}: give at most {len(full_shape)}")
    axes = [_axis(number, part, full_shape[number]) for number, part in enumerate(region)]
    axes += [AxisRange(0, 1, n) for n in full_shape[len(region) :]]
    return Region(tuple(axes), full_shape)


def parse_flat(flat: Sequence[Any], size: int) -> tuple[int, int]:
    """Checks a range of scalars of an array of ``size``. Raises `KernelArgumentError` (parameter ``flat``)."""
    if len(flat) == 2 and all(_is_int(n) for n in flat):
        start, stop = map(int, flat)
        if 0 <= start <= stop <= size:
            return start, stop
    raise KernelArgumentError(
        f"the flat range {tuple(flat)} came: it is (start, stop) within 0 to {size}", parameter="flat"
    )


def _axis(number: int, part: Any, n: int) -> AxisRange:
    if _is_int(part):
        if not -n <= part < n:
            raise _refused(f"index {part} is out of bounds for axis {number} of size {n}")
        return AxisRange(int(part) % n, 1, 1, kept=False)
    if isinstance(part, slice):
        part = (part.start, part.stop, part.step)
    if not isinstance(part, (tuple, list)) or len(part) != 3 or not all(p is None or _is_int(p) for p in part):
        raise _refused(f"axis {number} of a region is an index or (start, stop, step), not {part!r}")
    if part[2] == 0:
        raise _refused(f"the step of axis {number} is 0: it must go somewhere")
    positions = range(*slice(*part).indices(n))
    return AxisRange(positions.start, positions.step, len(positions))


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _refused(message: str) -> KernelArgumentError:
    return KernelArgumentError(message, parameter="region")
