"""Which plain functions run on the worker."""

from __future__ import annotations

import ast

import pytest

from tiremote.repl.drivers import is_driver

#: At the prompt: ``k`` and ``f`` are the worker's, ``n``, ``np`` and ``math`` go along, ``mine`` does not.
GOES_ALONG = {"n": True, "np": True, "math": True, "mine": False, "k": False, "f": False}


def goes(text: str) -> bool:
    (node,) = ast.parse(text).body
    assert isinstance(node, ast.FunctionDef)
    return is_driver(node, lambda name: name in ("k", "f"), GOES_ALONG.get)


@pytest.mark.parametrize(
    "body",
    [
        "k()",
        "for i in range(1000): k(i * n)",
        "f.fill(0)",
        "return f.to_numpy().sum()",
        "return math.sqrt(k()) + np.float32(1)",
        "print(k(), len(a))",
        "a[0] = k()",
        "import math, numpy as np, taichi as ti; k()",
        "d(1) if a else k()",
    ],
)
def test_what_uses_only_the_workers_names_goes(body: str) -> None:
    """And itself, and what both sides have."""
    assert goes(f"def d(a):\n    {body}\n")


@pytest.mark.parametrize(
    "body",
    [
        "pass",
        "return n + 1",
        "k(mine)",
        "k(nothing)",
        "open('x'); k()",
        "input(); k()",
        "import matplotlib.pyplot as plt; k()",
        "from os import path; k()",
        "global n; n = k()",
        "yield k()",
        "k(); a()",
        "k.submit(1)",
        "k(); return a.summary()",
        "k(); return f[1:2]",
        "k(); return a[-1]",
        "k(); return a[...]",
        "k(); return np.sum(f)",
        "return [x for x in f]",
        "k(__name__)",
    ],
)
def test_what_needs_the_laptop_stays(body: str) -> None:
    """Its names, files, terminal and modules, functions that are given, and what only the proxies here can."""
    assert not goes(f"def d(a):\n    {body}\n")
