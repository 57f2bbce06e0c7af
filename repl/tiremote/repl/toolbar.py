"""The line at the bottom: worker, device, session, memory, what runs and since when, round trip."""

from __future__ import annotations

from dataclasses import dataclass

from tiremote.protocol.results import EngineInfo, WorkerStatus
from tiremote.repl.durations import duration
from tiremote.repl.monitor import View
from tiremote.repl.render import size_text

#: Seconds without an answer after which the line says so.
_QUIET = 3.0

_BETWEEN = " | "


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """What does not change while a session lasts."""

    worker: str
    session: str
    engine: EngineInfo


def toolbar_text(place: Place, view: View, now: float, width: int) -> str:
    """As much as goes into ``width`` columns: what runs stays longest."""
    # By importance; shown in the order of the second number.
    parts = [
        (_activity(view, now), 4),
        (place.worker, 0),
        (_device(place.engine, long=False), 1),
        (_round_trip(view), 5),
        (f"session {place.session}", 2),
        (_memory(view.status), 3),
    ]
    chosen: list[tuple[str, int]] = []
    for part in parts:
        if part[0] and len(_line([*chosen, part])) <= width:
            chosen.append(part)
    longer = [(_device(place.engine, long=True), 1) if order == 1 else (text, order) for text, order in chosen]
    line = _line(longer)
    return line if len(line) <= width else (_line(chosen) or parts[0][0][:width])


def _line(parts: list[tuple[str, int]]) -> str:
    return _BETWEEN.join(text for text, _ in sorted(parts, key=lambda part: part[1]))


def _device(engine: EngineInfo, *, long: bool) -> str:
    short = f"{engine.runtime} on {engine.arch}"
    return f"{short} ({engine.device})" if long else short


def _activity(view: View, now: float) -> str:
    if view.trouble:
        return "no worker"
    if view.asked is not None and now - view.asked > _QUIET:
        return f"no answer for {duration(now - view.asked)}"
    session = view.status.session if view.status is not None else None
    if session is None:
        return "..."
    queued = f", {session.queued:,} queued" if session.queued else ""
    running = session.running
    if running is None:
        return f"{session.state}{queued}"
    since = running.seconds + (now - view.heard if view.heard is not None else 0.0)
    compiles = ", compiling" if running.compiling else ""
    return f"{running.target} for {duration(since)}{compiles}{queued}"


def _memory(status: WorkerStatus | None) -> str:
    if status is None or status.session is None:
        return ""
    session = status.session
    text = f"arrays {size_text(session.array_bytes)}"
    if session.device_free is not None and session.device_total is not None:
        return f"{text}, GPU {size_text(session.device_free)} free"
    return text if session.engine_memory is None else f"{text}, engine {size_text(session.engine_memory)}"


def _round_trip(view: View) -> str:
    return "" if view.round_trip is None else f"{view.round_trip * 1e3:.1f} ms"
