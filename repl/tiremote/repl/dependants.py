"""Which loaded kernels, functions and classes use a name, directly or through others."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from tiremote.repl.pending import Unit


@dataclass(slots=True)
class Dependants:
    """What this prompt has loaded. Fields are left out: made anew they would lose what is in them."""

    _units: dict[str, Unit] = field(default_factory=dict)

    def loaded(self, unit: Unit, name: str) -> None:
        """``unit`` is what the worker holds as ``name`` now."""
        self._units.pop(name, None)
        body = ast.parse(unit.source).body
        if all(isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) for each in body):
            self._units[name] = unit

    def of(self, names: frozenset[str]) -> list[tuple[str, Unit]]:
        """The users of these names, each after what it uses itself."""
        found: dict[str, Unit] = {}
        changed = set(names)
        grown = True
        while grown:
            grown = False
            for name, unit in self._units.items():
                if name not in found and unit.needs & changed and not unit.defines & names:
                    found[name] = unit
                    changed |= unit.defines
                    grown = True
        return list(found.items())

    def forget(self, name: str | None = None) -> None:
        """The unit, or everything, was dropped."""
        for each in [name] if name is not None else list(self._units):
            self._units.pop(each, None)
