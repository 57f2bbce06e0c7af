"""What the session holds, as far as it is known here, and as the worker tells it where that may have changed."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from tiremote.client.exchange import Exchange
from tiremote.protocol.errors import UnknownName
from tiremote.protocol.messages import Describe
from tiremote.protocol.receipts import Definition, Description, UnitHolding

CALLABLE = ("kernel", "func", "function", "class")


class UnknownAttribute(UnknownName, AttributeError):
    """`UnknownName` where an attribute was asked for, so that ``hasattr`` works."""


class Directory:
    """Finds units and definitions. Raises `UnknownName` with what was probably meant.

    Describing costs a round trip. In a private session what can be called changes only where this client loads or
    drops something, so that is remembered; all else is asked for anew, because others load units too, and because a
    function that runs may rebind a name of its module.
    """

    def __init__(self, exchange: Exchange, *, shared: bool) -> None:
        self.exchange = exchange
        self._shared = shared
        self._known: Description | None = None
        self._losses = 0
        self._changes = 0

    def describe(self) -> Description:
        """What the worker says now."""
        # Read before asking: what changes meanwhile makes the answer old.
        changes, losses = self._changes, self.exchange.losses
        description = self.exchange.call(Describe(id=""), Description)
        if changes == self._changes and not self._shared:
            self._known, self._losses = description, losses
        return description

    def forget(self) -> None:
        """Something was loaded or dropped."""
        self._changes += 1
        self._known = None

    def unit(self, unit: str | None) -> UnitHolding:
        """What is loaded under the id, or (None) last."""
        known = self._remembered()
        found = _unit_in(known, unit) if known else None
        return found or _unit(self.describe(), unit)

    def definition(self, unit: str | None, name: str) -> tuple[str, Definition]:
        """The definition of that name and the id of the unit that has it."""
        known = self._remembered()
        holding = _unit_in(known, unit) if known else None
        found = _definition_in(holding, name) if holding else None
        if holding is None or found is None or found.kind not in CALLABLE:
            holding = _unit(self.describe(), unit)
            found = _definition_in(holding, name)
        if found is None:
            names = tuple(definition.name for definition in holding.definitions)
            raise UnknownName(f"{holding.unit!r} defines no {name!r}{_suggestion(name, names)}", name=name, known=names)
        return holding.unit, found

    def locate(self, name: str) -> tuple[str | None, str]:
        """Unit (None: the newest) and name within it, for a ``name`` or ``unit.name``."""
        unit, dot, rest = name.rpartition(".")
        if dot and any(holding.unit == unit for holding in (self._remembered() or self.describe()).units):
            self.definition(unit, rest)
            return unit, rest
        self.definition(None, name.partition(".")[0])
        return None, name

    def _remembered(self) -> Description | None:
        return self._known if self._losses == self.exchange.losses else None


def _unit(description: Description, unit: str | None) -> UnitHolding:
    found = _unit_in(description, unit)
    if found is not None:
        return found
    names = tuple(holding.unit for holding in description.units)
    if unit is None:
        raise UnknownName("nothing is loaded yet: compile_and_load() comes first", known=names)
    if not isinstance(unit, str):
        raise TypeError(f"a kernel id is a string, or None for the newest, not {type(unit).__name__}")
    raise UnknownName(f"nothing is loaded as {unit!r}{_suggestion(unit, names)}", name=unit, known=names)


def _unit_in(description: Description, unit: str | None) -> UnitHolding | None:
    wanted = description.newest if unit is None else unit
    return next((holding for holding in description.units if holding.unit == wanted), None)


def _definition_in(holding: UnitHolding, name: str) -> Definition | None:
    return next((definition for definition in holding.definitions if definition.name == name), None)


def _suggestion(name: str, names: Iterable[str]) -> str:
    names = tuple(names)
    close = get_close_matches(name, names, n=1)
    if close:
        return f"; did you mean {close[0]!r}?"
    return f"; there is {', '.join(names[:8])}{' and more' if len(names) > 8 else ''}" if names else "; it is empty"
