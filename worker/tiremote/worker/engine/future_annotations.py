"""``from __future__ import annotations`` turns annotations into text, which Taichi refuses on kernels.

It is taken out of the tree. Where something decorates a function, its annotations are then real objects; those
of plain functions become text, so that a name in them that does not exist yet is as harmless as it was.
"""

from __future__ import annotations

import ast
from collections.abc import Callable


def resolve_annotations(tree: ast.Module) -> None:
    """Changes the tree in place; no line moves."""
    postponed = False
    for position, statement in enumerate(tree.body):
        if isinstance(statement, ast.ImportFrom) and statement.module == "__future__" and statement.level == 0:
            kept = [alias for alias in statement.names if alias.name != "annotations"]
            if len(kept) == len(statement.names):
                continue
            postponed = True
            if kept:
                statement.names = kept
            else:
                tree.body[position] = ast.copy_location(ast.Pass(), statement)
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            if _is_taichi(node):
                _each_annotation(node, _unquoted)
            elif postponed and not node.decorator_list:
                _each_annotation(node, _quoted)


def _is_taichi(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return bool(decorators(node) & {"kernel", "func", "pyfunc", "real_func"})


def decorators(node: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    """The names of a function's decorators, without the module and what they are given: ``kernel``."""
    plain = (each.func if isinstance(each, ast.Call) else each for each in node.decorator_list)
    return {ast.unparse(each).rpartition(".")[2] for each in plain}


def _each_annotation(node: ast.FunctionDef | ast.AsyncFunctionDef, change: Callable[[ast.expr], ast.expr]) -> None:
    arguments = node.args
    for argument in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]:
        if argument.annotation is not None:
            argument.annotation = change(argument.annotation)
    if node.returns is not None:
        node.returns = change(node.returns)


def _quoted(annotation: ast.expr) -> ast.expr:
    return ast.copy_location(ast.Constant(ast.unparse(annotation)), annotation)


def _unquoted(annotation: ast.expr) -> ast.expr:
    """``x: "ti.f32"`` means ``x: ti.f32``."""
    if not (isinstance(annotation, ast.Constant) and isinstance(annotation.value, str)):
        return annotation
    try:
        parsed = ast.parse(annotation.value.strip(), mode="eval").body
    except (SyntaxError, ValueError):
        return annotation
    for each in ast.walk(parsed):
        ast.copy_location(each, annotation)
    return parsed
