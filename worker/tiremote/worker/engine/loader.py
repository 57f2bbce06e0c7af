"""`KernelLoader`: compiles and recompiles Taichi kernels from strings, in this process.

A load is a transaction: it succeeds, or everything is as it was before. Versions that were replaced go on working
for whoever holds them, and are given back when nobody does.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import psutil

from tiremote.protocol.errors import ProtocolError, Refused, UnknownName
from tiremote.protocol.receipts import Receipt
from tiremote.worker.engine.build_order import build_order
from tiremote.worker.engine.building import Builder
from tiremote.worker.engine.reload_receipts import receipts
from tiremote.worker.engine.runtime import TaichiRuntime
from tiremote.worker.engine.source import Source, digest_of, read_source
from tiremote.worker.engine.transaction import Transaction, blamed_on, owner_of
from tiremote.worker.engine.unit import GIVEN, LoadedUnit, Unit, unknown

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
        self._builder = Builder(self._runtime, self.owner, self._find)
        self._transaction: Transaction | None = None
        #: The newest is the last.
        self._units: dict[str, LoadedUnit] = {}
        self._versions: dict[str, int] = {}
        self._loads = 0
        #: Called before any name may come to lead to another thing, which a load of the same text does not do.
        self.before_change: Callable[[], None] = lambda: None

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
        unit = self._free_id() if kernel_id is None else _checked_id(kernel_id)
        versions = {} if version is None else {unit: version}
        return self._load({unit: source}, keep=keep, versions=versions)[0]

    def compile_and_load_all(self, sources: Mapping[str, str], *, keep: bool = True) -> dict[str, Receipt]:
        """Loads several texts, each under its id, as one: all of them, or none.

        Each is executed after those of them that it uses or imports, whatever their order here, and units that are not
        among them are built again once. The last receipt tells of those. Raises as `compile_and_load` does;
        `CompileError.unit` is the one at fault.
        """
        if not sources:
            raise ProtocolError("at least one text is to be loaded; none came")
        loaded = self._load({_checked_id(unit): source for unit, source in sources.items()}, keep=keep)
        return {receipt.unit: receipt for receipt in loaded}

    def rebuilt(self, *receipts: Receipt) -> tuple[LoadedUnit, ...]:
        """The other units that a load built again, from its receipts."""
        asked = {receipt.unit for receipt in receipts}
        units = dict.fromkeys(each.unit for receipt in receipts for each in receipt.changes if each.unit not in asked)
        return tuple(self._units[unit] for unit in units)

    def versions(self) -> dict[str, int]:
        """The last version of each unit, also of those that are gone."""
        return dict(self._versions)

    def resume(self, texts: Mapping[str, tuple[int, str]]) -> None:
        """Loads the units of another process, each as the version that it was there, in that order."""
        versions = {unit: version for unit, (version, _) in texts.items()}
        if texts:
            self._load({unit: text for unit, (_, text) in texts.items()}, keep=False, versions=versions)
        self._units = {unit: self._units[unit] for unit in texts}

    def count_from(self, versions: Mapping[str, int]) -> None:
        """Numbers what is loaded from now on after these versions."""
        self._versions |= versions

    def compile_for(self, kernel: Any, arguments: Sequence[Any]) -> None:
        """As `Checker.compile_for`."""
        self._builder.compile_for(kernel, arguments)

    def stand_ins(self) -> list[Any]:
        """The arrays that kernels are compiled for, and that nobody else has."""
        return self._builder.stand_ins()

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

    def owner(self, name: str, for_unit: str) -> LoadedUnit | None:
        """Where a name comes from that a unit's text uses and does not define."""
        units = self._units if self._transaction is None else self._transaction.units
        return owner_of(units, name, for_unit)

    def _find(self, kernel_id: str) -> LoadedUnit:
        """What an import in a unit's text finds, while it is loaded and later."""
        return self.loaded(kernel_id) if self._transaction is None else self._transaction.find(kernel_id)

    def _load(
        self, sources: Mapping[str, str], *, keep: bool, versions: Mapping[str, int] | None = None
    ) -> list[Receipt]:
        started = time.perf_counter()
        known = versions or {}
        texts = {unit: self._read(unit, source, known.get(unit), keep=keep) for unit, source in sources.items()}
        if any(texts.values()) and not self._runtime.is_started():
            raise Refused("the runtime is not started: call ti.init first")
        made, dropped = self._reload(texts, keep=keep)
        self._versions |= {unit: text.version for unit, text in texts.items() if text is not None}
        if any(texts.values()):
            self._collect_sometimes(at_once=dropped >= _MANY_BYTES)
        seconds, memory = time.perf_counter() - started, _resident_bytes()
        return [replace(receipt, seconds=seconds, memory=memory) for receipt in made]

    def _reload(self, texts: Mapping[str, Source | None], *, keep: bool) -> tuple[list[Receipt], int]:
        """What was done, and about how many bytes of arrays were dropped by it. None: the text is loaded already."""
        order = build_order({unit: text or self._units[unit].source for unit, text in texts.items()})
        with self._begin() as transaction:
            if any(texts.values()) or tuple(self._units)[-len(order) :] != order:
                self.before_change()
                transaction.load({unit: texts[unit] for unit in order}, keep=keep)
        made = receipts(transaction, list(texts), self._units)
        dropped = sum(each.dropped_bytes(self._runtime) for each in transaction.built)
        self._take_over(transaction)
        return made, dropped

    def _read(self, unit: str, source: str, version: int | None, *, keep: bool) -> Source | None:
        """The text as the unit's next version; None where that is loaded already."""
        current = self._units.get(unit)
        with blamed_on(unit):
            if keep and current is not None and current.source.digest == digest_of(source) and self._is_fresh(current):
                return None
            return read_source(source, unit, version if version is not None else self._versions.get(unit, 0) + 1)

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


def _resident_bytes() -> int:
    return int(psutil.Process().memory_info().rss)
