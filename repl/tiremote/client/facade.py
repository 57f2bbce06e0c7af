"""``gpu.ti``: the Taichi names that make arrays, without Taichi."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tiremote.client.arrays import RemoteArray, RemoteField
from tiremote.client.exchange import Exchange


class Facade:
    """``ti.f32`` and the other dtypes, ``ti.ndarray``, ``ti.field``, ``ti.Vector.ndarray``, ``ti.Vector.field``,
    ``ti.Matrix.ndarray``, ``ti.Matrix.field``, ``ti.types.vector``, ``ti.types.matrix``, ``ti.sync``."""

    def __init__(self, exchange: Exchange, options: Mapping[str, Any]) -> None: ...

    def ndarray(self, dtype: Any, shape: int | tuple[int, ...], *, label: str | None = None) -> RemoteArray:
        """A new ndarray of zeros; ``dtype`` as ``ti.f32``, ``"f32"``, ``np.float32``, ``float`` or ``ti.types.vector``."""

    def field(
        self, dtype: Any, shape: int | tuple[int, ...] = (), *, needs_grad: bool = False, label: str | None = None
    ) -> RemoteField:
        """A new field of zeros."""

    def sync(self) -> None:
        """Waits until everything that this client sent to its session is done."""
