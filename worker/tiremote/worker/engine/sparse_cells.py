"""Sparse fields out and in, with which of their cells are active: their blocks first, then what is in the cells."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tiremote.protocol.dtypes import dtype_of
from tiremote.worker.engine.declarations import ancestors, members
from tiremote.worker.engine.sparse_kernels import SparseKernels, sparse_kernels

if TYPE_CHECKING:
    from tiremote.worker.engine.runtime import TaichiRuntime

#: Blocks whose cells are activated for themselves. Those of a dynamic list come with what is written into it.
_ACTIVATED: Final = ("pointer", "bitmasked")


@dataclass(frozen=True, slots=True)
class Cells:
    """The active cells of a block, or of one scalar of a field with their ``values``: ``indices`` is i32 of
    (cells, axes)."""

    indices: np.ndarray
    values: np.ndarray | None = None


class SparseCells:
    """Reads and writes whole sparse fields."""

    def __init__(self, runtime: TaichiRuntime) -> None:
        self._runtime = runtime
        self._made: SparseKernels | None = None

    @property
    def _kernels(self) -> SparseKernels:
        if self._made is None:
            self._made = sparse_kernels(self._runtime.ti)
        return self._made

    def read(self, field: Any) -> list[Cells]:
        """The blocks above a field, the outermost first, and then each of its scalars."""
        found = [self._cells(block) for block in self._blocks(field)]
        found += [self._values(scalar) for scalar in self._scalars(field)]
        return found

    def write(self, field: Any, cells: Sequence[Cells]) -> None:
        """Has a field hold what `read` gave of one that was declared alike. Call `clear` first."""
        left = iter(cells)
        for block in self._blocks(field):
            each = next(left)
            if len(each.indices):
                self._kernels.activate(block, each.indices, each.indices.shape[1])
        for scalar in self._scalars(field):
            each = next(left)
            if each.values is not None and each.values.size:
                self._kernels.scatter(scalar, each.indices, each.values, each.indices.shape[1])
        self._runtime.sync()

    def clear(self, field: Any) -> None:
        """Has no cell below the field's outermost blocks be active."""
        tops = {int(above[-1].id): above[-1] for above in self._above(field)}
        for node in tops.values():
            self._runtime.snode(node).deactivate_all()
        self._runtime.sync()

    def _above(self, field: Any) -> list[list[Any]]:
        nodes = [member.ptr.snode() for where, member in members(field, self._runtime) if where.startswith("primal")]
        return [ancestors(node) for node in nodes]

    def _blocks(self, field: Any) -> Iterator[Any]:
        seen = set()
        for above in self._above(field):
            for node in reversed(above):
                if node.id not in seen and str(node.type).rpartition(".")[2] in _ACTIVATED:
                    seen.add(node.id)
                    yield self._runtime.snode(node)

    def _scalars(self, field: Any) -> Iterator[Any]:
        shape = self._runtime.array_meta(field).element_shape
        if not shape:
            yield field
            return
        for index in np.ndindex(shape):
            yield field.get_scalar_field(*map(int, index))

    def _cells(self, block: Any) -> Cells:
        number = np.zeros(1, np.int32)
        self._kernels.count(block, number)
        self._runtime.sync()
        axes = len(block.shape)
        indices = np.zeros((int(number[0]), axes), np.int32)
        if len(indices):
            self._kernels.cells(block, np.zeros(1, np.int32), indices, axes)
            self._runtime.sync()
        return Cells(indices)

    def _values(self, scalar: Any) -> Cells:
        number = np.zeros(1, np.int32)
        self._kernels.count(scalar, number)
        self._runtime.sync()
        axes = len(scalar.shape)
        indices = np.zeros((int(number[0]), axes), np.int32)
        values = np.zeros(int(number[0]), dtype_of(self._runtime.array_meta(scalar).dtype))
        if len(indices):
            self._kernels.gather(scalar, np.zeros(1, np.int32), indices, values, axes)
            self._runtime.sync()
        return Cells(indices, values)
