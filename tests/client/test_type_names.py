"""Dtypes by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tiremote.client.type_names import DType, wire_name
from tiremote.protocol.errors import UnsupportedType


@pytest.mark.parametrize(
    ("dtype", "name"),
    [(DType("u1"), "bool"), ("float64", "f64"), (np.uint8, "u8"), (float, "f16"), (int, "i64"), ("bool", "bool")],
)
def test_every_usual_name_is_taken(dtype: Any, name: str) -> None:
    """Python's own are what the session's options say."""
    assert wire_name(dtype, {"default_fp": "f16", "default_ip": "i64"}) == name


@pytest.mark.parametrize("dtype", [None, "f31", complex, object()])
def test_what_is_none_is_refused_with_what_there_is(dtype: Any) -> None:
    """Also what NumPy would take for float64."""
    with pytest.raises(UnsupportedType, match=r"there are i8|does not travel"):
        wire_name(dtype, {})
