"""After an engine's death: what is loaded again, what is lost, and what the job that ran is told."""

from __future__ import annotations

import signal
from collections.abc import Callable

from tiremote.protocol.errors import EngineError, TiremoteError
from tiremote.protocol.packing import unpack
from tiremote.worker.front.answers import Answers
from tiremote.worker.front.pool import EnginePool
from tiremote.worker.front.sessions import Engine, Job, Mourning, Session
from tiremote.worker.link import Done, Load


class Recovery:
    """Loads a session's units into its next engine. The answer to the job that was lost waits a little for that."""

    def __init__(self, pool: EnginePool, answers: Answers, patience: float, new_key: Callable[[], int]) -> None:
        self._pool = pool
        self._answers = answers
        self._patience = patience
        self._new_key = new_key

    def mourn(self, session: Session, job: Job, error: TiremoteError, now: float) -> None:
        """Keeps the answer to a job that its engine died with. Call it before the arrays are forgotten."""
        if isinstance(error, EngineError):
            error.request = job.request.id
            error.lost = _contents(session)
        session.mourning.append(Mourning(job=job, error=error, send_by=now + self._patience))

    def restore(self, engine: Engine, session: Session) -> None:
        """Has every unit loaded again, in the order in which they were."""
        for name, unit in session.units.items():
            key = self._new_key()
            engine.loading[key] = name
            self._pool.tell(engine, Load(key=key, unit=name, version=unit.holding.version, source=unit.source))

    def on_loaded(self, engine: Engine, session: Session, done: Done, now: float) -> None:
        """A unit was loaded again, or could not be."""
        name = engine.loading.pop(done.key)
        if done.ok and done.changes is not None:
            # A unit that was loaded before this one may have been built again with it.
            for holding in done.changes.units:
                if holding.unit in session.units:
                    session.units[holding.unit].holding = holding
        elif not done.ok:
            _, text, _ = unpack(done.body)
            engine.unloaded[name] = f"it could not be loaded again: {text}"
        if not engine.loading and engine.unloaded:
            self._try_again(engine, session)
        self.console(session, now)

    def _try_again(self, engine: Engine, session: Session) -> None:
        # A unit may use one that was replaced since, and stands behind it now: with that one there it loads.
        unloaded, engine.unloaded = engine.unloaded, {}
        if not engine.loads_again and len(unloaded) < len(session.units):
            engine.loads_again = True
            self.restore(engine, session)
            return
        for name, reason in unloaded.items():
            self.give_up(session, name, reason)

    def on_death(self, engine: Engine, session: Session, how: str) -> None:
        """An engine died. Where that was at the same unit for the second time, the unit is what kills them."""
        if not engine.loading:
            session.suspect = None
            return
        unit = next(iter(engine.loading.values()))
        if session.suspect == unit:
            self.give_up(session, unit, f"the engine {how} while it was loaded again, twice")
        session.suspect = unit

    def give_up(self, session: Session, unit: str, reason: str) -> None:
        """Forgets a unit that cannot be loaded again."""
        session.units.pop(unit, None)
        session.broken[unit] = reason
        session.newest = next(reversed(session.units), None)

    def console(self, session: Session, now: float) -> None:
        """Answers the jobs that lost an engine, once all is loaded again or they have waited long enough."""
        waiting = session.engine is None or session.engine.state != "serving" or session.engine.loading
        kept = []
        for mourned in session.mourning:
            if waiting and now < mourned.send_by:
                kept.append(mourned)
                continue
            if isinstance(mourned.error, EngineError):
                mourned.error.restored = tuple(session.units)
                mourned.error.lost += tuple(f"{unit} ({why})" for unit, why in session.broken.items())
            self._answers.job_failed(mourned.job, mourned.error)
        session.mourning = kept
        if not waiting:
            session.broken.clear()


def _contents(session: Session) -> tuple[str, ...]:
    """The names of everything whose contents are gone with an engine."""
    arrays = [one.label or f"{one.handle.kind} {one.handle.id}" for one in session.arrays.values()]
    fields = [
        f"{name}.{definition.name}"
        for name, unit in session.units.items()
        for definition in unit.holding.definitions
        if definition.kind in ("field", "ndarray")
    ]
    # A field that a handle was taken of is in both.
    return tuple(dict.fromkeys(arrays + fields))


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
