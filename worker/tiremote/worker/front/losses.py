"""What a session held when it lost its engine, and what of that is there again: for those who are told."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tiremote.protocol.errors import AsOf, EngineError
from tiremote.protocol.values import Handle, Name, Ref
from tiremote.worker.front.copies import CopyStore, HostCopy
from tiremote.worker.front.sessions import Loading, Loss, Refilling, Session

#: Arrays that an error names: of more only the number, so that it stays a message.
_MOST_TOLD = 1000

_DERIVATIVES = ("grad", "dual")


@dataclass(frozen=True, kw_only=True, slots=True)
class Coming:
    """What is still to be there again."""

    units: frozenset[str]
    arrays: frozenset[Ref]


def targets(session: Session, copies: CopyStore) -> Iterator[Ref]:
    """Everything that holds something, by what copies know it by."""
    for holding in (*session.stock.values(), *session.arrays.values()):
        # What a unit's text leads to is among that; a copy that is fetched in pieces is nobody's.
        if holding.place is None and not copies.is_stand_in(session.id, holding.handle):
            yield holding.handle
            yield from derivatives_of(holding.handle)
    for unit in session.units.values():
        for name in unit.arrays:
            yield Name(unit=unit.holding.unit, name=name)


def contents(session: Session, copies: CopyStore) -> dict[Ref, str]:
    """The same, with names for people."""
    return {target: name_of(session, target) for target in targets(session, copies)}


def name_of(session: Session, target: Ref) -> str:
    """What an array is called in reports: its name, its label, or its handle."""
    if not isinstance(target, Handle):
        return str(target)
    if is_derivative(target):
        owner, _, which = target.id.rpartition(".")
        return f"{name_of(session, Handle(kind=target.kind, id=owner))}.{which}"
    holding = session.arrays.get(target.id) or session.stock.get(target.id)
    return (holding.label if holding else None) or f"{target.kind} {target.id}"


def derivatives_of(handle: Handle) -> Iterator[Handle]:
    """The gradient of an array that only its handle leads to, and its dual, where it was made with them."""
    for which in _DERIVATIVES:
        if handle.meta.get(f"needs_{which}"):
            yield Handle(kind=handle.kind, id=f"{handle.id}.{which}")


def is_derivative(handle: Handle) -> bool:
    """Whether this is one: of these there are no copies, and they are there again as zeros."""
    return handle.id.rpartition(".")[2] in _DERIVATIVES


def coming(session: Session, copies: CopyStore) -> Coming:
    """What an engine is still to get back, or its next one."""
    engine = session.engine
    if engine is None or engine.state != "serving":
        return Coming(units=frozenset(session.units), arrays=_copied(session, copies))
    units = {chore.unit for chore in engine.chores.values() if isinstance(chore, Loading)} | set(engine.unloaded)
    if not engine.refilled:
        return Coming(units=frozenset(units), arrays=_copied(session, copies))
    under_way = [chore for chore in engine.chores.values() if isinstance(chore, Refilling)]
    return Coming(units=frozenset(units), arrays=frozenset(one.target for one in (*engine.refills, *under_way)))


def _copied(session: Session, copies: CopyStore) -> frozenset[Ref]:
    return frozenset(copy.target for copy in copies.of(session.id))


def report(error: EngineError, session: Session, loss: Loss, copies: CopyStore) -> None:
    """Says in the error what of that is there again, or on its way, and what is not."""
    later = coming(session, copies)
    there = {**session.put_back, **{one.target: one for one in copies.of(session.id) if one.target in later.arrays}}
    error.restored = tuple(session.units)
    error.as_of = as_of(session, there.values(), loss)[:_MOST_TOLD]
    awaited = [loss.held[target] for target in there if target in later.arrays and target in loss.held]
    error.coming = _some([*(unit for unit in session.units if unit in later.units), *awaited])
    lost = [session.unrestored.get(target, name) for target, name in loss.held.items() if target not in there]
    error.lost = _some([*lost, *(f"{unit} ({why})" for unit, why in session.broken.items())])


def as_of(session: Session, copies: Iterable[HostCopy], loss: Loss) -> tuple[AsOf, ...]:
    """From when the contents of arrays are that were put back."""
    return tuple(
        AsOf(
            name=loss.held.get(copy.target) or name_of(session, copy.target),
            target=copy.target.id if isinstance(copy.target, Handle) else str(copy.target),
            request=copy.request,
            op=copy.op,
            seconds=max(loss.died_at - copy.at, 0.0),
        )
        for copy in copies
    )


def _some(names: list[str]) -> tuple[str, ...]:
    more = len(names) - _MOST_TOLD
    return tuple(names) if more <= 0 else (*names[:_MOST_TOLD], f"{more:,} more")
