"""What was told is kept within its bound, and what is not kept is named."""

from __future__ import annotations

from tiremote.worker.front.journal import Journal


def test_events_are_given_again_from_the_first_that_did_not_come() -> None:
    """Each request counts its own."""
    journal = Journal(1 << 20)
    for n in range(4):
        journal.add("a", "stdout", f"line {n}\n")
    journal.add("b", "stderr", "other\n")
    assert [event.text for event in journal.since("a", 2)] == ["line 2\n", "line 3\n"]
    assert [(event.seq, event.event) for event in journal.since("b", 0)] == [(1, "stderr")]
    assert journal.since("a", 4) == journal.since("a", 9) == journal.since("nobody", 0) == []


def test_the_oldest_go_first_and_a_gap_stands_for_them() -> None:
    """Who has them already hears of no gap; who has some hears of the rest."""
    journal = Journal(2700)
    for n in range(20):
        journal.add("a" if n < 10 else "b", "stdout", f"line {n}\n")
    assert journal.nbytes <= 2700
    (gap,) = journal.since("a", 0)
    assert (gap.event, gap.seq, gap.data) == ("gap", 10, {"first": 1, "last": 10})
    assert gap.text == "output is lost: events 1 to 10 of this request are no longer kept"
    assert journal.since("a", 10) == []
    assert [event.text for event in journal.since("b", 0)] == [f"line {n}\n" for n in range(10, 20)]
    assert [event.data for event in journal.since("a", 4)] == [{"first": 5, "last": 10}]


def test_what_is_dropped_weighs_nothing() -> None:
    """A request whose answer is not kept needs no events either."""
    journal = Journal(1 << 20)
    for request in ("a", "b"):
        journal.add(request, "stdout", "ü" * 100)
    journal.drop("a")
    journal.drop("a")
    assert journal.since("a", 0) == []
    journal.drop("b")
    assert journal.nbytes == 0


def test_one_event_above_the_bound_is_a_gap() -> None:
    """Nothing is kept that does not fit."""
    journal = Journal(1000)
    journal.add("a", "stdout", "x" * 2000)
    assert [event.event for event in journal.since("a", 0)] == ["gap"]
    assert journal.nbytes == 0
