"""What is done about an engine that has died: whose jobs were lost, whose go to the next one, and what each is told."""

from __future__ import annotations

from tiremote.protocol.errors import EngineCrashed, TiremoteError
from tiremote.protocol.messages import Bench, Compare, Run
from tiremote.worker.front.explaining import Explaining
from tiremote.worker.front.recovery import Recovery, ending, signal_name
from tiremote.worker.front.sessions import Engine, Job, Session, Snapping, describe
from tiremote.worker.front.snapshots import Snapshots

#: What launches kernels.
_LAUNCHES = Run | Bench | Compare


class Burial:
    """Of engines that served a session."""

    def __init__(self, recovery: Recovery, snapshots: Snapshots, explaining: Explaining) -> None:
        self._recovery = recovery
        self._snapshots = snapshots
        self._explaining = explaining

    def bury(self, engine: Engine, session: Session, returncode: int, begun: int, now: float) -> None:
        """``begun`` is the key of the job that it began last."""
        how = engine.fate or ending(returncode)
        signal = None if engine.fate else signal_name(returncode)
        running = engine.inflight[0] if engine.inflight else None
        ran = running is not None and (running.key <= begun or running.stop is not None)
        doing = f"during {describe(running)}" if ran and running is not None else "while nothing ran"
        what = f"the engine {how} {doing}{_suspicion(engine, running if ran else None)}"
        self._recovery.on_death(engine, session, how, now)
        for job in self._lost(engine, session, begun):
            error: TiremoteError = EngineCrashed(what if job is running else f"the engine {how} during {describe(job)}")
            if job.stop is not None:
                error = job.stop.error
            elif isinstance(error, EngineCrashed):
                error.signal = signal
                error.explainable = self._explaining.note(job, f"the engine {how}", now) or None
            self._recovery.mourn(session, job, error, now)
        if all(isinstance(chore, Snapping) for chore in engine.chores.values()):
            # Else it was being brought to where the last one was: nothing is lost that was not lost before.
            self._recovery.leave_word(session, EngineCrashed(what, signal=signal), now)
        self._recovery.take_stock(session)
        self._snapshots.died(session)

    def _lost(self, engine: Engine, session: Session, begun: int) -> list[Job]:
        """The jobs that it had begun. Those that it had not, the next engine takes, in the same order."""
        lost = []
        while engine.inflight and (engine.inflight[0].key <= begun or engine.inflight[0].stop is not None):
            lost.append(engine.inflight.popleft())
        for waiting in reversed(engine.inflight):
            if waiting.withdrawn:
                continue
            waiting.started = None
            session.queue.appendleft(waiting)
            session.queued_bytes += waiting.nbytes
        return lost


def _suspicion(engine: Engine, job: Job | None) -> str:
    """A device may tell of a bad access only when it is asked for something else, after the launch that made it."""
    if engine.fate is None or engine.launched is None or (job is not None and isinstance(job.request, _LAUNCHES)):
        return ""
    return f"; what ran before that, {engine.launched}, may be the cause"
