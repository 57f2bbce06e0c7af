"""While a cell runs: a line below its output that tells what runs, and the progress of transfers."""

from __future__ import annotations

import io
import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self, TextIO

from tiremote.repl.durations import duration
from tiremote.repl.render import size_text

#: Seconds after which something is worth a line, and between two drawings of it.
_AFTER = 0.5
_EVERY = 0.2
_BAR = 20


def progress_text(done: int, total: int, seconds: float) -> str:
    """Bar, share, bytes, rate and time left."""
    share = done / total if total else 1.0
    bar = "#" * round(share * _BAR)
    rate = done / seconds if seconds > 0 else 0.0
    text = f"[{bar:.<{_BAR}}] {share:4.0%} {size_text(done)} of {size_text(total)}"
    if rate:
        text += f", {size_text(int(rate))}/s, {duration((total - done) / rate)} left"
    return text


class BusyLine:
    """``text`` gives the line for a number of columns; entered while something runs, it takes the place of stdout and
    stderr, so that what is printed goes above the line."""

    def __init__(
        self,
        text: Callable[[int], str],
        width: Callable[[], int],
        out: TextIO,
        *,
        after: float = _AFTER,
        every: float = _EVERY,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._text = text
        self._width = width
        self._out = out
        self._after = after
        self._every = every
        self._clock = clock
        self._lock = threading.RLock()
        self._shown = False
        self._at_start = True
        self._over = threading.Event()
        self._transfer: tuple[int, int] | None = None
        self._transfer_began = 0.0

    def __enter__(self) -> Self:
        self._saved = sys.stdout, sys.stderr
        sys.stdout = sys.stderr = _Above(self)
        self._over.clear()
        self._at_start = True
        self._transfer = None
        self._thread = threading.Thread(target=self._run, name="tiremote busy line", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        sys.stdout, sys.stderr = self._saved
        self._over.set()
        with self._lock:
            self._wipe()
            self._out.flush()
        self._thread.join()

    def progress(self, done: int, total: int) -> None:
        """A transfer has come so far, in bytes."""
        before = self._transfer
        if before is None or before[1] != total or done < before[0]:
            self._transfer_began = self._clock()
        self._transfer = None if done >= total else (done, total)

    def write(self, text: str) -> None:
        """Above the line."""
        with self._lock:
            self._wipe()
            self._out.write(text)
            self._at_start = text.endswith("\n") if text else self._at_start

    def flush(self) -> None:
        """What was written is seen."""
        with self._lock:
            self._out.flush()

    def _run(self) -> None:
        if self._over.wait(self._after):
            return
        while True:
            with self._lock:
                # Not into a line that is not finished.
                if self._at_start and not self._over.is_set():
                    self._draw()
            if self._over.wait(self._every):
                return

    def _draw(self) -> None:
        # One column is left: a full line would wrap.
        width = self._width() - 1
        transfer = self._transfer
        if transfer is not None:
            text = progress_text(*transfer, self._clock() - self._transfer_began)[:width]
        else:
            text = self._text(width)[:width]
        self._out.write(f"\r\x1b[K\x1b[7m{text}\x1b[0m\r")
        self._out.flush()
        self._shown = True

    def _wipe(self) -> None:
        if self._shown:
            self._out.write("\r\x1b[K")
            self._shown = False


class _Above(io.TextIOBase):
    """stdout while the line is shown."""

    def __init__(self, line: BusyLine) -> None:
        self._line = line

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._line._out.encoding

    def write(self, text: str) -> int:
        self._line.write(text)
        return len(text)

    def flush(self) -> None:
        self._line.flush()

    def isatty(self) -> bool:
        return self._line._out.isatty()

    def fileno(self) -> int:
        return self._line._out.fileno()

    def writable(self) -> bool:
        return True
