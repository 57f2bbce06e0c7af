"""In what order units are built: each after those that it uses."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from tiremote.worker.engine.source import Source
from tiremote.worker.engine.unit import GIVEN


def build_order(sources: Mapping[str, Source]) -> tuple[str, ...]:
    """The units of these texts, each after those of them whose names it uses or that it imports, else as given."""
    if len(sources) == 1:
        return tuple(sources)
    uses = {
        unit: {
            other
            for other, given in sources.items()
            if other in imported or not (source.names.free - GIVEN).isdisjoint(given.names.bound)
        }
        for unit, source in sources.items()
        for imported in [set(_imported(source.tree))]
    }
    return dependencies_first(sources, uses.__getitem__)


def dependencies_first(units: Iterable[str], uses: Callable[[str], Collection[str]]) -> tuple[str, ...]:
    """Each unit after those that it uses, also through others that are not among them; else as given.

    In a circle the first that is met comes last.
    """
    places = {unit: number for number, unit in enumerate(units)}

    def below(unit: str) -> Iterator[str]:
        return iter(sorted(uses(unit), key=lambda each: (places.get(each, len(places)), each)))

    ordered: dict[str, None] = {}
    for unit in places:
        if unit in ordered:
            continue
        # A stack and no recursion: a session may hold thousands of units in a chain.
        waiting = [(unit, below(unit))]
        met = {unit}
        while waiting:
            each, inside = waiting[-1]
            found = next((one for one in inside if one not in met and one not in ordered), None)
            if found is None:
                ordered[each] = None
                waiting.pop()
            else:
                met.add(found)
                waiting.append((found, below(found)))
    return tuple(unit for unit in ordered if unit in places)


def _imported(tree: ast.Module) -> Iterator[object]:
    """What is imported while the text is executed; an import inside a function comes when that is called."""
    waiting: list[ast.AST] = list(tree.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "import_unit":
            yield from (each.value for each in node.args if isinstance(each, ast.Constant))
        waiting.extend(ast.iter_child_nodes(node))
