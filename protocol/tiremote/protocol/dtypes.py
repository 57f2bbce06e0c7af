"""The dtypes that the wire carries, under Taichi's own names, always little-endian."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tiremote.protocol.errors import UnsupportedType

#: Wire name to NumPy dtype. ``bool`` is one byte, 0 or 1 (Taichi calls it ``u1``).
DTYPES: Mapping[str, np.dtype] = {
    "bool": np.dtype("?"),
    "i8": np.dtype("<i1"),
    "i16": np.dtype("<i2"),
    "i32": np.dtype("<i4"),
    "i64": np.dtype("<i8"),
    "u8": np.dtype("<u1"),
    "u16": np.dtype("<u2"),
    "u32": np.dtype("<u4"),
    "u64": np.dtype("<u8"),
    "f16": np.dtype("<f2"),
    "f32": np.dtype("<f4"),
    "f64": np.dtype("<f8"),
}

_NAMES = {dtype: name for name, dtype in DTYPES.items()}


def dtype_of(name: str) -> np.dtype:
    """The NumPy dtype of a wire name. Raises `UnsupportedType`."""
    try:
        return DTYPES[name]
    except (KeyError, TypeError):
        raise UnsupportedType(f"unknown dtype {name!r}; the wire carries {', '.join(DTYPES)}") from None


def name_of(dtype: np.dtype) -> str:
    """The wire name of a NumPy dtype of either byte order. Raises `UnsupportedType`."""
    try:
        return _NAMES[dtype.newbyteorder("<")]
    except (KeyError, TypeError):
        raise UnsupportedType(
            f"dtype {dtype} does not travel; the wire carries {', '.join(DTYPES)}: convert with .astype() first"
        ) from None
