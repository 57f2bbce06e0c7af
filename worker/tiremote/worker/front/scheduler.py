"""Jobs to engines: who serves which session, in what order, until when, and what follows an engine's death."""

from __future__ import annotations

import logging
from collections.abc import Callable
from itertools import count
from typing import Any

from tiremote.protocol.error_wire import error_from_wire
from tiremote.protocol.errors import EngineCrashed, EngineError, Interrupted, TiremoteError
from tiremote.protocol.messages import Bench, Compare, ExplainCrash, RequestId, Run, Snapshot
from tiremote.protocol.packing import pack, unpack
from tiremote.protocol.receipts import Timing
from tiremote.worker.front.answers import Answers
from tiremote.worker.front.burial import Burial
from tiremote.worker.front.changes import apply, found
from tiremote.worker.front.copies import CopyStore
from tiremote.worker.front.deadlines import exceeded, next_due
from tiremote.worker.front.effects import Nudge
from tiremote.worker.front.explaining import Explaining
from tiremote.worker.front.lent import died, remember
from tiremote.worker.front.output import Stream
from tiremote.worker.front.pool import EnginePool
from tiremote.worker.front.progress import Progress
from tiremote.worker.front.recovery import Recovery, ending, signal_name
from tiremote.worker.front.sessions import (
    Chore,
    Engine,
    Job,
    Loading,
    Refilling,
    Session,
    Snapping,
    Stopping,
    describe,
)
from tiremote.worker.front.settings import Settings
from tiremote.worker.front.snapshots import Snapshots
from tiremote.worker.link import Compiling, Copied, Done, Message, Ready, Warned, Work
from tiremote.worker.page import Calls

_log = logging.getLogger(__name__)


