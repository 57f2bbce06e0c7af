"""The demo's own check of its results."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tiremote.repl.demo import run_demo


class Array:
    """Numbers that stay here."""

    def __init__(self) -> None:
        self.values = np.zeros(10, dtype=np.float32)

    def from_numpy(self, values: np.ndarray) -> None:
        self.values = values.copy()

    def to_numpy(self) -> np.ndarray:
        return self.values


class AddingSession:
    """Adds ``factors[n]`` times the base after load number n, whatever the source says."""

    ti = SimpleNamespace(f32="f32", ndarray=lambda _, shape: Array())  # noqa: ARG005 - Taichi's name

    def __init__(self, *factors: int) -> None:
        self._factors = list(factors)

    def compile_and_load(self, source: str, kernel_id: str) -> None:
        assert "@ti.kernel" in source
        assert kernel_id == "add_base"
        self._factor = self._factors.pop(0)

    def __getitem__(self, kernel_id: None) -> Any:
        return self

    def add_base(self, x: Array, base: float) -> None:
        x.values += self._factor * base


@pytest.mark.parametrize(("factors", "good"), [((1, 2), True), ((1, 1), False), ((2, 2), False)])
def test_a_wrong_result_is_told(factors: tuple[int, int], good: bool) -> None:
    """The demo fails and says WRONG if either version of the kernel gives other numbers than it should."""
    lines: list[str] = []
    assert run_demo(AddingSession(*factors), lines.append) is good  # type: ignore[arg-type]
    assert any("WRONG" in line for line in lines) is not good
