"""A stand-in for torch, which is not installed where the tests run: as much of a CPU tensor as the client looks at."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np


class Tensor:
    """The client knows a tensor by the module of its type, and takes NumPy's view of its memory."""

    def __init__(self, memory: np.ndarray, *, requires_grad: bool = False, device: str = "cpu") -> None:
        self.memory = memory
        self.requires_grad = requires_grad
        self.grad: Tensor | None = None
        self.device = SimpleNamespace(type=device)

    def detach(self) -> Tensor:
        """As torch's: the same memory, without its gradient."""
        return Tensor(self.memory, device=self.device.type)

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
        if self.memory.dtype == np.float16:
            raise TypeError("Got unsupported ScalarType BFloat16")
        return self.memory


Tensor.__module__ = "torch"
