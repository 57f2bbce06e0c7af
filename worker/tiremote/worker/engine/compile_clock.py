"""How long a request compiles, counted, and told before each compile: during one nothing of Python's runs here."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol


class Tell(Protocol):
    """Hears of each change, as `Compiling` in `link` describes it."""

    def __call__(self, *, compiled: float, spared: float, since: float | None, spare: float | None) -> None: ...


class CompileClock:
    """Counts for one request after the other, on the thread that made it; another's compiles count as running.

    ``tell``, where there is one, is called when counting begins and ends. ``compiled`` are the seconds of the request
    that were compiling, ``spared`` those of first launches that count neither as compiling nor as running.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._thread = threading.get_ident()
        self.tell: Tell | None = None
        self.restart()

    def restart(self) -> None:
        """A request begins."""
        self.compiled = 0.0
        self.spared = 0.0

    @contextmanager
    def compiling(self) -> Iterator[None]:
        """While it lasts, Taichi compiles."""
        if threading.get_ident() != self._thread:
            yield
            return
        since = self._clock()
        self._say(since, None)
        try:
            yield
        finally:
            self.compiled += self._clock() - since
            self._say(None, None)

    @contextmanager
    def launching_first(self, spare: float) -> Iterator[None]:
        """While it lasts, Taichi makes machine code, for ``spare`` seconds at most, and then runs it."""
        if threading.get_ident() != self._thread:
            yield
            return
        since = self._clock()
        self._say(since, spare)
        try:
            yield
        finally:
            self.spared += min(self._clock() - since, spare)
            self._say(None, None)

    def _say(self, since: float | None, spare: float | None) -> None:
        if self.tell is not None:
            self.tell(compiled=self.compiled, spared=self.spared, since=since, spare=spare)
