"""``add(x, 5.0) 1 2`` behind a command: the call of something on the worker, and the numbers behind it."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Any

from tiremote.repl.names import Names


@dataclass(frozen=True, slots=True)
class TypedCall:
    """What is called lies in ``unit`` as ``name``."""

    unit: str
    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    numbers: tuple[int, ...]


def read_call(text: str, names: Names, *, usage: str, most_numbers: int) -> TypedCall:
    """``usage`` goes on after "say what to call, ". Raises `ValueError` in one line for what is no call of something on
    the worker.
    """
    call, closed, rest = text.rpartition(")")
    try:
        node = ast.parse(f"{call}{closed}", mode="eval").body
        numbers = tuple(int(each) for each in rest.split())
    except (SyntaxError, ValueError):
        node, numbers = None, ()
    if not isinstance(node, ast.Call) or len(numbers) > most_numbers:
        raise ValueError(f"say what to call, {usage}")
    name = ast.unparse(node.func)
    unit = names.remote_unit(name.partition(".")[0])
    if unit is None:
        raise ValueError(f"{name} is not on the worker: :kernels lists what is")
    args = tuple(_value(each, names) for each in node.args)
    kwargs = {each.arg: _value(each.value, names) for each in node.keywords if each.arg is not None}
    return TypedCall(unit, name, args, kwargs, numbers)


def called(call: TypedCall, names: Names) -> Any:
    """What the name stands for at the prompt. Raises `ValueError` likewise."""
    return _value(ast.parse(call.name, mode="eval").body, names)


def _value(node: ast.expr, names: Names) -> Any:
    try:
        return eval(compile(ast.Expression(node), "<command>", "eval"), names.values)
    except Exception as error:
        raise ValueError(f"{ast.unparse(node)}: {type(error).__name__}: {error}") from None
