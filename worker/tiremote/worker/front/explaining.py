"""Crashes explained: who asks for that, and until when the request is run again, beside what its session does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from tiremote.protocol.codec import encode
from tiremote.protocol.errors import Refused, TiremoteError
from tiremote.protocol.explanation import CrashExplanation
from tiremote.protocol.messages import Run
from tiremote.protocol.packing import pack
from tiremote.protocol.receipts import Timing
from tiremote.worker.front.answers import Answers
from tiremote.worker.front.copies import CopyStore
from tiremote.worker.front.crash import Crash, UnitThen
from tiremote.worker.front.findings import Finding, of_nothing, of_time
from tiremote.worker.front.handles_in import handles_in
from tiremote.worker.front.pool import EnginePool
from tiremote.worker.front.rerun import Had, Rerun
from tiremote.worker.front.sessions import Engine, Job, Session, describe
from tiremote.worker.front.settings import Settings
from tiremote.worker.link import Message

#: Seconds for one explanation where its client says nothing else.
_PATIENCE = 60.0

#: The fields of requests in which handles are.
_NAMING = ("target", "targets", "source", "copy_of", "args", "kwargs")


@dataclass(eq=False, kw_only=True, slots=True)
class _UnderWay:
    rerun: Rerun
    engine: Engine
    seconds: float
    until: float
    jobs: list[Job]


class Explaining:
    """Sans-IO. Jobs of `ExplainCrash` come here and not to their session's engine."""

    def __init__(
        self, pool: EnginePool, answers: Answers, copies: CopyStore, settings: Settings, new_key: Callable[[], int]
    ) -> None:
        self._pool = pool
        self._answers = answers
        self._copies = copies
        self._settings = settings
        self._new_key = new_key
        #: By the numbers of their engines.
        self._under_way: dict[int, _UnderWay] = {}

    def note(self, job: Job, what: str, now: float) -> bool:
        """An engine died with the job: that is remembered. Call it before anything of the session changes.

        ``what`` became of the engine. False where the job is too large to be kept.
        """
        session = job.seat.session
        session.crash = Crash(
            request=job.request.id,
            target=describe(job),
            what=what,
            at=now,
            generation=session.generation,
            nbytes=job.nbytes,
            needs=frozenset(one.id for one in handles_in(*(getattr(job.request, name, None) for name in _NAMING))),
            units={
                name: UnitThen(holding=unit.holding, source=unit.source, arrays=unit.arrays)
                for name, unit in session.units.items()
            },
            texts=job.texts,
            holdings=session.holdings(),
        )
        return self._copies.keep_crash(session.id, _without_tape(job), job.buffers, job.nbytes).message is not None

    # ------------------------------------------------------------ jobs

    def begin(self, job: Job, now: float) -> None:
        """Takes a job. Who asks for what is under way already gets that."""
        session, job.started = job.seat.session, now
        crash, kept = session.crash, self._copies.of_crash(session.id)
        if crash is None or kept is None:
            error = Refused("no engine of this session has died with a request: there is no crash to explain")
            self._answers.job_failed(job, error)
            return
        session.explaining.append(job)
        known = next((one for one in self._under_way.values() if one.rerun.crash is crash), None)
        if known is not None:
            known.jobs.append(job)
            return
        if kept.message is None:
            self._answer(job, crash, of_nothing(crash.nbytes), Had(), now)
            return
        rerun = Rerun(session, crash, kept, kept.message, self._pool, self._answers, self._settings, self._new_key, now)
        engine = self._pool.claim(rerun.session)
        seconds = job.request.deadline or _PATIENCE
        self._under_way[engine.number] = _UnderWay(
            rerun=rerun, engine=engine, seconds=seconds, until=now + seconds, jobs=[job]
        )

    def stop(self, job: Job, error: TiremoteError, now: float) -> bool:
        """Answers a job that waits for an explanation with the error; False where it does not."""
        if job not in job.seat.session.explaining:
            return False
        job.seat.session.explaining.remove(job)
        for one in [one for one in self._under_way.values() if job in one.jobs]:
            one.jobs.remove(job)
            if not one.jobs:
                self._end(one, now)
        self._answers.job_failed(job, error)
        return True

    def release(self, session: Session, now: float) -> list[Job]:
        """The session ends; the jobs that have to be answered."""
        for one in [one for one in self._under_way.values() if one.rerun.session.id == session.id]:
            self._end(one, now)
        jobs, session.explaining = session.explaining, []
        return jobs

    # ------------------------------------------------------------ engines

    def has(self, engine: Engine) -> bool:
        """Whether a request is run again on that engine."""
        return engine.number in self._under_way

    def on_message(self, engine: Engine, message: Message, now: float) -> None:
        """A message of such an engine."""
        one = self._under_way[engine.number]
        finding = one.rerun.on_message(engine, message, now)
        if finding is not None:
            self._finish(one, finding, now)

    def on_stderr(self, engine: Engine, data: bytes) -> None:
        """Such an engine printed something."""
        self._under_way[engine.number].rerun.on_stderr(data)

    def on_exit(self, engine: Engine, returncode: int, now: float) -> None:
        """Such an engine is gone."""
        one = self._under_way[engine.number]
        self._finish(one, one.rerun.on_exit(engine, returncode), now)

    # ------------------------------------------------------------ the end

    def tick(self, now: float) -> None:
        """Ends those whose time is over."""
        for one in [one for one in self._under_way.values() if now >= one.until]:
            self._finish(one, of_time(one.seconds), now)

    def next_deadline(self) -> float | None:
        """When `tick` has something to do."""
        return min((one.until for one in self._under_way.values()), default=None)

    def _finish(self, one: _UnderWay, finding: Finding, now: float) -> None:
        self._end(one, now)
        had = one.rerun.had()
        for job in one.jobs:
            self._answer(job, one.rerun.crash, finding, had, now)

    def _end(self, one: _UnderWay, now: float) -> None:
        del self._under_way[one.engine.number]
        self._pool.dismiss(one.engine, now, at_once=True)

    def _answer(self, job: Job, crash: Crash, finding: Finding, had: Had, now: float) -> None:
        result = CrashExplanation(
            kind=finding.kind,
            message=finding.message,
            request=crash.request,
            target=crash.target,
            crash=crash.what,
            frames=finding.frames,
            index=finding.index,
            bounds=finding.bounds,
            first=finding.first,
            signal=finding.signal,
            as_of=had.as_of,
            anew=had.anew,
            missing=had.missing,
            seconds=now - (job.started or now),
        )
        job.seat.session.explaining.remove(job)
        self._answers.job_ok(job, pack(result, []), [], Timing(total=now - job.received))


def _without_tape(job: Job) -> bytes:
    """The request for an engine that has no tape: what is recorded on one does not change what the call does."""
    request = job.request
    if not isinstance(request, Run) or request.tape is None:
        return job.header
    return bytes(memoryview(encode(replace(request, tape=None))[0]))
