"""Which names a text uses without binding them, and which it touches: by Python's own symbol tables."""

from __future__ import annotations

import ast
import symtable
from collections.abc import Iterator


def free_names(source: str) -> frozenset[str]:
    """Global names that the text or anything defined in it uses, without its own. Python's are
    among them: a field may be called ``input``."""
    top = symtable.symtable(source, "<cell>", "exec")
    bound = bound_names(source)
    used = {
        symbol.get_name()
        for table in _tables(top)
        for symbol in table.get_symbols()
        if symbol.is_referenced() and (table is top or symbol.is_global())
    }
    return frozenset(used - bound)


def bound_names(source: str) -> frozenset[str]:
    """What the text assigns, defines or imports at module level."""
    top = symtable.symtable(source, "<cell>", "exec")
    return frozenset(
        symbol.get_name()
        for symbol in top.get_symbols()
        if symbol.is_assigned() or symbol.is_imported() or symbol.is_namespace()
    )


def touched_names(node: ast.stmt) -> frozenset[str]:
    """Names that running this statement may read or change by itself: the body of a ``def`` does not run."""
    found: set[str] = set()
    for each in _running(node):
        if isinstance(each, ast.Name):
            found.add(each.id)
        elif isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found.add(each.name)
        elif isinstance(each, ast.alias):
            found.add(each.asname or each.name.split(".")[0])
    return frozenset(found)


def _running(node: ast.AST) -> Iterator[ast.AST]:
    yield node
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        heads = [*node.decorator_list, *node.args.defaults, *(each for each in node.args.kw_defaults if each)]
        for head in heads:
            yield from _running(head)
        return
    for child in ast.iter_child_nodes(node):
        yield from _running(child)


def _tables(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    yield table
    for child in table.get_children():
        yield from _tables(child)
