"""One version of one unit, executed and checked in a namespace of its own; what it did can be taken back."""

from __future__ import annotations

import contextlib
import sys
import types
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from tiremote.worker.engine.check import Calls, Checker
from tiremote.worker.engine.definitions import define, sendable
from tiremote.worker.engine.frames import load_error, without_colours
from tiremote.worker.engine.half_declared import Snapshot, left_waiting
from tiremote.worker.engine.keeping import Kept, initial_values, keep_state
from tiremote.worker.engine.source import Source, withdraw
from tiremote.worker.engine.unit import LoadedUnit, keep_text_alive, module_name
from tiremote.worker.engine.unit_imports import UnitImports
from tiremote.worker.unit_files import FILE_PREFIX

if TYPE_CHECKING:
    from tiremote.worker.engine.runtime import TaichiRuntime

_MOST_WARNINGS: Final = 20
#: The version that a unit's free name comes from, and the unit.
Owner = Callable[[str, str], LoadedUnit | None]


@dataclass(slots=True)
class Built:
    """A version that works and is nobody's yet. ``seconds``: kernels that were compiled, and how long each took."""

    loaded: LoadedUnit
    old: LoadedUnit | None
    kept: Kept
    seconds: dict[str, float]
    warnings: tuple[str, ...]
    snapshot: Snapshot
    put_back: Callable[[], None] | None = None
    changed: dict[str, frozenset[str]] = field(default_factory=dict)

    def undo(self, runtime: TaichiRuntime) -> None:
        """As if it had never been executed. The last that was built goes first."""
        self.kept.undo()
        _take_back(self.loaded.source, self.loaded.module, self.snapshot, runtime)
        if self.put_back is not None:
            self.put_back()

    def moved(self) -> frozenset[str]:
        """The names that others must not go on with as they took them: what changed, and classes whose objects went
        over to the new one."""
        return frozenset(self.changed) | (self.kept.classes & self.loaded.own)

    def dropped_bytes(self, runtime: TaichiRuntime) -> int:
        """About what the old version's fields and ndarrays weigh that did not stay."""
        if self.old is None:
            return 0
        stays = {id(value) for value in self.loaded.namespace.values()}
        gone = (self.old.namespace.get(name) for name in self.old.own)
        return sum(runtime.about_bytes(value) for value in gone if id(value) not in stays)

    def release(self) -> None:
        """It was taken over: what would take it back is let go."""
        self.kept.release()
        self.old = None


