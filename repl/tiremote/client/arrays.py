"""Arrays that stay on the worker: `RemoteArray` and, for Taichi fields, `RemoteField`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from tiremote.client.exchange import Exchange
from tiremote.client.transfer import Progress
from tiremote.protocol.receipts import Summary
from tiremote.protocol.values import Handle, Ref


class RemoteArray:
    """An ndarray on the worker; indexing moves only what is asked for.

    ``x[2:4]``, ``x[1, :]``, ``x[::2]``, ``x[..., -1]`` give NumPy arrays (numbers where one element is meant), and
    assigning to them sends only that part. Whole: `to_numpy`, `from_numpy`, or ``numpy.asarray(x)``.
    """

    kind = "ndarray"

    def __init__(self, exchange: Exchange, target: Ref, meta: Mapping[str, Any]) -> None:
        """Made by a session; ``meta`` has ``dtype``, ``shape`` and ``element_shape``."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Taichi's: without the dimensions of a vector's or matrix's elements."""

    @property
    def element_shape(self) -> tuple[int, ...]:
        """``()`` for numbers, ``(n,)`` for vectors, ``(n, m)`` for matrices."""

    @property
    def dtype(self) -> np.dtype:
        """Of one number."""

    @property
    def nbytes(self) -> int:
        """Bytes of all numbers."""

    @property
    def handle(self) -> Handle:
        """What the worker knows it by."""

    def to_numpy(self, *, progress: Progress | None = None) -> np.ndarray:
        """All of it, of shape ``shape + element_shape``. ``progress(done, total)`` is told bytes."""

    def from_numpy(self, values: np.ndarray, *, cast: bool = False, progress: Progress | None = None) -> None:
        """Replaces all of it by an array of ``shape + element_shape`` and the same dtype.

        ``cast``: another dtype is converted on the worker, value-checked. Raises `KernelArgumentError`.
        """

    get = to_numpy
    set = from_numpy

    def fill(self, value: float) -> None:
        """Sets every number to ``value``."""

    def fill_arange(self) -> None:
        """Counts up from 0, in C order."""

    def fill_random(self, seed: int | None = None) -> None:
        """Uniform in [0, 1), the same for the same seed."""

    def summary(self) -> Summary:
        """Minimum, maximum, mean, NaNs and the corners, computed on the worker."""

    def __getitem__(self, index: Any) -> Any: ...

    def __setitem__(self, index: Any, values: Any) -> None: ...

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Any]: ...

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray: ...

    def free(self) -> None:
        """Gives its memory back now. Any later use raises `StaleHandle`."""


class RemoteField(RemoteArray):
    """A Taichi field on the worker, used like a `RemoteArray`."""

    kind = "field"

    @property
    def grad(self) -> RemoteField:
        """The field's gradient, where it has one."""
