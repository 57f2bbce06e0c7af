"""After an engine's death: what is loaded again, what is put back, what is lost, and what the job that ran is told."""

from __future__ import annotations

import logging
import signal
from collections import deque
from collections.abc import Callable
from dataclasses import replace

from tiremote.protocol.code_requests import LoadRequest
from tiremote.protocol.errors import EngineCrashed, EngineError, TiremoteError
from tiremote.protocol.messages import Cleanup
from tiremote.protocol.packing import unpack
from tiremote.worker.front.answers import Answers
from tiremote.worker.front.changes import found
from tiremote.worker.front.copies import CopyStore
from tiremote.worker.front.losses import contents, report, targets
from tiremote.worker.front.pool import EnginePool
from tiremote.worker.front.refill import Refill
from tiremote.worker.front.sessions import Engine, Job, Loading, Loss, Mourning, Refilling, Session, Snapping, Word
from tiremote.worker.front.settings import Settings
from tiremote.worker.ledger import Ledger
from tiremote.worker.link import Done, Load

_log = logging.getLogger(__name__)


#: Runs also where the client has not heard yet what was lost.
_AT_ANY_RATE = LoadRequest | Cleanup

#: Engines in a row that may die of this and that before they have everything again.
_MOST_RELAPSES = 4


class Recovery:
    """Brings a session's next engine to where the last one was, as far as that is known: its units, then its arrays.

    The answer to the job that was lost waits a little for that. ``anew``: arrays of which there is no copy are made
    again as well, with zeros.
    """

    def __init__(
        self,
        pool: EnginePool,
        answers: Answers,
        copies: CopyStore,
        settings: Settings,
        new_key: Callable[[], int],
        *,
        anew: bool = False,
    ) -> None:
        self._pool = pool
        self._answers = answers
        self._copies = copies
        self._settings = settings
        self._new_key = new_key
        self._refill = Refill(pool, copies, new_key, anew=anew)

    # ------------------------------------------------------------ a death

    def on_death(self, engine: Engine, session: Session, how: str, now: float) -> None:
        """An engine died. Where that was over the same chore for the second time, that is what kills them; where it
        goes on over others, each of them is as good as that."""
        if engine.restored or session.loss is None:
            session.loss = Loss(died_at=now, held=contents(session, self._copies))
            session.broken.clear()
            session.unrestored.clear()
        chore = next(iter(engine.chores.values()), None)
        session.relapses += chore is not None
        if chore is None or (chore != session.suspect and session.relapses <= _MOST_RELAPSES):
            session.suspect = chore
            return
        session.suspect = None
        if isinstance(chore, Loading):
            self.give_up(session, chore.unit, f"the engine {how} while it was loaded again, twice")
        elif isinstance(chore, Refilling):
            self._refill.forget(engine, session, chore, f"the engine {how} while it was put back")
        else:
            # Those that are made by themselves: whoever asks for one is told what comes of it.
            session.snapshots.every_seconds = session.snapshots.every_runs = 0

    def mourn(self, session: Session, job: Job, error: TiremoteError, now: float) -> None:
        """Keeps the answer to a job that its engine died with."""
        if isinstance(error, EngineError):
            error.request = job.request.id
        loss = session.loss or Loss(died_at=now)
        self._answer_later(job, error, loss, now, in_full=True)

    def _answer_later(self, job: Job, error: TiremoteError, loss: Loss, now: float, *, in_full: bool) -> None:
        settings = self._settings
        job.seat.session.mourning.append(
            Mourning(
                job=job,
                error=error,
                hint_at=now + settings.hint,
                send_by=now + settings.mourning,
                loss=loss,
                in_full=in_full,
                hinted=not in_full,
            )
        )

    def leave_word(self, session: Session, error: EngineCrashed, now: float) -> None:
        """Turns away what waits, and has the next request of every other client be answered with what has happened.

        Nobody may go on with older contents without knowing: where there are any, no request runs that was sent before
        its client could hear of it. Call it after `mourn`, before `take_stock`.
        """
        loss = session.loss
        if loss is None or all(self._copies.is_exact(session.id, target) for target in loss.held):
            return
        session.lost_in = session.generation
        told = {mourned.job.seat.token for mourned in session.mourning}
        word = Word(error=error, loss=loss)
        self._turn_away_waiting(session, word, now, told, set(session.seats))
        for token in session.seats:
            if token not in told:
                session.unsaid[token] = word

    def _turn_away_waiting(self, session: Session, word: Word, now: float, told: set[str], seats: set[str]) -> None:
        """What waits of these ``seats``; only who is not among the ``told`` is told everything, and is then."""
        waiting, session.queue = session.queue, deque()
        for job in waiting:
            token = job.seat.token
            if token not in seats or isinstance(job.request, _AT_ANY_RATE):
                session.queue.append(job)
                continue
            session.queued_bytes -= job.nbytes
            self._turn_away(job, word, now, in_full=token not in told)
            told.add(token)

    def _turn_away(self, job: Job, word: Word, now: float, *, in_full: bool) -> None:
        """Answers a job, in time, that is not run. Thousands may wait: only the first is told what is there again."""
        error = EngineCrashed(f"{word.error.message}; this request was not run", signal=word.error.signal)
        self._answer_later(job, error, word.loss, now, in_full=in_full)

    def all_exact(self, session: Session) -> bool:
        """Whether everything that is there now would be put back, or loaded, as it is."""
        return all(self._copies.is_exact(session.id, target) for target in targets(session, self._copies))

    def pass_on(self, job: Job, now: float) -> bool:
        """Answers a job with a word that was left for its client, instead of running it; False where there is none."""
        session = job.seat.session
        # What is loaded does not depend on what was lost, and what is dropped even less.
        if isinstance(job.request, _AT_ANY_RATE):
            return False
        word, known = session.unsaid.pop(job.seat.token, None), job.request.generation
        if word is not None:
            self._turn_away(job, word, now, in_full=True)
        elif known is not None and known <= session.lost_in:
            # It was on its way when its client was told, or before.
            why = EngineCrashed(f"engine {session.lost_in} of the session was lost, which this client did not know")
            self._turn_away(job, Word(error=why, loss=Loss(died_at=now)), now, in_full=False)
        else:
            return False
        self.console(session, now)
        return True

    def take_stock(self, session: Session) -> None:
        """Nothing is held any more; what was is to be put back into the next engine."""
        session.stock.update(session.arrays)
        session.arrays.clear()
        session.ledger = Ledger()
        session.put_back.clear()
        self._copies.engine_lost(session.id)

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
        if not engine.chores and not engine.restored:
            self._end(engine, session, session.loss or Loss(died_at=now), now)
        self.console(session, now)

    def _end(self, engine: Engine, session: Session, loss: Loss, now: float) -> None:
        """Everything is there that can be."""
        engine.restored = True
        session.stock.clear()
        session.relapses = 0
        if not isinstance(session.suspect, Snapping):
            session.suspect = None
        failed = [each for target, each in session.unrestored.items() if target in loss.held]
        failed += [f"{unit} ({why})" for unit, why in session.broken.items()]
        if failed:
            self._leave_word_of(session, f"could not be put back: {', '.join(failed)}", loss, now)

    def _leave_word_of(self, session: Session, what: str, loss: Loss, now: float) -> None:
        """Of what should be there again and is not; whoever waits for an answer that tells it is told by that."""
        session.lost_in = max(session.lost_in, session.generation - 1)
        told = {mourned.job.seat.token for mourned in session.mourning if mourned.in_full} | set(session.unsaid)
        word, seats = Word(error=EngineCrashed(what), loss=loss), set(session.seats) - told
        self._turn_away_waiting(session, word, now, told, seats)
        session.unsaid.update(dict.fromkeys(seats - told, word))

    def on_put_back(self, engine: Engine, session: Session, chore: Refilling, done: Done, now: float) -> None:
        """An array was put back, or could not be."""
        if done.ok:
            self._copies.was_put_back(session.id, chore.target)
            if chore.copy is not None and all(one.target != chore.target for one in engine.refills):
                session.put_back[chore.target] = chore.copy
            for holding in done.changes.arrays if done.changes is not None else ():
                session.arrays[holding.handle.id] = holding
        else:
            _, text, _ = unpack(done.body)
            _log.info("session %s: %s could not be put back: %s", session.id, chore.name, text)
            self._refill.forget(engine, session, chore, text)
        self._go_on(engine, session, now)

    # ------------------------------------------------------------ what is told

    def console(self, session: Session, now: float, *, at_once: bool = False) -> None:
        """Answers the jobs that lost an engine, once all is there again or they have waited long enough.

        ``at_once``: there is nothing to wait for, because there will be no engine before somebody asks for one.
        """
        waiting = session.engine is None or not session.engine.restored
        kept = []
        for mourned in session.mourning:
            if waiting and not at_once and now < mourned.send_by:
                if not mourned.hinted and now >= mourned.hint_at:
                    mourned.hinted = True
                    hint = f"{mourned.error.message}; what was there is brought back"
                    self._answers.event(mourned.job, "warning", hint)
                kept.append(mourned)
                continue
            if isinstance(mourned.error, EngineError):
                mourned.error.generation = session.generation
                if mourned.in_full:
                    report(mourned.error, session, mourned.loss, self._copies)
            self._answers.job_failed(mourned.job, mourned.error)
        session.mourning = kept


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
