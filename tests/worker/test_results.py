"""Results: plain values where they can be, handles for the rest, and a reason where neither is possible."""

from __future__ import annotations

from collections import OrderedDict, namedtuple
from enum import IntEnum
from typing import Any

import numpy as np
import pytest

from tiremote.protocol.dtypes import DTYPES
from tiremote.protocol.errors import UnsupportedType
from tiremote.worker.engine.results import MAX_DEPTH, Kept, to_plain
from tiremote.worker.engine.runtime import TaichiRuntime

from .result_kernels import define
from .zoo import EXACT_DTYPES, LAYOUTS, extremes

Pair = namedtuple("Pair", "a b")


class Colour(IntEnum):
    RED = 1


@pytest.mark.parametrize(
    "value",
    [None, True, 0, -(2**63), 2**64 - 1, 1.5, float("inf"), "text", b"bytes", [], (1, [2, (3,)]), {"a": {1: [2]}}],
)
def test_plain_values_stay_what_they_are(runtime: TaichiRuntime, value: Any) -> None:
    """None, numbers, text, bytes and containers of them pass, tuples as tuples."""
    plain = to_plain(value, runtime)
    assert plain == value
    assert type(plain) is type(value)


def test_subclasses_become_their_base(runtime: TaichiRuntime) -> None:
    """Enums, named tuples and ordered dicts travel as int, tuple and dict."""
    plain = to_plain([Colour.RED, Pair(1, 2), OrderedDict(a=1), bytearray(b"x"), np.str_("s")], runtime)
    assert plain == [1, (1, 2), {"a": 1}, b"x", "s"]
    assert [type(each) for each in plain] == [int, tuple, dict, bytes, str]


@pytest.mark.parametrize("name", LAYOUTS)
def test_numpy_arrays_pass_in_every_layout(runtime: TaichiRuntime, name: str) -> None:
    """Arrays keep shape and values; big-endian ones are converted."""
    plain = to_plain(LAYOUTS[name], runtime)
    assert plain.shape == LAYOUTS[name].shape
    assert plain.dtype.newbyteorder("=") == plain.dtype
    np.testing.assert_array_equal(plain, LAYOUTS[name])


@pytest.mark.parametrize("name", EXACT_DTYPES)
def test_numpy_scalars_keep_their_width(runtime: TaichiRuntime, name: str) -> None:
    """A NumPy scalar is not widened to a Python number."""
    for value in extremes(DTYPES[name]):
        plain = to_plain(value, runtime)
        assert type(plain) is type(value)
        assert plain == value


def test_kernel_returns_are_plain_and_exact(runtime: TaichiRuntime) -> None:
    """64-bit integers, vectors, matrices, structs and several values come as Python and NumPy values."""
    kernels = define(runtime.ti)
    assert to_plain(kernels.u64(), runtime) == 2**64 - 1
    assert to_plain(kernels.i64(), runtime) == -(2**63)
    vector = to_plain(kernels.u64_vector(), runtime)
    assert vector.dtype == np.uint64
    assert vector.tolist() == [1, 2**64 - 1]
    matrix = to_plain(kernels.matrix(), runtime)
    assert matrix.dtype == np.float32
    assert matrix.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    struct = to_plain(kernels.struct(), runtime)
    assert struct["radius"] == 0.5
    assert struct["inner"]["count"] == 2**63
    assert struct["centre"].tolist() == [1.0, 2.0, 3.0]
    assert list(to_plain(kernels.two(), runtime)) == [1, 2.5]
    assert to_plain(kernels.nothing(), runtime) is None


def test_what_lives_on_the_worker_is_kept(runtime: TaichiRuntime) -> None:
    """Ndarrays, fields and objects become handles, inside containers too."""
    ti = runtime.ti
    ndarray, field, thing = ti.ndarray(ti.f32, 3), ti.field(ti.f32, 3), object()
    plain = to_plain({"n": ndarray, "l": [field, (thing,)], "s": {1}}, runtime)
    assert isinstance(plain["n"], Kept)
    assert plain["n"].value is ndarray
    assert plain["l"][0].value is field
    assert plain["l"][1][0].value is thing
    assert plain["s"].value == {1}


def deep(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels - 1):
        value = [value]
    return value


def cycle() -> list[Any]:
    value: list[Any] = [1]
    value.append({"again": value})
    return value


@pytest.mark.parametrize(
    ("value", "place", "said"),
    [
        (1j, "", "complex"),
        ([1, {"a": 2j}], "[1]['a']", "complex"),
        (2**64, "", "64 bits"),
        ((0, -(2**63) - 1), "[1]", "64 bits"),
        (np.zeros(2, complex), "", "complex128"),
        ([np.array([None])], "[0]", "object"),
        (np.zeros(2, "datetime64[s]"), "", "datetime64"),
        (np.zeros(2, [("a", "f4")]), "", "'a'"),
        (np.longdouble(1), "", "float128"),
        (np.ma.masked_array([1.0], [True]), "", "masked"),
        ({(1, 2): 3}, "", "key (1, 2)"),
        (cycle(), "[1]['again']", "contains itself"),
        (deep(MAX_DEPTH + 1), "[0]", "deeper"),
        ([0] * ((1 << 20) + 1), "", "NumPy array"),
    ],
)
def test_what_cannot_travel_is_refused_with_its_place(
    runtime: TaichiRuntime, value: Any, place: str, said: str
) -> None:
    """One line says where in the result it is, what it is and what to return instead."""
    with pytest.raises(UnsupportedType) as caught:
        to_plain(value, runtime)
    assert place in caught.value.message
    assert said in caught.value.message
    assert "\n" not in caught.value.message


def test_the_deepest_nesting_passes(runtime: TaichiRuntime) -> None:
    """The limit itself is allowed, and one object met twice is no cycle."""
    assert to_plain(deep(MAX_DEPTH), runtime) == deep(MAX_DEPTH)
    twice = [1]
    assert to_plain([twice, twice], runtime) == [[1], [1]]
