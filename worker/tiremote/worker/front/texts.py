"""The texts that a session's units had, for the requests that name one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tiremote.protocol.errors import ProtocolError, UnknownName
from tiremote.protocol.messages import Compare, Compile, CompileAll, EngineRequest, History, Rollback, Side
from tiremote.protocol.results import HistoryResult
from tiremote.worker.front.history import UnitHistory
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


def as_sent(request: EngineRequest, session: Session) -> EngineRequest:
    """What the engine is sent: with the texts of earlier versions, which only the front has. Raises `UnknownName`."""
    if isinstance(request, Rollback):
        return _as_compile(request, session)
    return _with_texts(request, session) if isinstance(request, Compare) else request


def _as_compile(request: Rollback, session: Session) -> Compile:
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


def _with_texts(request: Compare, session: Session) -> Compare:
    name = request.target.unit or session.newest
    if name is None:
        raise UnknownName("nothing is loaded yet", name=None)
    unit = _unit(session, name)
    before, after = request.before or Side(), request.after or Side()
    if request.before is None and after.source is None:
        newer = unit.holding.version if after.version is None else after.version
        before = Side(version=unit.history.before(newer))
    return replace(request, before=_with_text(before, unit.history), after=_with_text(after, unit.history))


def _with_text(side: Side, history: UnitHistory) -> Side:
    if side.version is None:
        return side
    if side.source is not None:
        raise ProtocolError("a side of compare is a version or a source; both came")
    return Side(version=side.version, source=history.get(side.version).source)


def texts_of(request: EngineRequest) -> Mapping[str | None, str]:
    """The texts that a request loads, by unit; that of a unit which the worker names is under None."""
    if isinstance(request, CompileAll):
        return {each.unit: each.source for each in request.units}
    return {request.unit: request.source} if isinstance(request, Compile) else {}


def source_bytes(request: EngineRequest) -> int:
    """The size of all source that came with a request."""
    sides = (request.before, request.after) if isinstance(request, Compare) else ()
    texts = [*texts_of(request).values(), *(side.source or "" for side in sides if side is not None)]
    return sum(len(text.encode()) for text in texts)


def text_for(unit: str, job: Job) -> str:
    """The text that a job loaded as a unit."""
    return job.texts[unit] if unit in job.texts else job.texts.get(None, "")
