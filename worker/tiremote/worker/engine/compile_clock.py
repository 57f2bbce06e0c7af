"""How long a request compiles, counted, and told before each compile: during one nothing of Python's runs here."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol


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
        self._since: float | None = None
        self._spare: float | None = None
        self.tell: Tell | None = None
        #: Called with a kernel and its arguments when an instance for those has been compiled.
        self.on_compiled: Callable[[Any, Sequence[Any]], None] | None = None
        self.restart()

    def restart(self) -> None:
        """A request begins."""
        self.compiled = 0.0
        self.spared = 0.0

    @contextmanager
    def compiling(self) -> Iterator[None]:
        """While it lasts, or until `stop`, Taichi compiles."""
        self._start(None)
        try:
            yield
        finally:
            self.stop()

    @contextmanager
    def launching_first(self, spare: float) -> Iterator[None]:
        """While it lasts, or until `stop`, Taichi makes machine code, for ``spare`` seconds at most, and runs it."""
        self._start(spare)
        try:
            yield
        finally:
            self.stop()

    def _start(self, spare: float | None) -> None:
        if threading.get_ident() == self._thread:
            self._since, self._spare = self._clock(), spare
            self._say()

    def stop(self) -> None:
        """Ends what is counted now, if anything is."""
        if self._since is None or threading.get_ident() != self._thread:
            return
        seconds = self._clock() - self._since
        if self._spare is None:
            self.compiled += seconds
        else:
            self.spared += min(seconds, self._spare)
        self._since = self._spare = None
        self._say()

    def _say(self) -> None:
        if self.tell is not None:
            self.tell(compiled=self.compiled, spared=self.spared, since=self._since, spare=self._spare)
