"""Writes that are certain from a kernel's source, and those that are not."""

from __future__ import annotations

import ast
import textwrap

import pytest

from tiremote.worker.engine.writes import certainly_written, written_in


def written(body: str, parameters: str = "x, y, n") -> set[str]:
    source = f"def kernel({parameters}):\n{textwrap.indent(textwrap.dedent(body), '    ')}"
    definition = ast.parse(source).body[0]
    assert isinstance(definition, ast.FunctionDef)
    return set(written_in(definition))


@pytest.mark.parametrize(
    "body",
    [
        "x[0] = 1",
        "x[0] += 1",
        "x[0, 1] = x[1, 0]",
        "x[0]: int = 1",
        "for i in range(n):\n    x[i] = 1",
        "for i in x:\n    for j in range(3):\n        x[i][j] -= 1",
        "x[0].y = 1",
        "x[0], n = 1, 2",
        "y[0] = x[0] = 1",
        "ti.atomic_add(x[0], 1)",
        "old = ti.atomic_max(x[0], n)",
        "with something():\n    x[0] = 1",
    ],
)
def test_unconditional_stores_are_certain(body: str) -> None:
    """Stores by subscript, augmented assignment and atomics count, in loops too."""
    assert "x" in written(body)


@pytest.mark.parametrize(
    "body",
    [
        "n = x[0]",
        "y[0] = x[0]",
        "y[x[0]] = 1",
        "f(x)",
        "z = x\nz[0] = 1",
        "if n:\n    x[0] = 1",
        "if n:\n    return\nx[0] = 1",
        "for i in y:\n    if i:\n        continue\n    x[i] = 1",
        "for i in y:\n    return\nx[0] = 1",
        "while n:\n    x[0] = 1",
        "return\nx[0] = 1",
        "n and ti.atomic_add(x[0], 1)",
        "ti.atomic_add(x, 1)",
        "x.grad[0] = 1",
        "x = y\nx[0] = 1",
        "for x in range(3):\n    x[0] = 1",
        "n.x[0] = 1",
        "def inner():\n    x[0] = 1",
    ],
)
def test_everything_else_is_not(body: str) -> None:
    """Reads, conditions, calls, aliases, gradients and rebound names are left to the comparison afterwards."""
    assert "x" not in written(body)


def test_a_function_is_read_from_its_source() -> None:
    """A real function's source is found, indented as it may be; without source nothing is certain."""

    def function(a, b):  # type: ignore[no-untyped-def]
        a[0] = b[0]

    assert certainly_written(function) == {"a"}
    assert certainly_written(len) == frozenset()
    assert certainly_written(eval("lambda a: a.sort()")) == frozenset()
