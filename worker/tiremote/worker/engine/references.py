"""What a received handle, name or argument stands for."""

from __future__ import annotations

from typing import Any

from tiremote.protocol.errors import UnknownName
from tiremote.protocol.values import Handle, Name, Ref
from tiremote.worker.engine.holdings import Holdings
from tiremote.worker.engine.loader import KernelLoader


class References:
    """Looks things up in what is loaded and what is kept."""

    def __init__(self, loader: KernelLoader, holdings: Holdings) -> None:
        self._loader = loader
        self._holdings = holdings

    def resolve(self, ref: Ref) -> Any:
        """The thing itself. Raises `UnknownName`, `StaleHandle`."""
        if isinstance(ref, Handle):
            return self._holdings.value(ref)
        return attribute(self._loader[ref.unit], ref.name, "" if ref.unit is None else ref.unit)

    def argument(self, value: Any) -> Any:
        """What a received value stands for, also inside containers; arrays stay as they came. Raises likewise."""
        if isinstance(value, Handle | Name):
            return self.resolve(value)
        if isinstance(value, list | tuple):
            return type(value)(self.argument(one) for one in value)
        if isinstance(value, dict):
            return {key: self.argument(one) for key, one in value.items()}
        return value


def attribute(value: Any, dotted: str, where: str) -> Any:
    """What a dotted name leads to from a unit or an object, known to people as ``where``. Raises `UnknownName`."""
    for part in dotted.split("."):
        if not part.isidentifier() or part.startswith("__"):
            raise UnknownName(f"{dotted!r} is not a name that can be reached from outside", name=dotted)
        try:
            value = getattr(value, part)
        except AttributeError as error:
            # The unit's own error lists what there is; an attribute's comes from whatever object it is.
            if isinstance(error, UnknownName):
                raise
            raise UnknownName(f"{where or 'the unit'} has no {dotted!r}: {error}", name=dotted) from None
    return value


def shown(ref: Ref, value: Any) -> str:
    """A target in an error: its name, or what kind of thing a handle stands for."""
    return str(ref) if isinstance(ref, Name) else f"the {type(value).__name__}"
