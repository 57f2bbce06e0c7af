"""NumPy's own indexing is what regions are measured against."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tiremote.client.regions import parse

SHAPE = (4, 5, 6)
INDICES: list[Any] = [
    0, -1, slice(None), slice(1, 3), slice(None, None, -1), slice(None, None, 2), slice(10, 0, -3), slice(3, 1), ...,
    (1, 2), (slice(None), 2), (..., 3), (1, ...), (1, ..., -1), (1, 2, 3), (slice(2), slice(-2, None), slice(1, 9, 4)),
    (np.int64(2), slice(None)), (slice(None, None, -2), -1, slice(4, None, -1)), (slice(2, 2), 0), (),
]  # fmt: skip


def indexed(array: np.ndarray, wire: tuple[Any, ...]) -> np.ndarray:
    """What a worker makes of a region."""
    return np.asarray(array[tuple(one if isinstance(one, int) else slice(*one) for one in wire)])


@pytest.mark.parametrize("index", INDICES, ids=repr)
@pytest.mark.parametrize("most", [1, 2, 7, 30, 1000])
def test_an_index_means_what_it_means_in_numpy_whole_and_in_pieces(index: Any, most: int) -> None:
    """The region has NumPy's shape and elements, and its pieces, none above the limit, make it up."""
    array = np.arange(120).reshape(SHAPE)
    region = parse(index, SHAPE)
    expected = np.asarray(array[index])
    assert region.shape == expected.shape
    np.testing.assert_array_equal(indexed(array, region.wire), expected)
    made = np.full(expected.shape, -1)
    for piece, where in region.pieces(most):
        assert piece.size <= most
        made[where] = indexed(array, piece.wire)
    np.testing.assert_array_equal(made, expected)


def test_the_whole_is_known_as_such() -> None:
    """However it is written."""
    assert all(parse(index, SHAPE).is_whole(SHAPE) for index in (..., slice(None), (slice(0, 4), ..., slice(None))))
    assert not parse(slice(None, None, -1), SHAPE).is_whole(SHAPE)


@pytest.mark.parametrize(
    ("index", "said"),
    [
        (4, "index 4 is out of bounds for axis 0 of size 4"),
        ((0, -6), "index -6 is out of bounds for axis 1 of size 5"),
        ((0, 0, 0, 0), "4 indices for an array of shape"),
        (None, "newaxis"),
        ((None, 0, 0, 0), "newaxis"),
        (True, "mask"),
        (np.bool_(True), "mask"),
        ([0, 1], r"x\.to_numpy\(\)\[\.\.\.\]"),
        (np.array([True] * 4), "mask"),
        ((0, np.array([0, 1])), "mask"),
        (1.5, "not float"),
        ("a", "not str"),
        ((..., ...), "one ellipsis"),
    ],
)
def test_what_is_no_basic_index_is_refused_with_advice(index: Any, said: str) -> None:
    """An IndexError of one line, before anything is sent."""
    with pytest.raises(IndexError, match=said):
        parse(index, SHAPE)


def test_a_step_of_zero_is_numpys_error() -> None:
    """As `slice` itself says it."""
    with pytest.raises(ValueError, match="zero"):
        parse(slice(None, None, 0), SHAPE)
