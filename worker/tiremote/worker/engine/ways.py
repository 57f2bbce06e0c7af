"""The way from the root of a tree to a field in it, as the tree's layout tells it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Way:
    """``root`` is the root's id, which is never used again; ``offset`` the bytes from there to the first scalar.

    ``steps``: the bytes of a cell and the axes (number, size) of each node on the way, the place first.
    ``order``: which of the field's axes each axis of the tree is, where they are not the same.
    """

    root: int
    offset: int
    steps: tuple[tuple[int, tuple[tuple[int, int], ...]], ...]
    order: tuple[int, ...] | None = None

    def block_strides(self, shape: tuple[int, ...]) -> tuple[int, ...] | None:
        """Bytes from one position to the next along each axis of the field's shape, for one in a single block or in
        the root itself; None for one in blocks of blocks."""
        if len(self.steps) != (2 if shape else 1):
            return None
        found, step = [0] * len(shape), self.steps[-1][0]
        for axis in reversed(self.order or range(len(shape))):
            found[axis] = step
            step *= shape[axis]
        return tuple(found)
