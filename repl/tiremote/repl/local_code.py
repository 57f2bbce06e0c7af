"""Runs Python on the laptop, with ``await`` outside functions: on one event loop, so that tasks go on between cells."""

from __future__ import annotations

import ast
import asyncio
import inspect
import types
import weakref
from typing import Any


class LocalCode:
    """``values`` are the globals. The loop is made when something is awaited first."""

    def __init__(self, values: dict[str, Any]) -> None:
        self._values = values
        self._loop: asyncio.Runner | None = None

    def value(self, node: ast.expr, file: str, flags: int) -> Any:
        """What an expression is."""
        return self._run(compile(ast.Expression(node), file, "eval", flags | _AWAIT, True))

    def execute(self, node: ast.stmt, file: str, flags: int) -> None:
        """Does a statement."""
        self._run(compile(ast.Module([node], []), file, "exec", flags | _AWAIT, True))

    def _run(self, code: types.CodeType) -> Any:
        if not code.co_flags & inspect.CO_COROUTINE:
            return eval(code, self._values)
        if self._loop is None:
            self._loop = asyncio.Runner()
            # With tasks that are left on it.
            weakref.finalize(self, self._loop.close)
        return self._loop.run(self._awaited(code))

    async def _awaited(self, code: types.CodeType) -> Any:
        return await eval(code, self._values)


_AWAIT = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