class Scheduler:
    """Sans-IO: fed with what engines say and do and with the time, it leaves effects in ``answers``.

    ``on_open(session, error)`` is called when a session's engine serves it, or never will. ``undelivered(session)`` is
    the bytes that its clients have not taken.
    """

    def __init__(
        self,
        settings: Settings,
        answers: Answers,
        on_open: Callable[[Session, TiremoteError | None], None],
        progress: Progress,
        undelivered: Callable[[str], int],
    ) -> None:
        self._settings = settings
        self._answers = answers
        self._on_open = on_open
        self._progress = progress
        self._undelivered = undelivered
        self._keys = count(1)
        self.pool = EnginePool(settings, answers.effects)
        self.copies = CopyStore(settings.copies_bytes)
        self.recovery = Recovery(self.pool, answers, self.copies, settings, self.new_key)
        self._snapshots = Snapshots(self.pool, self.copies, self.new_key)
        self._explaining = Explaining(self.pool, answers, self.copies, settings, self.new_key)
        self._burial = Burial(self.recovery, self._snapshots, self._explaining)
        self.crashes = 0

    def release(self, session: Session, now: float) -> None:
        """Ends a session's engine and answers its jobs, and those who said hello and wait for it."""
        gone = Interrupted("the session was ended")
        engine, session.engine = session.engine, None
        jobs = [mourned.job for mourned in session.mourning] + list(session.queue)
        if engine is not None:
            jobs = list(engine.inflight) + jobs
            busy = bool(engine.inflight)
            engine.inflight.clear()
            self.pool.dismiss(engine, now, at_once=busy)
        session.queue.clear()
        session.mourning.clear()
        jobs += self._explaining.release(session, now)
        self.copies.forget(session.id)
        for job in jobs:
            self._answers.job_failed(job, gone)
        self._on_open(session, gone)

    # ------------------------------------------------------------ jobs

    def new_key(self) -> int:
        """A number for a job, never used again."""
        return next(self._keys)

    def submit(self, job: Job, now: float) -> None:
        """Takes a job; it runs when those before it have."""
        if isinstance(job.request, ExplainCrash):
            self._explaining.begin(job, now)
            return
        session = job.seat.session
        if session.engine is None:
            self.pool.claim(session)
        if self.recovery.pass_on(job, now):
            return
        session.queue.append(job)
        session.queued_bytes += job.nbytes
        self.pump(session, now)

    def withdraw(self, job: Job, error: TiremoteError, now: float) -> bool:
        """Answers a job that has not begun with the error, and has it passed over; False where it has begun."""
        if self._explaining.stop(job, error, now):
            return True
        session = job.seat.session
        if job in session.queue:
            session.queue.remove(job)
            session.queued_bytes -= job.nbytes
        else:
            engine = session.engine
            if engine is None or job not in engine.inflight or self._progress.begun_by(engine.number) >= job.key:
                return False
            self._progress.pass_over(engine.number, job.key)
            if self._progress.begun_by(engine.number) >= job.key:
                # It began meanwhile: it runs, or is answered as interrupted, and only the engine knows which.
                return False
            job.withdrawn = True
        self._answers.job_failed(job, error)
        return True

    def stop_chore(self, session: Session) -> None:
        """Ends an engine that is still loading units again, one of which may never come to an end; has one that makes
        a snapshot leave it."""
        engine = session.engine
        key, chore = next(iter(engine.chores.items()), (0, None)) if engine is not None else (0, None)
        if engine is not None and isinstance(chore, Loading):
            self.pool.kill(engine)
        elif engine is not None and isinstance(chore, Snapping):
            self._answers.effects.append(Nudge(engine.number, key))

    def pump(self, session: Session, now: float) -> None:
        """Sends an engine of what waits for it as much as it may have."""
        engine = session.engine
        if engine is None or engine.state != "serving" or engine.chores or session.held:
            return
        session.unread = False
        if self._snapshots.is_due(session, now):
            # Nothing more is sent until it is made: it waits for what is with the engine already.
            if not engine.inflight:
                self._snapshots.start(session)
            return
        while session.queue and len(engine.inflight) < self._settings.window:
            # Answers for a client that does not read would pile up here: its work waits until it does.
            session.unread = self._undelivered(session.id) > self._settings.limits.session_bytes
            if session.unread:
                return
            job = session.queue.popleft()
            session.queued_bytes -= job.nbytes
            prints_as = None
            if not engine.inflight:
                job.started = now
                if not engine.moving:
                    # A marker in the streams would wake the front once more for each request.
                    prints_as = job.key if job.request.events else 0
            engine.inflight.append(job)
            self.pool.tell(engine, Work(key=job.key, header=job.header, prints_as=prints_as), job.buffers)

    def stop(self, job: Job, error: TiremoteError, now: float, *, asked_by: RequestId | None = None) -> None:
        """Stops the running job: first asks, then, when ``grace`` is over or another request asks for it, kills."""
        engine = job.seat.session.engine
        # It may have lost its engine already, and wait for its answer: then there is nothing to stop.
        if engine is None or job not in engine.inflight:
            return
        if job.stop is None:
            job.stop = Stopping(error=error, kill_at=now + self._settings.grace, asked_by=asked_by)
            self._answers.effects.append(Nudge(engine.number, job.key))
        elif asked_by != job.stop.asked_by and job.stop.kill_at < float("inf"):
            # Not the same request, sent again after a cut; nor has the engine been killed already.
            job.stop.kill_at = now

    # ------------------------------------------------------------ what engines say

    def on_message(self, number: int, message: Message, buffers: list[Any], now: float) -> None:
        """A message of an engine."""
        engine = self.pool.engines.get(number)
        if engine is None or engine.state == "leaving" or engine.fate is not None:
            return
        if self._explaining.has(engine):
            self._explaining.on_message(engine, message, now)
        elif isinstance(message, Ready):
            self._on_ready(engine, message, now)
        elif isinstance(message, Done):
            self._on_done(engine, message, buffers, now)
        elif isinstance(message, Warned | Compiling) and (job := self._inflight(number, message.key)) is not None:
            if isinstance(message, Compiling):
                job.compiling = message
            else:
                self._answers.event(job, "warning", message.text)
        elif isinstance(message, Copied) and engine.session is not None:
            job = self._inflight(number, message.key)
            self._snapshots.took(engine.session, job.request.id if job else None, message, buffers, now)

    def on_output(self, number: int, stream: Stream, key: int, data: bytes, now: float) -> None:
        """Something an engine printed for the job of that key."""
        engine, job = self.pool.engines.get(number), self._inflight(number, key)
        if job is not None:
            self._answers.event(job, stream, job.output.feed(stream, data, now))
        elif engine is not None and stream == "stderr" and self._explaining.has(engine):
            self._explaining.on_stderr(engine, data)

    def _inflight(self, number: int, key: int) -> Job | None:
        engine = self.pool.engines.get(number)
        return next((job for job in engine.inflight if job.key == key), None) if engine else None

    def _on_ready(self, engine: Engine, message: Ready, now: float) -> None:
        error = error_from_wire(*message.failure) if message.failure else None
        session = engine.session
        if engine.state == "starting":
            if error is None:
                self.pool.prepared(engine, message.info)
                return
            self.pool.not_prepared(engine, error)
        elif error is None and session is not None:
            engine.state, engine.info = "serving", message.info
            session.failed_starts = 0
            self.recovery.restore(engine, session, now)
            self._on_open(session, None)
            self.pump(session, now)
            return
        if session is not None and error is not None:
            session.engine = None
            self._fail_waiting(session, error, now)
            self._on_open(session, error)
        self.pool.dismiss(engine, now, at_once=True)

    def _fail_waiting(self, session: Session, error: TiremoteError, now: float) -> None:
        self.recovery.console(session, now, at_once=True)
        failed = list(session.queue)
        session.queue.clear()
        session.queued_bytes = 0
        for job in failed:
            self._answers.job_failed(job, error)

    def _on_done(self, engine: Engine, done: Done, buffers: list[Any], now: float) -> None:
        session = engine.session
        if session is None:
            return
        if done.fault:
            _log.error("session %s: a fault of this worker:\n%s", session.id, done.fault)
        if done.poisoned:
            # Nothing that this process says can be trusted any more; its death is handled in `on_exit`.
            engine.fate = done.poisoned
            self.pool.kill(engine)
            return
        session.ledger = done.ledger or session.ledger
        chore = engine.chores.pop(done.key, None)
        if chore is not None:
            self._on_chore(engine, session, chore, done, now)
            # What waits starts to run when all is there again: so long its deadline does not count.
            self.pump(session, now)
            return
        job = self._inflight(engine.number, done.key)
        if job is None:
            return
        engine.inflight.remove(job)
        if engine.inflight and engine.inflight[0].started is None:
            engine.inflight[0].started = now
        plain = buffers.pop() if done.beside else None
        self._snapshots.note(session, job, done, buffers if plain is None else [plain], now)
        if done.changes is not None:
            apply(session, done.changes, job, self._settings.history, self.copies)
        session.usage.note(job.request, session.newest, now)
        remember(job)
        if isinstance(job.request, Run | Bench | Compare):
            engine.launched = f"request {job.request.id} ({describe(job)})"
        timing = Timing(
            queue=(job.started or now) - job.received,
            compile=done.compile,
            launch=done.launch,
            total=now - job.received,
        )
        if done.ok and isinstance(job.request, Snapshot):
            result = self._snapshots.answer(session, job.request, done.body, now)
            self._answers.job_ok(job, pack(result, []), [], timing)
        elif done.ok:
            self._answers.job_ok(job, done.body, buffers, timing)
        else:
            code, text, data = unpack(done.body)
            error = error_from_wire(code, text, data)
            if job.stop is not None and isinstance(error, Interrupted):
                error = job.stop.error
            if isinstance(error, EngineError):
                error.request = job.request.id
            self._answers.job_failed(job, error, timing)
        self.pump(session, now)

    def _on_chore(self, engine: Engine, session: Session, chore: Chore, done: Done, now: float) -> None:
        match chore:
            case Loading(unit=unit):
                self.recovery.on_loaded(engine, session, unit, done, now)
            case Refilling():
                self.recovery.on_put_back(engine, session, chore, done, now)
            case Snapping():
                if done.changes is not None:
                    found(session, done.changes)
                self._snapshots.ended(session, now)

    # ------------------------------------------------------------ death

    def on_exit(self, number: int, returncode: int, begun: int, calls: Calls, now: float) -> None:
        """An engine's process is gone. Everything that it had said was fed to `on_message` before.

        ``begun`` is the key of the job that it began last: one that it never began runs on the next engine. ``calls``
        are those over a lane.
        """
        engine = self.pool.engines.pop(number, None)
        if engine is None:
            return
        session = engine.session
        if self._explaining.has(engine):
            self._explaining.on_exit(engine, returncode, now)
            return
        if engine.state == "starting":
            self.pool.not_prepared(engine, EngineCrashed(f"the engine {ending(returncode)} while it started"))
        if session is None:
            self.pool.fill()
            return
        session.engine, session.unsaved = None, True
        died(engine, begun, calls, self._answers, self.copies)
        running = engine.inflight[0] if engine.inflight else None
        self.crashes += running is None or running.stop is None
        how = engine.fate or ending(returncode)
        _log.warning("session %s: engine %s (pid %s) %s", session.id, number, engine.pid, how)
        if engine.state in ("starting", "opening"):
            session.failed_starts += 1
            if session.failed_starts < self._settings.failed_starts:
                self.pool.claim(session)
                return
            # Trying again at once could go on for ever; the next request tries again.
            session.failed_starts = 0
            error = EngineCrashed(f"the engine {how} while it started", signal=signal_name(returncode))
            self._fail_waiting(session, error, now)
            self._on_open(session, error)
            return
        self._burial.bury(engine, session, returncode, begun, now)
        self.pool.claim(session)

    # ------------------------------------------------------------ time

    def tick(self, now: float) -> None:
        """Does what is due."""
        self._explaining.tick(now)
        for engine in list(self.pool.engines.values()):
            if engine.kill_at is not None and now >= engine.kill_at:
                engine.kill_at = None
                self.pool.kill(engine)
            if engine.session is not None and not engine.is_heir:
                self.recovery.console(engine.session, now)
                if engine.session.unread or self._snapshots.is_due(engine.session, now):
                    self.pump(engine.session, now)
            if not engine.inflight:
                continue
            job = engine.inflight[0]
            self._answers.flush_output(job, now)
            if job.stop is not None:
                if now >= job.stop.kill_at:
                    job.stop.kill_at = float("inf")
                    # Where the engine has begun the next one, the answer to this one is on its way.
                    if self._progress.begun_by(engine.number) <= job.key:
                        self.pool.kill(engine)
            elif (error := exceeded(job, describe(job), now)) is not None:
                self.stop(job, error, now)

    def next_deadline(self, now: float) -> float | None:
        """When `tick` has something to do, None where nothing waits for the time."""
        explained = self._explaining.next_deadline()
        times = [] if explained is None else [explained]
        for engine in self.pool.engines.values():
            if engine.kill_at is not None:
                times.append(engine.kill_at)
            if engine.session is not None and not engine.is_heir:
                times += [mourned.due() for mourned in engine.session.mourning]
                if engine.session.unread:
                    times.append(now + self._settings.reading)
                due = engine.session.snapshots.due_at()
                if due is not None and not engine.chores and not engine.inflight:
                    times.append(due)
            if engine.inflight:
                job = engine.inflight[0]
                due = job.stop.kill_at if job.stop is not None else next_due(job)
                times += [one for one in (due, job.output.due()) if one is not None]
        return min(times, default=None)
