"""`tiremote.client.link_speed`, by a clock that is set by hand."""

from __future__ import annotations

import pytest

from tiremote.client.link_speed import LinkSpeed

MIB = 1 << 20


def carried(link: LinkSpeed, nbytes: int, seconds: float, *, now: float = 0.0) -> None:
    """A message of that size took so long."""
    link.carried(nbytes, now, now + seconds)


def test_nothing_is_known_at_first() -> None:
    """It is neither slow nor known."""
    link = LinkSpeed()
    assert link.rate is None
    assert link.is_unknown(0.0)
    assert not link.is_slow(0.0)


def test_one_fast_message_makes_it_known_and_fast() -> None:
    """More need not be sent to find out."""
    link = LinkSpeed()
    carried(link, MIB, 0.005)
    assert not link.is_unknown(1.0)
    assert not link.is_slow(1.0)


def test_it_takes_three_slow_messages_to_be_slow() -> None:
    """Anything may hold one or two up."""
    link = LinkSpeed()
    for number in range(3):
        assert link.is_unknown(float(number))
        assert not link.is_slow(float(number))
        carried(link, MIB, 1.0, now=float(number))
    assert not link.is_unknown(3.0)
    assert link.is_slow(3.0)


def test_small_messages_that_a_busy_machine_held_up_do_not_make_a_link_slow() -> None:
    """A quarter of a mebibyte that took 10 ms tells nothing against it; of 100 Mbit/s, where it takes 21, it does."""
    busy, slow = LinkSpeed(), LinkSpeed()
    for number in range(4):
        carried(busy, MIB // 4, 0.01, now=float(number))
        carried(slow, MIB // 4, 0.021, now=float(number))
    assert not busy.is_slow(4.0)
    assert not busy.is_unknown(4.0)
    assert slow.is_slow(4.0)


def test_messages_that_wait_behind_one_another_took_the_time_from_the_one_before() -> None:
    """Eight of 4 MiB at once over 100 Mbit/s come one after the other, and the last tells the same as the first."""
    link = LinkSpeed()
    for number in range(1, 9):
        link.carried(4 * MIB, 0.0, number * 4 * MIB / 12.5e6)
        assert link.rate is not None
        assert 12.4e6 < link.rate < 12.6e6


def test_messages_that_are_read_at_once_are_not_fast() -> None:
    """Whoever reads them was held up; together they took the time that they took."""
    link = LinkSpeed()
    for until in (1.0, 2.0, 4.0, 4.0):
        link.carried(12 * MIB, 0.0, until)
    assert link.rate == pytest.approx(12 * MIB)
    assert link.is_slow(4.0)


def test_a_link_that_has_become_fast_is_known_to_be_after_a_few_messages() -> None:
    """As many as are remembered."""
    link = LinkSpeed()
    for number in range(4):
        carried(link, MIB, 1.0, now=number)
    for number in range(4):
        carried(link, MIB, 0.005, now=4.0 + number)
    assert not link.is_slow(8.0)


def test_a_link_that_has_become_slow_is_known_to_be_after_a_few() -> None:
    """Likewise."""
    link = LinkSpeed()
    carried(link, MIB, 0.005)
    for number in range(4):
        carried(link, MIB, 1.0, now=number + 1.0)
    assert link.is_slow(5.0)


def test_a_slow_link_is_measured_anew_after_a_while() -> None:
    """The laptop may be on another network meanwhile."""
    link = LinkSpeed()
    for number in range(3):
        carried(link, MIB, 1.0, now=float(number))
    assert link.is_slow(20.0)
    assert link.is_unknown(100.0)
    assert not link.is_slow(100.0)
