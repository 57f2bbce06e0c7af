"""How a worker ends: what runs may end, what is kept on disk is copied once more, and the engines leave."""

from __future__ import annotations

from tiremote.worker.front.effects import Effect, Stop
from tiremote.worker.front.scheduler import Scheduler
from tiremote.worker.front.session_table import SessionTable
from tiremote.worker.front.sessions import Session
from tiremote.worker.front.settings import Settings
from tiremote.worker.front.snapshots import Snapshots


class Drain:
    """Sans-IO. Until `begin` is called it does nothing.

    ``keeps``: the sessions are on disk. Then they are not ended, and what still runs when the time is over is not
    answered: that is for the worker that comes next.
    """

    def __init__(
        self, settings: Settings, sessions: SessionTable, scheduler: Scheduler, effects: list[Effect], *, keeps: bool
    ) -> None:
        self._seconds = settings.drain
        self._sessions = sessions
        self._pool = scheduler.pool
        self._snapshots = Snapshots(scheduler.pool, scheduler.copies, scheduler.new_key)
        self._effects = effects
        self._keeps = keeps
        self._until: float | None = None

    @property
    def begun(self) -> bool:
        """Whether no new work is taken any more."""
        return self._until is not None

    @property
    def postpones(self) -> bool:
        """Whether new work is not answered: its client sends it again, and the worker that comes next has it."""
        return self.begun and self._keeps

    def begin(self, now: float) -> None:
        """Lets what runs end for a while. A second call ends at once."""
        self._until = now + self._seconds if self._until is None else now

    def next_deadline(self) -> float | None:
        """When patience ends."""
        return self._until

    def tick(self, now: float) -> None:
        """Goes on as far as it may."""
        if self._until is None:
            return
        late = now >= self._until
        if not late and (self._is_busy() or (self._keeps and self._copies())):
            return
        if late and not self._keeps:
            for session in self._sessions:
                self._sessions.end(session, now)
        self._pool.leave(now)
        if not self._pool.engines:
            self._effects.append(Stop())

    def _is_busy(self) -> bool:
        return any(session.is_awaited() for session in self._sessions)

    def _copies(self) -> bool:
        """Has copied what no copy is of; whether that is not done yet."""
        for session in self._sessions:
            if session.snapshots.behind and _is_idle(session):
                self._snapshots.start(session)
        return any(session.engine is not None and session.engine.chores for session in self._sessions)


def _is_idle(session: Session) -> bool:
    engine = session.engine
    return engine is not None and engine.state == "serving" and not engine.chores and not engine.inflight
