"""What a new array is filled with, made in pieces so that a large one never doubles its memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tiremote.protocol.dtypes import dtype_of
from tiremote.protocol.errors import KernelArgumentError
from tiremote.worker.engine.scalars import Mismatch, bounds, is_real, scalar_taker

#: Scalars of one piece. The random numbers of a seed depend on it: never change it.
PIECE = 1 << 22


def pieces(
    fill: str, dtype: str, size: int, *, value: Any = None, seed: int | None = None
) -> Iterator[tuple[int, np.ndarray]]:
    """(start, scalars) of each piece in turn. ``fill`` is ``empty`` (zeros), ``value``, ``arange`` or ``random``.

    Random reals are uniform in [0, 1), integers uniform from 0 to the largest, bools fair; the same seed gives the
    same numbers on every backend. Raises `KernelArgumentError` before the first piece.
    """
    if fill in ("empty", "value"):
        made = np.full(min(size, PIECE), _value(dtype, 0 if fill == "empty" else value), dtype_of(dtype))
        return ((start, made[: size - start]) for start in range(0, size, PIECE))
    if fill == "arange":
        if not is_real(dtype) and size - 1 > bounds(dtype)[1]:
            raise KernelArgumentError(f"arange up to {size - 1} does not fit into {dtype}", parameter="fill")
        if dtype == "f16" and size > 65520:
            raise KernelArgumentError(f"arange up to {size - 1} does not fit into f16", parameter="fill")
        return (
            (start, np.arange(start, min(start + PIECE, size)).astype(dtype_of(dtype)))
            for start in range(0, size, PIECE)
        )
    if fill == "random":
        if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int) or seed < 0):
            raise KernelArgumentError(f"seed={seed!r} came: it is an integer from 0, or None", parameter="seed")
        return _random(dtype, size, np.random.default_rng(seed))
    raise KernelArgumentError(f"fill={fill!r} came: it is 'empty', 'value', 'arange' or 'random'", parameter="fill")


def _value(dtype: str, value: Any) -> Any:
    try:
        return scalar_taker(dtype)(value)
    except Mismatch as error:
        raise KernelArgumentError(
            f"the fill value of an array of {dtype} is one number, but {error.came} came: {error.hint}",
            parameter="value",
        ) from None


def _random(dtype: str, size: int, generator: np.random.Generator) -> Iterator[tuple[int, np.ndarray]]:
    for start in range(0, size, PIECE):
        count = min(PIECE, size - start)
        if dtype == "f64":
            yield start, generator.random(count)
        elif is_real(dtype):
            numbers: np.ndarray = generator.random(count, dtype=np.float32)
            if dtype == "f16":
                # Rounding to f16 would reach 1 itself.
                numbers = np.floor(numbers * 2048) / np.float32(2048)
            yield start, numbers.astype(dtype_of(dtype), copy=False)
        else:
            top = bounds(dtype)[1]
            yield start, generator.integers(0, top, count, dtype=dtype_of(dtype), endpoint=True)
