"""Chunks of arrays that a session's clients have sent, so that they need not be sent again."""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from tiremote.protocol.chunks import (
    DIGEST,
    ChunkedBytes,
    FindChunks,
    FoundChunks,
    cut,
    digest_of,
    each_digest,
    read_chunks,
)
from tiremote.protocol.errors import MissingChunks, ProtocolError, TiremoteError
from tiremote.protocol.values import CHUNKS, Ref, WireArray
from tiremote.worker.engine.arrays import Arrays
from tiremote.worker.engine.host_copies import bytes_of
from tiremote.worker.engine.regions import parse_flat, parse_region

#: What a chunk takes beside its bytes.
_BESIDE = 200


class ChunkCache:
    """Of one session, in its engine: nobody else can ask for what is in it, and it goes with the engine.

    At most ``max_bytes``; those that were used longest ago go first.
    """

    def __init__(self, max_bytes: int, session: str, arrays: Arrays, resolve: Callable[[Ref], Any]) -> None:
        self._max_bytes = max_bytes
        self._key = session.encode()
        self._arrays = arrays
        self._resolve = resolve
        self._chunks: OrderedDict[bytes, bytes] = OrderedDict()
        self.nbytes = 0

    def find(self, request: FindChunks) -> FoundChunks:
        """Which chunks are not here, neither in the cache nor in the array that they are for."""
        wanted = each_digest(request.digests)
        if request.target is not None and any(each not in self._chunks for each in wanted):
            # What cannot be read there is no reason to fail: a put will tell.
            with contextlib.suppress(TiremoteError):
                self._look_in(request, set(wanted) - self._chunks.keys())
        missing = [position for position, digest in enumerate(wanted) if self._used(digest) is None]
        return FoundChunks(missing=tuple(missing))

    def _used(self, digest: bytes) -> bytes | None:
        if digest in self._chunks:
            self._chunks.move_to_end(digest)
        return self._chunks.get(digest)

    def _look_in(self, request: FindChunks, wanted: set[bytes]) -> None:
        if request.target is None:
            return
        target = self._resolve(request.target)
        meta = self._arrays.meta(target)
        count = parse_region(request.region or (), meta.full_shape).size
        if request.flat is not None:
            start, stop = parse_flat(request.flat, meta.size)
            count = stop - start
        if -(-count * meta.itemsize // request.size) * DIGEST != len(request.digests):
            # They are of something of another size, or another dtype.
            return
        present = self._arrays.read(target, request.region, request.flat)
        for chunk in cut(bytes_of(present), request.size):
            digest = digest_of(chunk, self._key)
            if digest in wanted:
                self._add(digest, bytes(chunk))

    def complete(self, array: WireArray | None) -> None:
        """Has an array that came in chunks hold its bytes; any other is left as it is.

        Raises `MissingChunks` where some are neither given nor here, and `ProtocolError`.
        """
        if array is None or array.descriptor.coding != CHUNKS or array.data is None:
            return
        came = read_chunks(array.descriptor, array.data)
        digests = each_digest(came.digests)
        # Before anything that comes makes something else go.
        there = {digest: self._used(digest) for digest in digests}
        there.update(self._taken(came, digests))
        parts = [there[digest] for digest in digests]
        missing = tuple(position for position, part in enumerate(parts) if part is None)
        if missing:
            raise MissingChunks(
                f"{len(missing)} of {len(parts)} chunks are not here any more: send them with their bytes",
                chunks=missing,
            )
        array.complete(np.frombuffer(b"".join(part for part in parts if part is not None), np.uint8))

    def _taken(self, came: ChunkedBytes, digests: Sequence[bytes]) -> Iterator[tuple[bytes, bytes]]:
        start = 0
        data = came.data.data
        for position in came.given:
            chunk = data[start : start + came.size]
            start += chunk.nbytes
            digest = digests[position]
            if digest_of(chunk, self._key) != digest:
                raise ProtocolError(f"the bytes of chunk {position} have another digest than the one that came")
            kept = bytes(chunk)
            self._add(digest, kept)
            yield digest, kept

    def _add(self, digest: bytes, chunk: bytes) -> None:
        cost = len(chunk) + _BESIDE
        if digest in self._chunks or cost > self._max_bytes:
            return
        self._chunks[digest] = chunk
        self.nbytes += cost
        while self.nbytes > self._max_bytes:
            _, oldest = self._chunks.popitem(last=False)
            self.nbytes -= len(oldest) + _BESIDE