class Builder:
    """Builds versions. ``owner`` tells where a free name comes from, ``find`` a unit for an import."""

    def __init__(self, runtime: TaichiRuntime, owner: Owner, find: Callable[[str], LoadedUnit]) -> None:
        self._runtime = runtime
        self._checker = Checker(runtime)
        self._owner = owner
        self._find = find

    def stand_ins(self) -> list[Any]:
        """The arrays that kernels are compiled for."""
        return self._checker.stand_ins()

    def compile_for(self, kernel: Any, arguments: Sequence[Any]) -> None:
        """As `Checker.compile_for`."""
        self._checker.compile_for(kernel, arguments)

    def build(self, source: Source, old: LoadedUnit | None, *, keep: bool) -> Built:
        """Executes the text, keeps the state of ``old``, compiles. Raises as a load does; nothing is changed then."""
        runtime = self._runtime
        put_back = old.waiting.set_aside(runtime) if old is not None else None
        try:
            snapshot = runtime.take_snapshot()
        except Exception as error:
            # What was declared before cannot be allocated.
            if put_back is not None:
                put_back()
            raise load_error(error, runtime) from None
        module = types.ModuleType(module_name(source))
        kept = Kept()
        failure: BaseException
        try:
            built = self._run(source, module, old, snapshot, kept, keep=keep)
            built.put_back = put_back
            return built
        except (Exception, SystemExit) as error:
            failure = load_error(error, runtime)
        except BaseException as error:
            # A class of the text's own, or a stop from outside.
            is_own = type(error).__module__ == module_name(source)
            failure = load_error(error, runtime) if is_own else error
        # Outside the except clause, and without what the exception drags along: its frames hold the failed namespace,
        # and with that the fields whose trees are to be given back.
        failure.__traceback__ = failure.__context__ = failure.__cause__ = None
        kept.undo()
        _take_back(source, module, snapshot, runtime)
        if put_back is not None:
            put_back()
        raise failure

    def _run(
        self,
        source: Source,
        module: types.ModuleType,
        old: LoadedUnit | None,
        snapshot: Snapshot,
        kept: Kept,
        *,
        keep: bool,
    ) -> Built:
        runtime, namespace = self._runtime, module.__dict__
        imports = UnitImports(source.unit, runtime.name, self._find)
        namespace |= {
            "ti": runtime.ti,
            "tm": runtime.tm,
            "np": sys.modules["numpy"],
            "__file__": source.file,
            **imports.names(),
        }
        uses = self._inject(source, namespace)
        injected = {name: namespace[name] for name in uses}
        keep_text_alive(namespace, source)
        # Where dataclasses and typing look up the names of a class's annotations.
        sys.modules[module_name(source)] = module
        calls: Calls = old.calls if old is not None else {}
        state = old if keep and old is not None else None
        with (
            runtime.guard_init() as refused,
            _own_arguments(source.file),
            warnings.catch_warnings(record=True) as caught,
        ):
            warnings.simplefilter("default")
            compiled, trees = runtime.compiled_instances(), runtime.trees.count()
            splitting = runtime.split_root() if state is not None else contextlib.nullcontext()
            with splitting, runtime.watch_outside() as outside:
                exec(source.code, namespace)
            # It may have cleared its globals.
            keep_text_alive(namespace, source)
            own = frozenset(source.names.bound & namespace.keys())
            if state is None:
                kept.initial = initial_values(namespace, own, runtime)
            else:
                both = own & state.own & state.namespace.keys()
                keep_state(state.namespace, namespace, both, state.initial, kept, runtime)
                if kept.kept:
                    # Kernels that the text has called already have what was thrown away baked in.
                    compiled.forget_later(runtime)
                runtime.split_root.settle(kept.discarded)
                runtime.trees.collect_after(trees, kept.discarded)
            seconds = self._checker.check(source, namespace, calls)
        loaded = LoadedUnit(
            source=source,
            module=module,
            own=own,
            definitions=define(source.tree, namespace, seconds, runtime),
            uses={name: owner for name, owner in uses.items() if namespace.get(name) is injected[name]},
            imports=imports.taken,
            initial=kept.initial,
            waiting=left_waiting(snapshot, runtime),
            calls={name: call for name, call in calls.items() if name.partition(".")[0] in own},
            outside=tuple(outside),
        )
        told = [*source.warnings, *refused, *(_told(each) for each in caught if _is_for_the_user(each))]
        return Built(
            loaded=loaded,
            old=old,
            kept=kept,
            seconds=seconds,
            warnings=tuple(dict.fromkeys(told))[:_MOST_WARNINGS],
            snapshot=snapshot,
        )

    def _inject(self, source: Source, namespace: dict[str, Any]) -> dict[str, tuple[str, int]]:
        uses: dict[str, tuple[str, int]] = {}
        for name in source.names.free - namespace.keys():
            owner = self._owner(name, source.unit)
            if owner is not None:
                namespace[name] = owner.namespace[name]
                uses[name] = (owner.unit, owner.version)
        return uses


def _take_back(source: Source, module: types.ModuleType, snapshot: Snapshot, runtime: TaichiRuntime) -> None:
    sys.modules.pop(module_name(source), None)
    withdraw(source.file)
    snapshot.restore(runtime)
    module.__dict__.clear()


@contextlib.contextmanager
def _own_arguments(file: str) -> Iterator[None]:
    """Whole programs parse ``sys.argv``, and would stop at the options of this process."""
    before = sys.argv
    sys.argv = [file]
    try:
        yield
    finally:
        sys.argv = before


def _is_for_the_user(warning: warnings.WarningMessage) -> bool:
    """What libraries say to their own developers while they are imported is not."""
    for_developers = (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning)
    return warning.filename.startswith(FILE_PREFIX) or not issubclass(warning.category, for_developers)


def _told(warning: warnings.WarningMessage) -> str:
    text = sendable(" ".join(without_colours(str(warning.message)).split()))
    return f"line {warning.lineno}: {text}" if warning.filename.startswith(FILE_PREFIX) else text
