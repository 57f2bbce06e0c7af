"""The tree of what a text defines, as the runtime is given it."""

from __future__ import annotations

import ast
import inspect
import json
from typing import TYPE_CHECKING, Any

from tiremote.protocol.errors import KernelArgumentError, PayloadTooLarge
from tiremote.protocol.results import Limits
from tiremote.protocol.syntax_tree import GetSyntaxTree, SyntaxTree
from tiremote.worker.engine.references import References, attribute, shown
from tiremote.worker.engine.source import Source, source_of

if TYPE_CHECKING:
    from tiremote.worker.engine.runtime import TaichiRuntime


class SyntaxTrees:
    """Finds them by name."""

    def __init__(self, runtime: TaichiRuntime, references: References, limits: Limits) -> None:
        self._runtime = runtime
        self._references = references
        self._limits = limits

    def get(self, request: GetSyntaxTree) -> SyntaxTree:
        """Raises `UnknownName`, `KernelArgumentError` for what no text defines, `PayloadTooLarge`."""
        value = self._references.resolve(request.target)
        name = shown(request.target, value)
        if request.method is not None:
            value, name = attribute(value, request.method, name), request.method
        found = self._definition(value)
        if found is None:
            raise KernelArgumentError(f"{name} is a {type(value).__name__}: kernels, functions and classes have a tree")
        source, node = found
        module = ast.Module(body=[node], type_ignores=[])
        tree = SyntaxTree(
            unit=source.unit,
            version=source.version,
            name=node.name,
            line=node.lineno,
            text=ast.dump(module, indent=2),
            json=json.dumps(_plain(module)),
        )
        size = len(tree.text) + len(tree.json)
        if size > self._limits.header_bytes:
            raise PayloadTooLarge(
                f"the tree of {name} has {size:,} characters, at most {self._limits.header_bytes:,} go in one answer",
                size=size,
                limit=self._limits.header_bytes,
            )
        return tree

    def _definition(self, value: Any) -> tuple[Source, Any] | None:
        function = self._runtime.function_behind(value)
        if inspect.isclass(function):
            return _class(function)
        code: Any = getattr(function, "__code__", None)
        source = None if code is None else source_of(code.co_filename)
        node = None if source is None else source.functions.get(code.co_firstlineno)
        return None if source is None or node is None else (source, node)


def _class(cls: type) -> tuple[Source, ast.ClassDef] | None:
    """By what its methods are in."""
    for value in vars(cls).values():
        code = getattr(inspect.unwrap(value), "__code__", None) if callable(value) else None
        source = None if code is None else source_of(code.co_filename)
        if source is not None:
            for node in ast.walk(source.tree):
                if isinstance(node, ast.ClassDef) and node.name == cls.__name__:
                    return source, node
    return None


def _plain(node: Any) -> Any:
    if isinstance(node, ast.AST):
        return {
            "type": type(node).__name__,
            "fields": {name: _plain(value) for name, value in ast.iter_fields(node)},
            "lineno": getattr(node, "lineno", None),
            "col_offset": getattr(node, "col_offset", None),
        }
    if isinstance(node, list):
        return [_plain(each) for each in node]
    return node if isinstance(node, str | int | float | bool | None) else repr(node)
