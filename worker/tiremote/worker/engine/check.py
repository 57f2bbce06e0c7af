"""Compiles kernels when they are loaded, without a launch: Taichi itself reads a kernel at its first call only.

A kernel whose argument types cannot be known is at least searched for names that do not exist.
"""

from __future__ import annotations

import ast
import builtins
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tiremote.protocol.errors import CompileError
from tiremote.worker.engine.call_types import ARGUMENTS, Argument, StandIns, Undetermined
from tiremote.worker.engine.frames import load_error
from tiremote.worker.engine.future_annotations import decorators
from tiremote.worker.engine.global_names import names_used
from tiremote.worker.engine.source import Source
from tiremote.worker.engine.unit import reached

if TYPE_CHECKING:
    from tiremote.worker.engine.runtime import TaichiRuntime

#: A kernel's name to what was kept of each argument of its last call.
Calls = Mapping[str, tuple[Argument, ...]]


class Checker:
    """Checks the kernels of one text at a time."""

    def __init__(self, runtime: TaichiRuntime) -> None:
        self._runtime = runtime
        self._stand_ins = StandIns(runtime)

    def stand_ins(self) -> list[Any]:
        """The arrays that kernels are compiled for."""
        return self._stand_ins.all()

    def compile_for(self, kernel: Any, arguments: Sequence[Any]) -> None:
        """Compiles a kernel, front and back end, for `Argument`s that were kept of a compile, or for things themselves.

        Raises whatever Taichi does, and `Undetermined`.
        """
        kinds = self._runtime.parameter_types(self._runtime.primal(kernel))
        made = [
            self._stand_ins.make(kind, each) if each is None or isinstance(each, ARGUMENTS) else each
            for (_, kind), each in zip(kinds, arguments, strict=True)
        ]
        self._runtime.make_back_end(kernel, self._runtime.ensure_compiled(kernel, *made))

    def check(self, source: Source, namespace: dict[str, Any], calls: Calls) -> dict[str, float]:
        """The kernels that were compiled, and the seconds each took. Raises `CompileError` for the first that fails."""
        runtime = self._runtime
        self._check_names(source, namespace)
        if runtime.has_unplaced_fields():
            return {}
        checked = {}
        for name, value in list(namespace.items()):
            if not runtime.is_kernel(value) or not _is_own(runtime.primal(value), namespace):
                continue
            if runtime.is_class_kernel(value) or self._changes_later(source, runtime.primal(value), namespace):
                continue
            started = time.perf_counter()
            if self._compile(source, value, calls.get(name, ())):
                checked[name] = time.perf_counter() - started
        for name in calls:
            kernel = reached(namespace, name) if "." in name else None
            # An attribute may be there later only; only what was called is known to be compilable.
            if not runtime.is_bound_kernel(kernel) or not _is_own(runtime.primal(kernel), namespace):
                continue
            started = time.perf_counter()
            if self._compile(source, kernel, calls[name]):
                checked[name] = time.perf_counter() - started
        return checked

    def _compile(self, source: Source, kernel: Any, call: tuple[Argument, ...]) -> bool:
        kinds = self._runtime.called_with(kernel)
        known = call if len(call) == len(kinds) else (None,) * len(kinds)
        try:
            stand_ins = [self._stand_ins.make(kind, argument) for (_, kind), argument in zip(kinds, known, strict=True)]
        except Undetermined:
            return False
        try:
            self._runtime.ensure_compiled(kernel, *self._runtime.owner(kernel), *stand_ins)
        except self._runtime.compile_errors() as error:
            failure = load_error(error, self._runtime)
            if isinstance(failure, CompileError) and not failure.frames:
                raise CompileError(failure.message, frames=(_whole(source, kernel),)) from None
            raise failure from None
        except self._runtime.argument_errors():
            # The remembered call does not fit the new signature, which only says that it is another kernel.
            return False
        return True

    def _changes_later(self, source: Source, kernel: Any, namespace: dict[str, Any]) -> bool:
        """Whether it uses a global that some function of the text assigns: it may not be there yet."""
        return bool(self._names(kernel.func, namespace) & source.names.assigned_later)

    def _names(self, function: Any, namespace: dict[str, Any], seen: frozenset[int] = frozenset()) -> frozenset[str]:
        names = names_used(function.__code__)
        for name in names:
            used: Any = namespace.get(name)
            if self._runtime.is_func(used) and id(used) not in seen:
                seen |= {id(used)}
                names |= self._names(self._runtime.python_function(used), namespace, seen)
        return names

    def _check_names(self, source: Source, namespace: dict[str, Any]) -> None:
        """Names in kernels and funcs that exist nowhere; branches that Taichi may leave out at compile are left out."""
        there = namespace.keys() | source.names.bound | vars(builtins).keys()
        for function in source.functions.values():
            if not is_taichi_scope(function):
                continue
            # What Python's compiler calls global in the whole text and is not there; locals are told apart below.
            missing = source.names.free - there
            for node in _certain(function.body):
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in missing:
                    if node.id in _locals(function):
                        continue
                    first, last = source.byte_columns(node.lineno, node.col_offset, node.end_col_offset or 0)
                    raise CompileError(
                        f'Name "{node.id}" is not defined',
                        frames=(source.frame(node.lineno, first, last, function.name),),
                    )


def is_taichi_scope(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether ``@ti.kernel`` or ``@ti.func`` stands over it."""
    return bool(decorators(function) & {"kernel", "func", "real_func"})


def _whole(source: Source, kernel: Any) -> Any:
    function = kernel._primal.func
    line = source.functions[function.__code__.co_firstlineno].lineno
    return source.frame(line, function=function.__name__)


def _is_own(kernel: Any, namespace: dict[str, Any]) -> bool:
    return kernel.func.__globals__ is namespace


def _certain(body: list[ast.stmt]) -> Iterator[ast.AST]:
    """Every node that Taichi certainly compiles: not what stands under ``if ti.static(...)``."""
    waiting: list[ast.AST] = list(body)
    while waiting:
        node = waiting.pop()
        yield node
        if isinstance(node, (ast.If, ast.IfExp)) and _has_static(node.test):
            waiting.append(node.test)
            continue
        waiting.extend(ast.iter_child_nodes(node))


def _has_static(test: ast.expr) -> bool:
    return any(
        isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == "static" for node in ast.walk(test)
    )


def _locals(function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    bound = {node.id for node in ast.walk(function) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return bound | {argument.arg for argument in ast.walk(function) if isinstance(argument, ast.arg)}
