"""How far two results are from one another."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tiremote.worker.engine import array_difference as module
from tiremote.worker.engine.array_difference import array_difference, value_differences
from tiremote.worker.engine.results import Kept

NAN, INF = math.nan, math.inf


def of(before: Any, after: Any, dtype: str = "f4") -> Any:
    return array_difference("x", np.array(before, dtype), np.array(after, dtype))


def test_the_largest_difference_has_its_place_and_both_numbers() -> None:
    """Over all axes, with the relative one by the larger magnitude."""
    told = of([[1, 2], [3, 4]], [[1, 2.5], [3, 2]])
    assert (told.same_bits, told.max_abs, told.max_rel, told.at) == (False, 2.0, 0.5, (1, 1))
    assert (told.before, told.after, told.dtype, told.shape) == (4.0, 2.0, "f32", (2, 2))
    assert str(told) == "x (f32 (2, 2)): differs by up to 2 (relative 0.5) at [1, 1]: 4 and 2"


def test_equal_bits_and_equal_numbers_are_told_apart() -> None:
    """0.0 and -0.0 are one number; NaN is the same as itself where its bits are."""
    assert str(of([0.0], [0.0])) == "x (f32 (1,)): the same bits"
    assert str(of([0.0], [-0.0])) == "x (f32 (1,)): the same numbers in other bits"
    same = of([NAN, 1], [NAN, 1])
    assert (same.same_bits, same.max_abs, same.nan_before, same.nan_after) == (True, 0.0, 1, 1)


@pytest.mark.parametrize(
    ("before", "after", "largest", "at"),
    [
        ([1, NAN], [1, 2], INF, (1,)),
        ([NAN, NAN], [NAN, 2], INF, (1,)),
        ([INF, 1], [INF, 3], 2.0, (1,)),
        ([INF, 1], [-INF, 3], INF, (0,)),
        ([INF], [INF], 0.0, None),
    ],
)
def test_nan_on_one_side_counts_as_infinite(before: Any, after: Any, largest: float, at: Any) -> None:
    """On both sides, as the same infinity on both, it is no difference."""
    told = of(before, after)
    assert (told.max_abs, told.at) == (largest, at)
    assert told.max_rel == (INF if largest == INF else told.max_rel)


@pytest.mark.parametrize(
    ("dtype", "before", "after", "largest"),
    [
        ("i1", -128, 127, 255),
        ("u1", 3, 250, 247),
        ("i8", -(2**63), 2**63 - 1, 2.0**64),
        ("u8", 2**64 - 1, 2**64 - 2, 1),
        ("i8", 2**60, 2**60 + 1, 1),
        ("?", False, True, 1),
        ("f2", 1.0, 1.5, 0.5),
    ],
)
def test_every_dtype_is_compared_without_overflow(dtype: str, before: Any, after: Any, largest: float) -> None:
    """Also where the difference does not fit into the type, or is lost in a float64."""
    told = of([0, before], [0, after], dtype)
    assert (told.max_abs, told.at) == (largest, (1,))


def test_large_arrays_are_compared_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """The place and the counts are those of the whole, and Fortran order changes nothing."""
    monkeypatch.setattr(module, "_PIECE", 4)
    before = np.zeros((3, 7), "f8", order="F")
    after = before.copy()
    after[1, 2], after[2, 5], after[0, 0] = 1.0, -3.0, NAN
    before[0, 0] = NAN
    told = array_difference("x", before, after)
    assert (told.max_abs, told.at, told.after, told.nan_after) == (3.0, (2, 5), -3.0, 1)


def test_other_shapes_and_types_have_a_note_and_no_numbers() -> None:
    """They are different, and that is all that can be said."""
    told = array_difference("x", np.zeros(2, "f4"), np.zeros(3, "i4"))
    assert (told.same_bits, told.max_abs, told.note) == (False, None, "f32 (2,) before, i32 (3,) after")
    assert array_difference("x", np.zeros((0, 3)), np.zeros((0, 3))).same_bits


def test_a_returned_value_is_compared_inside() -> None:
    """Numbers and arrays in tuples, lists and dicts each have a line, by where they are."""
    before = (1, {"a": [1.5, np.zeros(2)]}, "text", None, b"x")
    after = (2, {"a": [1.5, np.ones(2)]}, "text", None, b"y")
    told = {each.name: each for each in value_differences("value", before, after)}
    assert told["value[0]"].max_abs == 1.0
    assert told["value[1]['a'][0]"].same_bits
    assert told["value[1]['a'][1]"].max_abs == 1.0
    assert (told["value[2]"].same_bits, told["value[4]"].note) == (True, "b'x' before, b'y' after")


@pytest.mark.parametrize(
    ("before", "after", "note"),
    [
        ((1, 2), (1, 2, 3), "tuple of 2 before, tuple of 3 after"),
        ({"a": 1}, {"b": 1}, "dict of 1 before, dict of 1 after"),
        (1, 1.0, "1 before, 1.0 after"),
        (1, None, "1 before, None after"),
        (Kept(print), Kept(len), "not compared: builtin_function_or_method"),
    ],
)
def test_values_of_another_form_are_different(before: Any, after: Any, note: str) -> None:
    """Another length, other keys, another type; what stays on the worker is not looked into."""
    (told,) = value_differences("value", before, after)
    assert told.note == note
    assert told.max_abs is None


def test_a_long_list_is_told_in_one_line() -> None:
    """Its numbers are compared all the same."""
    (told,) = value_differences("value", list(range(1000)), [*range(999), 0])
    assert (told.same_bits, told.note) == (False, "1000 values, not all the same")
