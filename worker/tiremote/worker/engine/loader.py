"""`KernelLoader`: compiles and recompiles Taichi kernels from strings, in this process.

A load is a transaction: it succeeds, or everything is as it was before. Versions that were replaced go on working
for whoever holds them, and are given back when nobody does.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import psutil

from tiremote.protocol.errors import ProtocolError, Refused, UnknownName
from tiremote.protocol.receipts import Change, Receipt
from tiremote.worker.engine.building import Builder, Built
from tiremote.worker.engine.differences import describe_changes, line_statistics
from tiremote.worker.engine.runtime import TaichiRuntime
from tiremote.worker.engine.source import Source, digest_of, read_source
from tiremote.worker.engine.transaction import GIVEN, Transaction, owner_of
from tiremote.worker.engine.unit import LoadedUnit, Unit, unknown

MAX_ID_CHARACTERS: Final = 200
#: Replaced versions are cycles of functions and namespaces, which only the garbage collector frees.
_LOADS_BETWEEN_COLLECTIONS: Final = 50
#: A load that drops as much collects at once.
_MANY_BYTES: Final = 32 << 20


class KernelLoader:
    """Holds units of source under ids.

    ``runtime`` is an initialised `TaichiRuntime`; without one, Taichi is imported and has to be initialised by the
    caller (``ti.init``) before the first load, as with plain Taichi.
    """

    def __init__(self, runtime: TaichiRuntime | None = None) -> None:
        if runtime is None:
            runtime = TaichiRuntime()
            runtime.adopt()
        self._runtime = runtime
        self._builder = Builder(self._runtime, self._owner, self._find)
        self._transaction: Transaction | None = None
        #: The newest is the last.
        self._units: dict[str, LoadedUnit] = {}
        self._versions: dict[str, int] = {}
        self._loads = 0

    @property
    def runtime(self) -> TaichiRuntime:
        return self._runtime

    def compile_and_load(
        self, source: str, kernel_id: str | None = None, *, version: int | None = None, keep: bool = True
    ) -> Receipt:
        """Executes the text as a module and keeps it under the id, whose earlier version it replaces.

        Without an id: ``kernel_0``, ``kernel_1``, ... the first that is free. ``ti``, ``tm`` (``taichi.math``) and
        ``np`` are there; a name that the text uses and does not define comes from the newest unit that defines
        it, and ``import_unit("id")`` gives another unit. The same text under the same id does nothing.

        ``keep``: fields, ndarrays and objects that are declared as before go on with their contents; without it all are
        new. Other units that use a name that changed are built again with the new one.

        Raises `CompileError`, also for such a unit, or `Refused` for a ``ti.init`` that asks for another runtime;
        nothing is changed then.
        """
        started = time.perf_counter()
        unit = self._free_id() if kernel_id is None else _checked_id(kernel_id)
        current = self._units.get(unit)
        same = current is not None and current.source.digest == digest_of(source)
        if current is not None and same and keep and self._is_fresh(current):
            return self._unchanged(current, started)
        if not self._runtime.is_started():
            raise Refused("the runtime is not started: call ti.init first")
        number = version if version is not None else self._versions.get(unit, 0) + 1
        text = read_source(source, unit, number)
        # Whatever holds the version before would keep its fields from being given back below.
        del current
        receipt, dropped = self._reload(text, keep=keep)
        self._versions[unit] = number
        self._collect_sometimes(at_once=dropped >= _MANY_BYTES)
        return replace(receipt, seconds=time.perf_counter() - started, memory=_resident_bytes())

    def rebuilt(self, receipt: Receipt) -> tuple[LoadedUnit, ...]:
        """The other units that a load built again, from its receipt."""
        units = dict.fromkeys(each.unit for each in receipt.changes if each.unit != receipt.unit)
        return tuple(self._units[unit] for unit in units)

    def loaded(self, kernel_id: str | None) -> LoadedUnit:
        """The current version of a unit, with everything that is known of it; None is the newest unit.

        Raises `UnknownName`.
        """
        if kernel_id is None and self._units:
            return next(reversed(self._units.values()))
        if kernel_id is None:
            raise UnknownName("nothing is loaded yet", name=None)
        try:
            return self._units[kernel_id]
        except (KeyError, TypeError):
            known = tuple(self._units)
            raise UnknownName(unknown("there is no unit", kernel_id, known), name=str(kernel_id), known=known) from None

    def __getitem__(self, kernel_id: str | None) -> Unit:
        return Unit(self.loaded(kernel_id))

    def __contains__(self, kernel_id: object) -> bool:
        return kernel_id in self._units

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._units))

    def __len__(self) -> int:
        return len(self._units)

    def cleanup(self, kernel_id: str | None) -> None:
        """Drops one unit, None: the newest; what nobody else holds of it is given back. Raises `UnknownName`."""
        loaded = self.loaded(kernel_id)
        del self._units[loaded.unit]
        self._retire(loaded)
        del loaded
        self._runtime.collect()

    def cleanup_all(self) -> None:
        """Drops every unit."""
        while self._units:
            self._retire(self._units.popitem()[1])
        self._runtime.collect()

    @contextlib.contextmanager
    def _begin(self) -> Iterator[Transaction]:
        """Takes back what was built where its block raises, else makes it the current versions."""
        transaction = self._transaction = Transaction(self._units, self._runtime, self._builder)
        try:
            yield transaction
        except BaseException:
            transaction.undo()
            raise
        finally:
            self._transaction = None

    def _owner(self, name: str, for_unit: str) -> LoadedUnit | None:
        """Where a free name comes from."""
        units = self._units if self._transaction is None else self._transaction.units
        return owner_of(units, name, for_unit)

    def _find(self, kernel_id: str) -> LoadedUnit:
        """What an import in a unit's text finds, while it is loaded and later."""
        return self.loaded(kernel_id) if self._transaction is None else self._transaction.find(kernel_id)

    def _unchanged(self, current: LoadedUnit, started: float) -> Receipt:
        warnings: tuple[str, ...] = ()
        changes: list[Change] = []
        if next(reversed(self._units)) != current.unit:
            with self._begin() as transaction:
                transaction.make_newest(current.unit)
            changes = [each for built in transaction.built for each in _described(built)]
            warnings = tuple(transaction.warnings)
            self._take_over(transaction)
        return Receipt(
            unit=current.unit,
            version=current.version,
            previous=current.version,
            unchanged=True,
            definitions=current.definitions,
            changes=tuple(changes),
            warnings=warnings,
            seconds=time.perf_counter() - started,
            memory=_resident_bytes(),
        )

    def _reload(self, text: Source, *, keep: bool) -> tuple[Receipt, int]:
        """What was done, and about how many bytes of arrays were dropped by it."""
        with self._begin() as transaction:
            built = transaction.load(text, keep=keep)
        receipt = _receipt(transaction, built)
        dropped = sum(each.dropped_bytes(self._runtime) for each in transaction.built)
        self._take_over(transaction)
        return receipt, dropped

    def _take_over(self, transaction: Transaction) -> None:
        """Makes what a transaction built the current versions."""
        # In one step: whatever stops the process's work between two, there is one or the other.
        self._units = transaction.units
        for built in transaction.built:
            if built.old is not None:
                self._retire(built.old)
            built.release()
        transaction.built.clear()
        for loaded in self._units.values():
            for name, (unit, _) in loaded.uses.items():
                if unit in self._units:
                    loaded.uses[name] = (unit, self._units[unit].version)

    def _is_fresh(self, loaded: LoadedUnit) -> bool:
        """Whether the names it took from other units would be taken from the same versions now."""
        for name in loaded.source.names.free - GIVEN:
            owner = owner_of(self._units, name, loaded.unit)
            found = None if owner is None else (owner.unit, owner.version)
            if loaded.uses.get(name) != found:
                return False
        return True

    def _retire(self, loaded: LoadedUnit) -> None:
        sys.modules.pop(loaded.module_name, None)
        namespace = loaded.namespace
        loaded.waiting.set_aside(self._runtime)
        self._runtime.unregister_kernels(lambda kernel: kernel.func.__globals__ is namespace)

    def _collect_sometimes(self, *, at_once: bool) -> None:
        self._loads += 1
        if at_once or self._loads % _LOADS_BETWEEN_COLLECTIONS == 0:
            self._runtime.collect()

    def _free_id(self) -> str:
        number = 0
        while f"kernel_{number}" in self._units:
            number += 1
        return f"kernel_{number}"


