"""Values made to fit a remote array's dtype before they are sent, or refused: never changed silently."""

from __future__ import annotations

from typing import Any

import numpy as np

from tiremote.protocol.dtypes import name_of
from tiremote.protocol.errors import KernelArgumentError, UnsupportedType


def fitting(values: Any, dtype: np.dtype, *, cast: bool = False) -> np.ndarray:
    """``values`` as an array whose dtype the worker takes for ``dtype``.

    A NumPy array has to have the dtype, or ``cast`` says that the worker converts it. Python numbers and lists of
    them have no dtype of their own and only have to fit. Raises `KernelArgumentError`, `UnsupportedType`.
    """
    if isinstance(values, np.ma.MaskedArray):
        raise UnsupportedType("a masked array does not travel: send .filled(...) of it, or its data and mask")
    if isinstance(values, np.ndarray):
        came, wanted = name_of(values.dtype), name_of(dtype)
        if came != wanted and not cast:
            raise KernelArgumentError(
                f"{_a(came)} array came for {_a(wanted)} one: pass cast=True to convert, or .astype(numpy.{dtype.name})"
            )
        return values
    array = np.asarray(values)
    if array.dtype.kind not in "biuf":
        raise UnsupportedType(
            f"{type(values).__name__} holds what is no number ({array.dtype}); {name_of(dtype)} is taken"
        )
    return _numbers(array, dtype)


def _a(name: str) -> str:
    return f"{'an' if name[0] in 'fi' else 'a'} {name}"


def _numbers(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    if array.size == 0:
        return array.astype(dtype)
    if dtype.kind != "f" and array.dtype.kind == "f":
        raise KernelArgumentError(f"a float came for {name_of(dtype)}: round it first, with int() or .astype()")
    with np.errstate(over="ignore", invalid="ignore"):
        converted = array.astype(dtype)
    if dtype.kind == "f":
        lost = np.isinf(converted) & np.isfinite(array)
    else:
        # Compared as Python's integers: NumPy compares int64 with uint64 as floats.
        lost = converted.astype(object) != array.astype(object)
    if np.any(lost):
        value = array[lost].ravel()[0] if array.ndim else array[()]
        raise KernelArgumentError(f"{value} does not fit {name_of(dtype)}")
    return converted
