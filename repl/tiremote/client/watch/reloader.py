"""Sends what was saved, imports first, and tells what became of it."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from tiremote.client.watch.files import WatchedFile
from tiremote.client.watch.order import imports_of, load_order, related
from tiremote.client.watch.places import failure_text
from tiremote.client.watch.settling import Edit
from tiremote.protocol.errors import Refused, TiremoteError, WorkerUnreachable
from tiremote.protocol.receipts import Receipt

if TYPE_CHECKING:
    from tiremote.client.session import Session

#: Seconds after which it is said what a load waits for. Most compile in less.
PATIENCE = 1.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Reload:
    """What became of one saved file: a ``receipt``, or the ``error`` for which what was loaded before stays.

    ``seconds`` is from sending it to the answer, 0 where it was not sent.
    """

    file: WatchedFile
    receipt: Receipt | None = None
    error: TiremoteError | None = None
    seconds: float = 0.0
    #: All that are watched: an error may be in another file than the one that was saved.
    files: tuple[WatchedFile, ...] = field(default=(), repr=False)

    @property
    def ok(self) -> bool:
        """Whether it is on the worker."""
        return self.receipt is not None

    def __str__(self) -> str:
        if self.error is not None:
            return f"{self.file}: {failure_text(self.error, self.files)}"
        return "; ".join(line.strip() for line in str(self.receipt).splitlines())


def print_reloads(reloads: tuple[Reload, ...]) -> None:
    """One line for each file to stderr, and where an error is. What `Session.watch` does by default."""
    for each in reloads:
        print(each, file=sys.stderr, flush=True)


class Timer(Protocol):
    """As far as `threading.Timer` is needed."""

    def start(self) -> None: ...
    def cancel(self) -> None: ...


class Reloader:
    """``note`` takes lines on what takes long."""

    def __init__(
        self,
        gpu: Session,
        files: Sequence[WatchedFile],
        *,
        note: Callable[[str], None],
        clock: Callable[[], float],
        timer: Callable[[float, Callable[[], None]], Timer] = threading.Timer,
    ) -> None:
        self._gpu = gpu
        self._all = tuple(files)
        self._files = {file.unit: file for file in files}
        self._note = note
        self._clock = clock
        self._timer = timer
        self._texts: dict[str, str] = {}
        self._imports: dict[str, frozenset[str]] = {unit: frozenset() for unit in self._files}
        #: Units whose newest text was not taken, and why not.
        self._failed: dict[str, TiremoteError | None] = {}
        self._loaded: set[str] = set()

    def load(self, batch: Sequence[Edit]) -> tuple[Reload, ...]:
        """Loads what changed, and again what failed before and may have failed for what is different now."""
        outcomes: dict[str, Reload] = {}
        for edit in batch:
            unit = edit.file.unit
            if edit.reading.problem:
                outcomes[unit] = Reload(file=edit.file, error=self._missing(edit), files=self._all)
                self._failed.pop(unit, None)
                continue
            self._texts[unit] = edit.reading.text
            self._imports[unit] = imports_of(edit.reading.text, self._files.keys() - {unit})
            self._failed[unit] = None
        changed = {edit.file.unit for edit in batch if not edit.reading.problem}
        waiting = related(self._imports, changed) & self._failed.keys()
        # What never arrived is none of its own fault.
        waiting |= {unit for unit, error in self._failed.items() if isinstance(error, WorkerUnreachable)}
        while waiting:
            taken = set()
            for unit in load_order(self._imports):
                if unit in waiting:
                    outcomes[unit] = self._load(unit)
                    if outcomes[unit].ok:
                        taken.add(unit)
            # A helper may be refused for what a file still uses that comes later, and was changed as well.
            waiting = related(self._imports, taken) & self._failed.keys()
        return tuple(outcomes[unit] for unit in load_order(self._imports) if unit in outcomes)

    def _load(self, unit: str) -> Reload:
        file = self._files[unit]
        absent = [self._files[each].shown for each in sorted(self._imports[unit] - self._loaded)]
        if absent:
            error = Refused(f"it imports {', '.join(absent)}, not loaded so far")
            return Reload(file=file, error=error, files=self._all)
        timer = self._timer(PATIENCE, lambda: self._tell_what_runs(file))
        started = self._clock()
        timer.start()
        try:
            receipt = self._gpu.compile_and_load(self._texts[unit], unit)
        except TiremoteError as error:
            self._failed[unit] = error
            return Reload(file=file, error=error, seconds=self._clock() - started, files=self._all)
        finally:
            timer.cancel()
        self._failed.pop(unit, None)
        self._loaded.add(unit)
        return Reload(file=file, receipt=receipt, seconds=self._clock() - started, files=self._all)

    def _missing(self, edit: Edit) -> TiremoteError:
        stays = "; what was loaded from it stays" if edit.file.unit in self._loaded else ""
        return Refused(f"the file {edit.reading.problem}{stays}")

    def _tell_what_runs(self, file: WatchedFile) -> None:
        try:
            session = self._gpu.status().session
        except TiremoteError:
            return  # the load itself will tell
        running = session.running if session is not None else None
        if running is None or running.target == f"compile {file.unit}":
            self._note(f"{file} is being compiled ...")
        else:
            self._note(f"{file} waits its turn behind {running.target} ({running.seconds:.1f} s so far) ...")
