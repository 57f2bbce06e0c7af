"""Arrays there and back. Large ones go in pieces, a few of them under way at a time, from or into one array."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from tiremote.client.chunked_puts import send_in_chunks
from tiremote.client.exchange import Exchange
from tiremote.client.regions import Region
from tiremote.client.request_future import RequestFuture
from tiremote.protocol.dtypes import dtype_of, name_of
from tiremote.protocol.errors import TiremoteError
from tiremote.protocol.messages import Alloc, Cleanup, Fetch, Put
from tiremote.protocol.results import ArrayResult, CleanupResult, FetchResult
from tiremote.protocol.values import Handle, Ref, WireArray, wire_array

#: Told (bytes done, bytes in all) after each piece, on the caller's thread.
Progress = Callable[[int, int], None]

#: Bytes of a piece. Measured: 4 MiB pieces move more than twice as fast as one frame of 64 MiB.
PIECE = 4 << 20

#: A piece's scalars are a multiple of this, so that pieces begin at round addresses.
ALIGNED = 1 << 20

#: Pieces under way at a time: what bounds the memory beside the array itself.
UNDER_WAY = 8


def piece_of(dtype: np.dtype) -> int:
    """Scalars in a piece."""
    return max(PIECE // dtype.itemsize // ALIGNED, 1) * ALIGNED


def fetch(
    exchange: Exchange,
    target: Ref,
    kind: str,
    dtype: np.dtype,
    shape: tuple[int, ...],
    progress: Progress | None = None,
) -> np.ndarray:
    """The whole array of full ``shape`` (elements included). ``kind`` is ``ndarray``, ``array`` or ``field``."""
    nbytes = prod(shape) * dtype.itemsize
    for first in exchange.thrift.meter.probes(exchange.thrift.meter.down, nbytes, dtype.itemsize):
        exchange.call(Fetch(id="", target=target, flat=(0, first)), FetchResult, expects=first * dtype.itemsize)
    if prod(shape) <= piece_of(dtype) or (kind == "field" and nbytes <= exchange.limits.buffer_bytes):
        result = exchange.call(_fetch(exchange, target), FetchResult, expects=nbytes)
        array = local_array(result.value).reshape(shape)
        if progress is not None:
            progress(nbytes, nbytes)
        return array
    if kind == "field":
        # Where it is not dense, each range costs the worker a launch.
        return fetch_copy(exchange, target, progress)
    out = np.empty(shape, dtype)
    fetch_into(exchange, target, out.reshape(-1), progress)
    return out


def fetch_copy(exchange: Exchange, target: Ref, progress: Progress | None = None) -> np.ndarray:
    """An array of any kind and size: it is copied there once, and the copy is read in pieces."""
    copy = held(exchange, Alloc(id="", kind="array", copy_of=target))
    meta = copy.meta
    out = np.empty((*meta["shape"], *meta.get("element_shape", ())), dtype_of(meta["dtype"]))
    try:
        fetch_into(exchange, copy, out.reshape(-1), progress)
    finally:
        discard(exchange, copy)
    return out


def fetch_into(exchange: Exchange, target: Ref, flat: np.ndarray, progress: Progress | None = None) -> None:
    """Fills a 1-d array with the scalars of a remote array of the same size, in C order."""

    def take(start: int, stop: int) -> Callable[[FetchResult], int]:
        def copy(result: FetchResult) -> int:
            flat[start:stop] = _wire(result.value).view().reshape(-1)
            return (stop - start) * int(flat.itemsize)

        return copy

    steps = (
        (
            _fetch(exchange, target, flat=(start, stop)),
            FetchResult,
            take(start, stop),
            (stop - start) * flat.itemsize,
        )
        for start, stop in _ranges(flat.size, flat.dtype)
    )
    _in_flight(exchange, steps, flat.nbytes, progress)


def send(
    exchange: Exchange,
    target: Ref,
    kind: str,
    dtype: np.dtype,
    values: np.ndarray,
    *,
    cast: bool = False,
    progress: Progress | None = None,
) -> None:
    """Writes ``values``, of the full shape, over the whole remote array of ``dtype``."""
    nbytes = values.nbytes
    for first in exchange.thrift.meter.probes(exchange.thrift.meter.up, values.nbytes, values.itemsize):
        part = wire_array(np.asarray(values.flat[:first]))
        exchange.call(Put(id="", target=target, flat=(0, first), array=part, cast=cast), ArrayResult)
    if values.size <= piece_of(values.dtype) or (kind == "field" and nbytes <= exchange.limits.buffer_bytes):
        _put(exchange, [Put(id="", target=target, array=wire_array(values), cast=cast)], nbytes, progress)
    elif kind != "field":
        send_from(exchange, target, values, cast=cast, progress=progress)
    else:
        source = held(exchange, Alloc(id="", kind="array", dtype=name_of(dtype), shape=values.shape))
        try:
            send_from(exchange, source, values, cast=cast, progress=progress)
            exchange.call(Put(id="", target=target, source=source), ArrayResult)
        finally:
            discard(exchange, source)


def send_from(
    exchange: Exchange, target: Ref, values: np.ndarray, *, cast: bool = False, progress: Progress | None = None
) -> None:
    """Writes the scalars of ``values``, in C order, over a remote array of the same size."""
    flat = values.reshape(-1) if values.flags.c_contiguous else None

    def puts() -> Iterator[Put]:
        for start, stop in _ranges(values.size, values.dtype):
            # Of another layout only a piece at a time is put in order.
            part = np.asarray(values.flat[start:stop]) if flat is None else flat[start:stop]
            yield Put(id="", target=target, flat=(start, stop), array=wire_array(part), cast=cast)

    _put(exchange, puts(), values.nbytes, progress)


def fetch_region(
    exchange: Exchange, target: Ref, dtype: np.dtype, element_shape: tuple[int, ...], region: Region
) -> np.ndarray:
    """A part, of shape ``region.shape + element_shape``."""
    most = piece_of(dtype) // max(prod(element_shape), 1)
    shape = (*region.shape, *element_shape)
    if region.size <= most:
        result = exchange.call(
            _fetch(exchange, target, region=region.wire), FetchResult, expects=prod(shape) * dtype.itemsize
        )
        return local_array(result.value, dtype).reshape(shape)
    out = np.empty(shape, dtype)

    def take(index: Any) -> Callable[[FetchResult], int]:
        def copy(result: FetchResult) -> int:
            part = out[index]
            part[...] = _wire(result.value).view().reshape(part.shape)
            return int(part.nbytes)

        return copy

    steps = (
        (_fetch(exchange, target, region=piece.wire), FetchResult, take(index), PIECE)
        for piece, index in region.pieces(most)
    )
    _in_flight(exchange, steps, out.nbytes, None)
    return out


def send_region(exchange: Exchange, target: Ref, region: Region, values: np.ndarray, *, cast: bool = False) -> None:
    """Writes ``values``, of shape ``region.shape + element_shape``, over a part."""
    element = prod(values.shape[len(region.shape) :])
    most = piece_of(values.dtype) // max(element, 1)

    puts = (
        Put(id="", target=target, region=piece.wire, array=wire_array(values[index]), cast=cast)
        for piece, index in region.pieces(most)
    )
    _put(exchange, puts, values.nbytes, None)


def held(exchange: Exchange, request: Alloc | Put) -> Handle:
    """The handle of what the request makes. What was dropped here goes first: the new one may need its room."""
    exchange.release_dropped()
    holding = exchange.call(request, ArrayResult).holding
    if holding is None:
        raise TypeError("the worker made an array and did not say which")
    return holding.handle


def discard(exchange: Exchange, *handles: Handle) -> None:
    """Drops what is kept on the worker, without waiting for it."""
    if not exchange.closed:
        exchange.submit(Cleanup(id="", targets=handles), CleanupResult, lambda _: None)


def local_array(value: Any, dtype: np.dtype | None = None) -> np.ndarray:
    """An array or a scalar that came, as a writeable array."""
    if not isinstance(value, WireArray):
        return np.array(value, dtype)
    view = np.frombuffer(value.data, dtype=np.uint8) if value.data is not None else None
    if view is not None and view.size >= PIECE // 4 and view.flags.writeable:
        # The message's own memory, which nothing else refers to; its start may be odd.
        descriptor = value.descriptor
        array = view.view(descriptor.view(value.data).dtype).reshape(descriptor.shape, order=descriptor.order)
        if array.flags.aligned:
            return array
    return value.copy()


def _wire(value: Any) -> WireArray:
    return value if isinstance(value, WireArray) else wire_array(np.asarray(value))


def _fetch(exchange: Exchange, target: Ref, **part: Any) -> Fetch:
    return Fetch(id="", target=target, codings=exchange.thrift.compression.asked(), **part)


def _ranges(size: int, dtype: np.dtype) -> Iterator[tuple[int, int]]:
    piece = piece_of(dtype)
    return ((start, min(start + piece, size)) for start in range(0, size, piece))


#: A request, the type of its result, what takes that and tells the bytes it did, and the bytes that come.
Step = tuple[Any, type[Any], Callable[[Any], int], int]


def _put(exchange: Exchange, puts: Iterable[Put], total: int, progress: Progress | None) -> None:
    """Does puts of plain arrays, of ``total`` bytes together, with as few bytes as the link asks for."""
    if exchange.thrift.reuse.is_wanted(total):
        send_in_chunks(exchange, puts, total, progress or exchange.on_progress)
        return

    def steps() -> Iterator[Step]:
        for put in puts:
            codings = exchange.thrift.compression.for_sending()
            request = put if not codings or put.array is None else replace(put, array=put.array.coded(codings))
            size = 0 if put.array is None else put.array.descriptor.nbytes
            yield request, ArrayResult, lambda _, size=size: size, 0  # type: ignore[misc]

    _in_flight(exchange, steps(), total, progress)


def _in_flight(exchange: Exchange, steps: Iterable[Step], total: int, progress: Progress | None) -> None:
    waiting: deque[tuple[RequestFuture[Any], Callable[[Any], int]]] = deque()
    progress = progress or exchange.on_progress
    done = 0

    def finish() -> None:
        nonlocal done
        future, take = waiting.popleft()
        done += take(exchange.wait(future))
        if progress is not None:
            progress(done, total)

    try:
        for request, result, take, expects in steps:
            if len(waiting) == UNDER_WAY:
                finish()
            waiting.append((exchange.submit(request, result, _itself, expects=expects), take))
        while waiting:
            finish()
    except TiremoteError:
        # What is under way reads the caller's memory: that ends before the caller knows of the error.
        for future, _ in waiting:
            future.exception()
        raise


def _itself(result: Any) -> Any:
    return result
