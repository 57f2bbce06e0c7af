"""Jobs to engines: who serves which session, in what order, until when, and what follows an engine's death."""

from __future__ import annotations

import logging
import signal
from collections.abc import Callable
from itertools import count
from typing import Any

from tiremote.protocol.error_wire import error_from_wire
from tiremote.protocol.errors import (
    DeadlineExceeded,
    EngineCrashed,
    EngineError,
    Interrupted,
    TiremoteError,
)
from tiremote.protocol.packing import unpack
from tiremote.protocol.receipts import Timing
from tiremote.protocol.results import EngineInfo
from tiremote.worker.front.answers import Answers
from tiremote.worker.front.effects import Kill, Nudge, Spawn, ToEngine, Withdraw
from tiremote.worker.front.output import Stream
from tiremote.worker.front.sessions import Engine, Job, Mourning, Session, Stopping, Unit
from tiremote.worker.front.settings import Settings
from tiremote.worker.link import Changes, Done, Exit, Load, Message, Open, Prepare, Ready, Warned, Work

_log = logging.getLogger(__name__)


class Scheduler:
    """Sans-IO: fed with what engines say and do and with the time, it leaves effects in ``answers``.

    ``on_open(session, error)`` is called when a session's engine serves it, or never will. ``begun_by(number)`` is
    the key of the job that an engine began last, ``undelivered(session)`` the bytes that clients have not taken.
    """

    def __init__(
        self,
        settings: Settings,
        answers: Answers,
        on_open: Callable[[Session, TiremoteError | None], None],
        begun_by: Callable[[int], int],
        undelivered: Callable[[str], int],
    ) -> None:
        self._settings = settings
        self._answers = answers
        self._on_open = on_open
        self._begun_by = begun_by
        self._undelivered = undelivered
        self._numbers = count(1)
        self._keys = count(1)
        self._failed_starts = 0
        self._leaving = False
        self.engines: dict[int, Engine] = {}
        self.crashes = 0
        #: What an engine with the worker's own options runs on; None until the first is prepared.
        self.info: EngineInfo | None = None
        #: Why the worker's own options do not work, where they do not.
        self.unprepared: TiremoteError | None = None

    # ------------------------------------------------------------ engines

    def fill_spares(self) -> None:
        """Starts as many engines as there should be ready."""
        idle = sum(engine.session is None and engine.state != "leaving" for engine in self.engines.values())
        if self._leaving or self._failed_starts >= self._settings.failed_starts:
            return
        for _ in range(self._settings.spares - idle):
            self._spawn()

    def _spawn(self) -> Engine:
        engine = Engine(number=next(self._numbers))
        self.engines[engine.number] = engine
        self._answers.effects.append(Spawn(engine.number))
        self._tell(engine, Prepare(options=self._settings.options))
        return engine

    def claim(self, session: Session) -> None:
        """Gives the session an engine of its own, the readiest there is."""
        free = [engine for engine in self.engines.values() if engine.session is None and engine.state != "leaving"]
        engine = min(free, key=lambda one: one.state != "prepared", default=None) or self._spawn()
        engine.session, session.engine = session, engine
        session.generation += 1
        if engine.state == "prepared":
            self._open(engine, session)
        self.fill_spares()

    def _open(self, engine: Engine, session: Session) -> None:
        engine.state = "opening"
        self._tell(engine, Open(session=session.id, generation=session.generation, options=session.options))

    def release(self, session: Session, now: float) -> None:
        """Ends a session's engine and answers its jobs."""
        gone = Interrupted("the session was ended")
        engine, session.engine = session.engine, None
        jobs = [mourned.job for mourned in session.mourning] + list(session.queue)
        if engine is not None:
            jobs = list(engine.inflight) + jobs
            busy = bool(engine.inflight)
            engine.inflight.clear()
            self._dismiss(engine, now, at_once=busy)
        session.queue.clear()
        session.mourning.clear()
        for job in jobs:
            self._answers.job_failed(job, gone)

    def _dismiss(self, engine: Engine, now: float, *, at_once: bool = False) -> None:
        engine.session, engine.state = None, "leaving"
        if at_once:
            self._answers.effects.append(Kill(engine.number))
        else:
            engine.kill_at = now + self._settings.farewell
            self._tell(engine, Exit())

    def leave(self, now: float) -> None:
        """Sends every engine away, none is started any more."""
        self._leaving = True
        for engine in self.engines.values():
            if engine.state != "leaving":
                self._dismiss(engine, now, at_once=engine.state == "starting" or bool(engine.inflight))

    def _tell(self, engine: Engine, message: Message, buffers: tuple[Any, ...] = ()) -> None:
        self._answers.effects.append(ToEngine(engine.number, message, buffers))

    # ------------------------------------------------------------ jobs

    def new_key(self) -> int:
        """A number for a job, never used again."""
        return next(self._keys)

    def submit(self, job: Job, now: float) -> None:
        """Takes a job; it runs when those before it have."""
        session = job.seat.session
        session.queue.append(job)
        session.queued_bytes += job.nbytes
        if session.engine is None:
            self.claim(session)
        self._pump(session, now)

    def withdraw(self, job: Job, error: TiremoteError) -> bool:
        """Answers a job that has not begun with the error, and has it passed over; False where it has begun."""
        session = job.seat.session
        if job in session.queue:
            session.queue.remove(job)
            session.queued_bytes -= job.nbytes
        else:
            engine = session.engine
            if engine is None or job not in engine.inflight or self._begun_by(engine.number) >= job.key:
                return False
            job.withdrawn = True
            self._answers.effects.append(Withdraw(engine.number, job.key))
        self._answers.job_failed(job, error)
        return True

    def begun(self, session: Session) -> Job | None:
        """The job that the session's engine has really begun and not answered."""
        job = session.running()
        # Keys grow, and an engine takes its jobs in order.
        if job is None or session.engine is None or self._begun_by(session.engine.number) < job.key:
            return None
        return job

    def _pump(self, session: Session, now: float) -> None:
        engine = session.engine
        if engine is None or engine.state != "serving":
            return
        session.unread = False
        while session.queue and len(engine.inflight) < self._settings.window:
            # Answers for a client that does not read would pile up here: its work waits until it does.
            session.unread = self._undelivered(session.id) > self._settings.limits.session_bytes
            if session.unread:
                return
            job = session.queue.popleft()
            session.queued_bytes -= job.nbytes
            if not engine.inflight:
                job.started = now
            engine.inflight.append(job)
            self._tell(engine, Work(key=job.key, header=job.header), job.buffers)

    def stop(self, job: Job, error: TiremoteError, now: float) -> None:
        """Stops the running job: first asks, then, when ``grace`` is over, kills."""
        engine = job.seat.session.engine
        if job.stop is None and engine is not None:
            job.stop = Stopping(error=error, kill_at=now + self._settings.grace)
            self._answers.effects.append(Nudge(engine.number, job.key))

    # ------------------------------------------------------------ what engines say

    def on_message(self, number: int, message: Message, buffers: list[Any], now: float) -> None:
        """A message of an engine."""
        engine = self.engines.get(number)
        if engine is None or engine.state == "leaving" or engine.fate is not None:
            return
        if isinstance(message, Ready):
            self._on_ready(engine, message, now)
        elif isinstance(message, Done):
            self._on_done(engine, message, buffers, now)
        elif isinstance(message, Warned):
            job = self._inflight(number, message.key)
            if job is not None:
                self._answers.event(job, "warning", message.text)

    def on_output(self, number: int, stream: Stream, key: int, data: bytes, now: float) -> None:
        """Something an engine printed for the job of that key."""
        job = self._inflight(number, key)
        if job is not None:
            self._answers.event(job, stream, job.output.feed(stream, data, now))

    def _inflight(self, number: int, key: int) -> Job | None:
        engine = self.engines.get(number)
        return next((job for job in engine.inflight if job.key == key), None) if engine else None

    def _on_ready(self, engine: Engine, message: Ready, now: float) -> None:
        error = error_from_wire(*message.failure) if message.failure else None
        session = engine.session
        if engine.state == "starting":
            self._failed_starts = 0
            if error is None:
                engine.state, engine.info = "prepared", message.info
                self.info = self.info or message.info
                if session is not None:
                    self._open(engine, session)
                return
            self.unprepared = error
        elif error is None and session is not None:
            engine.state, engine.info = "serving", message.info
            self._restore(engine, session)
            self._on_open(session, None)
            self._console(session, now)
            self._pump(session, now)
            return
        if session is not None and error is not None:
            session.engine = None
            self._fail_waiting(session, error)
            self._on_open(session, error)
        self._dismiss(engine, now, at_once=True)

    def _fail_waiting(self, session: Session, error: TiremoteError) -> None:
        jobs = [mourned.job for mourned in session.mourning] + list(session.queue)
        session.mourning.clear()
        session.queue.clear()
        session.queued_bytes = 0
        for job in jobs:
            self._answers.job_failed(job, error)

    def _restore(self, engine: Engine, session: Session) -> None:
        for name, unit in session.units.items():
            key = self.new_key()
            engine.loading[key] = name
            self._tell(engine, Load(key=key, unit=name, version=unit.holding.version, source=unit.source))

    def _on_done(self, engine: Engine, done: Done, buffers: list[Any], now: float) -> None:
        session = engine.session
        if session is None:
            return
        if done.key in engine.loading:
            self._on_loaded(engine, session, done, now)
            return
        job = self._inflight(engine.number, done.key)
        if job is None:
            return
        if done.poisoned:
            # Nothing that this process says can be trusted any more; its death is handled in `on_exit`.
            engine.fate = done.poisoned
            self._answers.effects.append(Kill(engine.number))
            return
        engine.inflight.remove(job)
        if engine.inflight and engine.inflight[0].started is None:
            engine.inflight[0].started = now
        if done.changes is not None:
            _apply(session, done.changes, job)
        timing = Timing(
            queue=(job.started or now) - job.received,
            compile=done.compile,
            launch=done.launch,
            total=now - job.received,
        )
        if done.ok:
            self._answers.job_ok(job, done.body, buffers, timing)
        else:
            code, text, data = unpack(done.body)
            error = error_from_wire(code, text, data)
            if job.stop is not None and isinstance(error, Interrupted):
                error = job.stop.error
            if isinstance(error, EngineError):
                error.request = job.request.id
            self._answers.job_failed(job, error, timing)
        self._pump(session, now)

    def _on_loaded(self, engine: Engine, session: Session, done: Done, now: float) -> None:
        name = engine.loading.pop(done.key)
        if done.ok and done.changes is not None:
            for holding in done.changes.units:
                session.units[name].holding = holding
        elif not done.ok:
            _, text, _ = unpack(done.body)
            self._give_up(session, name, f"it could not be loaded again: {text}")
        self._console(session, now)

    def _give_up(self, session: Session, unit: str, reason: str) -> None:
        session.units.pop(unit, None)
        session.broken[unit] = reason
        if session.newest == unit:
            session.newest = next(reversed(session.units), None)

    def _console(self, session: Session, now: float) -> None:
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

    # ------------------------------------------------------------ death

    def on_exit(self, number: int, returncode: int, begun: int, now: float) -> None:
        """An engine's process is gone. Everything that it had said was fed to `on_message` before.

        ``begun`` is the key of the job that it began last: one that it never began runs on the next engine.
        """
        engine = self.engines.pop(number, None)
        if engine is None:
            return
        session = engine.session
        if engine.state == "starting":
            self._failed_starts += 1
        if session is None:
            if engine.state == "starting" and self.info is None:
                self.unprepared = EngineCrashed(f"the engine {_ending(returncode)} while it started")
            self.fill_spares()
            return
        session.engine = None
        self.crashes += 1
        how = engine.fate or _ending(returncode)
        _log.warning("session %s: engine %s (pid %s) %s", session.id, number, engine.pid, how)
        if engine.state in ("starting", "opening"):
            # Trying again at once could go on for ever; the next request tries again.
            error = EngineCrashed(f"the engine {how} while it started", signal=_signal(returncode))
            self._fail_waiting(session, error)
            self._on_open(session, error)
            return
        if engine.loading:
            self._give_up(session, next(iter(engine.loading.values())), f"the engine {how} while it was loaded again")
        self._bury(engine, session, how, returncode, begun, now)
        session.arrays.clear()
        self.claim(session)

    def _bury(self, engine: Engine, session: Session, how: str, returncode: int, begun: int, now: float) -> None:
        job = None
        if engine.inflight and (engine.inflight[0].key == begun or engine.inflight[0].stop is not None):
            job = engine.inflight.popleft()
        # These had not started: the next engine takes them, in the same order.
        for waiting in reversed(engine.inflight):
            if waiting.withdrawn:
                continue
            waiting.started = None
            session.queue.appendleft(waiting)
            session.queued_bytes += waiting.nbytes
        if job is None:
            return
        error: TiremoteError = EngineCrashed(
            f"the engine {how} during {describe(job)}", signal=None if engine.fate else _signal(returncode)
        )
        if job.stop is not None:
            error = job.stop.error
        if isinstance(error, EngineError):
            error.request = job.request.id
            error.lost = _contents(session)
        session.mourning.append(Mourning(job=job, error=error, send_by=now + self._settings.mourning))

    # ------------------------------------------------------------ time

    def tick(self, now: float) -> None:
        """Does what is due."""
        for engine in list(self.engines.values()):
            if engine.kill_at is not None and now >= engine.kill_at:
                engine.kill_at = None
                self._answers.effects.append(Kill(engine.number))
            if engine.session is not None:
                self._console(engine.session, now)
                if engine.session.unread:
                    self._pump(engine.session, now)
            if not engine.inflight:
                continue
            job = engine.inflight[0]
            self._answers.flush_output(job, now)
            if job.stop is not None:
                if now >= job.stop.kill_at:
                    job.stop.kill_at = float("inf")
                    self._answers.effects.append(Kill(engine.number))
            elif (due := _due(job)) is not None and now >= due:
                seconds = job.request.deadline
                self.stop(job, DeadlineExceeded(f"{describe(job)} ran longer than its deadline of {seconds} s",
                                                deadline=seconds), now)  # fmt: skip

    def next_deadline(self, now: float) -> float | None:
        """When `tick` has something to do, None where nothing waits for the time."""
        times = []
        for engine in self.engines.values():
            if engine.kill_at is not None:
                times.append(engine.kill_at)
            if engine.session is not None:
                times += [mourned.send_by for mourned in engine.session.mourning]
                if engine.session.unread:
                    times.append(now + self._settings.reading)
            if engine.inflight:
                job = engine.inflight[0]
                due = job.stop.kill_at if job.stop is not None else _due(job)
                times += [one for one in (due, job.output.due()) if one is not None]
        return min(times, default=None)


