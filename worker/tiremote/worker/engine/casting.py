"""Arrays into another dtype, checked value by value: what does not fit is refused, never wrapped or made infinite."""

from __future__ import annotations

import numpy as np

from tiremote.protocol.dtypes import dtype_of, name_of
from tiremote.protocol.errors import KernelArgumentError
from tiremote.worker.engine.scalars import bounds, is_real


def fitted(array: np.ndarray, dtype: str, *, cast: bool, parameter: str = "array") -> np.ndarray:
    """``array`` in ``dtype``, C-contiguous: itself where it is that already, else converted if ``cast``.

    A conversion cuts fractions off towards zero, as NumPy's does. Raises `KernelArgumentError` for another dtype
    without ``cast`` and for a value out of range, `UnsupportedType` for a dtype that is not the wire's.
    """
    came = name_of(array.dtype)
    wanted = dtype_of(dtype)
    if came != dtype:
        if not cast:
            raise KernelArgumentError(
                f"an array of {came} came for one of {dtype}: "
                f"convert it with .astype(np.{wanted.name}), or ask for cast=True",
                parameter=parameter,
            )
        _check_range(array, dtype, parameter)
    with np.errstate(over="ignore", invalid="ignore"):
        # Not ascontiguousarray: it would make a 0-d array 1-d.
        return np.asarray(array, dtype=wanted, order="C")


def _check_range(array: np.ndarray, dtype: str, parameter: str) -> None:
    if not array.size or dtype == "bool" or array.dtype == np.bool_:
        return
    if is_real(dtype):
        if array.dtype.kind == "f":
            with np.errstate(over="ignore"):
                bad = np.isfinite(array) & ~np.isfinite(array.astype(dtype_of(dtype)))
        else:
            bad = np.abs(array.astype(np.float64)) >= 65520 if dtype == "f16" else np.zeros(array.shape, bool)
    else:
        low, high = bounds(dtype)
        if array.dtype.kind == "f":
            # As float64 the high bound of a 64-bit integer rounds up to one that no longer fits.
            wide = array.astype(np.float64)
            bad = ~((wide > float(low) - 1 if low > -(2**53) else wide >= float(low)) & (wide < float(high + 1)))
        else:
            bad = np.zeros(array.shape, bool)
            info = np.iinfo(array.dtype)
            if info.min < low:
                bad |= array < low
            if info.max > high:
                bad |= array > high
    if bad.any():
        where = tuple(map(int, np.unravel_index(int(np.argmax(bad)), bad.shape)))
        raise KernelArgumentError(
            f"the value {array[where]} at {where} does not fit into {dtype}: nothing was written", parameter=parameter
        )
