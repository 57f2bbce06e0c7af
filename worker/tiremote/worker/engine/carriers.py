"""Contents of arrays in pieces, out of one engine and into the next."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tiremote.protocol.dtypes import dtype_of
from tiremote.protocol.errors import TiremoteError
from tiremote.worker.engine.arrays import Arrays
from tiremote.worker.engine.declarations import ancestors, members
from tiremote.worker.engine.estate import raw
from tiremote.worker.engine.landmarks import NotMovable
from tiremote.worker.engine.places import why_not_copied
from tiremote.worker.engine.sparse_cells import SparseCells

if TYPE_CHECKING:
    from tiremote.worker.engine.runtime import TaichiRuntime

#: What goes in one piece: the front carries it, and answers nobody meanwhile.
PIECE_BYTES: Final = 8 << 20


@dataclass(frozen=True, slots=True)
class Piece:
    """Numbers ``start`` to ``stop`` of an array, or bytes of a NumPy array; a sparse field is one piece."""

    array: int
    start: int
    stop: int


class Carriers:
    """Reads pieces of arrays, and writes them into arrays that were declared alike."""

    def __init__(self, arrays: Arrays, runtime: TaichiRuntime) -> None:
        self._arrays = arrays
        self._runtime = runtime
        self._sparse = SparseCells(runtime)

    def clear(self, arrays: Sequence[Any]) -> None:
        """Has no cell of the sparse ones be active: what is written into them then is all that they hold."""
        for value in arrays:
            if self.is_sparse(value):
                self._sparse.clear(value)

    def check(self, value: Any, what: str) -> int:
        """The bytes of an array that can be moved. Raises `NotMovable`."""
        if isinstance(value, np.ndarray):
            return int(value.nbytes)
        try:
            nbytes = self._arrays.meta(value).nbytes
        except TiremoteError as error:
            raise NotMovable(f"{what}: {error.message}") from None
        if self._runtime.is_field(value):
            nodes = [member.ptr.snode() for _, member in members(value, self._runtime)]
            kinds = {
                str(each.type).rpartition(".")[2] for node in nodes if node is not None for each in ancestors(node)
            }
            if not kinds <= {"dense", "pointer", "bitmasked", "dynamic"}:
                raise NotMovable(f"{what} lies in a {sorted(kinds)[-1]} block")
            if self.is_sparse(value):
                return 0
        return nbytes

    def is_sparse(self, value: Any) -> bool:
        """Whether it is a field not all of whose cells need be there."""
        return self._runtime.is_field(value) and why_not_copied(value, self._runtime) is not None

    def locate(self, value: Any) -> None:
        """Finds out where an array lies, which compiles a small kernel, before that holds anybody up."""
        if not isinstance(value, np.ndarray) and not self.is_sparse(value):
            self._arrays.read(value, flat=(0, 1))

    def pieces(self, arrays: Sequence[Any]) -> Iterator[Piece]:
        """How the contents of all of these go."""
        for number, value in enumerate(arrays):
            if self.is_sparse(value):
                yield Piece(number, 0, 0)
                continue
            size, step = self._size(value)
            for start in range(0, size, step):
                yield Piece(number, start, min(start + step, size))

    def _size(self, value: Any) -> tuple[int, int]:
        """How many numbers, or bytes of a NumPy array, and how many of them go in one piece."""
        if isinstance(value, np.ndarray):
            return int(value.nbytes), PIECE_BYTES
        meta = self._arrays.meta(value)
        return meta.size, PIECE_BYTES // meta.itemsize

    def read(self, value: Any, piece: Piece) -> bytes | np.ndarray:
        """What it holds there."""
        if isinstance(value, np.ndarray):
            return raw(value)[piece.start : piece.stop]
        if self.is_sparse(value):
            return pickle.dumps(self._sparse.read(value))
        return self._arrays.read(value, flat=(piece.start, piece.stop))

    def write(self, value: Any, piece: Piece, data: Any) -> None:
        """Has it hold what `read` gave."""
        if isinstance(value, np.ndarray):
            raw(value)[piece.start : piece.stop] = np.frombuffer(data, np.uint8)
        elif self.is_sparse(value):
            self._sparse.write(value, pickle.loads(data))
        else:
            numbers = np.frombuffer(data, dtype_of(self._arrays.meta(value).dtype))
            self._arrays.write(value, numbers, flat=(piece.start, piece.stop))
