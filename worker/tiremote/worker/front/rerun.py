"""A crashed request run again: in a debug engine, with the units as they were and copies of the arrays.

The engine gets what it needs as one does after a crash, by a `Recovery`. That one works on a session which nobody else
knows, and which has the id of the real one, so that handles mean the same.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tiremote.protocol.error_wire import error_from_wire
from tiremote.protocol.errors import AsOf, EngineCrashed
from tiremote.protocol.values import Handle
from tiremote.worker.front.answers import Answers
from tiremote.worker.front.copies import CopyStore
from tiremote.worker.front.crash import Crash
from tiremote.worker.front.crash_copies import CrashCopies
from tiremote.worker.front.findings import Finding, of_answer, of_death, of_trouble
from tiremote.worker.front.history import UnitHistory
from tiremote.worker.front.last_words import LastWords
from tiremote.worker.front.losses import as_of, contents, is_derivative
from tiremote.worker.front.pool import EnginePool
from tiremote.worker.front.recovery import Recovery, ending
from tiremote.worker.front.sessions import Engine, Loading, Loss, Refilling, Session, SnapshotPlan, Unit
from tiremote.worker.front.settings import Settings
from tiremote.worker.link import Done, Message, Ready, Work

_CHECKS = {"debug": True, "check_out_of_bound": True}

#: Its copies are the crash's own, by reference.
_NO_LIMIT = 1 << 62


@dataclass(frozen=True, kw_only=True, slots=True)
class Had:
    """What the request was run again with, as `CrashExplanation` has it."""

    as_of: tuple[AsOf, ...] = ()
    anew: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


class Rerun:
    """Sans-IO: fed with what its engine says. ``message`` is the request's, of ``session``; ``kept`` are the copies."""

    def __init__(
        self,
        session: Session,
        crash: Crash,
        kept: CrashCopies,
        message: tuple[bytes, tuple[Any, ...]],
        pool: EnginePool,
        answers: Answers,
        settings: Settings,
        new_key: Callable[[], int],
        now: float,
    ) -> None:
        self.crash = crash
        self.session = _as_it_was(session, crash, now)
        self._message = message
        self._pool = pool
        self._new_key = new_key
        copies = CopyStore(_NO_LIMIT)
        copies.add(session.id, kept.copies())
        self._loss = Loss(died_at=crash.at, held=contents(self.session, copies))
        self.session.loss = self._loss
        self._recovery = Recovery(pool, answers, copies, settings, new_key, anew=True)
        self._sent = False
        self._words = LastWords()

    # ------------------------------------------------------------ the engine

    def on_message(self, engine: Engine, message: Message, now: float) -> Finding | None:
        """Something the engine said; what was found, where that was the last of it."""
        match message:
            case Ready():
                return self._on_ready(engine, message, now)
            case Done():
                return self._on_done(engine, message, now)
            case _:
                return None

    def on_stderr(self, data: bytes) -> None:
        """Something the engine printed there."""
        self._words.feed(data)

    def on_exit(self, engine: Engine, returncode: int) -> Finding:
        """The engine is gone."""
        how = f"the engine {ending(returncode)}"
        if self._sent:
            return of_death(returncode, self._words.frames(self.crash.text_of))
        chore = next(iter(engine.chores.values()), None)
        if engine.state == "starting":
            self._pool.not_prepared(engine, EngineCrashed(f"{how} while it started"))
        return of_trouble(f"{how} while {chore.unit} was loaded" if isinstance(chore, Loading) else how)

    def _on_ready(self, engine: Engine, ready: Ready, now: float) -> Finding | None:
        starting = engine.state == "starting"
        if ready.failure is not None:
            error = error_from_wire(*ready.failure)
            if starting:
                self._pool.not_prepared(engine, error)
            return of_trouble(error.message)
        if starting:
            self._pool.prepared(engine, ready.info)
            return None
        engine.state, engine.info = "serving", ready.info
        self._recovery.restore(engine, self.session, now)
        return self._go_on(engine)

    def _on_done(self, engine: Engine, done: Done, now: float) -> Finding | None:
        chore = engine.chores.pop(done.key, None)
        if chore is None:
            return of_answer(done, engine.info.arch if engine.info else "")
        if done.poisoned is not None:
            return of_trouble(f"the engine {done.poisoned}")
        if isinstance(chore, Loading):
            self._recovery.on_loaded(engine, self.session, chore.unit, done, now)
        elif isinstance(chore, Refilling):
            self._recovery.on_put_back(engine, self.session, chore, done, now)
        return self._go_on(engine)

    def _go_on(self, engine: Engine) -> Finding | None:
        """Sends the request, once everything is there."""
        if not engine.restored or self._sent:
            return None
        lacking = next((one for one in self._missing() if one.id in self.crash.needs), None)
        if lacking is not None:
            return of_trouble(self._why_not(lacking))
        self._sent = True
        header, buffers = self._message
        self._pool.tell(engine, Work(key=self._new_key(), header=header), buffers)
        return None

    def _why_not(self, handle: Handle) -> str:
        name = self._loss.held[handle]
        if handle in self.session.unrestored:
            return self.session.unrestored[handle]
        return (
            f"only a handle leads to {name}, and of an object there is no copy: give it a name in its unit, such as "
            "model = Model(), and call it by that"
        )

    # ------------------------------------------------------------ what it had

    def had(self) -> Had:
        """What there was of what had been lost."""
        held, back = self._loss.held, self.session.put_back
        missing = self._missing()
        units = (f"{unit} ({why})" for unit, why in self.session.broken.items())
        return Had(
            as_of=as_of(self.session, back.values(), self._loss),
            anew=tuple(name for target, name in held.items() if target not in back and target not in missing),
            missing=(*(self.session.unrestored.get(one, held[one]) for one in missing), *units),
        )

    def _missing(self) -> list[Handle]:
        """What was kept under handles and is not there again."""
        there = {*self.session.arrays, *self.session.stock}
        held = [one for one in self._loss.held if isinstance(one, Handle) and not is_derivative(one)]
        return [one for one in held if one.id not in there]


def _as_it_was(session: Session, crash: Crash, now: float) -> Session:
    """A session of that id as it was, but with checks, for an engine to be brought to where that was."""
    then = Session(
        id=session.id,
        name=None,
        owner=session.owner,
        options={**session.options, **_CHECKS},
        lease=session.lease,
        last_seen=now,
        last_busy=now,
        generation=crash.generation - 1,
        snapshots=SnapshotPlan(every_seconds=0.0, every_runs=0),
        last_words=True,
    )
    then.units = OrderedDict(
        (name, Unit(holding=unit.holding, source=unit.source, history=UnitHistory(name, 1), arrays=unit.arrays))
        for name, unit in crash.units.items()
    )
    then.stock.update(dict(crash.holdings))
    return then
