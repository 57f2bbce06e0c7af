"""A session that loads nothing and remembers what it was asked to: for the logic of the prompt."""

from __future__ import annotations

import ast
from typing import Any

from tiremote.client import Facade
from tiremote.protocol.errors import AsOf, CompileError, UnknownName
from tiremote.protocol.receipts import ArrayHolding, Definition, Description, Receipt, UnitHolding
from tiremote.protocol.results import CleanupResult, EngineInfo, HelloResult, Limits, SnapshotResult, WorkerStatus

ENGINE = EngineInfo(runtime="taichi", version="1.7.4", arch="cpu", device="a device")


class RecordingSession:
    """``loads`` are (unit, text without empty lines in front), ``calls`` are (unit, name, arguments).

    ``failures`` maps a piece of text to the error of loading it, ``call_failures`` a name to that of calling it.
    """

    name = "s1"
    address = "tcp://recorded:1"

    def __init__(self) -> None:
        self.loads: list[tuple[str, str]] = []
        self.sources: dict[str, str] = {}
        #: What `compare` was given.
        self.comparisons: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
        self.benches: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = []
        #: Units that were loaded as one.
        self.together: list[tuple[str, ...]] = []
        self.calls: list[tuple[str, str, tuple[Any, ...]]] = []
        self.failures: dict[str, BaseException] = {}
        self.call_failures: dict[str, BaseException] = {}
        #: What is kept under handles, what `snapshot` was given, and what arrays were put back.
        self.arrays: tuple[ArrayHolding, ...] = ()
        self.snapshots: list[dict[str, Any]] = []
        self.as_of: tuple[AsOf, ...] = ()
        self.closed = False
        #: What `reopened` was given, which makes this session anew in place.
        self.reopenings: list[dict[str, Any]] = []
        self.private = True
        self.ti = Facade(None, {})  # type: ignore[arg-type]
        self.info = HelloResult(
            version=1, token="t", session="s1", engine=ENGINE, worker_version="0", limits=Limits(), ops=()
        )
        self._versions: dict[str, int] = {}

    def compile_and_load(self, source: str, kernel_id: str) -> Receipt:
        for piece, error in self.failures.items():
            if piece in source:
                raise error
        self.loads.append((kernel_id, source.strip()))
        unchanged = self.sources.get(kernel_id) == source
        before = self._definitions(kernel_id) if kernel_id in self.sources else ()
        self.sources.pop(kernel_id, None)
        self.sources[kernel_id] = source
        self._versions[kernel_id] = self._versions.get(kernel_id, 0) + (not unchanged)
        definitions = self._definitions(kernel_id)
        names = {each.name for each in definitions}
        return Receipt(
            unit=kernel_id,
            version=self._versions[kernel_id],
            unchanged=unchanged,
            definitions=definitions,
            removed=tuple(each.name for each in before if each.name not in names),
        )

    def compile_and_load_all(self, sources: dict[str, str]) -> dict[str, Receipt]:
        before = dict(self.sources), dict(self._versions), list(self.loads)
        receipts = {}
        for unit, source in sources.items():
            try:
                receipts[unit] = self.compile_and_load(source, unit)
            except BaseException as error:
                self.sources, self._versions, self.loads = before
                if isinstance(error, CompileError):
                    error.unit = error.unit or unit
                raise
        self.together.append(tuple(sources))
        return receipts

    def compare(self, *asked: Any, **how: Any) -> str:
        self.comparisons.append((asked, how))
        return "a comparison"

    def bench(self, callee: Any, *args: Any, **how: Any) -> str:
        self.benches.append((callee, args, how))
        return "a benchmark"

    def ast(self, kernel_id: str | None, name: str) -> str:
        return f"the tree of {kernel_id}.{name}"

    def explain_crash(self) -> str:
        return "an explanation"

    def loaded(self) -> list[str]:
        return [unit for unit, _ in self.loads]

    def __getitem__(self, kernel_id: str) -> _RecordedUnit:
        return _RecordedUnit(self, kernel_id)

    def __contains__(self, kernel_id: object) -> bool:
        return kernel_id in self.sources

    def describe(self) -> Description:
        units = tuple(
            UnitHolding(unit=unit, version=self._versions[unit], definitions=self._definitions(unit))
            for unit in self.sources
        )
        return Description(session="s1", generation=1, units=units, arrays=self.arrays, as_of=self.as_of)

    def snapshot(self, *, every_seconds: float | None = None, every_runs: int | None = None) -> SnapshotResult:
        asked = {"every_seconds": every_seconds, "every_runs": every_runs}
        self.snapshots.append({name: value for name, value in asked.items() if value is not None})
        return SnapshotResult(
            copied=("x",),
            skipped={"sim.cells": "it is sparse"},
            nbytes=40,
            every_seconds=every_seconds or 0.0,
            every_runs=every_runs or 0,
        )

    def status(self) -> WorkerStatus:
        return WorkerStatus(
            pid=7,
            uptime=61.0,
            worker_version="0",
            engine=ENGINE,
            sessions=1,
            spares=1,
            requests=2,
            dropped=0,
            crashes=0,
        )

    def cleanup(self, kernel_id: str) -> CleanupResult:
        if kernel_id not in self.sources:
            raise UnknownName(f"nothing is loaded as {kernel_id!r}", name=kernel_id)
        del self.sources[kernel_id]
        return CleanupResult(units=(kernel_id,))

    def cleanup_all(self) -> CleanupResult:
        units = tuple(self.sources)
        self.sources.clear()
        return CleanupResult(units=units)

    def reopened(self, **options: Any) -> RecordingSession:
        another = RecordingSession()
        another.reopenings = [*self.reopenings, options]
        self.closed = True
        return another

    def close(self) -> None:
        self.closed = True

    def _definitions(self, unit: str) -> tuple[Definition, ...]:
        made = []
        for node in ast.parse(self.sources[unit]).body:
            if isinstance(node, ast.FunctionDef):
                kind = "kernel" if node.decorator_list else "function"
                made.append(Definition(name=node.name, kind=kind, line=node.lineno))
            elif isinstance(node, ast.ClassDef):
                made.append(Definition(name=node.name, kind="class", line=node.lineno))
            elif isinstance(node, (ast.Assign, ast.AnnAssign)):
                target = node.targets[0] if isinstance(node, ast.Assign) else node.target
                names = [each.id for each in ast.walk(target) if isinstance(each, ast.Name)]
                made += [Definition(name=name, kind="value", line=node.lineno) for name in names]
        return tuple(made)


class _RecordedUnit:
    def __init__(self, session: RecordingSession, unit: str) -> None:
        self._session = session
        self._unit = unit

    def __getitem__(self, name: str) -> Any:
        def call(*args: Any) -> None:
            error = self._session.call_failures.get(name)
            if error is not None:
                raise error
            self._session.calls.append((self._unit, name, args))

        return call


def compile_error(message: str) -> CompileError:
    return CompileError(message)
