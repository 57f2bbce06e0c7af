"""``tiremote watch``: tells what became of each save, and calls what is to be called after it."""

from __future__ import annotations

import os
import queue
import sys
import time
from collections.abc import Callable, Sequence

from tiremote.client import Reload, Session
from tiremote.client.watch import Watch, failure_text, watched_files
from tiremote.protocol.errors import TiremoteError
from tiremote.protocol.receipts import Receipt
from tiremote.repl.cells import Cell
from tiremote.repl.evaluate import Evaluator
from tiremote.repl.render import PLAIN, Style, located_text
from tiremote.repl.shown import value_text

#: Windows does not let Ctrl-C break a wait without a limit.
_A_WHILE = 1.0


def terminal_style() -> Style:
    """Colours where stderr, on which reloads are told, is a terminal that has them."""
    colour = sys.stderr.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return Style(colour=colour)


class Watching:
    """``write`` takes what the call shows, ``note`` what is told of reloads; both are used from two threads."""

    def __init__(
        self,
        gpu: Session,
        files: Sequence[str],
        *,
        call: str | None,
        write: Callable[[str], None],
        note: Callable[[str], None],
        style: Style = PLAIN,
        clock: Callable[[], float] = time.perf_counter,
        time_of_day: Callable[[], str] = lambda: time.strftime("%H:%M:%S"),
    ) -> None:
        self._gpu = gpu
        self._paths = files
        self._files = watched_files(files)
        self._call = call
        self._write = write
        self._note = note
        self._style = style
        self._clock = clock
        self._time_of_day = time_of_day
        self._evaluator = Evaluator(gpu, show=note, display=lambda value: write(value_text(value)))
        #: The newest of each unit, imported ones before those that import them: so they are loaded first.
        self._receipts: dict[str, Receipt] = {}
        self._saves: queue.SimpleQueue[tuple[Reload, ...]] = queue.SimpleQueue()

    def run(self, *, once: bool = False) -> int:
        """Until Ctrl-C, or with ``once`` after the first load and call. The exit status."""
        try:
            with Watch(self._gpu, *self._paths, on_reload=self.reloaded, on_note=self._tell):
                good = self.after_saves()
                if once:
                    return 0 if good else 1
                self._tell(f"watching {', '.join(map(str, self._files))}; Ctrl-C ends it")
                while True:
                    self.after_saves()
        except KeyboardInterrupt:
            self._tell("the watch has ended")
            # The way it is meant to end, but of one that was to do its work once.
            return 130 if once else 0

    def reloaded(self, reloads: tuple[Reload, ...]) -> None:
        """Told at once, from whichever thread, also while a call runs."""
        for each in reloads:
            if each.error is None:
                self._tell(str(each))
            else:
                head, *places = failure_text(each.error, each.files).split("\n")
                self._tell("\n".join([self._style.error(f"{each.file}: {head}"), *places]))
        self._saves.put(reloads)

    def after_saves(self) -> bool:
        """Waits for the next save that was loaded, and calls what is to be called, once for all that came meanwhile.

        Whether all went well.
        """
        saves = [self._next()]
        while not self._saves.empty():
            saves.append(self._saves.get())
        good = [save for save in saves if all(each.ok for each in save)]
        if self._call is None or not good:
            return saves == good
        try:
            self._bind([each for save in saves for each in save])
            return self._run(self._call) and saves == good
        except TiremoteError as error:  # of binding names
            self._tell(located_text(error, self._style, self._files))
            return False

    def _next(self) -> tuple[Reload, ...]:
        while True:
            try:
                return self._saves.get(timeout=_A_WHILE)
            except queue.Empty:
                continue

    def _bind(self, reloads: Sequence[Reload]) -> None:
        """Names as at the prompt: what the files define. Where two define one, it is that of the importing file."""
        names = self._evaluator.names
        self._receipts |= {each.receipt.unit: each.receipt for each in reloads if each.receipt is not None}
        for receipt in [each.receipt for each in reloads if each.receipt is not None]:
            names.values.setdefault(receipt.unit, self._gpu[receipt.unit])
            names.forget_unit(receipt.unit, receipt.removed)
            units = list(self._receipts)
            after = [self._receipts[unit] for unit in units[units.index(receipt.unit) + 1 :]]
            hidden = {definition.name for each in after for definition in each.definitions}
            for definition in receipt.definitions:
                if definition.name not in hidden:
                    names.bind_remote(self._gpu, receipt.unit, definition)

    def _run(self, call: str) -> bool:
        self._note(self._style.strong(f">>> {call}"))
        started = self._clock()
        try:
            self._evaluator.run(Cell(call))
        except KeyboardInterrupt as error:
            self._tell(located_text(error, self._style) + " (again to end the watch)")
            return False
        except BaseException as error:
            self._note(located_text(error, self._style, self._files))
            return False
        finally:
            self._tell(f"{call} took {(self._clock() - started) * 1e3:.1f} ms")
        return True

    def _tell(self, text: str) -> None:
        self._note(f"{self._time_of_day()} {text}")
