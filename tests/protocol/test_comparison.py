"""`tiremote.protocol.comparison`."""

from __future__ import annotations

import pytest

from tiremote.protocol.comparison import Comparison, Difference, quartiles, timed


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [([3.0], (3, 3, 3)), ([2.0, 1.0], (1.25, 1.5, 1.75)), ([5.0, 1.0, 3.0, 2.0, 4.0], (2, 3, 4))],
)
def test_quartiles_lie_between_neighbours_in_proportion(
    numbers: list[float], expected: tuple[float, float, float]
) -> None:
    """In whatever order the numbers come, one alone included."""
    assert quartiles(numbers) == expected


def comparison(ratio: float, lower: float, upper: float, *differences: Difference) -> Comparison:
    return Comparison(
        unit="sim",
        name="step",
        before=timed(3, 0.5, [0.002, 0.004, 0.003]),
        after=timed(None, 1.25, [2e-6]),
        ratio=ratio,
        ratio_lower_quartile=lower,
        ratio_upper_quartile=upper,
        differences=differences,
        warnings=("x begins as declared",),
    )


def test_a_comparison_reads_as_a_few_lines() -> None:
    """Both sides with their times, the ratio with its spread, a line for each difference and warning."""
    told = comparison(0.5, 0.4, 0.6, Difference(name="x", same_bits=True, dtype="f32", shape=(2,)))
    assert str(told).splitlines() == [
        "sim.step, 3 launches of each side in turns",
        "  before version 3    median 3 ms, min 2 ms, quartiles 2.5 ms to 3.5 ms, compiled in 500 ms",
        "  after  the text     median 2 us, min 2 us, quartiles 2 us to 2 us, compiled in 1.25 s",
        "  after takes 0.5 of the time of before (quartiles 0.4 to 0.6)",
        "  x (f32 (2,)): the same bits",
        "  warning: x begins as declared",
    ]
    assert told.same_bits


def test_a_ratio_within_its_spread_is_no_difference() -> None:
    """Where the quartiles lie on both sides of 1, nothing is claimed."""
    assert "no difference beyond the spread" in str(comparison(0.9, 0.8, 1.1))
    assert "beyond" not in str(comparison(1.3, 1.1, 1.5))
