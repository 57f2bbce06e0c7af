"""``%%worker``: a cell that is plain Python on the worker, whatever is in it."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass

from tiremote.repl.cells import MAGIC, Cell
from tiremote.repl.free_names import bound_names, touched_names

#: The unit and the function that have the value of the last line on the worker.
SHOWN_UNIT, SHOWN = "worker_cell_value", "_shown"


@dataclass(frozen=True, slots=True)
class WorkerCell:
    """``source`` is loaded as ``name``, then ``shown``, the last line's value, where it has one, as `SHOWN_UNIT`."""

    name: str
    source: str
    defines: frozenset[str]
    shown: str | None


def magic_of(text: str) -> str:
    """``worker`` for a cell that begins with ``%%worker``; an empty one for one without a word there."""
    matched = MAGIC.match(text)
    return "" if matched is None else matched[1]


def body_of(cell: Cell) -> Cell:
    """Without that line; the others keep their numbers."""
    matched = MAGIC.match(cell.text)
    if matched is None:
        return cell
    head = matched.end()
    return Cell("\n" * cell.text.count("\n", 0, head) + cell.text[head:], cell.first_line)


def read_worker_cell(cell: Cell, number: int, unit_of: Callable[[str], str | None]) -> WorkerCell:
    """The lines keep their numbers. ``unit_of`` tells which unit defines a name now.

    Raises SyntaxError as `Cell.statements` does.
    """
    statements = body_of(cell).statements()
    shown = None
    if statements and isinstance(statements[-1].node, ast.Expr):
        last = statements.pop()
        # At its own line, below one that is not the user's: the cell's first has %%worker.
        shown = "\n" * (last.first_line - 2) + f"def {SHOWN}(): return (\n{last.text}\n)\n"
    source = ""
    for statement in statements:
        source += "\n" * (statement.first_line - 1 - source.count("\n")) + statement.text + "\n"
    defines = bound_names(source)
    # A unit does not look elsewhere for what it binds itself: x += 1 begins with the x of an earlier cell.
    touched = frozenset[str]().union(*(touched_names(each.node) for each in statements))
    earlier = {name: unit for name in sorted(defines & touched) if (unit := unit_of(name)) is not None}
    if earlier and source.startswith("\n"):
        source = "; ".join(f"from {unit} import {name}" for name, unit in earlier.items()) + source
    return WorkerCell(f"worker_cell_{number}", source, defines, shown)
