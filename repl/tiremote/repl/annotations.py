"""Which parameter of a kernel has no type: Taichi says only that one has none, and points at the decorator."""

from __future__ import annotations

import ast

from tiremote.protocol.errors import CompileError, SourceFrame
from tiremote.repl.pending import Unit

#: A part of Taichi's message.
_COMPLAINT = "must be type annotated"


def with_parameter(error: CompileError, unit: Unit) -> CompileError:
    """The error that names the parameter where that is what is wrong; else ``error`` itself."""
    if _COMPLAINT not in error.message:
        return error
    for function in ast.walk(ast.parse(unit.source)):
        if not isinstance(function, ast.FunctionDef) or not any(map(_is_kernel, function.decorator_list)):
            continue
        arguments = function.args
        for each in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]:
            if each.annotation is None and each.arg != "self":
                return CompileError(
                    f"parameter {each.arg!r} of kernel {function.name}() has no type: write {each.arg}: ti.f32, "
                    f"or {each.arg}: ti.types.ndarray() for an array",
                    frames=(_frame(unit, function.name, each),),
                )
    return error


def _is_kernel(decorator: ast.expr) -> bool:
    return (decorator.attr if isinstance(decorator, ast.Attribute) else getattr(decorator, "id", "")) == "kernel"


def _frame(unit: Unit, function: str, parameter: ast.arg) -> SourceFrame:
    text = unit.source.splitlines()[parameter.lineno - 1]
    column = len(text.encode()[: parameter.col_offset].decode()) + 1
    return SourceFrame(
        unit=unit.name,
        version=1,
        function=function,
        line=parameter.lineno,
        column=column,
        end_column=column + len(parameter.arg),
        text=text,
    )
