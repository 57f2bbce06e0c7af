"""Arrays out to the front's memory and back from there, so that they outlive this process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tiremote.protocol.dtypes import name_of
from tiremote.protocol.errors import KernelArgumentError, TiremoteError
from tiremote.protocol.messages import Fetch, Put
from tiremote.protocol.receipts import ArrayHolding
from tiremote.protocol.values import Handle, Name, Ref, wire_array
from tiremote.worker.engine.arrays import Arrays
from tiremote.worker.engine.holdings import Holdings
from tiremote.worker.engine.loader import KernelLoader
from tiremote.worker.engine.places import arrays_in, reach, why_not_copied
from tiremote.worker.engine.runtime import TaichiRuntime
from tiremote.worker.host_copy import Moved, Piece
from tiremote.worker.link import PutBack


@dataclass(kw_only=True, slots=True)
class Taken:
    """A snapshot: what each of ``arrays`` is, and why others are not there."""

    moved: list[Moved] = field(default_factory=list)
    arrays: list[np.ndarray] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)


class HostCopies:
    """``max_bytes``: what one snapshot may hold."""

    def __init__(
        self, runtime: TaichiRuntime, arrays: Arrays, loader: KernelLoader, holdings: Holdings, max_bytes: int
    ) -> None:
        self._runtime = runtime
        self._arrays = arrays
        self._loader = loader
        self._holdings = holdings
        self._max_bytes = max_bytes

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
        piece = Piece(dtype=name_of(array.dtype), shape=array.shape, region=request.region, flat=request.flat)
        return self._moved(request.target, value, piece)

    def copied(self, target: Ref, value: Any, array: np.ndarray) -> Moved | None:
        """What a copy that stays here is one of."""
        if why_not_copied(value, self._runtime) is not None:
            return None
        return self._moved(target, value, Piece(dtype=name_of(array.dtype), shape=array.shape))

    def _moved(self, target: Ref, value: Any, piece: Piece) -> Moved:
        place = self.place_of(target)
        return Moved(target=place or target, size=self._arrays.meta(value).size, piece=piece)

    def snapshot(self) -> Taken:
        """Every array there is, the small ones first, as many as may be."""
        taken = Taken()
        found: list[tuple[Ref, str, Any, int]] = []
        for target, name, value in self._all():
            reason = why_not_copied(value, self._runtime)
            if reason is not None:
                taken.skipped[name] = reason
                continue
            try:
                found.append((target, name, value, self._arrays.meta(value).nbytes))
            except TiremoteError as error:
                taken.skipped[name] = error.message
        left = self._max_bytes
        for target, name, value, nbytes in sorted(found, key=lambda one: one[3]):
            if nbytes > left:
                taken.skipped[name] = f"its {nbytes:,} bytes are more than the {left:,} that a snapshot may still take"
                continue
            left -= nbytes
            array = self._arrays.read(value)
            piece = Piece(dtype=name_of(array.dtype), shape=array.shape)
            taken.moved.append(Moved(target=target, size=array.size, piece=piece))
            taken.arrays.append(array)
        return taken

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
        holding = message.holding
        place = message.target if isinstance(message.target, Name) else None if holding is None else holding.place
        value = self._at(place) if place is not None else self._made(holding)
        if message.pieces:
            self._write(value, message, buffers)
        if holding is not None:
            self._holdings.adopt(holding, value)
        return holding

    def _at(self, place: Name) -> Any:
        return reach(self._loader.loaded(place.unit).namespace, place.name, self._runtime)

    def _made(self, holding: ArrayHolding | None) -> Any:
        if holding is None:
            raise AssertionError("what has no name in a unit has a handle")
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


def packable(taken: Taken) -> dict[str, Any]:
    """A snapshot as the link carries it: the arrays' bytes follow in the order of ``moved``."""
    return {"moved": taken.moved, "arrays": [wire_array(array) for array in taken.arrays], "skipped": taken.skipped}
