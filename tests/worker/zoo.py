"""Arrays of every shape and layout that people have, by name."""

from __future__ import annotations

import numpy as np

EXACT_DTYPES = ("bool", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f16", "f32", "f64")


def extremes(dtype: np.dtype) -> np.ndarray:
    """Five values of a dtype, its ends among them."""
    if dtype.kind == "b":
        return np.array([True, False, True, True, False])
    if dtype.kind == "f":
        info = np.finfo(dtype)
        return np.array([info.min, -0.0, info.smallest_subnormal, 1.5, info.max], dtype)
    ends = np.iinfo(dtype)
    return np.array([ends.min, 0, 1, ends.max - 1, ends.max], dtype)


LAYOUTS = {
    "0-d": np.array(3.5, np.float32),
    "empty": np.zeros(0, np.float32),
    "empty inside": np.zeros((3, 0, 2), np.float32),
    "one element": np.ones((1, 1, 1), np.float32),
    "C": np.arange(12, dtype=np.float32).reshape(3, 4),
    "Fortran": np.asfortranarray(np.arange(12, dtype=np.float32).reshape(3, 4)),
    "Fortran 3-d": np.asfortranarray(np.arange(24, dtype=np.float64).reshape(2, 3, 4)),
    "transposed": np.arange(24, dtype=np.int16).reshape(2, 3, 4).transpose(1, 2, 0),
    "strided": np.arange(20, dtype=np.int32)[::2],
    "reversed": np.arange(10, dtype=np.int64)[::-1],
    "reversed 2-d": np.arange(12, dtype=np.uint8).reshape(3, 4)[::-1, ::-2],
    "broadcast": np.broadcast_to(np.arange(4, dtype=np.float32), (3, 4)),
    "big-endian": np.arange(5, dtype=">f4"),
    "big-endian integers": np.arange(6, dtype=">i8").reshape(2, 3),
    "NaN and infinities": np.array([np.nan, np.inf, -np.inf, -0.0], np.float32),
    "five axes": np.arange(32, dtype=np.float32).reshape(2, 2, 2, 2, 2),
}
