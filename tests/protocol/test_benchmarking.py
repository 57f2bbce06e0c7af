"""What a benchmark tells of its times."""

from __future__ import annotations

import pytest

from tiremote.protocol.benchmarking import Benchmark, picture


def made(*launches: float) -> Benchmark:
    return Benchmark(name="sim.step", warmup=3, compile=0.25, launches=launches)


def test_median_minimum_and_spread() -> None:
    """The spread is that of the quartiles, as a part of the median."""
    told = made(0.1, 0.2, 0.3, 0.4, 0.5)
    assert (told.median, told.minimum) == (0.3, 0.1)
    assert told.spread == pytest.approx(2 / 3)
    assert made(0.5).spread == 0.0
    assert made(0.0, 0.0).spread == 0.0


def test_it_reads_as_one_line_and_a_picture() -> None:
    """Times with their units, and a block for each part of the way from the least to the largest."""
    line, drawn = str(made(0.001, 0.001, 0.0000025)).splitlines()
    assert line == "sim.step: median 1 ms, quartiles 501 us to 1 ms, 3 calls after 3, compiled in 250 ms"
    assert drawn == "  2.5 us ▄                      █ 1 ms".replace("▄                      █", picture((1, 1, 0)))


def test_the_picture_shows_whatever_there_is() -> None:
    """One among thousands too, and nothing where nothing is."""
    drawn = picture([0.0] * 1000 + [1.0])
    assert (drawn[0], drawn[-1], set(drawn[1:-1])) == ("█", "▁", {" "})
    assert picture([2.0, 2.0])[0] == "█"
