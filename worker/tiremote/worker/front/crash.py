"""What is remembered of a crash, so that it can be explained: small things here, bytes in `crash_copies`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tiremote.protocol.messages import RequestId
from tiremote.protocol.receipts import ArrayHolding, UnitHolding
from tiremote.worker.unit_files import name_in_file


@dataclass(frozen=True, kw_only=True, slots=True)
class UnitThen:
    """A unit as it was; ``arrays``: the names that lead to its fields and ndarrays."""

    holding: UnitHolding
    source: str
    arrays: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Crash:
    """The last request with which an engine of the session died, at ``at``; ``what`` says what became of the engine.

    ``units`` are in the order in which they were loaded, ``texts`` those that the request was to load. ``holdings`` is
    what was kept under handles, ``needs`` the ids of those that the request names.
    """

    request: RequestId
    target: str
    what: str
    at: float
    generation: int
    nbytes: int
    needs: frozenset[str]
    units: Mapping[str, UnitThen]
    texts: Mapping[str | None, str]
    holdings: Mapping[str, ArrayHolding]

    def text_of(self, name: str, version: int) -> tuple[str, str] | None:
        """A unit and its text, by what of its name is in the names of files; None where there is no such."""
        for unit, then in self.units.items():
            if (name_in_file(unit), then.holding.version) == (name, version):
                return unit, then.source
        named = ((unit or name, text) for unit, text in self.texts.items())
        return next((each for each in named if name_in_file(each[0]) == name), None)
