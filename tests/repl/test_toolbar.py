"""The line at the bottom."""

from __future__ import annotations

from dataclasses import replace

import pytest

from recording_session import ENGINE, RecordingSession
from tiremote.protocol.results import Running, SessionStatus
from tiremote.repl.monitor import View
from tiremote.repl.toolbar import Place, toolbar_text

PLACE = Place(worker="tcp://gpu-box:5555", session="lab", engine=ENGINE)


def view(**session: object) -> View:
    fields = {"session": "lab", "state": "idle", "generation": 1, "clients": 1, "queued": 0, "array_bytes": 2048}
    status = replace(RecordingSession().status(), session=SessionStatus(**{**fields, **session}))  # type: ignore[arg-type]
    return View(status=status, round_trip=0.0012, heard=10.0)


def test_it_tells_worker_device_session_memory_activity_and_round_trip() -> None:
    """In a wide window all of it is there."""
    text = toolbar_text(PLACE, view(engine_memory=1 << 20), 10.0, 200)
    assert text == (
        "tcp://gpu-box:5555 | taichi on cpu (a device) | session lab | arrays 2.0 KiB, engine 1.0 MiB | idle | 1.2 ms"
    )


def test_what_runs_is_told_with_the_time_since() -> None:
    """The time goes on between two answers, and queued requests are counted."""
    running = Running(request="r", op="run", target="run sim.step", seconds=3.0, compiling=True)
    assert "run sim.step for 5.00 s, compiling, 2 queued" in toolbar_text(
        PLACE, view(running=running, queued=2), 12.0, 200
    )


@pytest.mark.parametrize("width", [10, 20, 40, 60, 80, 100])
def test_a_narrow_window_has_what_runs_first(width: int) -> None:
    """The line is never longer than the window, and what is left out is what matters least."""
    text = toolbar_text(PLACE, view(), 10.0, width)
    assert len(text) <= width
    assert "idle" in text


def test_a_worker_that_does_not_answer_is_told() -> None:
    """At first as silence, then as gone; the numbers of before do not look like news."""
    assert "no answer for 5.00 s" in toolbar_text(PLACE, replace(view(), asked=10.0), 15.0, 200)
    assert "no worker" in toolbar_text(PLACE, replace(view(), trouble="gone"), 15.0, 200)
