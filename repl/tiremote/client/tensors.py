"""Tensors of torch as arguments, known by their type's module: torch itself is never imported."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from tiremote.client.exchange import Exchange
from tiremote.client.transfer import fetch_into, held, send_from
from tiremote.protocol.dtypes import name_of
from tiremote.protocol.errors import UnsupportedType
from tiremote.protocol.messages import Alloc
from tiremote.protocol.values import Handle

#: What a parameter takes, as a definition says it: the sizes of a vector or a matrix.
_ELEMENT = re.compile(r"^ndarray\((?:vector|matrix)\((\d+)(?:, (\d+))?")


def is_tensor(value: Any) -> bool:
    """Whether this is a tensor of torch, or of a class that is made of one."""
    return hasattr(value, "detach") and any(cls.__module__.partition(".")[0] == "torch" for cls in type(value).__mro__)


def memory_of(tensor: Any, name: str) -> np.ndarray:
    """The array over a tensor's memory. Raises `UnsupportedType` where NumPy has none; ``name`` is the argument's."""
    if tensor.device.type != "cpu":
        raise UnsupportedType(f"{name} is a tensor on {tensor.device}: pass .cpu() of it")
    try:
        array: np.ndarray = tensor.detach().numpy()
    except (TypeError, RuntimeError) as error:
        raise UnsupportedType(f"{name} is a tensor that NumPy does not take: {error}") from None
    return array


def has_gradient(value: Any, takes: str) -> bool:
    """Whether a kernel's parameter, which ``takes`` that, takes a gradient along with it."""
    return (
        takes.startswith("ndarray")
        and is_tensor(value)
        and bool(getattr(value, "requires_grad", False))
        and value.device.type == "cpu"
    )


@dataclass(frozen=True, slots=True, eq=False)
class TensorLoan:
    """A tensor and its gradient, for the time of a call an ndarray with a gradient on the worker."""

    exchange: Exchange
    handle: Handle
    memory: np.ndarray
    gradient: np.ndarray

    def bring_back(self) -> None:
        """Fetches both into the tensor's own memory."""
        for handle, array in ((self.handle, self.memory), (_gradient(self.handle), self.gradient)):
            came = np.empty(array.shape, array.dtype)
            fetch_into(self.exchange, handle, came.reshape(-1))
            array[...] = came


def lend_tensor(tensor: Any, name: str, takes: str, exchange: Exchange) -> TensorLoan | None:
    """Puts a tensor on the worker; it is given a gradient of zeros where it has none yet, as Taichi does.

    ``takes`` is what the parameter takes. None for one without an element, which no ndarray of Taichi's can be.
    Raises `UnsupportedType`.
    """
    memory = memory_of(tensor, name)
    if tensor.grad is None:
        tensor.grad = tensor.detach().clone().zero_()
    if not memory.size:
        return None
    gradient = memory_of(tensor.grad, f"the gradient of {name}")
    sizes = _ELEMENT.match(takes)
    element = tuple(int(size) for size in sizes.groups() if size) if sizes else ()
    axes = memory.ndim - len(element)
    if axes < 0 or memory.shape[axes:] != element:
        # The worker says what is wrong with it.
        axes, element = memory.ndim, ()
    made = Alloc(
        id="",
        kind="ndarray",
        dtype=name_of(memory.dtype),
        shape=memory.shape[:axes],
        element_shape=element,
        needs_grad=True,
    )
    handle = held(exchange, made)
    send_from(exchange, handle, memory)
    send_from(exchange, _gradient(handle), gradient)
    return TensorLoan(exchange, handle, memory, gradient)


def _gradient(handle: Handle) -> Handle:
    return Handle(kind=handle.kind, id=f"{handle.id}.grad")
