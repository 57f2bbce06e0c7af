"""`tiremote.protocol.dtypes`."""

from __future__ import annotations

import numpy as np
import pytest

from tiremote.protocol.dtypes import DTYPES, dtype_of, name_of
from tiremote.protocol.errors import UnsupportedType


@pytest.mark.parametrize("name", DTYPES)
def test_a_name_and_its_dtype_belong_together(name: str) -> None:
    """Every wire name gives a dtype that gives the name back."""
    assert name_of(dtype_of(name)) == name


@pytest.mark.parametrize("name", DTYPES)
def test_the_other_byte_order_has_the_same_name(name: str) -> None:
    """A big-endian dtype travels under the same name, its bytes turned."""
    assert name_of(dtype_of(name).newbyteorder(">")) == name


def test_what_lies_on_the_wire_is_little_endian() -> None:
    """Every dtype of the wire is little-endian, or one byte wide."""
    little = {np.dtype(dtype.str.replace(">", "<")) for dtype in DTYPES.values()}
    assert little == set(DTYPES.values())


@pytest.mark.parametrize("name", ["f128", "float32", "", "<f4", None, [], {}, 4])
def test_an_unknown_name_is_refused_with_the_known_ones(name: object) -> None:
    """A dtype name that is none, of whatever type, is an UnsupportedType that lists the names there are."""
    with pytest.raises(UnsupportedType, match="u64, f16, f32, f64"):
        dtype_of(name)  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", ["O", "c8", "c16", "g", "M8[s]", "m8[s]", "U3", "S3", "V4", "i4,f4"])
def test_a_dtype_that_taichi_has_not_is_refused(dtype: str) -> None:
    """Object, complex, long double, time, text and structured dtypes are UnsupportedType, with what to do."""
    with pytest.raises(UnsupportedType, match=r"\.astype\(\)"):
        name_of(np.dtype(dtype))