def describe(job: Job) -> str:
    """What a job does, for people: ``run add_base``."""
    subject = getattr(job.request, "target", None) or getattr(job.request, "unit", None)
    subject = getattr(subject, "id", subject)
    return f"{job.request.op} {subject}" if subject else job.request.op


def _due(job: Job) -> float | None:
    if job.started is None or job.request.deadline is None:
        return None
    return job.started + job.request.deadline


def _apply(session: Session, changes: Changes, job: Job) -> None:
    for name in changes.dropped_units:
        session.units.pop(name, None)
    for holding in changes.units:
        session.units[holding.unit] = Unit(holding=holding, source=getattr(job.request, "source", ""))
        session.units.move_to_end(holding.unit)
        session.broken.pop(holding.unit, None)
    for name in changes.dropped:
        session.arrays.pop(name, None)
    for array in changes.arrays:
        session.arrays[array.handle.id] = array
    session.newest = next(reversed(session.units), None)


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


def _signal(returncode: int) -> str | None:
    if returncode >= 0:
        return None
    try:
        return signal.Signals(-returncode).name
    except ValueError:
        return f"signal {-returncode}"


def _ending(returncode: int) -> str:
    name = _signal(returncode)
    return f"died of {name}" if name else f"ended with exit code {returncode}"
