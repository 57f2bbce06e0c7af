"""What a text defines, told in the words of a receipt."""

from __future__ import annotations

import ast
import inspect
import types
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from tiremote.protocol.receipts import Definition, Parameter
from tiremote.worker.engine.captures import captures
from tiremote.worker.engine.members import methods_of
from tiremote.worker.engine.signature import expected_shape

if TYPE_CHECKING:
    from tiremote.worker.engine.runtime import TaichiRuntime

#: Docstrings travel with every receipt.
_MOST_DOC = 2000


def define(
    tree: ast.Module, namespace: Mapping[str, Any], checked: Collection[str], runtime: TaichiRuntime
) -> tuple[Definition, ...]:
    """The names that the text itself made, in its order; imports and dunder names are not among them."""
    places = binding_lines(tree)
    return tuple(
        _definition(name, namespace[name], line, name in checked, runtime)
        for name, line in places.items()
        if name in namespace
        and name != "_"
        and not name.startswith("__")
        and type(namespace[name]) is not types.ModuleType
    )


def sendable(text: str) -> str:
    """A text of the user's for a receipt: it may hold what UTF-8 does not."""
    return text.encode("utf-8", "backslashreplace").decode()


def binding_lines(tree: ast.Module) -> dict[str, int]:
    """Name to the line that last binds it at module level, imports left out."""
    lines: dict[str, int] = {}
    for statement in _module_level(tree.body):
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            lines[statement.name] = statement.lineno
            continue
        for node in _own_nodes(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                lines[node.id] = node.lineno
    return lines


def _module_level(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for statement in body:
        yield statement
        if not isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            inner = [each for each in ast.iter_child_nodes(statement) if isinstance(each, ast.stmt)]
            handlers = [each for each in ast.iter_child_nodes(statement) if hasattr(each, "body")]
            yield from _module_level(inner)
            for handler in handlers:
                if not isinstance(handler, (ast.stmt, ast.expr)):
                    yield from _module_level(handler.body)


def _own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """The expressions of a statement, without those that have a scope of their own."""
    for child in ast.iter_child_nodes(node):
        if isinstance(
            child, (ast.stmt, ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.excepthandler)
        ):
            continue
        yield child
        yield from _own_nodes(child)


def _definition(name: str, value: Any, line: int, checked: bool, runtime: TaichiRuntime) -> Definition:
    try:
        return _described(name, value, line, checked, runtime)
    except Exception:
        # A user's object may raise whatever is asked of it.
        return Definition(name=name, kind="value", line=line)


def _described(name: str, value: Any, line: int, checked: bool, runtime: TaichiRuntime) -> Definition:
    if runtime.is_kernel(value) or runtime.is_func(value):
        callee = runtime.callee(value)
        return Definition(
            name=name,
            kind="kernel" if runtime.is_kernel(value) else "func",
            line=line,
            parameters=_parameters(callee, runtime),
            returns=_returns(tuple(callee.return_type or ()), runtime),
            doc=_doc(value),
            checked=checked,
            captures=captures(callee.func, runtime),
        )
    if inspect.isfunction(value):
        return Definition(
            name=name,
            kind="function",
            line=line,
            parameters=_python_parameters(value, runtime),
            doc=_doc(value),
            captures=captures(value, runtime),
        )
    if inspect.isclass(value):
        methods = methods_of(value, runtime)
        return Definition(
            name=name, kind="class", line=line, doc=_doc(value), meta={"methods": methods} if methods else {}
        )
    if runtime.is_struct_type(value):
        return Definition(name=name, kind="class", line=line)
    if runtime.is_field(value):
        return Definition(name=name, kind="field", line=line, meta=_meta(value, runtime))
    if runtime.is_ndarray(value):
        return Definition(name=name, kind="ndarray", line=line, meta=_meta(value, runtime))
    return Definition(name=name, kind="value", line=line)


def kernel_definition(name: str, kernel: Any, runtime: TaichiRuntime) -> Definition:
    """What a kernel takes and returns as it is called from outside, got from an object or a class, or its ``grad``."""
    behind, skipped = runtime.kernel_behind(kernel)
    return Definition(
        name=name,
        kind="kernel",
        parameters=_parameters(behind, runtime)[skipped:],
        returns=_returns(tuple(behind.return_type or ()), runtime),
        doc=_doc(behind.func),
    )


def _parameters(callee: Any, runtime: TaichiRuntime) -> tuple[Parameter, ...]:
    return tuple(
        Parameter(name=each.name, takes=_takes(each.annotation, runtime), shape=_shape(each.annotation, runtime))
        for each in runtime.parameters(callee)
    )


def _takes(annotation: Any, runtime: TaichiRuntime) -> str:
    if annotation is inspect.Parameter.empty:
        return ""
    return sendable(str(runtime.parameter_type(annotation)))


def _shape(annotation: Any, runtime: TaichiRuntime) -> str:
    return "" if annotation is inspect.Parameter.empty else expected_shape(runtime.parameter_type(annotation))


def _returns(annotations: tuple[Any, ...], runtime: TaichiRuntime) -> str | None:
    if not annotations:
        return None
    shown = [_takes(each, runtime) for each in annotations]
    return shown[0] if len(shown) == 1 else f"({', '.join(shown)})"


def _python_parameters(function: Any, runtime: TaichiRuntime) -> tuple[Parameter, ...]:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return ()
    marks: dict[Any, str] = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    return tuple(
        Parameter(
            name=marks.get(each.kind, "") + each.name,
            takes=_python_takes(each.annotation, runtime),
        )
        for each in parameters
    )


def _python_takes(annotation: Any, runtime: TaichiRuntime) -> str:
    if annotation is inspect.Parameter.empty:
        return ""
    # Taichi's own types have no readable form.
    known = not isinstance(annotation, type | str) and type(annotation).__module__.startswith(f"{runtime.name}.")
    return _takes(annotation, runtime) if known else sendable(inspect.formatannotation(annotation))


def _doc(value: Any) -> str | None:
    own = vars(value).get("__doc__") if inspect.isclass(value) else getattr(value, "__doc__", None)
    return sendable(inspect.cleandoc(own)[:_MOST_DOC]) if isinstance(own, str) and own.strip() else None


def _meta(value: Any, runtime: TaichiRuntime) -> dict[str, Any]:
    try:
        meta = runtime.array_meta(value)
    except Exception:
        # A field without a place has no shape yet.
        return {}
    told = {"dtype": meta.dtype, "shape": list(meta.shape), "element_shape": list(meta.element_shape)}
    return told | runtime.derivatives(value)
