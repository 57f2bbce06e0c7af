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
from tiremote.worker.cargo import INLINE_BYTES
from tiremote.worker.engine.arrays import Arrays
from tiremote.worker.engine.frames import is_out_of_memory
from tiremote.worker.engine.holdings import Holdings
from tiremote.worker.engine.loader import KernelLoader
from tiremote.worker.engine.places import reach, why_not_copied
from tiremote.worker.engine.runtime import TaichiRuntime
from tiremote.worker.engine.whereabouts import Whereabouts
from tiremote.worker.host_copy import Moved, Piece
from tiremote.worker.link import PutBack

#: Told which arrays were copied, with their bytes.
SendCopies = Callable[[Sequence[Moved], Sequence[Any]], None]

#: Of small arrays so many go in one message, or so many bytes; each of the others goes alone.
_MOST_AT_ONCE = 256
_SMALL = INLINE_BYTES


class HostCopies:
    """What of a session's arrays comes and goes, all of them for a snapshot, and back what was lost with an engine."""

    def __init__(
        self, runtime: TaichiRuntime, arrays: Arrays, loader: KernelLoader, holdings: Holdings, whereabouts: Whereabouts
    ) -> None:
        self._runtime = runtime
        self._arrays = arrays
        self._loader = loader
        self._holdings = holdings
        self._whereabouts = whereabouts

    # ------------------------------------------------------------ out

    def put(self, request: Put, target: Ref, value: Any, source: Any = None) -> Moved | None:
        """What a put has moved; None where that says too little of what the array holds now. ``source``: the array
        that is the request's source."""
        if isinstance(value, np.ndarray) and value.base is not None:
            # Another array sees the same memory, and holds something else now as well.
            return None
        if self._is_nameless(target, value):
            return None
        if request.array is None:
            return self._put_from(request, target, value, source)
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

    def _put_from(self, request: Put, target: Ref, value: Any, source: Any) -> Moved | None:
        """The front may have what was put into the source."""
        if request.source is None or request.region is not None or request.flat is not None:
            return None
        if self._is_nameless(request.source, source):
            return None
        theirs = self._moved(request.source, source, self._whole(source))
        mine = self._moved(target, value, self._whole(value))
        same = (theirs.dtype, theirs.shape) == (mine.dtype, mine.shape)
        return replace(mine, source=theirs.target) if same else None

    def fetched(self, request: Fetch, value: Any, array: np.ndarray) -> Moved | None:
        """What a fetch has moved."""
        if why_not_copied(value, self._runtime) is not None or self._is_nameless(request.target, value):
            return None
        piece = Piece(dtype=name_of(array.dtype), shape=array.shape, region=request.region, flat=request.flat)
        return self._moved(request.target, value, piece)

    def copied(self, target: Ref, value: Any) -> Moved | None:
        """What a copy that stays here is one of."""
        if why_not_copied(value, self._runtime) or self._is_nameless(target, value):
            return None
        return self._moved(target, value, self._whole(value))

    def _is_nameless(self, target: Ref, value: Any) -> bool:
        """Whether this is the gradient of an array that only a handle leads to: the front does not know its id."""
        inside = isinstance(target, Handle) and target not in self._holdings
        return inside and self._whereabouts.place_of(value) is None

    def _moved(self, target: Ref, value: Any, piece: Piece) -> Moved:
        meta = self._arrays.meta(value)
        name = self._whereabouts.name_for(target, value)
        return Moved(target=name, dtype=meta.dtype, shape=meta.full_shape, piece=piece)

    def _whole(self, value: Any) -> Piece:
        meta = self._arrays.meta(value)
        return Piece(dtype=meta.dtype, shape=meta.full_shape)

    def snapshot(self, max_bytes: int, send: SendCopies) -> dict[str, str]:
        """Sends every array there is, the small ones first, as many as ``max_bytes`` holds; why others are not there.

        One after the other, so that none but the one on its way is held twice.
        """
        skipped: dict[str, str] = {}
        batch: list[tuple[Moved, np.ndarray]] = []
        left = max_bytes
        for nbytes, _, name, target, value in sorted(self._copyable(skipped), key=lambda one: one[:2]):
            if nbytes > left:
                skipped[name] = _too_large(nbytes, left, max_bytes)
                continue
            try:
                array = self._arrays.read(value)
                moved = self._moved(target, value, self._whole(value))
                if array.nbytes > _SMALL:
                    send([moved], [bytes_of(array)])
                else:
                    batch.append((moved, array))
            except Exception as error:
                # A device that is lost is said to have no memory by none of these.
                if not (isinstance(error, TiremoteError) or is_out_of_memory(error)):
                    raise
                skipped[name] = str(error) or type(error).__name__
                continue
            left -= moved.piece.cost
            if len(batch) >= _MOST_AT_ONCE:
                _send(batch, send)
        _send(batch, send)
        return skipped

    def _copyable(self, skipped: dict[str, str]) -> Iterator[tuple[int, int, str, Ref, Any]]:
        """(bytes, number, name, target, array) of every array that can be copied."""
        for number, (target, name, value) in enumerate(self._all()):
            reason = why_not_copied(value, self._runtime)
            if reason is not None:
                skipped[name] = reason
                continue
            try:
                yield self._arrays.meta(value).nbytes, number, name, target, value
            except TiremoteError as error:
                skipped[name] = error.message

    def _all(self) -> Iterator[tuple[Ref, str, Any]]:
        self._whereabouts.settle_all()
        of_units = set()
        for unit, path, value in self._whereabouts.arrays():
            of_units.add(id(value))
            yield Name(unit=unit, name=path), f"{unit}.{path}", value
        for handle in self._holdings.all():
            value, holding = self._holdings.value(handle), self._holdings.holding(handle)
            if handle.kind != "object" and id(value) not in of_units:
                yield handle, holding.label or f"{handle.kind} {handle.id}", value

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
        self._whereabouts.tell(place)
        return reach(self._loader.loaded(place.unit).namespace, place.name, self._runtime)

    def _made(self, holding: ArrayHolding) -> Any:
        meta = holding.handle.meta
        what = meta["dtype"], meta["shape"], meta["element_shape"], bool(meta.get("needs_grad"))
        if holding.handle.kind == "field":
            return self._arrays.create_field(*what, needs_dual=bool(meta.get("needs_dual")))
        make = {"ndarray": self._arrays.create_ndarray, "array": self._arrays.create_host_array}
        return make[holding.handle.kind](*what)

    def _write(self, value: Any, message: PutBack, buffers: Sequence[Any]) -> None:
        meta = self._arrays.meta(value)
        now, then = (meta.dtype, meta.full_shape), (message.dtype, message.shape)
        if now != then:
            raise KernelArgumentError("it is {} {} now, and {} {} was kept".format(*now, *then))
        for piece, buffer in zip(message.pieces, buffers, strict=True):
            self._arrays.write(value, piece.descriptor.view(buffer), piece.region, piece.flat, cast=piece.cast)


def _too_large(nbytes: int, left: int, max_bytes: int) -> str:
    if not max_bytes:
        return "this worker keeps no copies: start it with a larger --copies"
    return f"its {nbytes:,} bytes are more than the {left:,} that this worker would still keep: see --copies"


def bytes_of(array: np.ndarray) -> memoryview:
    """Of an array in C or Fortran order, as they lie."""
    return array.reshape(-1, order="A").view(np.uint8).data


def _send(batch: list[tuple[Moved, np.ndarray]], send: SendCopies) -> None:
    if batch:
        send([moved for moved, _ in batch], [bytes_of(array) for _, array in batch])
        batch.clear()
