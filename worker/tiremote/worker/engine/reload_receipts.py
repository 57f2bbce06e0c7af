"""The receipts of a transaction: what it did to each unit that it was asked to load, and to others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tiremote.protocol.receipts import Change, Receipt
from tiremote.worker.engine.building import Built
from tiremote.worker.engine.differences import describe_changes, line_statistics
from tiremote.worker.engine.transaction import Transaction
from tiremote.worker.engine.unit import LoadedUnit


def receipts(transaction: Transaction, asked: Sequence[str], before: Mapping[str, LoadedUnit]) -> list[Receipt]:
    """One for each unit that was asked for, in that order; the last tells of all others as well.

    ``before``: the units as they were. What the transaction built must not have been taken over yet.
    """
    builds: dict[str, list[Built]] = {unit: [] for unit in asked}
    for built in transaction.built:
        builds.setdefault(built.loaded.unit, []).append(built)
    made = [_receipt(transaction.units[unit], before.get(unit), builds.pop(unit)) for unit in asked]
    return [*made[:-1], _with_others(made[-1], builds, transaction.warnings)]


def _receipt(loaded: LoadedUnit, old: LoadedUnit | None, builds: Sequence[Built]) -> Receipt:
    """``builds``: none where the text was there already, more than one where it had to follow another of them."""
    names = {each.name for each in loaded.definitions}
    gone = tuple(each.name for each in old.definitions if each.name not in names) if old is not None else ()
    added, removed = line_statistics(old.source.lines if old is not None else (), loaded.source.lines)
    return Receipt(
        unit=loaded.unit,
        version=loaded.version,
        previous=old.version if old is not None else None,
        unchanged=old is not None and old.version == loaded.version,
        definitions=loaded.definitions,
        removed=gone,
        changes=tuple(_changes(builds)),
        kept=tuple(builds[0].kept.kept if builds else ()),
        reset=tuple(builds[0].kept.reset if builds else ()),
        lines_added=added,
        lines_removed=removed,
        warnings=tuple(dict.fromkeys(text for each in builds for text in each.warnings)),
    )


def _with_others(receipt: Receipt, others: Mapping[str, Sequence[Built]], warnings: Sequence[str]) -> Receipt:
    """``others``: units that were only built again because of those that were asked for."""
    kept, reset, told = list(receipt.kept), list(receipt.reset), list(receipt.warnings)
    changes = list(receipt.changes)
    for unit, builds in others.items():
        for built in builds:
            kept += [f"{unit}.{path}" for path in built.kept.kept]
            reset += [f"{unit}.{path}" for path in built.kept.reset]
            told += [f"{unit}: {text}" for text in built.warnings]
        changes += _changes(builds)
    return replace(
        receipt,
        changes=tuple(changes),
        kept=tuple(kept),
        reset=tuple(reset),
        warnings=tuple(dict.fromkeys([*told, *warnings])),
    )


def _changes(builds: Sequence[Built]) -> list[Change]:
    """Of one unit. Of two builds the first says what its text changed, the second what followed from others."""
    if not builds:
        return []
    changed: dict[str, frozenset[str]] = {}
    seconds: dict[str, float] = {}
    for built in reversed(builds):
        changed |= built.changed
    for built in builds:
        for name, took in built.seconds.items():
            seconds[name] = seconds.get(name, 0.0) + took
    return describe_changes(builds[0].old, builds[-1].loaded, changed, seconds)
