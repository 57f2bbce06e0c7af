"""Sends what was saved together as one, and tells what became of it."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

from tiremote.client.watch.files import WatchedFile
from tiremote.client.watch.order import imported, imports_of, load_order, parsed, related
from tiremote.client.watch.places import failure_text
from tiremote.client.watch.settling import Edit
from tiremote.protocol.errors import CompileError, Interrupted, Refused, TiremoteError, WorkerUnreachable
from tiremote.protocol.receipts import Receipt

if TYPE_CHECKING:
    from tiremote.client.session import Session

#: Seconds after which it is said what a load waits for. Most compile in less.
PATIENCE = 1.0
#: After one of these nothing else is sent: nobody is there, or somebody wants it to end.
_HOPELESS = (WorkerUnreachable, Interrupted)


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
        outcomes |= self._load_all(waiting)
        return tuple(outcomes[unit] for unit in load_order(self._imports) if unit in outcomes)

    def _load_all(self, waiting: AbstractSet[str]) -> dict[str, Reload]:
        """As one where that can be. A file at fault takes only those along that do not go without it."""
        outcomes: dict[str, Reload] = {}
        blamed: dict[str, Reload] = {}
        left = waiting
        together = self._ready(waiting)
        while together:
            outcomes |= self._load(together)
            error = outcomes[together[0]].error
            if isinstance(error, _HOPELESS):
                return outcomes
            if error is None:
                # For those that were left out nothing would be different now.
                left = waiting - set(together) - blamed.keys()
                break
            fault = error.unit if isinstance(error, CompileError) else None
            if len(together) == 1:
                left = waiting - set(together)
                break
            if fault not in together:
                break
            blamed[fault] = outcomes[fault]
            together = self._ready(set(together) - {fault})
        outcomes |= self._load_each(left)
        return {unit: self._explained(each, blamed) for unit, each in outcomes.items()}

    def _load_each(self, waiting: AbstractSet[str]) -> dict[str, Reload]:
        """One after another, and again those that failed for what is different since."""
        outcomes: dict[str, Reload] = {}
        while waiting:
            taken = set()
            for unit in load_order(self._imports):
                if unit in waiting:
                    outcomes |= self._load([unit])
                    if outcomes[unit].ok:
                        taken.add(unit)
            # A helper may be refused for what a file still uses that comes later, and was changed as well.
            waiting = related(self._imports, taken) & self._failed.keys()
        return outcomes

    def _ready(self, units: AbstractSet[str]) -> list[str]:
        """Those of the units whose imports are loaded, or come along."""
        ready = [unit for unit in load_order(self._imports) if unit in units]
        while absent := {unit for unit in ready if not self._imports[unit] <= self._loaded.union(ready)}:
            ready = [unit for unit in ready if unit not in absent]
        return ready

    def _load(self, units: Sequence[str]) -> dict[str, Reload]:
        """Sends the units, as one if they are several."""
        files = {unit: self._files[unit] for unit in units}
        absent = [self._files[each].shown for each in sorted(self._imports[units[0]] - self._loaded.union(units))]
        if absent:
            error = Refused(f"it imports {', '.join(absent)}, not loaded so far")
            return {unit: Reload(file=file, error=error, files=self._all) for unit, file in files.items()}
        timer = self._timer(PATIENCE, lambda: self._tell_what_runs(units))
        started = self._clock()
        timer.start()
        try:
            receipts = self._sent(units)
        except TiremoteError as error:
            self._failed |= dict.fromkeys(units, error)
            seconds = self._clock() - started
            return {
                unit: Reload(file=file, error=error, seconds=seconds, files=self._all) for unit, file in files.items()
            }
        finally:
            timer.cancel()
        seconds = self._clock() - started
        for unit in units:
            self._failed.pop(unit, None)
        self._loaded.update(units)
        return {
            unit: Reload(file=file, receipt=receipts[unit], seconds=seconds, files=self._all)
            for unit, file in files.items()
        }

    def _sent(self, units: Sequence[str]) -> Mapping[str, Receipt]:
        if len(units) == 1:
            return {units[0]: self._gpu.compile_and_load(self._texts[units[0]], units[0])}
        return self._gpu.compile_and_load_all({unit: self._texts[unit] for unit in units})

    def _explained(self, reload: Reload, blamed: Mapping[str, Reload]) -> Reload:
        """The outcome with the error that helps: of one that fails without another it is that this one is at fault."""
        unit, error = reload.file.unit, reload.error
        if error is not None and unit in blamed:
            return blamed[unit]
        if not isinstance(error, CompileError) or parsed(self._texts[unit]) is None:
            return reload
        failed = blamed.keys() & self._failed.keys()
        needed = failed & imported(self._imports, unit)
        if error.unit in failed:
            # It was refused for the text that this one had before.
            needed = needed | {error.unit}
        if not needed:
            return reload
        shown = ", ".join(self._files[each].shown for each in sorted(needed))
        return replace(reload, error=Refused(f"it goes with {shown}, which was saved with it and does not load"))

    def _missing(self, edit: Edit) -> TiremoteError:
        stays = "; what was loaded from it stays" if edit.file.unit in self._loaded else ""
        return Refused(f"the file {edit.reading.problem}{stays}")

    def _tell_what_runs(self, units: Sequence[str]) -> None:
        try:
            session = self._gpu.status().session
        except TiremoteError:
            return  # the load itself will tell
        running = session.running if session is not None else None
        shown = ", ".join(self._files[unit].shown for unit in units)
        several = len(units) > 1
        if running is None or (running.op.startswith("compile") and units[0] in running.target):
            self._note(f"{shown} {'are' if several else 'is'} being compiled ...")
        else:
            waits = "wait their" if several else "waits its"
            self._note(f"{shown} {waits} turn behind {running.target} ({running.seconds:.1f} s so far) ...")
