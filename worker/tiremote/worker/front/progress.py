"""How far engines are, as the pages that they share with the front tell without a message."""

from __future__ import annotations

from collections.abc import Callable

from tiremote.worker.front.lent import doing
from tiremote.worker.front.sessions import Job, Session
from tiremote.worker.page import Calls


class Progress:
    """``begun_by(number)`` is the key of the job that an engine began last, ``calls_of(number)`` its calls over a lane.

    ``pass_over(number, key)`` has an engine pass over a job that it has not begun; the engine says what it begins
    before it looks there, so that whoever asks ``begun_by`` afterwards knows.
    """

    def __init__(
        self,
        begun_by: Callable[[int], int],
        calls_of: Callable[[int], Calls] = lambda _: Calls(),
        pass_over: Callable[[int, int], None] = lambda *_: None,
    ) -> None:
        self.begun_by = begun_by
        self.pass_over = pass_over
        self._calls_of = calls_of

    def begun(self, session: Session) -> Job | None:
        """What the session's engine has really begun and not answered: over a lane, the call that it is in."""
        job = session.running()
        # Keys grow, and an engine takes its jobs in order.
        if job is None or session.engine is None or self.begun_by(session.engine.number) < job.key:
            return None
        return self.doing(job)

    def doing(self, job: Job) -> Job | None:
        """What its engine does for a job that it has begun, None between two calls over a lane."""
        engine = job.seat.session.engine
        return job if engine is None else doing(job, self._calls_of(engine.number))
