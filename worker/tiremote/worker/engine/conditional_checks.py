"""Checks of what a kernel computes only under a condition.

``x[i] if i < n else 0`` and ``i < n and x[i]`` compute ``x[i]`` only where ``i < n``. A check is a statement, which
Taichi puts before the expression that is being built: it has to ask for the condition itself.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

Build = Callable[[Any, Any], Any]
#: Of a check, the part of the expression in which it stands: for each condition on the way there, what it has to be.
Conditions = list[tuple[Any, bool]]


@dataclass(frozen=True, slots=True)
class Check:
    """``holds`` is an expression of the kernel, or None where the check is never made; ``told`` is for the message."""

    holds: Any
    message: str
    told: Sequence[Any]
    place: str


@dataclass(slots=True)
class _Expression:
    """One that is being built, and what is checked in its parts, by how many of these were there."""

    parts: list[Any]
    checks: list[tuple[int, Check]] = field(default_factory=list)

    def built(self) -> int:
        return sum(part.ptr is not None for part in self.parts)


class ConditionalChecks:
    """Gives ``emit`` the checks of a kernel, each when the outermost expression with conditions around it is built.

    ``builder`` is Taichi's class that walks over a kernel's tree, ``ops`` its operations, ``is_tensor(value)`` says
    whether an expression is a vector or matrix, ``is_wanted()`` whether anything is to be checked, and
    ``short_circuits()`` whether ``and`` and ``or`` leave out what they need not compute.
    """

    def __init__(
        self,
        builder: Any,
        ops: Any,
        is_tensor: Callable[[Any], bool],
        is_wanted: Callable[[], bool],
        short_circuits: Callable[[], bool],
        emit: Callable[[Check], None],
    ) -> None:
        self._ops = ops
        self._is_tensor = is_tensor
        self._is_wanted = is_wanted
        self._short_circuits = short_circuits
        self._emit = emit
        #: Outermost first; None where the body of a func begins, which is computed whatever stands around its call.
        self._open: list[_Expression | None] = []
        builder.build_IfExp = self._around(builder.build_IfExp, _parts_of_choice, self._of_choice)
        builder.build_BoolOp = self._around(builder.build_BoolOp, _parts_of_bool, self._of_bool)
        builder.build_FunctionDef = self._apart(builder.build_FunctionDef)

    def add(self, check: Check) -> None:
        """Something that is being built now is to be checked."""
        self._add(check, self._position())

    def _add(self, check: Check, position: int) -> None:
        expression = self._open[-1] if self._open else None
        if expression is None:
            self._emit(check)
        else:
            expression.checks.append((position, check))

    def _position(self) -> int:
        """In which part of the innermost expression this is."""
        expression = self._open[-1] if self._open else None
        return 0 if expression is None else expression.built()

    def _around(
        self,
        original: Build,
        parts_of: Callable[[Any], list[Any]],
        conditions_of: Callable[[Any, int], Conditions],
    ) -> Build:
        @functools.wraps(original)
        def build(context: Any, node: Any) -> Any:
            if not self._is_wanted():
                return original(context, node)
            expression, position_here = _Expression(parts_of(node)), self._position()
            for part in expression.parts:
                # In a static loop the same tree is built again and again.
                part.ptr = None
            with self._opened(expression):
                built = original(context, node)
            for position, check in expression.checks:
                conditions = conditions_of(node, position)
                if (holds := self._unless_left_out(check.holds, conditions)) is not None:
                    self._add(replace(check, holds=holds), position_here)
            return built

        return staticmethod(build)

    def _apart(self, original: Build) -> Build:
        @functools.wraps(original)
        def build(context: Any, node: Any) -> Any:
            with self._opened(None):
                return original(context, node)

        return staticmethod(build)

    @contextmanager
    def _opened(self, expression: _Expression | None) -> Iterator[None]:
        self._open.append(expression)
        try:
            yield
        finally:
            self._open.pop()

    def _unless_left_out(self, holds: Any, conditions: Conditions) -> Any:
        """``holds``, or one of the conditions is not what it has to be; None where one never is."""
        for condition, wanted in conditions:
            if isinstance(condition, bool | int):
                if bool(condition) != wanted:
                    return None
                continue
            left_out = self._ops.logical_not(condition)
            holds = self._ops.logical_or(left_out if wanted else self._ops.logical_not(left_out), holds)
        return holds

    def _of_choice(self, node: ast.IfExp, position: int) -> Conditions:
        test, body, otherwise = (part.ptr for part in _parts_of_choice(node))
        if position == 0 or any(map(self._is_tensor, (test, body, otherwise))):
            # A choice between vectors computes both.
            return []
        if position > 2:
            # Taichi builds the part that a static test chooses a second time.
            return [(False, True)]
        return [(test, position == 1)]

    def _of_bool(self, node: ast.BoolOp, position: int) -> Conditions:
        if not self._short_circuits():
            return []
        return [(part.ptr, isinstance(node.op, ast.And)) for part in _parts_of_bool(node)[:position]]


def _parts_of_choice(node: ast.IfExp) -> list[Any]:
    return [node.test, node.body, node.orelse]


def _parts_of_bool(node: ast.BoolOp) -> list[Any]:
    return list(node.values)
