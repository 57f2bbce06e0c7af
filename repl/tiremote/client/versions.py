"""The texts that a unit had: listed, read, and compared."""

from __future__ import annotations

import difflib

from tiremote.client.exchange import Exchange
from tiremote.protocol.messages import History
from tiremote.protocol.results import HistoryResult


def history(exchange: Exchange, unit: str) -> HistoryResult:
    """The versions that the worker remembers, oldest first."""
    return exchange.call(History(id="", unit=unit), HistoryResult)


def source(exchange: Exchange, unit: str, version: int | None) -> str:
    """The text of a version; None: the one that is loaded."""
    if version is None:
        version = history(exchange, unit).current
    told = exchange.call(History(id="", unit=unit, version=version), HistoryResult)
    return told.versions[0].source or ""


def diff(exchange: Exchange, unit: str, before: int | None, after: int | None) -> str:
    """Two versions compared; by default the one that is loaded and the one before it."""
    known = history(exchange, unit)
    after = known.current if after is None else after
    if before is None:
        before = max((one.version for one in known.versions if one.version < after), default=after)
    old, new = (source(exchange, unit, version).splitlines(keepends=True) for version in (before, after))
    return "".join(difflib.unified_diff(old, new, f"{unit} version {before}", f"{unit} version {after}"))
