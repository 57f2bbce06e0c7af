"""What is kept on the worker under handles, and the names those handles have."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import count
from typing import Any

from tiremote.protocol.errors import Refused, StaleHandle, UnknownName
from tiremote.protocol.receipts import ArrayHolding
from tiremote.protocol.values import Handle, Name

#: Behind the id of an array these make that of its gradient, and of what forward mode computes.
_DERIVATIVES = ("grad", "dual")


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Held:
    """An object and what is told of it."""

    value: Any
    holding: ArrayHolding


class Holdings:
    """One engine's handles. Their ids say session and generation, so that none is ever taken for another."""

    def __init__(self, session: str, generation: int) -> None:
        self._session = session
        self._generation = generation
        #: Of engines whose handles all came along.
        self._inherited: frozenset[str] = frozenset()
        self._numbers = count(1)
        self._held: dict[str, Held] = {}
        #: The object's identity to its handle: what is returned twice is one thing.
        self._ids: dict[int, str] = {}
        #: Names in units to the handles of what they led to last.
        self._places: dict[Name, str] = {}
        #: What is told otherwise of a handle than before.
        self._changed: dict[str, ArrayHolding] = {}

    def keep(
        self,
        value: Any,
        kind: str,
        meta: dict[str, Any],
        nbytes: int,
        *,
        label: str | None,
        made_by: str | int | None,
        place: Name | None = None,
    ) -> tuple[ArrayHolding, bool]:
        """A handle for the object, and whether it is a new one."""
        known = self._ids.get(id(value))
        if known is not None:
            return self._held[known].holding, False
        handle = Handle(kind=kind, id=f"{self._session}.{self._generation}.{next(self._numbers)}", meta=meta)
        holding = ArrayHolding(handle=handle, label=label, nbytes=nbytes, made_by=made_by, place=place)
        self.adopt(holding, value)
        return holding, True

    def adopt(self, holding: ArrayHolding, value: Any) -> None:
        """Has an earlier engine's handle stand for this object."""
        self._held[holding.handle.id] = Held(value=value, holding=holding)
        self._ids[id(value)] = holding.handle.id
        if holding.place is not None:
            self._places[holding.place] = holding.handle.id

    def of(self, value: Any) -> ArrayHolding | None:
        """What is told of an object, None where it has no handle."""
        known = self._ids.get(id(value))
        return None if known is None else self._held[known].holding

    def at(self, place: Name) -> Handle | None:
        """The handle of what that name led to last."""
        known = self._places.get(place)
        return None if known is None else self._held[known].holding.handle

    def place(self, handle: Handle, place: Name | None) -> None:
        """Another name leads to the object now, or none."""
        held = self._find(handle)
        self._leave(held)
        holding = self._changed[handle.id] = replace(held.holding, place=place)
        self.adopt(holding, held.value)

    def _leave(self, held: Held) -> None:
        if held.holding.place is not None and self._places.get(held.holding.place) == held.holding.handle.id:
            del self._places[held.holding.place]

    def take_changed(self) -> list[ArrayHolding]:
        """What is told otherwise since this was asked last."""
        changed, self._changed = list(self._changed.values()), {}
        return changed

    def __contains__(self, handle: Handle) -> bool:
        """Whether something is kept under it."""
        return handle.id in self._held

    def holding(self, handle: Handle) -> ArrayHolding:
        """What is told of the object. Raises likewise."""
        return self._find(handle).holding

    def value(self, handle: Handle) -> Any:
        """The object, or the gradient or dual of an array. Raises `StaleHandle`, or `UnknownName` for a handle of
        another session and for a derivative that the array was not made with."""
        held = self._held.get(handle.id)
        if held is not None:
            return held.value
        owner, _, which = handle.id.rpartition(".")
        if which not in _DERIVATIVES:
            return self._find(handle).value
        array = self._find(Handle(kind=handle.kind, id=owner))
        if not array.holding.handle.meta.get(f"needs_{which}"):
            raise UnknownName(f"{handle.kind} {owner} has no {which}: make it with needs_{which}=True", name=handle.id)
        return getattr(array.value, which)

    def drop(self, handle: Handle) -> Held:
        """Forgets the object and returns it. Raises likewise, and `Refused` for an array's gradient."""
        if handle.id not in self._held and handle.id.rpartition(".")[2] in _DERIVATIVES:
            raise Refused(f"{handle.id} goes with the array that it is a part of: clean up that")
        held = self._find(handle)
        del self._held[handle.id]
        self._changed.pop(handle.id, None)
        self._leave(held)
        # Two names whose handles were taken may have become one thing, which has two handles then.
        if self._ids.get(id(held.value)) == handle.id:
            del self._ids[id(held.value)]
        return held

    def generations(self) -> frozenset[str]:
        """The engines of whose handles none was lost."""
        return self._inherited | {str(self._generation)}

    def inherit(self, generations: frozenset[str]) -> None:
        """Nothing was lost with these earlier engines: a handle of theirs that is not here was cleaned up."""
        self._inherited |= generations

    def all(self) -> list[Handle]:
        """Every handle, oldest first."""
        return [held.holding.handle for held in self._held.values()]

    def _find(self, handle: Handle) -> Held:
        held = self._held.get(handle.id)
        if held is not None:
            return held
        session, generation, _ = (*handle.id.split("."), "", "")[:3]
        if session != self._session:
            raise UnknownName(f"handle {handle.id!r} is not of this session", name=handle.id)
        if generation not in self.generations():
            raise StaleHandle(
                f"{handle.kind} {handle.id} was lost when its engine was replaced, or cleaned up: make it again",
                handle=handle.id,
            )
        raise StaleHandle(f"{handle.kind} {handle.id} was cleaned up: make it again", handle=handle.id)
