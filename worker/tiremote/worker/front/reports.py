"""What status and describe tell, from what the front knows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tiremote.protocol.receipts import ArrayHolding, Description, UnitHolding
from tiremote.protocol.results import Running, SessionLine, SessionStatus
from tiremote.worker.front.deadlines import is_compiling
from tiremote.worker.front.losses import as_of
from tiremote.worker.front.sessions import Job, Session, describe


def session_status(
    session: Session,
    job: Job | None,
    now: float,
    attached: float,
    memory_of: Callable[[int], int | None],
    copies_bytes: int,
) -> SessionStatus:
    """How a session is. ``job`` is what its engine has begun; clients heard of for ``attached`` seconds count."""
    engine, ledger = session.engine, session.ledger
    running = None
    state = "starting"
    # Without an engine it is as an earlier worker left it, and has one when it is needed.
    if (engine is None and not session.is_awaited()) or (engine is not None and engine.state == "serving"):
        state = "idle"
    if job is not None:
        state = "busy" if job.stop is None else "stopping"
        running = Running(
            request=job.request.id,
            op=job.request.op,
            target=describe(job),
            seconds=now - (job.started or now),
            client=job.seat.client,
            compiling=is_compiling(job),
        )
    waiting = len(engine.inflight) if engine else 0
    if job is not None or session.is_lent():
        # The first of them is what it does, or may do at any time.
        waiting -= 1
    return SessionStatus(
        session=session.name or session.id,
        state=state,
        generation=session.generation,
        clients=sum(now - seat.last_seen <= attached for seat in session.seats.values()),
        queued=len(session.queue) + waiting,
        running=running,
        units=len(session.units),
        unit_bytes=ledger.unit_bytes(),
        held_versions=sum(map(len, ledger.held.values())),
        arrays=len(session.holdings()),
        array_bytes=session.array_bytes(),
        host_bytes=ledger.host_bytes,
        chunk_bytes=ledger.chunk_bytes,
        copies_bytes=copies_bytes,
        snode_trees=ledger.snode_trees,
        engine_pid=engine.pid if engine else None,
        engine_memory=memory_of(engine.pid) if engine and engine.pid else None,
        device_free=ledger.device_free,
        device_total=ledger.device_total,
        leaked=session.leak.nbytes,
        recycled=session.leak.moves,
        engine=engine.info if engine else None,
    )


def session_line(session: Session, status: SessionStatus, now: float) -> SessionLine:
    """How a session is, for a list of them."""
    return SessionLine(
        id=session.id,
        name=session.name,
        state=status.state,
        clients=status.clients,
        unused=now - session.last_seen,
        running=status.running,
        units=status.units,
        arrays=status.arrays,
        array_bytes=status.array_bytes,
    )


def description(session: Session, job: Job | None, now: float) -> Description:
    """What a session holds. ``job`` is what its engine has begun: what that names is used now."""
    if job is not None:
        session.usage.note(job.request, session.newest, now)
    info = session.engine.info if session.engine is not None else None
    return Description(
        session=session.name or session.id,
        generation=session.generation,
        runtime=session.runtime,
        version="" if info is None else info.version,
        newest=session.newest,
        units=tuple(_unit(session, unit.holding, now) for unit in session.units.values()),
        arrays=tuple(_array(session, holding, now) for holding in session.holdings().values()),
        nbytes=session.array_bytes(),
        as_of=() if session.loss is None else as_of(session, session.put_back.values(), session.loss),
    )


def _unit(session: Session, holding: UnitHolding, now: float) -> UnitHolding:
    use = session.usage.units.get(holding.unit)
    sizes = session.ledger.units.get(holding.unit, {})
    return replace(
        holding,
        nbytes=sum(sizes.values()),
        sizes=dict(sizes),
        held=session.ledger.held.get(holding.unit, ()),
        owner=None if use is None else use.owner,
        unused=None if use is None else now - use.at,
    )


def _array(session: Session, holding: ArrayHolding, now: float) -> ArrayHolding:
    use = session.usage.arrays.get(holding.handle.id)
    return holding if use is None else replace(holding, owner=use.owner, unused=now - use.at)
