"""The names at the prompt: Python values, and for each that the worker shares, how it gets there."""

from __future__ import annotations

import ast
import builtins
import re
import types
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tiremote.client import RemoteArray, RemoteKernel, Session
from tiremote.client.remote import Remote
from tiremote.protocol.errors import EngineError, TiremoteError
from tiremote.protocol.receipts import Definition
from tiremote.protocol.values import Handle
from tiremote.repl.cells import Statement
from tiremote.repl.drivers import DriverFunction
from tiremote.repl.laptop_taichi import LaptopTaichi, OnWorker, importer


@dataclass(frozen=True, slots=True)
class _Recorded:
    """Holds as long as the name still stands for this very value."""

    value: Any
    origin: Any


@dataclass(slots=True)
class Names:
    """``values`` are the globals of what runs on the laptop."""

    taichi: LaptopTaichi
    values: dict[str, Any]
    #: Sends what changed of the names that went along to the worker.
    refresh: Callable[[], None] = lambda: None
    _aliases: dict[str, _Recorded] = field(default_factory=dict)
    _statements: dict[str, _Recorded] = field(default_factory=dict)
    _remote: dict[str, _Recorded] = field(default_factory=dict)

    def bind_taichi(self, name: str, path: str, value: Any) -> None:
        """``name`` is Taichi's ``path`` from now on."""
        self.values[name] = value
        self._aliases[name] = _Recorded(value, path)

    def bind_remote(self, gpu: Session, unit: str, definition: Definition) -> None:
        """``name`` is what the unit defines."""
        name = definition.name
        try:
            value = gpu[unit][name]
        except EngineError:
            raise  # it says what was lost with an engine, and the worker says so once
        except TiremoteError:
            # A value that does not travel, such as a type: kernels use it all the same.
            value = OnWorker(name)
        if isinstance(value, RemoteKernel) and definition.kind == "function":
            value = DriverFunction(value, lambda: self.refresh())
        self.values[name] = value
        self._remote[name] = _Recorded(value, unit)

    def adopt(self, gpu: Session) -> list[str]:
        """Another session took the place of the one there was; the names whose arrays and objects it has not."""
        if self.values.get("gpu") is self.taichi._gpu:
            self.values["gpu"] = gpu
        self.taichi.adopt(gpu)
        # Only a session that was kept holds any of them.
        kept = {each.handle.id: each.handle for each in gpu.describe().arrays} if gpu.info.rejoined else {}
        lost = []
        for name, value in list(self.values.items()):
            if not isinstance(value, Remote) or self.remote_unit(name) is not None:
                continue
            handle = kept.get(getattr(value._target, "id", ""))
            if handle is not None:
                self.values[name] = gpu.proxy(handle)
            else:
                del self.values[name]
                lost.append(name)
        return sorted(name for name in lost if not name.startswith("_"))

    def rebind_lost(self, gpu: Session) -> None:
        """Names of units whose handles an engine took along stand for what the units have made since."""
        held = {each.handle.id for each in gpu.describe().arrays}
        for name, unit in self.remote_names().items():
            target = getattr(self.values[name], "_target", None)
            if isinstance(target, Handle) and target.id not in held:
                value = gpu[unit][name]
                self.values[name] = value
                self._remote[name] = _Recorded(value, unit)

    def remote_names(self) -> dict[str, str]:
        """The unit that defines it, for each name that the worker's units define."""
        units = {name: self.remote_unit(name) for name in list(self.values)}
        return {name: unit for name, unit in units.items() if unit is not None}

    def record(self, name: str, statement: Statement) -> None:
        """Keeps the text of a local function, class or type, for kernels that use it."""
        if name in self.values:
            self._statements[name] = _Recorded(self.values[name], statement)

    def forget_unit(self, unit: str, names: tuple[str, ...] | None = None) -> None:
        """The unit, or some of its names, are no longer there."""
        for name, recorded in list(self._remote.items()):
            if recorded.origin == unit and (names is None or name in names):
                del self._remote[name]
                if self.values.get(name) is recorded.value:
                    del self.values[name]

    def alias(self, name: str) -> str | None:
        """The path in Taichi that the name stands for; ``""`` is Taichi itself."""
        value = self.values.get(name)
        if isinstance(value, LaptopTaichi):
            return ""
        path: str | None = self._current(self._aliases, name)
        return path

    def statement(self, name: str) -> Statement | None:
        """The recorded text of what the name stands for."""
        found: Statement | None = self._current(self._statements, name)
        return found

    def remote_unit(self, name: str) -> str | None:
        """The unit that defines what the name stands for."""
        unit: str | None = self._current(self._remote, name)
        return unit

    def is_function(self, name: str) -> bool:
        """A function or class of the laptop's, which may use any name when it is called."""
        value = self.values.get(name)
        return isinstance(value, types.FunctionType) or (isinstance(value, type) and self.statement(name) is not None)

    def is_worker_type(self, name: str) -> bool:
        """Known to both sides by a recorded text, such as ``vec3 = ti.types.vector(3, ti.f32)``."""
        statement = self.statement(name)
        return statement is not None and isinstance(statement.node, (ast.Assign, ast.AnnAssign))

    def taichi_path(self, node: ast.expr) -> str | None:
        """``types.vector`` for the expression ``ti.types.vector``; None for what is not Taichi's."""
        if isinstance(node, ast.Name):
            return self.alias(node.id)
        if not isinstance(node, ast.Attribute):
            return None
        called = isinstance(node.value, ast.Call)
        base = self.taichi_path(node.value.func if isinstance(node.value, ast.Call) else node.value)
        # What a call gives is Taichi's only below ti.root, whose methods give SNodes: ti.root.dense(ti.i, 8).place.
        if base is None or (called and not base.startswith("root.")):
            return None
        return f"{base}.{node.attr}" if base else node.attr

    def arrays(self) -> list[tuple[str, RemoteArray]]:
        """Names of arrays and fields on the worker."""
        shown = sorted(name for name in self.values if not name.startswith("_"))
        return [(name, self.values[name]) for name in shown if isinstance(self.values[name], RemoteArray)]

    def named(self, text: str) -> str:
        """``text`` with the names at the prompt in place of those that the worker speaks of."""
        for name, array in self.arrays():
            with suppress(TiremoteError):
                # Not the handle of a unit's own, which would be asked for.
                place = rf"(?<![\w.]){re.escape(array.place)}(?![\w])"
                text = re.sub(place, lambda _, name=name: name, text)  # type: ignore[misc]
        return text

    def _current(self, table: dict[str, _Recorded], name: str) -> Any:
        recorded = table.get(name)
        if recorded is None or name not in self.values or self.values[name] is not recorded.value:
            return None
        return recorded.origin


def first_names(gpu: Session, show: Callable[[str], None], reopen: Callable[[dict[str, Any]], bool]) -> Names:
    """``ti``, ``tm``, ``np``, ``gpu``, and what a session that was rejoined holds already.

    ``reopen`` is asked for a session with other options of Taichi, and says whether there is one now.
    """
    taichi = LaptopTaichi(gpu, show, reopen)
    own_builtins = {**vars(builtins), "__import__": importer(taichi)}
    names = Names(taichi, {"__name__": "__main__", "__builtins__": own_builtins, "np": np, "gpu": gpu, "ti": taichi})
    names.bind_taichi("tm", "math", taichi.math)
    if gpu.info.rejoined:
        for holding in gpu.describe().units:
            for definition in holding.definitions:
                names.bind_remote(gpu, holding.unit, definition)
    return names
