"""Arrays out to the front's memory and back from there, so that they outlive this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tiremote.protocol.dtypes import name_of
from tiremote.protocol.errors import KernelArgumentError, TiremoteError
from tiremote.protocol.messages import Fetch, Put
from tiremote.protocol.receipts import ArrayHolding
from tiremote.protocol.values import Handle, Name, Ref
from tiremote.worker.engine.arrays import Arrays
from tiremote.worker.engine.holdings import Holdings
from tiremote.worker.engine.loader import KernelLoader
from tiremote.worker.engine.places import arrays_in, reach, why_not_copied
from tiremote.worker.engine.runtime import TaichiRuntime
from tiremote.worker.host_copy import Moved, Piece
from tiremote.worker.link import INLINE_BYTES, PutBack

#: Told which arrays were copied, with their bytes.
SendCopies = Callable[[Sequence[Moved], Sequence[Any]], None]

#: Of small arrays so many go in one message, or so many bytes; each of the others goes alone.
_MOST_AT_ONCE = 256
_SMALL = INLINE_BYTES


class HostCopies:
    """What of a session's arrays comes and goes, all of them for a snapshot, and back what was lost with an engine."""

    def __init__(self, runtime: TaichiRuntime, arrays: Arrays, loader: KernelLoader, holdings: Holdings) -> None:
        self._runtime = runtime
        self._arrays = arrays
        self._loader = loader
        self._holdings = holdings

    # ------------------------------------------------------------ what an array is called

    def place_of(self, ref: Ref) -> Name | None:
        """The name of an array in the unit that made it, for a name that may be another unit's or a handle."""
        if isinstance(ref, Handle):
            return self._holdings.holding(ref).place
        loaded = self._loader.loaded(ref.unit)
        first, _, rest = ref.name.partition(".")
        # A name that a text does not bind itself comes from another unit.
        while first not in loaded.own and first in loaded.uses:
            loaded = self._loader.loaded(loaded.uses[first][0])
        return Name(unit=loaded.unit, name=f"{first}.{rest}" if rest else first)

    def place_of_value(self, value: Any) -> Name | None:
        """Where a unit's text holds this array, None where none does."""
        for unit, path, array in self._of_units():
            if array is value:
                return Name(unit=unit, name=path)
        return None

    def _of_units(self) -> Iterator[tuple[str, str, Any]]:
        seen: set[int] = set()
        for unit in self._loader:
            loaded = self._loader.loaded(unit)
            names = [name for name in loaded.own if name in loaded.namespace]
            for path, array in arrays_in(loaded.namespace, names, self._runtime):
                if id(array) not in seen:
                    seen.add(id(array))
                    yield unit, path, array

    # ------------------------------------------------------------ out

    def put(self, request: Put, target: Ref, value: Any) -> Moved | None:
        """What a put has moved; None where its bytes came from an array that is here already."""
        if request.array is None:
            return None
        came = request.array.descriptor
        piece = Piece(
            dtype=came.dtype,
            shape=came.shape,
            order=came.order,
            region=request.region,
            flat=request.flat,
            cast=request.cast,
        )
        return self._moved(target, value, piece)

    def fetched(self, request: Fetch, value: Any, array: np.ndarray) -> Moved | None:
        """What a fetch has moved."""
        if why_not_copied(value, self._runtime) is not None:
            return None
        return self._moved(request.target, value, replace(_whole(array), region=request.region, flat=request.flat))

    def copied(self, target: Ref, value: Any, array: np.ndarray) -> Moved | None:
        """What a copy that stays here is one of."""
        if why_not_copied(value, self._runtime) is not None:
            return None
        return self._moved(target, value, _whole(array))

    def _moved(self, target: Ref, value: Any, piece: Piece) -> Moved:
        place = self.place_of(target)
        return Moved(target=place or target, size=self._arrays.meta(value).size, piece=piece)

    def snapshot(self, max_bytes: int, send: SendCopies) -> dict[str, str]:
        """Sends every array there is, the small ones first, as many as ``max_bytes`` holds; why others are not there.

        One after the other, so that none but the one on its way is held twice.
        """
        skipped: dict[str, str] = {}
        batch: list[tuple[Moved, np.ndarray]] = []
        left = max_bytes
        for nbytes, target, name, value in sorted(self._copyable(skipped), key=lambda one: one[0]):
            if nbytes > left:
                skipped[name] = f"its {nbytes:,} bytes are more than the {left:,} that the worker may still keep"
                continue
            try:
                array = self._arrays.read(value)
                moved = Moved(target=target, size=array.size, piece=_whole(array))
                if array.nbytes > _SMALL:
                    send([moved], [_bytes_of(array)])
                else:
                    batch.append((moved, array))
            except (TiremoteError, MemoryError) as error:
                skipped[name] = str(error) or type(error).__name__
                continue
            left -= moved.piece.cost
            if len(batch) >= _MOST_AT_ONCE:
                _send(batch, send)
        _send(batch, send)
        return skipped

    def _copyable(self, skipped: dict[str, str]) -> Iterator[tuple[int, Ref, str, Any]]:
        for target, name, value in self._all():
            reason = why_not_copied(value, self._runtime)
            if reason is not None:
                skipped[name] = reason
                continue
            try:
                yield self._arrays.meta(value).nbytes, target, name, value
            except TiremoteError as error:
                skipped[name] = error.message

    def _all(self) -> Iterator[tuple[Ref, str, Any]]:
        seen: set[int] = set()
        for unit, path, value in self._of_units():
            seen.add(id(value))
            yield Name(unit=unit, name=path), f"{unit}.{path}", value
        for handle in self._holdings.all():
            value, holding = self._holdings.value(handle), self._holdings.holding(handle)
            if handle.kind != "object" and id(value) not in seen:
                yield Handle(kind=handle.kind, id=handle.id), holding.label or f"{handle.kind} {handle.id}", value

    # ------------------------------------------------------------ back

    def put_back(self, message: PutBack, buffers: Sequence[Any]) -> ArrayHolding | None:
        """Has an array hold what it held, made again where it is known by a handle alone; its holding then.

        Raises `UnknownName` where there is no such name any more, `KernelArgumentError` where what is there was
        declared otherwise, `OutOfMemory`.
        """
        if isinstance(message.target, Name):
            self._write(self._at(message.target), message, buffers)
            return None
        holding = message.holding
        if holding is None:
            raise AssertionError("what has no name in a unit has a handle")
        if holding.handle not in self._holdings:
            self._holdings.adopt(holding, self._made(holding) if holding.place is None else self._at(holding.place))
        try:
            if message.pieces:
                self._write(self._holdings.value(holding.handle), message, buffers)
        except BaseException:
            # Half of an array is none.
            self._holdings.drop(holding.handle)
            raise
        return holding

    def _at(self, place: Name) -> Any:
        return reach(self._loader.loaded(place.unit).namespace, place.name, self._runtime)

    def _made(self, holding: ArrayHolding) -> Any:
        meta = holding.handle.meta
        make = {
            "ndarray": self._arrays.create_ndarray,
            "field": self._arrays.create_field,
            "array": self._arrays.create_host_array,
        }[holding.handle.kind]
        return make(meta["dtype"], meta["shape"], meta["element_shape"], bool(meta.get("needs_grad")))

    def _write(self, value: Any, message: PutBack, buffers: Sequence[Any]) -> None:
        meta = self._arrays.meta(value)
        if meta.size != message.size:
            raise KernelArgumentError(f"it has {meta.size} numbers now, and {message.size} were kept")
        for piece, buffer in zip(message.pieces, buffers, strict=True):
            self._arrays.write(value, piece.descriptor.view(buffer), piece.region, piece.flat, cast=piece.cast)


def _whole(array: np.ndarray) -> Piece:
    return Piece(dtype=name_of(array.dtype), shape=array.shape)


def _bytes_of(array: np.ndarray) -> memoryview:
    """Of an array in C order."""
    return array.reshape(-1).view(np.uint8).data


def _send(batch: list[tuple[Moved, np.ndarray]], send: SendCopies) -> None:
    if batch:
        send([moved for moved, _ in batch], [_bytes_of(array) for _, array in batch])
        batch.clear()