def _checked_id(kernel_id: object) -> str:
    if not isinstance(kernel_id, str):
        raise ProtocolError(f"a kernel id is a string, not {type(kernel_id).__name__}")
    if not kernel_id or len(kernel_id) > MAX_ID_CHARACTERS or not kernel_id.isprintable():
        raise ProtocolError(f"a kernel id is 1 to {MAX_ID_CHARACTERS} printable characters, not {kernel_id[:40]!r}")
    return kernel_id


def _receipt(transaction: Transaction, built: Built) -> Receipt:
    loaded, old = built.loaded, built.old
    names = {each.name for each in loaded.definitions}
    added, removed = line_statistics(old.source.lines if old is not None else (), loaded.source.lines)
    kept, reset, warnings = list(built.kept.kept), list(built.kept.reset), list(built.warnings)
    changes = _described(built)
    for other in transaction.built[1:]:
        unit = other.loaded.unit
        kept += [f"{unit}.{path}" for path in other.kept.kept]
        reset += [f"{unit}.{path}" for path in other.kept.reset]
        warnings += [f"{unit}: {text}" for text in other.warnings]
        changes += _described(other)
    return Receipt(
        unit=loaded.unit,
        version=loaded.version,
        previous=old.version if old is not None else None,
        definitions=loaded.definitions,
        removed=tuple(each.name for each in old.definitions if each.name not in names) if old is not None else (),
        changes=tuple(changes),
        kept=tuple(kept),
        reset=tuple(reset),
        lines_added=added,
        lines_removed=removed,
        warnings=tuple(dict.fromkeys([*warnings, *transaction.warnings])),
    )


def _described(built: Built) -> list[Change]:
    return describe_changes(built.old, built.loaded, built.changed, built.seconds)


def _resident_bytes() -> int:
    return int(psutil.Process().memory_info().rss)
