"""Tensors for the tests: of torch where it is installed, and of a stand-in that has as much as the client looks at.

What the stand-in does was compared with torch 2.13: `test_ndarrays` runs on both where torch is.
"""

from __future__ import annotations

import importlib
import importlib.util
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

needs_torch = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="torch is not installed: the stand-in is tested alone"
)
KINDS = ["stand-in", pytest.param("torch", marks=needs_torch)]


class Tensor:
    """The client knows a tensor by the module of its type, and takes NumPy's view of its memory."""

    def __init__(
        self, memory: np.ndarray, *, requires_grad: bool = False, device: str = "cpu", bfloat16: bool = False
    ) -> None:
        self.memory = memory
        self.requires_grad = requires_grad
        self.grad: Tensor | None = None
        self.device = SimpleNamespace(type=device)
        self.bfloat16 = bfloat16

    def detach(self) -> Tensor:
        """As torch's: the same memory, without its gradient."""
        return Tensor(self.memory, device=self.device.type, bfloat16=self.bfloat16)

    def clone(self) -> Tensor:
        """Other memory with the same numbers."""
        return Tensor(self.memory.copy(), device=self.device.type)

    def zero_(self) -> Tensor:
        """Zeros in the same memory."""
        self.memory[...] = 0
        return self

    def numpy(self) -> np.ndarray:
        """The memory itself. Raises as torch does."""
        if self.requires_grad:
            raise RuntimeError("Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.")
        if self.bfloat16:
            raise TypeError("Got unsupported ScalarType BFloat16")
        return self.memory


Tensor.__module__ = "torch"


class Tensors:
    """Makes tensors of one kind, and looks into them."""

    def __init__(self, kind: str) -> None:
        self._torch: Any = importlib.import_module("torch") if kind == "torch" else None

    def of(self, memory: np.ndarray, *, requires_grad: bool = False) -> Any:
        """A tensor over that memory."""
        if self._torch is None:
            return Tensor(memory, requires_grad=requires_grad)
        return self._torch.from_numpy(memory).requires_grad_(requires_grad)

    def in_subclass(self, memory: np.ndarray) -> Any:
        """One of a class of the user's, which is made of the tensor's."""
        base: Any = Tensor if self._torch is None else self._torch.Tensor
        cls = type("Mine", (base,), {"__module__": __name__})
        return cls(memory) if self._torch is None else self.of(memory).as_subclass(cls)

    def elsewhere(self, requires_grad: bool = False) -> Any:
        """Two numbers that are not on the CPU."""
        if self._torch is None:
            return Tensor(np.zeros(2, np.float32), device="cuda", requires_grad=requires_grad)
        return self._torch.zeros(2, device="meta", requires_grad=requires_grad)

    def of_bfloat16(self) -> Any:
        """Two numbers of a type that NumPy has not."""
        if self._torch is None:
            return Tensor(np.zeros(2, np.float16), bfloat16=True)
        return self._torch.zeros(2, dtype=self._torch.bfloat16)


def inside(tensor: Any) -> np.ndarray:
    """The numbers of a tensor or of a gradient, which can be set there."""
    assert tensor is not None
    array: np.ndarray = tensor.detach().numpy()
    return array
