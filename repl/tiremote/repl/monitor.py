"""Asks the worker once a second what it does and holds: for the toolbar, for completion, and to keep the lease."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from tiremote.client import Session
from tiremote.protocol.errors import TiremoteError
from tiremote.protocol.receipts import Description
from tiremote.protocol.results import WorkerStatus

#: Seconds between two questions.
EVERY = 1.0


@dataclass(frozen=True, kw_only=True, slots=True)
class View:
    """What was heard last. ``heard`` and ``asked`` are times of the monitor's clock; ``asked`` of the question that
    is under way, None between two. ``round_trip`` is in seconds, ``trouble`` why there is no answer."""

    status: WorkerStatus | None = None
    description: Description | None = None
    round_trip: float | None = None
    heard: float | None = None
    asked: float | None = None
    trouble: str = ""


class Monitor:
    """A thread of its own; `view` never waits. ``session`` gives the one that is used now."""

    def __init__(
        self,
        session: Callable[[], Session],
        *,
        every: float = EVERY,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.clock = clock
        self._session = session
        self._every = every
        self._view = View()
        self._wanted = threading.Event()
        self._ending = False
        self._thread = threading.Thread(target=self._run, name="tiremote monitor", daemon=True)

    @property
    def view(self) -> View:
        """As it is now."""
        return self._view

    def start(self) -> None:
        """Begins to ask."""
        self._thread.start()

    def look(self) -> None:
        """Asks at once: something may have changed."""
        self._wanted.set()

    def end(self) -> None:
        """Asks no more. What is under way ends with the session."""
        self._ending = True
        self._wanted.set()

    def ask(self) -> None:
        """One look."""
        gpu = self._session()
        began = self.clock()
        self._view = replace(self._view, asked=began)
        try:
            status = gpu.status()
            took = self.clock() - began
            description = gpu.describe()
        except TiremoteError as error:
            self._view = replace(self._view, asked=None, trouble=error.message or type(error).__name__)
        except RuntimeError:  # this process is about to end
            self._ending = True
        else:
            self._view = View(status=status, description=description, round_trip=took, heard=self.clock())

    def _run(self) -> None:
        while not self._ending:
            self.ask()
            self._wanted.wait(self._every)
            self._wanted.clear()
