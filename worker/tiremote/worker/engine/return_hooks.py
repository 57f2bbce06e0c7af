"""How many values a kernel returns, against its annotation: Taichi only asserts that."""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tiremote.worker.engine.runtime import TaichiRuntime


def install(runtime: TaichiRuntime) -> None:
    """Once for a process."""
    builder = runtime.lang("ast.ast_transformer").ASTTransformer
    if not hasattr(builder.build_Return, "__wrapped__"):
        builder.build_Return = staticmethod(_counted(builder.build_Return, runtime.exception("SyntaxError")))


def _counted(original: Callable[..., Any], error: type[BaseException]) -> Callable[..., Any]:
    @functools.wraps(original)
    def build_return(context: Any, node: ast.Return) -> Any:
        try:
            return original(context, node)
        except (AssertionError, TypeError):
            types = getattr(context.func, "return_type", None) or ()
            count = len(node.value.elts) if isinstance(node.value, ast.Tuple) else 1
            if len(types) < 2 or count == len(types):
                raise
            raise error(f"the kernel is annotated to return {len(types)} values, and this returns {count}") from None

    return build_return
