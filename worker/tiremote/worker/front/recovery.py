"""After an engine's death: what is loaded again, what is put back, what is lost, and what the job that ran is told."""

from __future__ import annotations

import logging
import signal
from collections import deque
from collections.abc import Callable
from dataclasses import replace

from tiremote.protocol.code_requests import LoadRequest
from tiremote.protocol.errors import AsOf, EngineCrashed, EngineError, TiremoteError
from tiremote.protocol.messages import Cleanup
from tiremote.protocol.packing import unpack
from tiremote.protocol.values import Name
from tiremote.worker.front.answers import Answers
from tiremote.worker.front.changes import found
from tiremote.worker.front.copies import CopyStore
from tiremote.worker.front.pool import EnginePool
from tiremote.worker.front.refill import Refill
from tiremote.worker.front.sessions import Engine, Job, Loading, Mourning, Refilling, Session, Snapping, Word
from tiremote.worker.front.snapshots import name_of
from tiremote.worker.ledger import Ledger
from tiremote.worker.link import Done, Load

_log = logging.getLogger(__name__)


#: Runs also where the client has not heard yet what was lost.
_AT_ANY_RATE = LoadRequest | Cleanup

#: Engines in a row that may die of this and that before they have everything again.
_MOST_RELAPSES = 4


class Recovery:
    """Brings a session's next engine to where the last one was, as far as that is known: its units, then its arrays.

    The answer to the job that was lost waits a little for that.
    """

    def __init__(
        self, pool: EnginePool, answers: Answers, copies: CopyStore, patience: float, new_key: Callable[[], int]
    ) -> None:
        self._pool = pool
        self._answers = answers
        self._copies = copies
        self._patience = patience
        self._new_key = new_key
        self._refill = Refill(pool, copies, new_key)

    # ------------------------------------------------------------ a death

    def mourn(self, session: Session, job: Job, error: TiremoteError, now: float) -> None:
        """Keeps the answer to a job that its engine died with. Call it before `take_stock`."""
        if isinstance(error, EngineError):
            error.request = job.request.id
        contents = contents_of(session)
        session.mourning.append(
            Mourning(job=job, error=error, died_at=now, send_by=now + self._patience, contents=contents)
        )

    def leave_word(self, session: Session, error: EngineCrashed, now: float) -> None:
        """Turns away what waits, and has the next request of every other client be answered with what has happened.

        Nobody may go on with older contents without knowing: where there are any, no request runs that was sent before
        its client could hear of it. Call it after `mourn`, before `take_stock`.
        """
        contents = contents_of(session)
        if not contents or self.all_exact(session):
            return
        session.lost_in = session.generation
        told = {mourned.job.seat.token for mourned in session.mourning}
        waiting, session.queue = session.queue, deque()
        for job in waiting:
            if isinstance(job.request, _AT_ANY_RATE):
                session.queue.append(job)
                continue
            session.queued_bytes -= job.nbytes
            self._turn_away(job, error, now, contents, now, in_full=job.seat.token not in told)
            told.add(job.seat.token)
        for token in session.seats:
            if token not in told:
                session.unsaid[token] = Word(error=error, died_at=now, contents=contents)

    def _turn_away(
        self, job: Job, why: EngineCrashed, died_at: float, contents: tuple[str, ...], now: float, *, in_full: bool
    ) -> None:
        """Answers a job, in time, that is not run. Thousands may wait: only the first is told what is there again."""
        error = EngineCrashed(f"{why.message}; this request was not run", signal=why.signal)
        job.seat.session.mourning.append(
            Mourning(
                job=job,
                error=error,
                died_at=died_at,
                send_by=now + self._patience,
                contents=contents,
                in_full=in_full,
            )
        )

    def all_exact(self, session: Session) -> bool:
        """Whether everything that is there now would be put back, or loaded, as it is."""
        arrays = [one for one in session.arrays.values() if one.place is None]
        if any(not self._copies.is_exact(session.id, one.handle) for one in arrays):
            return False
        return all(self._copies.is_exact(session.id, name) for name in _fields(session))

    def pass_on(self, job: Job, now: float) -> bool:
        """Answers a job with a word that was left for its client, instead of running it; False where there is none."""
        session = job.seat.session
        # What is loaded does not depend on what was lost, and what is dropped even less.
        if isinstance(job.request, _AT_ANY_RATE):
            return False
        word, known = session.unsaid.pop(job.seat.token, None), job.request.generation
        if word is not None:
            self._turn_away(job, word.error, word.died_at, word.contents, now, in_full=True)
        elif known is not None and known <= session.lost_in:
            # It was on its way when its client was told, or before.
            why = EngineCrashed(f"engine {session.lost_in} of the session was lost, which this client did not know")
            self._turn_away(job, why, now, (), now, in_full=False)
        else:
            return False
        self.console(session, now)
        return True

    def take_stock(self, session: Session) -> None:
        """Nothing is held any more; what was is to be put back into the next engine."""
        session.stock.update(session.arrays)
        session.arrays.clear()
        session.ledger = Ledger()
        self._copies.engine_lost(session.id)

    def on_death(self, engine: Engine, session: Session, how: str) -> None:
        """An engine died. Where that was over the same chore for the second time, that is what kills them; where it
        goes on over others, each of them is as good as that."""
        chore = next(iter(engine.chores.values()), None)
        session.relapses += chore is not None
        if chore is None or (chore != session.suspect and session.relapses <= _MOST_RELAPSES):
            session.suspect = chore
            return
        session.suspect = None
        if isinstance(chore, Loading):
            self.give_up(session, chore.unit, f"the engine {how} while it was loaded again, twice")
        elif isinstance(chore, Refilling):
            self._refill.forget(engine, session, chore)
        else:
            # Those that are made by themselves: whoever asks for one is told what comes of it.
            session.snapshots.every_seconds = session.snapshots.every_runs = 0

    def give_up(self, session: Session, unit: str, reason: str) -> None:
        """Forgets a unit that cannot be loaded again."""
        session.units.pop(unit, None)
        self._copies.drop_unit(session.id, unit)
        session.broken[unit] = reason
        session.newest = next(reversed(session.units), None)

    # ------------------------------------------------------------ the next engine

    def restore(self, engine: Engine, session: Session, now: float) -> None:
        """Has every unit loaded again, in the order in which they were, and then what they held put back."""
        self._load_units(engine, session)
        self._go_on(engine, session, now)

    def _load_units(self, engine: Engine, session: Session) -> None:
        for name, unit in session.units.items():
            key = self._new_key()
            engine.chores[key] = Loading(unit=name)
            self._pool.tell(engine, Load(key=key, unit=name, version=unit.holding.version, source=unit.source))

    def on_loaded(self, engine: Engine, session: Session, unit: str, done: Done, now: float) -> None:
        """A unit was loaded again, or could not be."""
        if done.ok and done.changes is not None:
            # A unit that was loaded before this one may have been built again with it.
            for holding in done.changes.units:
                self._copies.loaded(session.id, holding.unit)
                if holding.unit in session.units:
                    unit_again = session.units[holding.unit]
                    unit_again.holding = replace(holding, loaded_by=unit_again.holding.loaded_by)
            found(session, done.changes)
        elif not done.ok:
            _, text, _ = unpack(done.body)
            engine.unloaded[unit] = f"it could not be loaded again: {text}"
        if not engine.chores and engine.unloaded:
            self._try_again(engine, session)
        self._go_on(engine, session, now)

    def _try_again(self, engine: Engine, session: Session) -> None:
        # A unit may use one that was replaced since, and stands behind it now: with that one there it loads.
        unloaded, engine.unloaded = engine.unloaded, {}
        if not engine.loads_again and len(unloaded) < len(session.units):
            engine.loads_again = True
            self._load_units(engine, session)
            return
        for name, reason in unloaded.items():
            self.give_up(session, name, reason)

    def _go_on(self, engine: Engine, session: Session, now: float) -> None:
        if not engine.chores and not engine.refilled:
            engine.refilled = True
            self._refill.begin(engine, session)
        self._refill.send(engine, session)
        if not engine.chores:
            session.stock.clear()
            session.relapses = 0
            if not isinstance(session.suspect, Snapping):
                session.suspect = None
        self.console(session, now)

    def on_put_back(self, engine: Engine, session: Session, chore: Refilling, done: Done, now: float) -> None:
        """An array was put back, or could not be."""
        if done.ok:
            self._copies.was_put_back(session.id, chore.target)
            for holding in done.changes.arrays if done.changes is not None else ():
                session.arrays[holding.handle.id] = holding
        else:
            _, text, _ = unpack(done.body)
            _log.info("session %s: %s could not be put back: %s", session.id, chore.name, text)
            self._refill.forget(engine, session, chore)
        self._go_on(engine, session, now)

    # ------------------------------------------------------------ what is told

    def console(self, session: Session, now: float, *, at_once: bool = False) -> None:
        """Answers the jobs that lost an engine, once all is there again or they have waited long enough.

        ``at_once``: there is nothing to wait for, because there will be no engine before somebody asks for one.
        """
        waiting = session.engine is None or session.engine.state != "serving" or session.engine.chores
        kept = []
        for mourned in session.mourning:
            if waiting and not at_once and now < mourned.send_by:
                kept.append(mourned)
                continue
            if isinstance(mourned.error, EngineError):
                mourned.error.generation = session.generation
                if mourned.in_full:
                    self.report(session, mourned.error, mourned)
            self._answers.job_failed(mourned.job, mourned.error)
        session.mourning = kept
        if not waiting:
            session.broken.clear()

    def report(self, session: Session, error: EngineError, mourned: Mourning | Word) -> None:
        """Says in the error what is there again, as of when, and what is lost."""
        # What is still on its way counts as there: where it fails, its handle is stale.
        error.restored = tuple(session.units)
        error.as_of = tuple(
            AsOf(
                name=name_of(session, copy.target),
                request=copy.request,
                op=copy.op,
                seconds=max(mourned.died_at - copy.at, 0.0),
            )
            for copy in self._copies.of(session.id)
        )
        there = {one.name for one in error.as_of}
        error.lost = tuple(name for name in mourned.contents if name not in there)
        error.lost += tuple(f"{unit} ({why})" for unit, why in session.broken.items())


def contents_of(session: Session) -> tuple[str, ...]:
    """The names of everything whose contents are gone with an engine."""
    arrays = [
        str(one.place) if one.place is not None else one.label or f"{one.handle.kind} {one.handle.id}"
        for one in (*session.stock.values(), *session.arrays.values())
    ]
    # A field that a handle was taken of is in both.
    return tuple(dict.fromkeys([*arrays, *map(str, _fields(session))]))


def _fields(session: Session) -> list[Name]:
    return [Name(unit=name, name=each) for name, unit in session.units.items() for each in unit.arrays]


def signal_name(returncode: int) -> str | None:
    """``SIGSEGV`` for -11, None for an exit."""
    if returncode >= 0:
        return None
    try:
        return signal.Signals(-returncode).name
    except ValueError:
        return f"signal {-returncode}"


def ending(returncode: int) -> str:
    """How a process ended, for people."""
    name = signal_name(returncode)
    return f"died of {name}" if name else f"ended with exit code {returncode}"
