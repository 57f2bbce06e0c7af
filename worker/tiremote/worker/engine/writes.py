"""Which parameters a kernel certainly writes, read from its source.

Only certainty counts: a store under a condition may never run, and a parameter that is passed on to a function
may only be read there. What is not certain is found after the launch, by comparing.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

_ATOMICS = frozenset(f"atomic_{what}" for what in ("add", "sub", "mul", "min", "max", "and", "or", "xor", "cas"))

#: Nodes whose children may never run.
_MAYBE = (ast.If, ast.IfExp, ast.While, ast.BoolOp, ast.FunctionDef, ast.Lambda, ast.Try, ast.Match)

#: What keeps the rest of a body from running.
_LEAVING = (ast.Return, ast.Break, ast.Continue, ast.Raise)


def certainly_written(function: Callable[..., Any]) -> frozenset[str]:
    """The parameters of a Python function into which it stores unconditionally; empty where the source is unknown.

    Subscript stores, augmented assignments, ``ti.atomic_*`` on a subscript, and swizzles of an element count.
    A loop counts as run.
    """
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError, ValueError):
        return frozenset()
    definition = next((node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)), None)
    return frozenset() if definition is None else written_in(definition)


def written_in(definition: ast.FunctionDef) -> frozenset[str]:
    """`certainly_written` for a parsed function."""
    arguments = definition.args
    parameters = {each.arg for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}
    written: set[str] = set()
    for node in _certain(definition.body):
        for target in _targets(node):
            if isinstance(target, ast.Name):
                # The name is bound to something else from here on: its later stores are not into the argument.
                parameters.discard(target.id)
            elif (name := _root(target)) in parameters:
                written.add(name)
    return frozenset(written)


def _certain(body: list[ast.stmt]) -> Iterator[ast.AST]:
    """Every node that runs whenever the function does, in the order of the source."""
    for statement in body:
        if isinstance(statement, _MAYBE):
            if _may_leave(statement):
                return
        elif isinstance(statement, (ast.For, ast.With)):
            yield statement
            yield from _certain(statement.body)
            if any(isinstance(node, ast.Return) for node in ast.walk(statement)):
                return
        else:
            yield from _expressions(statement)
            if isinstance(statement, _LEAVING):
                return


def _expressions(statement: ast.AST) -> Iterator[ast.AST]:
    yield statement
    for child in ast.iter_child_nodes(statement):
        if not isinstance(child, _MAYBE):
            yield from _expressions(child)


def _may_leave(statement: ast.AST) -> bool:
    """Whether it can skip what follows it."""
    return any(isinstance(node, _LEAVING) for node in ast.walk(statement))


def _targets(node: ast.AST) -> Iterator[ast.expr]:
    if isinstance(node, ast.Assign):
        for target in node.targets:
            yield from _unpacked(target)
    elif isinstance(node, ast.AugAssign) or (isinstance(node, ast.AnnAssign) and node.value is not None):
        yield node.target
    elif isinstance(node, (ast.For, ast.NamedExpr)):
        yield from _unpacked(node.target)
    elif isinstance(node, ast.Call) and node.args and _called(node) in _ATOMICS:
        # An atomic on a bare name changes a local variable, and the name stays what it is.
        yield from (each for each in node.args[:1] if not isinstance(each, ast.Name))


def _unpacked(target: ast.expr) -> Iterator[ast.expr]:
    if isinstance(target, (ast.Tuple, ast.List)):
        for each in target.elts:
            yield from _unpacked(each)
    elif isinstance(target, ast.Starred):
        yield from _unpacked(target.value)
    else:
        yield target


def _called(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def _root(target: ast.expr) -> str:
    """``x`` for ``x[i]``, ``x[i][j]`` and ``x[i].y``; empty for ``x.grad[i]``, which is another array."""
    subscripted = False
    while isinstance(target, (ast.Subscript, ast.Attribute)):
        if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name):
            return ""
        subscripted = subscripted or isinstance(target, ast.Subscript)
        target = target.value
    return target.id if subscripted and isinstance(target, ast.Name) else ""
