"""Scalars of every type: exact from one end of their range to the other, and refused by name beyond it."""

from __future__ import annotations

import numpy as np
import pytest

from features.rows import feature
from tiremote.client import Session
from tiremote.protocol.dtypes import DTYPES
from tiremote.protocol.errors import KernelArgumentError, UnsupportedType

#: What does not fit each type, or is no number of its kind.
BEYOND = {
    "i8": (128, -129, 2**40),
    "i16": (2**15, -(2**15) - 1),
    "i32": (2**31, -(2**31) - 1, 2**40, 2**64, 2**200, 1.0, 1.5, float("nan"), np.float32(2), "1", None, 1j),
    "i64": (2**63, -(2**63) - 1, 2**64, 1e3),
    "u8": (256, 300, -1),
    "u16": (2**16, -1),
    "u32": (2**32, -1),
    "u64": (2**64, -1),
    "f16": (65520.0, -1e5, 70000),
    "f32": (1e40, -1e40, 2**128, 10**400, "1.0", None, [1.0]),
    "f64": (10**400, -(10**400), "1.0", None),
    "bool": (2, -1, 0.0),
}  # fmt: skip


def source_of(dtype: str) -> str:
    """A kernel that gives back what it takes, through a field, and one that gives the second of a vector."""
    taichi = {"bool": "u1"}.get(dtype, dtype)
    return f"""
cell = ti.field(ti.{taichi}, ())
pair = ti.types.vector(2, ti.{taichi})

@ti.kernel
def same(first: ti.i32, number: ti.{taichi}) -> ti.{taichi}:
    cell[None] = number
    return number

@ti.kernel
def second(v: pair) -> ti.{taichi}:
    return v[1]
"""


def extremes(kind: np.dtype) -> list[float]:
    """Numbers at both ends of a type, and about zero."""
    if kind.kind == "f":
        info = np.finfo(kind)
        return [0.0, -0.0, 1.5, float(info.max), float(info.min), float(info.tiny), float("inf"), float("-inf")]
    if kind.kind == "b":
        return [True, False]
    ends = np.iinfo(kind)
    return [ends.min, ends.min + 1, 0, 1, ends.max - 1, ends.max]


@pytest.mark.parametrize("dtype", [pytest.param(name, marks=feature("scalars", name)) for name in BEYOND])
def test_scalars_are_exact_at_their_extremes(gpu: Session, dtype: str) -> None:
    """As a parameter, a return value, a vector's element and a field's element: the same number."""
    unit = gpu[gpu.compile_and_load(source_of(dtype)).unit]
    kind = DTYPES[dtype]
    for value in extremes(kind):
        came = unit.same(0, value)
        assert came == value
        assert np.signbit(came) == np.signbit(value)
        assert unit.same(0, kind.type(value)) == value
        assert unit.cell[None] == value
        assert unit.second([value, value]) == value
    if kind.kind == "f":
        assert np.isnan(unit.same(0, float("nan")))


@pytest.mark.parametrize("dtype", [pytest.param(name, marks=feature("scalars", name, wrong=True)) for name in BEYOND])
def test_case_18_numbers_that_do_not_fit_are_refused_by_name(gpu: Session, dtype: str) -> None:
    """2**40 into i32, 300 into u8, 1e40 into f32, nan into i32: never another number, always the parameter's name."""
    unit = gpu[gpu.compile_and_load(source_of(dtype)).unit]
    for value in BEYOND[dtype]:
        for call in (lambda value=value: unit.same(0, value), lambda value=value: unit.same(0, number=value)):
            # A complex number travels nowhere; everything else is refused for what it is.
            with pytest.raises(UnsupportedType if isinstance(value, complex) else KernelArgumentError) as caught:
                call()
            if isinstance(caught.value, KernelArgumentError):
                assert caught.value.parameter == "number"
                assert "number" in caught.value.message
    for value in BEYOND[dtype][:2]:
        # What no integer of 64 bits holds does not get as far as the vector's type.
        with pytest.raises((KernelArgumentError, UnsupportedType), match=r"'v'|argument 0"):
            unit.second([1, value])
    assert unit.same(0, 1) == 1
