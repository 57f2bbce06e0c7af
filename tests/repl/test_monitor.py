"""What is asked of the worker while nobody types."""

from __future__ import annotations

import threading

from recording_session import RecordingSession
from tiremote.protocol.errors import WorkerUnreachable
from tiremote.repl.monitor import Monitor


def test_an_idle_prompt_asks_again_and_again() -> None:
    """So the session's lease does not end while the prompt is there; the end of the prompt ends it."""
    asked = threading.Semaphore(0)
    gpu = RecordingSession()
    status = gpu.status
    gpu.status = lambda: (asked.release(), status())[1]  # type: ignore[method-assign]
    monitor = Monitor(lambda: gpu, every=0.01)  # type: ignore[arg-type, return-value]
    monitor.start()
    assert all(asked.acquire(timeout=30) for _ in range(3))
    monitor.end()
    monitor._thread.join(30)
    assert not monitor._thread.is_alive()


def test_a_worker_that_is_gone_is_trouble_until_it_answers() -> None:
    """The last that was heard stays; the next answer ends the trouble."""
    gpu = RecordingSession()
    monitor = Monitor(lambda: gpu)  # type: ignore[arg-type, return-value]
    monitor.ask()
    assert monitor.view.description is not None
    status = gpu.status

    def gone() -> None:
        raise WorkerUnreachable("gone")

    gpu.status = gone  # type: ignore[assignment, method-assign]
    monitor.ask()
    assert (monitor.view.trouble, monitor.view.status) == ("gone", status())
    gpu.status = status  # type: ignore[method-assign]
    monitor.ask()
    assert monitor.view.trouble == ""
