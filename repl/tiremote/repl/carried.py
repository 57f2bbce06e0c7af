"""Names of the laptop that a kernel uses: numbers, texts, modules, functions and types go along as units of their own.

In front of the kernel's text they would shift its lines. What cannot go along is refused with what to do instead.
"""

from __future__ import annotations

import ast
import math
import types
from typing import Any

import numpy as np

from tiremote.client import RemoteArray, RemoteField
from tiremote.protocol.errors import CompileError, SourceFrame
from tiremote.repl.drivers import SHARED_MODULES
from tiremote.repl.laptop_taichi import LaptopTaichi, OnWorker
from tiremote.repl.names import Names
from tiremote.repl.pending import Unit, unit_of

#: What the worker has in every unit, by the value that it has on the laptop.
_GIVEN = {"ti": "", "tm": "math"}


class Carrier:
    """Knows which names went along with which text, so that only a changed one goes again."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._sent: dict[str, str] = {}

    def forget(self) -> None:
        """The worker holds nothing any more."""
        self._sent.clear()

    def needed(self, unit: Unit, held: frozenset[str]) -> list[Unit]:
        """What has to be loaded before ``unit``, where the worker has units of the names ``held``.

        Raises `CompileError` that points to the first name that can not go along.
        """
        found: list[Unit] = []
        self._collect(unit, held, found, set(unit.defines))
        return found

    def goes_along(self, name: str) -> bool | None:
        """Whether what the name stands for means the same on the worker; None where there is no such name."""
        if name not in self._names.values:
            return None
        value = self._names.values[name]
        if isinstance(value, (LaptopTaichi, OnWorker)) or self._names.alias(name) is not None:
            return True
        if isinstance(value, types.ModuleType):
            return value.__name__ in SHARED_MODULES
        if _import(name, value) is not None:
            return value.__module__ in SHARED_MODULES
        # A list would be another one there, and what is put into it would stay there.
        return self._names.is_worker_type(name) or (not isinstance(value, list) and literal(value) is not None)

    def changed(self) -> list[Unit]:
        """What went along earlier and has another value now."""
        units = []
        for name, before in self._sent.items():
            if name in self._names.values and self._names.remote_unit(name) is None:
                unit = self._unit(name)
                if unit is not None and unit.source.strip() != before:
                    units.append(unit)
        return units

    def sent(self, unit: Unit) -> None:
        """``unit``, of those that `needed` or `changed` gave, is loaded."""
        self._sent[unit.name] = unit.source.strip()

    def replaced(self, name: str) -> None:
        """Another unit took the name over."""
        self._sent.pop(name, None)

    def _collect(self, user: Unit, held: frozenset[str], found: list[Unit], seen: set[str]) -> None:
        for name in sorted(user.needs):
            if name in seen or name not in self._names.values or self._is_there(name):
                continue
            seen.add(name)
            unit = self._unit(name)
            if unit is None:
                raise _cannot_go(user, name, self._names.values[name])
            self._collect(unit, held, found, seen)
            if self._sent.get(unit.name) != unit.source.strip() or unit.name not in held:
                found.append(unit)

    def _is_there(self, name: str) -> bool:
        if name == "np":
            return self._names.values[name] is np
        if name in _GIVEN and self._names.alias(name) == _GIVEN[name]:
            return True
        return self._names.remote_unit(name) is not None

    def _unit(self, name: str) -> Unit | None:
        value = self._names.values[name]
        text = _text(value, self._names.alias(name))
        if text is not None:
            return Unit(name, f"{name} = {text}\n", frozenset({name}), frozenset())
        text = _import(name, value)
        if text is not None:
            return Unit(name, f"{text}\n", frozenset({name}), frozenset())
        statement = self._names.statement(name)
        return None if statement is None else unit_of(statement)


def _text(value: Any, alias: str | None) -> str | None:
    if isinstance(value, LaptopTaichi):
        return "ti"
    if isinstance(value, OnWorker) and alias is None:
        return f"ti.{value._path}"
    if alias is not None:
        return f"ti.{alias}"
    return literal(value)


def literal(value: Any) -> str | None:
    """Source of a plain value; None where it is not one."""
    if isinstance(value, np.generic) and isinstance(value, (np.bool_, np.integer, np.floating)):
        value = value.item()
    if value is None or type(value) in (bool, int, str):
        return repr(value)
    if type(value) is float:
        return repr(value) if math.isfinite(value) else f'float("{value}")'
    if type(value) in (tuple, list):
        parts = [literal(each) for each in value]
        if any(part is None for part in parts):
            return None
        inside = ", ".join(part for part in parts if part is not None)
        if type(value) is list:
            return f"[{inside}]"
        return f"({inside},)" if len(parts) == 1 else f"({inside})"
    return None


def _import(name: str, value: Any) -> str | None:
    if isinstance(value, types.ModuleType):
        return f"import {value.__name__} as {name}"
    if isinstance(value, (types.FunctionType, types.BuiltinFunctionType, type)) and value.__module__ != "__main__":
        return f"from {value.__module__} import {value.__qualname__} as {name}" if value.__module__ else None
    return None


def _cannot_go(user: Unit, name: str, value: Any) -> CompileError:
    what, advice = _described(value)
    return CompileError(
        f"{name} is {what} on this laptop, which {user.name} cannot see on the worker: {advice}",
        frames=tuple(_first_use(user, name)),
    )


def _described(value: Any) -> tuple[str, str]:
    if isinstance(value, RemoteField):
        return "a field that was made inside other code", "declare it at the left margin, name = ti.field(...)"
    if isinstance(value, RemoteArray):
        return "an ndarray's name", "pass it as an argument (x: ti.types.ndarray()), or declare a ti.field"
    if isinstance(value, np.ndarray):
        return "a NumPy array", "pass it as an argument (x: ti.types.ndarray()), or declare a ti.field"
    kind = type(value).__name__
    return (
        f"a value of type {kind}",
        "numbers, strings, tuples, modules and functions go along, others as arguments",
    )


def _first_use(user: Unit, name: str) -> list[SourceFrame]:
    uses = [each for each in ast.walk(ast.parse(user.source)) if isinstance(each, ast.Name) and each.id == name]
    if not uses:
        return []
    node = min(uses, key=lambda each: (each.lineno, each.col_offset))
    text = user.source.splitlines()[node.lineno - 1]
    start = len(text.encode()[: node.col_offset].decode()) + 1
    end = start + len(name)
    return [
        SourceFrame(unit=user.name, version=1, function="", line=node.lineno, column=start, end_column=end, text=text)
    ]
