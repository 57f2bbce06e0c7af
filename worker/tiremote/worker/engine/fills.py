"""What a new array is filled with, made in pieces so that a large one never doubles its memory."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np

from tiremote.protocol.dtypes import dtype_of
from tiremote.protocol.errors import KernelArgumentError
from tiremote.worker.engine.scalars import Mismatch, bounds, is_real, scalar_taker, shown

#: Scalars of one piece. The random numbers of a seed depend on it: never change it.
PIECE = 1 << 22


def pieces(
    fill: str,
    dtype: str,
    size: int,
    *,
    value: Any = None,
    seed: int | None = None,
    element_shape: tuple[int, ...] = (),
) -> Iterator[tuple[int, np.ndarray]]:
    """(start, scalars) of each piece in turn. ``fill`` is ``empty`` (zeros), ``value``, ``arange`` or ``random``.

    ``value`` is a number, or the numbers of one element in lists of ``element_shape``; ``size`` counts scalars.
    Random reals are uniform in [0, 1), integers uniform from 0 to the largest, bools fair; the same seed gives the
    same numbers on every backend. Raises `KernelArgumentError` before the first piece.
    """
    if fill in ("empty", "value"):
        element = _element(dtype, 0 if fill == "empty" else value, element_shape)
        step = PIECE // element.size * element.size
        made = np.tile(element, min(size, step) // element.size)
        return ((start, made[: size - start]) for start in range(0, size, step))
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


def _element(dtype: str, value: Any, element_shape: tuple[int, ...]) -> np.ndarray:
    """The scalars that come again and again."""
    if not isinstance(value, list | tuple):
        return np.full(1, _value(dtype, value, element_shape), dtype_of(dtype))
    rows = [value] if len(element_shape) == 1 else value
    fits = bool(element_shape) and len(rows) == prod(element_shape[:-1])
    if not fits or any(not isinstance(row, list | tuple) or len(row) != element_shape[-1] for row in rows):
        raise _no_value(dtype, element_shape, shown(value), "give as many numbers as an element has")
    return np.array([_value(dtype, each, element_shape) for row in rows for each in row], dtype_of(dtype))


def _value(dtype: str, value: Any, element_shape: tuple[int, ...]) -> Any:
    try:
        return scalar_taker(dtype)(value)
    except Mismatch as error:
        raise _no_value(dtype, element_shape, error.came, error.hint) from None


def _no_value(dtype: str, element_shape: tuple[int, ...], came: str, hint: str) -> KernelArgumentError:
    takes = f"one number, or numbers of shape {element_shape}" if element_shape else "one number"
    return KernelArgumentError(
        f"the fill value of an array of {dtype} is {takes}, but {came} came: {hint}", parameter="value"
    )


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
