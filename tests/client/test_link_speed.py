"""`tiremote.client.link_speed`, by a clock that is set by hand."""

from __future__ import annotations

from tiremote.client.link_speed import SLOW, LinkSpeed

MIB = 1 << 20


def carried(link: LinkSpeed, nbytes: int, seconds: float, *, now: float = 0.0, elsewhere: float = 0.0) -> None:
    """A message of that size took so long."""
    message = link.began(nbytes, now)
    assert message is not None
    link.ended(message, now + seconds + elsewhere, elsewhere)


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


def test_it_takes_two_slow_messages_to_be_slow() -> None:
    """Anything may hold a single one up."""
    link = LinkSpeed()
    carried(link, MIB, 1.0)
    assert link.is_unknown(1.0)
    assert not link.is_slow(1.0)
    carried(link, MIB, 1.0, now=1.0)
    assert not link.is_unknown(2.0)
    assert link.is_slow(2.0)


def test_time_that_the_worker_had_the_request_does_not_count() -> None:
    """A kernel that ran before it is no slow link."""
    link = LinkSpeed()
    carried(link, MIB, 0.005, elsewhere=100.0)
    assert link.rate is not None
    assert link.rate > SLOW


def test_messages_that_wait_behind_one_another_count_with_those_before_them() -> None:
    """Eight of 4 MiB at once over 100 Mbit/s come one after the other, and the last tells the same as the first."""
    link = LinkSpeed()
    messages = [link.began(4 * MIB, 0.0) for _ in range(8)]
    rates = []
    for number, message in enumerate(messages, 1):
        assert message is not None
        link.ended(message, number * 4 * MIB / 12.5e6, 0.0)
        rates.append(link.rate)
    assert all(rate is not None and 12e6 < rate < 13e6 for rate in rates)


def test_a_link_that_has_become_fast_is_known_to_be_by_one_message() -> None:
    """The fastest of the last few counts."""
    link = LinkSpeed()
    for number in range(4):
        carried(link, MIB, 1.0, now=number)
    carried(link, MIB, 0.005, now=4.0)
    assert not link.is_slow(5.0)


def test_a_link_that_has_become_slow_is_known_to_be_after_a_few() -> None:
    """As many as are remembered."""
    link = LinkSpeed()
    carried(link, MIB, 0.005)
    for number in range(4):
        carried(link, MIB, 1.0, now=number + 1.0)
    assert link.is_slow(5.0)


def test_a_slow_link_is_measured_anew_after_a_while() -> None:
    """The laptop may be on another network meanwhile."""
    link = LinkSpeed()
    carried(link, MIB, 1.0)
    carried(link, MIB, 1.0)
    assert link.is_slow(20.0)
    assert link.is_unknown(100.0)
    assert not link.is_slow(100.0)


def test_small_messages_and_failed_ones_tell_nothing() -> None:
    """They are of the round trip, or of whatever failed; what follows a failed one is not taken to be behind it."""
    link = LinkSpeed()
    assert link.began(1000, 0.0) is None
    message = link.began(MIB, 0.0)
    assert message is not None
    link.ended(message, 1.0, None)
    assert link.rate is None
    carried(link, MIB, 1.0, now=1.0)
    assert link.rate == MIB
