"""The texts that a session's units had, for the requests that name one."""

from __future__ import annotations

from collections.abc import Mapping

from tiremote.protocol.errors import UnknownName
from tiremote.protocol.messages import Compile, CompileAll, EngineRequest, History, Rollback
from tiremote.protocol.results import HistoryResult
from tiremote.worker.front.sessions import Job, Session, Unit


def history(request: History, session: Session) -> HistoryResult:
    """The versions of a unit, or the one that was asked for, with its text. Raises `UnknownName`."""
    unit = _unit(session, request.unit)
    versions = unit.history.all() if request.version is None else (unit.history.get(request.version),)
    return HistoryResult(unit=request.unit, current=unit.holding.version, versions=versions)


def _unit(session: Session, name: str) -> Unit:
    try:
        return session.units[name]
    except KeyError:
        known = tuple(session.units)
        raise UnknownName(
            f"there is no unit {name!r}; there are {', '.join(known) or 'none'}", name=name, known=known
        ) from None


def as_compile(request: EngineRequest, session: Session) -> EngineRequest:
    """What the engine is sent: a rollback is a compile of an earlier text, which only the front has."""
    if not isinstance(request, Rollback):
        return request
    source = _unit(session, request.unit).history.get(request.version).source
    return Compile(
        id=request.id,
        token=request.token,
        events=request.events,
        deadline=request.deadline,
        source=source or "",
        unit=request.unit,
        keep=request.keep,
    )


def texts_of(request: EngineRequest) -> Mapping[str | None, str]:
    """The texts that a request loads, by unit; that of a unit which the worker names is under None."""
    if isinstance(request, CompileAll):
        return {each.unit: each.source for each in request.units}
    return {request.unit: request.source} if isinstance(request, Compile) else {}


def text_for(unit: str, job: Job) -> str:
    """The text that a job loaded as a unit."""
    return job.texts[unit] if unit in job.texts else job.texts.get(None, "")
