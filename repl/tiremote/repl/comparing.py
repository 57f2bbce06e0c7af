"""``:compare add(x, 5.0) 1 2``: what is typed, and the comparison that is meant."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Any

from tiremote.client import Session
from tiremote.protocol.comparison import Comparison
from tiremote.repl.names import Names


@dataclass(frozen=True, slots=True)
class Asked:
    """A call whose function is on the worker, and the versions of its unit; None: as `Session.compare` has it."""

    unit: str
    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    before: int | None
    after: int | None

    def run(self, gpu: Session) -> Comparison:
        """Raises as `Session.compare` does."""
        return gpu.compare(self.unit, self.name, *self.args, kwargs=self.kwargs, before=self.before, after=self.after)


def read_comparison(text: str, names: Names) -> Asked:
    """Raises `ValueError` in one line for what is no call of something on the worker."""
    call, closed, rest = text.rpartition(")")
    versions = rest.split()
    try:
        node = ast.parse(f"{call}{closed}", mode="eval").body
        numbers = [int(each) for each in versions]
    except (SyntaxError, ValueError):
        node, numbers = None, []
    if not isinstance(node, ast.Call) or len(numbers) > 2:
        raise ValueError("say what to call, and which versions: :compare add(x, 5.0) 1 2")
    name = ast.unparse(node.func)
    unit = names.remote_unit(name.partition(".")[0])
    if unit is None:
        raise ValueError(f"{name} is not on the worker: :kernels lists what is")
    args = tuple(_value(each, names) for each in node.args)
    kwargs = {each.arg: _value(each.value, names) for each in node.keywords if each.arg is not None}
    before, after = [*numbers, None, None][:2]
    return Asked(unit, name, args, kwargs, before, after)


def _value(node: ast.expr, names: Names) -> Any:
    try:
        return eval(compile(ast.Expression(node), "<:compare>", "eval"), names.values)
    except Exception as error:
        raise ValueError(f"{ast.unparse(node)}: {type(error).__name__}: {error}") from None
