"""Ctrl-C on a thread that moves a session's messages strikes where it waits, and nowhere in the middle of a message."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Self


class HeldInterrupts:
    """A context in which SIGINT is passed on to its handler between `wait` and `go_on`, and what came before by `wait`.

    Only the main thread is ever interrupted; on others, and where SIGINT has no handler in Python, it does nothing.
    """

    __slots__ = ("_came", "_handler", "waiting")

    def __init__(self) -> None:
        #: What is done may be broken off at any point.
        self.waiting = False
        self._came: FrameType | None = None
        self._handler: Any = None

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread() and callable(signal.getsignal(signal.SIGINT)):
            self._handler = signal.signal(signal.SIGINT, self._on_signal)
        return self

    def wait(self) -> None:
        """What follows may be broken off. What came before breaks it off at once."""
        self.waiting = True
        if self._came is not None:
            frame, self._came = self._came, None
            self._handler(signal.SIGINT, frame)

    def go_on(self) -> None:
        """What follows may not."""
        self.waiting = False

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.waiting:
            self._handler(number, frame)
        else:
            self._came = frame

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._handler is None:
            return
        signal.signal(signal.SIGINT, self._handler)
        if self._came is not None:
            self._handler(signal.SIGINT, self._came)
