"""Statistics and the first and last elements of an array, without ever holding all of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import product
from math import fsum, nan
from typing import Any

import numpy as np

from tiremote.protocol.dtypes import dtype_of
from tiremote.protocol.receipts import Summary
from tiremote.worker.engine.signature import ArrayMeta


def summarized(meta: ArrayMeta, chunks: Iterable[np.ndarray], read: Callable[[Sequence[Any]], np.ndarray]) -> Summary:
    """``chunks`` are all its scalars in flat pieces; ``read`` gives a region."""
    nan_count, count = 0, 0
    lows: list[Any] = []
    highs: list[Any] = []
    sums: list[float] = []
    for chunk in chunks:
        if chunk.dtype.kind == "f":
            missing = int(np.isnan(chunk).sum())
            if missing:
                nan_count += missing
                chunk = chunk[~np.isnan(chunk)]
        if chunk.size:
            count += chunk.size
            lows.append(chunk.min().item())
            highs.append(chunk.max().item())
            with np.errstate(invalid="ignore"):
                sums.append(float(chunk.sum(dtype=np.float64)))
    return Summary(
        dtype=meta.dtype,
        shape=meta.full_shape,
        nbytes=meta.nbytes,
        minimum=min(lows) if count else None,
        maximum=max(highs) if count else None,
        mean=_total(sums) / count if count else None,
        nan_count=nan_count,
        corners=corners(meta, read),
    )


def _total(sums: list[float]) -> float:
    try:
        return fsum(sums)
    except (ValueError, OverflowError):  # infinities of both signs, or beyond float64
        return nan


def corners(meta: ArrayMeta, read: Callable[[Sequence[Any]], np.ndarray]) -> str:
    """How NumPy prints a long array: ``[[0. 1. 2. ... 7. 8. 9.] ...]``."""
    shape = meta.full_shape
    edge = 3 if len(shape) <= 3 else 1
    # An axis longer than both edges gets one position more, which NumPy replaces by its dots.
    stand_in = np.zeros([min(n, 2 * edge + 1) for n in shape], dtype_of(meta.dtype))
    parts = [
        [((0, n, 1), (0, n, 1))]
        if n <= 2 * edge
        else [((0, edge, 1), (0, edge, 1)), ((n - edge, n, 1), (edge + 1, 2 * edge + 1, 1))]
        for n in shape
    ]
    if stand_in.size:
        for choice in product(*parts):
            stand_in[tuple(slice(*here) for _, here in choice)] = read([there for there, _ in choice])
    return np.array2string(stand_in, threshold=0, edgeitems=edge)
