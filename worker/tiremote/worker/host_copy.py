"""What front and engine say of an array's bytes: which array, which part of it, of what dtype and shape."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from tiremote.protocol.dtypes import dtype_of
from tiremote.protocol.messages import Axis, FlatRange
from tiremote.protocol.values import ArrayDescriptor, Order, Ref

_BESIDE = 512


@dataclass(frozen=True, kw_only=True, slots=True)
class Piece:
    """Bytes for an array, whole or for a ``region`` or ``flat`` range of it.

    ``dtype``, ``shape`` and ``order`` are those of the bytes, ``cast`` is that of the put they came with.
    """

    dtype: str
    shape: tuple[int, ...]
    order: str = "C"
    region: tuple[Axis, ...] | None = None
    flat: FlatRange | None = None
    cast: bool = False

    @property
    def nbytes(self) -> int:
        """Its size."""
        return prod(self.shape) * dtype_of(self.dtype).itemsize

    @property
    def cost(self) -> int:
        """What it takes to keep it, with what there is beside its bytes."""
        return self.nbytes + _BESIDE

    @property
    def descriptor(self) -> ArrayDescriptor:
        """The array that its bytes are."""
        order: Order = "F" if self.order == "F" else "C"
        return ArrayDescriptor(dtype=self.dtype, shape=self.shape, order=order)


@dataclass(frozen=True, kw_only=True, slots=True)
class Moved:
    """A put or a fetch has moved a piece of ``target``, which is of that dtype and, elements included, shape.

    ``target`` is a handle, or the name in the unit that made the array: an array has one such, however it was reached.
    ``source``: the bytes are those of that array, all of them, and did not come along.
    """

    target: Ref
    dtype: str
    shape: tuple[int, ...]
    piece: Piece
    source: Ref | None = None

    @property
    def size(self) -> int:
        """Numbers in the array."""
        return prod(self.shape)

    @property
    def whole(self) -> bool:
        """Whether it is all of the array."""
        return self.piece.region is None and self.piece.flat in (None, (0, self.size))

    def plain(self) -> list[Any]:
        """For the link: every put and fetch has one, and fields by their names would cost most of what it takes."""
        piece = self.piece
        return [
            self.target, self.dtype, list(self.shape), self.source,
            piece.dtype, list(piece.shape), piece.order, _listed(piece.region), _listed(piece.flat), piece.cast,
        ]  # fmt: skip

    @classmethod
    def of(cls, plain: list[Any]) -> Moved:
        """What `plain` made. Raises `ValueError` or `TypeError` for anything else."""
        target, dtype, shape, source, of_piece, piece_shape, order, region, flat, cast = plain
        piece = Piece(
            dtype=of_piece,
            shape=tuple(piece_shape),
            order=order,
            region=None if region is None else tuple(tuple(one) if isinstance(one, list) else one for one in region),
            flat=None if flat is None else (flat[0], flat[1]),
            cast=cast,
        )
        return cls(target=target, dtype=dtype, shape=tuple(shape), piece=piece, source=source)


def _listed(value: tuple[Any, ...] | None) -> list[Any] | None:
    return None if value is None else [list(one) if isinstance(one, tuple) else one for one in value]
