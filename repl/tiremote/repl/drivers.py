"""Plain functions that drive kernels: which of them run on the worker, where a loop of launches is one request.

Only what means the same there goes: what looks as if it needed the laptop stays, which is slower and never wrong.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable
from typing import Any

from tiremote.client import RemoteKernel, RequestFuture
from tiremote.repl.free_names import free_names
from tiremote.repl.laptop_taichi import ANY_RUNTIME

#: Modules that both sides have, in whatever version.
SHARED_MODULES = ("math", "numpy")
#: Of Python's own names: those that speak to the terminal, to files or to the names at the prompt.
_OF_THE_LAPTOP = frozenset(
    {"open", "input", "exit", "quit", "breakpoint", "help", "globals", "locals", "vars", "dir", "eval", "exec",
     "compile", "copyright", "credits", "license"}
)  # fmt: skip
#: What a `RemoteArray` or `RemoteKernel` has and Taichi's own have not, or have otherwise.
_OF_PROXIES = frozenset(
    {"submit", "with_options", "definition", "summary", "get", "set", "astype", "dtype", "nbytes", "ndim", "size",
     "handle", "place", "free", "fill_arange", "fill_random"}
)  # fmt: skip
#: They iterate, which a field on the worker does not take.
_ITERATING = frozenset({"len", "list", "tuple", "sum", "min", "max", "sorted", "enumerate", "iter", "zip", "reversed"})


def is_driver(
    function: ast.FunctionDef, on_worker: Callable[[str], bool], goes_along: Callable[[str], bool | None]
) -> bool:
    """Whether all that a plain function uses is on the worker, and something of the worker's is among it.

    ``goes_along`` says of a name at the prompt whether it means the same there; None: there is no such name.
    """
    used = free_names(ast.unparse(function))
    there = {name for name in used if on_worker(name)}
    # A type that both sides know is no reason to go.
    of_worker = {name for name in there if not goes_along(name)}
    if not of_worker:
        return False
    return all(map(_may_go(goes_along), used - there)) and not _needs_the_laptop(function, of_worker)


def _may_go(goes_along: Callable[[str], bool | None]) -> Callable[[str], bool]:
    def judge(name: str) -> bool:
        goes = goes_along(name)
        if goes is None:
            return hasattr(builtins, name) and name not in _OF_THE_LAPTOP and not name.startswith("__")
        return goes and not name.startswith("__")

    return judge


def _needs_the_laptop(function: ast.FunctionDef, of_worker: set[str]) -> bool:
    arguments = function.args
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    parameters = {each.arg for each in named if each is not None}
    # What may stand for an array, for which the laptop has a proxy and the worker the thing itself.
    things = parameters | of_worker
    return any(_is_of_laptop(each, parameters, of_worker, things) for each in ast.walk(function))


def _is_of_laptop(node: ast.AST, parameters: set[str], of_worker: set[str], things: set[str]) -> bool:
    if isinstance(node, (ast.Global, ast.Yield, ast.YieldFrom, ast.Await)):
        return True
    if isinstance(node, ast.Import):
        return any(each.name.partition(".")[0] not in (ANY_RUNTIME, *SHARED_MODULES) for each in node.names)
    if isinstance(node, ast.ImportFrom):
        return bool(node.level) or (node.module or "").partition(".")[0] not in (ANY_RUNTIME, *SHARED_MODULES)
    if isinstance(node, ast.Attribute):
        return node.attr in _OF_PROXIES and _named(node.value) in things
    if isinstance(node, ast.Subscript):
        return _named(node.value) in things and any(map(_is_of_numpy, ast.walk(node.slice)))
    if isinstance(node, (ast.For, ast.comprehension)):
        return _named(node.iter) in of_worker
    if isinstance(node, ast.Call):
        # A function that is given may be one of the laptop's.
        takes_field = any(_named(each) in of_worker for each in node.args)
        return _named(node.func) in parameters or (takes_field and _iterates(node.func))
    return False


def _named(node: ast.expr) -> str | None:
    return node.id if isinstance(node, ast.Name) else None


def _is_of_numpy(node: ast.AST) -> bool:
    """Slices, ``...`` and places counted from the end."""
    if isinstance(node, ast.Constant):
        return node.value is ...
    return isinstance(node, ast.Slice) or (isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub))


def _iterates(function: ast.expr) -> bool:
    if isinstance(function, ast.Attribute):
        return _named(function.value) in ("np", "numpy")
    return _named(function) in _ITERATING


class DriverFunction(RemoteKernel):
    """One that runs on the worker. ``refresh`` sends first what changed of the names that went along."""

    __slots__ = ("_refresh",)

    def __init__(self, function: RemoteKernel, refresh: Callable[[], None]) -> None:
        super().__init__(function._exchange, function._target, function.definition)
        self._refresh = refresh

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        self._refresh()
        return super().__call__(*args, **kwargs)

    def submit(self, /, *args: Any, **kwargs: Any) -> RequestFuture[Any]:
        self._refresh()
        return super().submit(*args, **kwargs)
