"""Which watched files import which, and so what is loaded before what."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping


def imports_of(text: str, units: Iterable[str]) -> frozenset[str]:
    """The units that the text imports, anywhere in it; none where it does not parse."""
    tree = parsed(text)
    if tree is None:
        return frozenset()
    named: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            named.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            # `from . import helpers` has no module; in `from .helpers import f` the dot changes nothing here.
            named.update([node.module] if node.module else [alias.name for alias in node.names])
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == "import_unit"
            and node.args
            and isinstance(node.args[0], ast.Constant)
        ):
            named.add(str(node.args[0].value))
    return frozenset(named).intersection(units)


def load_order(imports: Mapping[str, frozenset[str]]) -> tuple[str, ...]:
    """Every unit after what it imports, else as given. A circle is left to the worker, which will say so."""
    ordered: dict[str, None] = {}
    under_way: set[str] = set()

    def visit(unit: str) -> None:
        if unit in ordered or unit in under_way:
            return
        under_way.add(unit)
        for imported in (each for each in imports if each in imports[unit]):
            visit(imported)
        ordered[unit] = None

    for unit in imports:
        visit(unit)
    return tuple(ordered)


def imported(imports: Mapping[str, frozenset[str]], unit: str) -> frozenset[str]:
    """What a unit imports, directly or not."""
    found: set[str] = set()
    waiting = {unit}
    while waiting:
        waiting = {each for one in waiting for each in imports.get(one, ())} - found
        found |= waiting
    return frozenset(found)


def related(imports: Mapping[str, frozenset[str]], units: Iterable[str]) -> frozenset[str]:
    """Units that import one of these or are imported by one, directly or not, and these."""
    found = set(units)
    size = 0
    while size < len(found):
        size = len(found)
        found |= {unit for unit, others in imports.items() if others & found}
        found.update(*(imports[unit] for unit in found if unit in imports))
    return frozenset(found)


def parsed(text: str) -> ast.Module | None:
    """The syntax tree, or None where Python's parser refuses the text."""
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
