"""Until when a job may run: one limit for all of it, or one for what compiles and one for the rest."""

from __future__ import annotations

from dataclasses import dataclass

from tiremote.protocol.errors import DeadlineExceeded
from tiremote.protocol.messages import Run
from tiremote.worker.front.sessions import Job


@dataclass(frozen=True, slots=True)
class _Due:
    """The limit that is over first, if the job goes on with what it does now."""

    at: float
    limit: float
    phase: str | None


def is_compiling(job: Job) -> bool:
    """Whether it compiles a kernel now."""
    told = job.compiling
    return told is not None and told.since is not None and told.spare is None


def next_due(job: Job) -> float | None:
    """When a limit of the job is over, None where none can be before its engine tells that it does something else."""
    due = _due(job)
    return None if due is None else due.at


def exceeded(job: Job, what: str, now: float) -> DeadlineExceeded | None:
    """Why a job that does ``what`` has to be stopped now, None where it may go on."""
    due = _due(job)
    if due is None or now < due.at:
        return None
    text = {
        None: f"{what} ran longer than its deadline of {due.limit} s",
        "run": f"{what} ran longer than its deadline of {due.limit} s, compiling not counted",
        "compile": f"{what} compiled longer than its compile_deadline of {due.limit} s",
    }[due.phase]
    return DeadlineExceeded(text, deadline=due.limit, phase=due.phase)


def _due(job: Job) -> _Due | None:
    request, started, told = job.request, job.started, job.compiling
    if started is None:
        return None
    if not isinstance(request, Run) or request.compile_deadline is None:
        return None if request.deadline is None else _Due(started + request.deadline, request.deadline, None)
    limit = request.compile_deadline
    uncounted = 0.0
    if told is not None:
        if told.since is not None and told.spare is None:
            return _Due(told.since + limit - told.compiled, limit, "compile")
        if told.compiled >= limit:
            return _Due(started, limit, "compile")
        uncounted = told.compiled + told.spared + (told.spare or 0.0)
    if request.deadline is None:
        return None
    return _Due(started + uncounted + request.deadline, request.deadline, "run")
