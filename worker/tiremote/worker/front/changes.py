"""What a request did to what a session holds, written down."""

from __future__ import annotations

from tiremote.protocol.code_requests import LoadRequest
from tiremote.protocol.messages import OpenTape
from tiremote.protocol.receipts import UnitHolding
from tiremote.protocol.values import Name
from tiremote.worker.front.copies import CopyStore
from tiremote.worker.front.history import UnitHistory
from tiremote.worker.front.sessions import Job, Session, Unit
from tiremote.worker.front.texts import text_for
from tiremote.worker.link import Changes


def apply(session: Session, changes: Changes, job: Job, history: int, copies: CopyStore) -> None:
    """``history``: how many versions of a unit are remembered. Call it when ``copies`` know that the job has run."""
    for name in changes.dropped_units:
        session.units.pop(name, None)
        for place in [one for one in session.put_back if isinstance(one, Name) and one.unit == name]:
            del session.put_back[place]
        copies.drop_unit(session.id, name)
    for holding in changes.units:
        first = holding.unit not in session.units
        _hold(session, holding, job, history)
        clean = isinstance(job.request, LoadRequest) and not job.request.keep
        if first or (clean and holding.loaded_by == job.request.id):
            copies.loaded(session.id, holding.unit)
    found(session, changes)
    for name in changes.dropped:
        gone = session.arrays.pop(name, None)
        if gone is not None:
            session.put_back.pop(gone.handle, None)
        session.tapes.pop(name, None)
        copies.drop_handle(session.id, name)
    for target in changes.reset:
        session.put_back.pop(target, None)
        copies.drop(session.id, target)
    for array in changes.arrays:
        session.arrays[array.handle.id] = array
        if isinstance(job.request, OpenTape):
            session.tapes[array.handle.id] = job.seat
    session.loads += bool(changes.units or changes.dropped_units)
    session.newest = next(reversed(session.units), None)
    session.usage.made(changes, job.request.id, job.seat.client, job.received)


def found(session: Session, changes: Changes) -> None:
    """Which arrays the units have."""
    for each in changes.unit_arrays:
        if each.unit in session.units:
            session.units[each.unit].arrays = each.names


def _hold(session: Session, holding: UnitHolding, job: Job, history: int) -> None:
    """A unit was loaded by the job, or, with the text that it had, rebuilt because another was."""
    before = session.units.get(holding.unit)
    rebuilt = before is not None and before.holding.version == holding.version and holding.loaded_by != job.request.id
    source = before.source if rebuilt and before is not None else text_for(holding.unit, job)
    known = before.history if before else UnitHistory(holding.unit, history)
    unit = session.units[holding.unit] = Unit(
        holding=holding, source=source, history=known, arrays=before.arrays if before else ()
    )
    session.broken.pop(holding.unit, None)
    if not rebuilt:
        unit.history.add(holding.version, source, job.request.id)
        session.units.move_to_end(holding.unit)
