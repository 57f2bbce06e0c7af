"""A worker's status, to be read."""

from __future__ import annotations

from tiremote.protocol.results import EngineInfo, Running, SessionLine, SessionStatus, WorkerStatus
from tiremote.repl.durations import duration
from tiremote.repl.render import size_text, table


def status_text(status: WorkerStatus, address: str) -> str:
    """Worker first, then the session that asked, where one did."""
    crashed = _count(status.crashes, "engine")
    rows = [
        ("worker", f"{address}, pid {status.pid}, tiremote {status.worker_version}, up {duration(status.uptime)}"),
        ("engine", engine_text(status.engine)),
        ("sessions", f"{status.sessions}, {status.spares} spare engine{'' if status.spares == 1 else 's'} ready"),
        ("requests", f"{status.requests:,} taken, {status.dropped:,} dropped, {crashed} crashed"),
    ]
    if status.state is not None:
        rows.append(("on disk", "sessions are kept there" if status.state == "kept" else status.state))
    if status.session is not None:
        rows += _session_rows(status.session)
    rows += [("", _session_line(each)) for each in status.listed]
    return table(rows)


def _session_line(session: SessionLine) -> str:
    name, users, state, holds = session_row(session)
    return f"{name}: {users}, {state}, {holds}"


#: What `session_row` has.
HEAD = ("session", "used by", "does", "holds")


def session_row(session: SessionLine) -> tuple[str, str, str, str]:
    """One of a worker's sessions: its name, who uses it, what it does, what it holds."""
    name = session.name or f"{session.id} (private)"
    state = session.state
    if session.running is not None:
        state = _running_text(session.running)
    users = _count(session.clients, "client") if session.clients else f"no client heard for {duration(session.unused)}"
    holds = f"{_count(session.units, 'unit')}, {_count(session.arrays, 'array')} of {size_text(session.array_bytes)}"
    return name, users, state, holds


def _running_text(running: Running) -> str:
    compiles = ", compiling now" if running.compiling and running.op == "run" else ""
    return f"{running.target} for {duration(running.seconds)}{compiles}"


def engine_text(engine: EngineInfo | None) -> str:
    if engine is None:
        return "none has started yet"
    return f"{engine.runtime} {engine.version} on {engine.arch} ({engine.device})"


def _session_rows(session: SessionStatus) -> list[tuple[str, str]]:
    state = session.state
    if session.running is not None:
        state = _running_text(session.running)
    return [
        ("session", f"{session.session}, {_count(session.clients, 'client')}, engine {session.generation}"),
        ("runs", f"{state}, {session.queued:,} queued"),
        ("holds", _holds_text(session)),
        ("memory", _memory_text(session)),
        *_recycling_rows(session),
    ]


def _recycling_rows(session: SessionStatus) -> list[tuple[str, str]]:
    parts = []
    if session.recycled:
        parts.append(f"its engine was replaced {_count(session.recycled, 'time')} because of leaked memory")
    if session.recycle is not None and session.recycle != "off":
        parts.append(f"{session.recycle}, with {size_text(session.leaked)} leaked")
    return [("recycled", "; ".join(parts))] if parts else []


def _holds_text(session: SessionStatus) -> str:
    behind = f" with {size_text(session.unit_bytes)}" if session.unit_bytes else ""
    parts = [
        f"{_count(session.units, 'unit')}{behind}",
        f"{_count(session.arrays, 'array')} of {size_text(session.array_bytes)}",
    ]
    if session.copies_bytes:
        parts.append(f"copies of {size_text(session.copies_bytes)}")
    if session.chunk_bytes:
        parts.append(f"{size_text(session.chunk_bytes)} of what was sent, not to be sent it again")
    if session.held_versions:
        parts.append(f"{_count(session.held_versions, 'replaced version')} that somebody holds still")
    return ", ".join(parts)


def _memory_text(session: SessionStatus) -> str:
    parts = [f"{session.snode_trees} of {session.snode_trees_limit} SNode trees"]
    if session.engine_memory is not None:
        parts.append(f"its engine uses {size_text(session.engine_memory)}")
    if session.device_free is not None and session.device_total is not None:
        parts.append(f"the GPU has {size_text(session.device_free)} of {size_text(session.device_total)} free")
    return ", ".join(parts)


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
