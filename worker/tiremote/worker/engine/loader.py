"""`KernelLoader`: compiles and recompiles Taichi kernels from strings, in this process.

A load is a transaction: it succeeds, or everything is as it was before. Versions that were replaced go on working
for whoever holds them, and are given back when nobody does.
"""

from __future__ import annotations

import contextlib
import sys
import time
import types
import warnings
from collections.abc import Iterator
from typing import Any, Final

from tiremote.protocol.errors import ProtocolError, Refused, UnknownName
from tiremote.protocol.receipts import Receipt
from tiremote.worker.engine.check import Calls, Checker
from tiremote.worker.engine.definitions import define, sendable
from tiremote.worker.engine.frames import load_error, without_colours
from tiremote.worker.engine.runtime import TaichiRuntime
from tiremote.worker.engine.source import FILE_PREFIX, Source, digest_of, read_source, withdraw
from tiremote.worker.engine.unit import LoadedUnit, Unit, keep_text_alive, module_name, unknown

MAX_ID_CHARACTERS: Final = 200
_MOST_WARNINGS: Final = 20
#: Replaced versions are cycles of functions and namespaces, which only the garbage collector frees.
_LOADS_BETWEEN_COLLECTIONS: Final = 50


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
        self._checker = Checker(self._runtime)
        #: The newest is the last.
        self._units: dict[str, LoadedUnit] = {}
        self._versions: dict[str, int] = {}
        self._loads = 0

    @property
    def runtime(self) -> TaichiRuntime:
        return self._runtime

    def compile_and_load(self, source: str, kernel_id: str | None = None, *, version: int | None = None) -> Receipt:
        """Executes the text as a module and keeps it under the id, whose earlier version it replaces.

        Without an id: ``kernel_0``, ``kernel_1``, ... the first that is free. ``ti``, ``tm`` (``taichi.math``) and
        ``np`` are there; a name that the text uses and does not define comes from the newest unit that defines
        it. The same text under the same id does nothing.

        Raises `CompileError`, or `Refused` for a ``ti.init`` that asks for another runtime; nothing is changed then.
        """
        started = time.perf_counter()
        unit = self._free_id() if kernel_id is None else _checked_id(kernel_id)
        current = self._units.get(unit)
        if current is not None and current.source.digest == digest_of(source) and self._is_fresh(current):
            self._make_newest(unit)
            return Receipt(
                unit=unit,
                version=current.version,
                unchanged=True,
                definitions=current.definitions,
                seconds=time.perf_counter() - started,
            )
        if not self._runtime.is_started():
            raise Refused("the runtime is not started: call ti.init first")
        number = version if version is not None else self._versions.get(unit, 0) + 1
        text = read_source(source, unit, number)
        calls = dict(current.calls) if current is not None else {}
        loaded, told = self._load(text, calls)
        loaded.calls.update({name: call for name, call in calls.items() if name in loaded.own})
        self._versions[unit] = number
        self._units.pop(unit, None)
        self._units[unit] = loaded
        removed: tuple[str, ...] = ()
        if current is not None:
            names = {each.name for each in loaded.definitions}
            removed = tuple(each.name for each in current.definitions if each.name not in names)
            self._retire(current)
        self._collect_sometimes()
        return Receipt(
            unit=unit,
            version=number,
            definitions=loaded.definitions,
            removed=removed,
            warnings=told,
            seconds=time.perf_counter() - started,
        )

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

    def _load(self, source: Source, calls: Calls) -> tuple[LoadedUnit, tuple[str, ...]]:
        try:
            snapshot = self._runtime.take_snapshot()
        except Exception as error:
            # What was declared before cannot be allocated.
            raise load_error(error, self._runtime) from None
        module = types.ModuleType(module_name(source))
        failure: BaseException
        try:
            return self._run(source, module, calls)
        except (Exception, SystemExit) as error:
            failure = load_error(error, self._runtime)
        except BaseException as error:
            # A class of the text's own, or a stop from outside.
            is_own = type(error).__module__ == module_name(source)
            failure = load_error(error, self._runtime) if is_own else error
        # Outside the except clause: the exception's traceback holds the failed namespace.
        sys.modules.pop(module_name(source), None)
        withdraw(source.file)
        snapshot.restore(self._runtime)
        module.__dict__.clear()
        self._runtime.collect()
        raise failure

    def _run(self, source: Source, module: types.ModuleType, calls: Calls) -> tuple[LoadedUnit, tuple[str, ...]]:
        namespace = module.__dict__
        namespace |= {
            "ti": self._runtime.ti,
            "tm": self._runtime.tm,
            "np": sys.modules["numpy"],
            "__file__": source.file,
        }
        uses = self._inject(source, namespace)
        injected = {name: namespace[name] for name in uses}
        keep_text_alive(namespace, source)
        # Where dataclasses and typing look up the names of a class's annotations.
        sys.modules[module_name(source)] = module
        with (
            self._runtime.guard_init() as refused,
            _own_arguments(source.file),
            warnings.catch_warnings(record=True) as caught,
        ):
            warnings.simplefilter("default")
            exec(source.code, namespace)
            # It may have cleared its globals.
            keep_text_alive(namespace, source)
            checked = self._checker.check(source, namespace, calls)
        uses = {name: owner for name, owner in uses.items() if namespace.get(name) is injected[name]}
        loaded = LoadedUnit(
            source=source,
            module=module,
            own=frozenset(source.names.bound & namespace.keys()),
            definitions=define(source.tree, namespace, checked, self._runtime),
            uses=uses,
        )
        told = [*source.warnings, *refused, *(_told(each) for each in caught if _is_for_the_user(each))]
        return loaded, tuple(dict.fromkeys(told))[:_MOST_WARNINGS]

    def _inject(self, source: Source, namespace: dict[str, Any]) -> dict[str, tuple[str, int]]:
        uses: dict[str, tuple[str, int]] = {}
        for name in source.names.free - namespace.keys():
            owner = self._owner(name, source.unit)
            if owner is not None:
                namespace[name] = owner.namespace[name]
                uses[name] = (owner.unit, owner.version)
        return uses

    def _owner(self, name: str, for_unit: str) -> LoadedUnit | None:
        """The newest unit that binds the name; a unit does not inherit from the version it replaces."""
        for unit, loaded in reversed(self._units.items()):
            if unit != for_unit and name in loaded.own and name in loaded.namespace:
                return loaded
        return None

    def _is_fresh(self, loaded: LoadedUnit) -> bool:
        """Whether the names it took from other units would be taken from the same versions now."""
        for name in loaded.source.names.free:
            owner = self._owner(name, loaded.unit)
            found = None if owner is None else (owner.unit, owner.version)
            if name not in ("ti", "tm", "np") and loaded.uses.get(name) != found:
                return False
        return True

    def _make_newest(self, unit: str) -> None:
        self._units[unit] = self._units.pop(unit)

    def _retire(self, loaded: LoadedUnit) -> None:
        sys.modules.pop(loaded.module_name, None)
        namespace = loaded.namespace
        self._runtime.unregister_kernels(lambda kernel: kernel.func.__globals__ is namespace)

    def _collect_sometimes(self) -> None:
        self._loads += 1
        if self._loads % _LOADS_BETWEEN_COLLECTIONS == 0:
            self._runtime.collect()

    def _free_id(self) -> str:
        number = 0
        while f"kernel_{number}" in self._units:
            number += 1
        return f"kernel_{number}"


@contextlib.contextmanager
def _own_arguments(file: str) -> Iterator[None]:
    """Whole programs parse ``sys.argv``, and would stop at the options of this process."""
    before = sys.argv
    sys.argv = [file]
    try:
        yield
    finally:
        sys.argv = before


def _checked_id(kernel_id: object) -> str:
    if not isinstance(kernel_id, str):
        raise ProtocolError(f"a kernel id is a string, not {type(kernel_id).__name__}")
    if not kernel_id or len(kernel_id) > MAX_ID_CHARACTERS or not kernel_id.isprintable():
        raise ProtocolError(f"a kernel id is 1 to {MAX_ID_CHARACTERS} printable characters, not {kernel_id[:40]!r}")
    return kernel_id


def _is_for_the_user(warning: warnings.WarningMessage) -> bool:
    """What libraries say to their own developers while they are imported is not."""
    for_developers = (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning)
    return warning.filename.startswith(FILE_PREFIX) or not issubclass(warning.category, for_developers)


def _told(warning: warnings.WarningMessage) -> str:
    text = sendable(" ".join(without_colours(str(warning.message)).split()))
    return f"line {warning.lineno}: {text}" if warning.filename.startswith(FILE_PREFIX) else text
