"""Statements that are going to the worker, and the units they become.

One unit for each definition, under the definition's own name: typing a kernel again replaces it and nothing else,
and a field keeps its contents when a kernel beside it changes. Line numbers stay those of the cell.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from tiremote.repl.cells import Statement
from tiremote.repl.classify import Place
from tiremote.repl.free_names import bound_names, free_names

_PLACING = frozenset({"place", "finalize", "lazy_grad"})


@dataclass(frozen=True, slots=True)
class Unit:
    """Text to be loaded under ``name``: it defines ``defines`` and looks up ``needs`` elsewhere."""

    name: str
    source: str
    defines: frozenset[str]
    needs: frozenset[str]


def unit_of(*statements: Statement, name: str | None = None) -> Unit:
    """One unit of statements of one cell, each at its own line; ``name`` is by default the first that is bound."""
    source = ""
    for statement in statements:
        empty = statement.first_line - 1 - source.count("\n")
        # Two statements on one line: the second goes below; only then is a line not the user's.
        source += "\n" * max(empty, 0) + statement.text + "\n"
    defines = bound_names(source)
    first = next((each for statement in statements for each in _bound_in_order(statement.node)), "layout")
    return Unit(name or first, source, defines, free_names(source))


@dataclass(slots=True)
class Pending:
    """What waits until something uses it, so that a kernel may come before the function that it calls."""

    _statements: list[tuple[Statement, Place]] = field(default_factory=list)
    _bound: set[str] = field(default_factory=set)
    _read: set[str] = field(default_factory=set)

    def add(self, statement: Statement, place: Place) -> None:
        self._statements.append((statement, place))
        self._bound |= bound_names(statement.source)
        if place is not Place.DEFINITION:
            self._read |= free_names(statement.source)

    def waits(self) -> bool:
        """Whether anything does."""
        return bool(self._statements)

    def binds(self, name: str) -> bool:
        return name in self._bound

    def must_go_before(self, touched: frozenset[str]) -> bool:
        """Whether running a statement that touches these names could tell that something waits."""
        return bool(touched & (self._bound | self._read))

    def take(self) -> list[Unit]:
        """What waits as units, each after those that it needs. Fields that have no place yet go on waiting."""
        statements, self._statements = self._statements, []
        self._bound, self._read = set(), set()
        layout = [statement for statement, place in statements if place is Place.LAYOUT]
        units = [unit_of(statement) for statement, place in statements if place is not Place.LAYOUT]
        if layout:
            laid_out = unit_of(*layout)
            if unplaced(layout) and not any(unit.needs & laid_out.defines for unit in units):
                for statement in layout:
                    self.add(statement, Place.LAYOUT)
            else:
                units.insert(0, laid_out)
        return in_order(units)

    def layout(self) -> list[Statement]:
        """The statements that wait for a later one to place their fields."""
        return [statement for statement, place in self._statements if place is Place.LAYOUT]


def unplaced(layout: list[Statement]) -> list[str]:
    """Fields and SNodes of these statements that no other of them places or goes on from."""
    used = {name for statement in layout for name in free_names(statement.source)}
    return [
        name
        for statement in layout
        if not any(isinstance(each, ast.Attribute) and each.attr in _PLACING for each in ast.walk(statement.node))
        for name in _bound_in_order(statement.node)
        if name not in used
    ]


def in_order(units: list[Unit]) -> list[Unit]:
    """Each after those that it needs."""
    ordered: list[Unit] = []
    waiting = list(units)
    while waiting:
        missing = {name for each in waiting for name in each.defines}
        # Names in a circle can only be told by the worker: then the order of the text has to do.
        ready = next((each for each in waiting if not each.needs & (missing - each.defines)), waiting[0])
        waiting.remove(ready)
        ordered.append(ready)
    return ordered


def _bound_in_order(node: ast.stmt) -> list[str]:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)]
