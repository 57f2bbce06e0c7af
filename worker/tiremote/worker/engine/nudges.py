"""Stopping a user's code from outside, between two of its steps, so that its state is kept."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from tiremote.worker.page import Page

#: A signal that comes before user code runs is tried again after this many seconds.
_RETRY = 0.005


class Stopped(BaseException):
    """Raised in the user's code. Not an Exception: ``except Exception`` there does not catch it."""


class Nudges:
    """Turns SIGINT into `Stopped`, for the request that the front wrote into ``page``, and only in user code.

    Anywhere else (in a compile, between two locks of a library) raising could leave things half done: there the
    nearest user code up the stack is traced, and stops at its first step. Where there is none yet the signal is tried
    again. The front kills when it has waited long enough.
    """

    def __init__(self, page: Page, is_user_file: Callable[[str], bool]) -> None:
        self._page = page
        self._is_user_file = is_user_file
        self._key = 0
        signal.signal(signal.SIGINT, self._on_signal)
        signal.signal(signal.SIGALRM, self._on_signal)

    @contextmanager
    def stoppable(self, key: int) -> Iterator[None]:
        """While it lasts, a nudge for ``key`` stops user code."""
        self._key = key
        try:
            self.check()
            yield
        finally:
            self._key = 0
            signal.setitimer(signal.ITIMER_REAL, 0)
            sys.settrace(None)

    def check(self) -> None:
        """Raises `Stopped` where that is wanted: between two steps of our own, where no user code runs."""
        if self._is_meant():
            raise Stopped

    def _is_meant(self) -> bool:
        return bool(self._key) and self._page.nudged == self._key

    def _on_signal(self, _: int, frame: FrameType | None) -> None:
        if not self._is_meant():
            return
        if frame is not None and self._is_user_file(frame.f_code.co_filename):
            raise Stopped
        while frame is not None and not self._is_user_file(frame.f_code.co_filename):
            frame = frame.f_back
        if frame is None:
            signal.setitimer(signal.ITIMER_REAL, _RETRY)
            return
        frame.f_trace = self._stop
        # A line of user code can loop for ever without reaching another.
        frame.f_trace_opcodes = True
        sys.settrace(_trace_nothing_new)

    def _stop(self, _frame: FrameType, _event: str, _argument: object) -> None:
        if self._is_meant():
            raise Stopped


def _trace_nothing_new(_frame: FrameType, _event: str, _argument: object) -> None:
    """Frames that are entered from here on are not traced; without a function here those that are would not be."""
