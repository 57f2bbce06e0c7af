"""Arrays of which the other side has most already: cut into chunks, told by their digests, only some with their bytes.

The buffer of an array in the coding ``chunks`` is one msgpack array ``[size, digests, given, coding, data]``: chunks of
``size`` bytes but for the last, 16 bytes of digest for each, the positions of those whose bytes come along, and these
end to end, coded or as they are. A digest is the first half of the SHA-256 of the session's key, which the worker says
in hello, and a chunk's bytes behind it: it tells a session's own chunks apart, and means nothing in another session.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar

import msgpack
import numpy as np

from tiremote.protocol.array_requests import Axis, FlatRange
from tiremote.protocol.coding import check_coding, chosen, decoded, encoded
from tiremote.protocol.errors import ProtocolError, shown
from tiremote.protocol.plain import load
from tiremote.protocol.request import EngineRequest
from tiremote.protocol.values import CHUNKS, ArrayDescriptor, Ref, WireArray

#: Bytes of a digest. Only a client that fools itself could gain by two chunks of one digest.
DIGEST = 16

#: Whole elements, and not so small that there are more digests than bytes that they save.
_SMALLEST, _UNIT = 4096, 8


@dataclass(frozen=True, kw_only=True, slots=True)
class FindChunks(EngineRequest):
    """Which of the chunks of these ``digests`` the session's engine does not have.

    With a ``target`` it looks in that as well, as an array put there would be cut: whole, or by ``region`` or ``flat``.
    ``size`` is that of the chunks, in bytes.
    """

    op: ClassVar[str] = "find_chunks"

    digests: bytes
    size: int
    target: Ref | None = None
    region: tuple[Axis, ...] | None = None
    flat: FlatRange | None = None

    def __post_init__(self) -> None:
        EngineRequest.__post_init__(self)
        check_chunks(self.digests, self.size)


@dataclass(frozen=True, kw_only=True, slots=True)
class FoundChunks:
    """``missing`` are positions in the digests that were asked about."""

    missing: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class ChunkedBytes:
    """An array's bytes as they travel: each chunk by its digest, those ``given`` with their bytes, end to end."""

    size: int
    digests: bytes
    given: tuple[int, ...]
    data: np.ndarray


def check_chunks(digests: Any, size: Any) -> None:
    """Raises `ProtocolError` for what are no digests of chunks of that size."""
    if type(size) is not int or size < _SMALLEST or size % _UNIT:
        raise ProtocolError(f"chunks are {_SMALLEST} bytes or more, a multiple of {_UNIT}, not {shown(size)}")
    if not isinstance(digests, bytes) or len(digests) % DIGEST:
        raise ProtocolError(f"digests are {DIGEST} bytes each, end to end, not {shown(digests)}")


def digest_of(chunk: Any, key: bytes) -> bytes:
    """Of a chunk's bytes. ``key``: the session's."""
    made = hashlib.sha256(key)
    made.update(chunk)
    return made.digest()[:DIGEST]


def each_digest(digests: bytes) -> list[bytes]:
    """The digests that stand there end to end."""
    return [digests[at : at + DIGEST] for at in range(0, len(digests), DIGEST)]


def cut(data: Any, size: int) -> Iterator[memoryview]:
    """The chunks of an array's bytes, in order."""
    view = memoryview(data).cast("B")
    return (view[start : start + size] for start in range(0, view.nbytes, size))


def in_chunks(
    array: WireArray, size: int, digests: bytes, given: Sequence[int], codings: Sequence[str] = ()
) -> WireArray:
    """An array that is not coded, with the bytes of the chunks at these positions alone."""
    chunks = list(cut(array.data, size))
    data: Any = b"".join(chunks[position] for position in given)
    itemsize = array.descriptor.itemsize
    coding = chosen(data, itemsize, codings) if codings else None
    if coding is not None:
        data = encoded(data, itemsize, coding)
    packed = msgpack.packb([size, digests, list(given), coding, data])
    return WireArray(replace(array.descriptor, coding=CHUNKS), packed)


def read_chunks(descriptor: ArrayDescriptor, buffer: Any) -> ChunkedBytes:
    """What came as the buffer of an array in chunks. Raises `ProtocolError` for all that does not fit together."""
    content = load(buffer)
    if not isinstance(content, list) or len(content) != 5:
        raise ProtocolError("an array in chunks is [size, digests, given, coding or nil, data]")
    size, digests, given, coding, data = content
    check_chunks(digests, size)
    nbytes = descriptor.nbytes
    count = -(-nbytes // size)
    if len(digests) != count * DIGEST:
        raise ProtocolError(f"{nbytes} bytes are {count} chunks of {size}, but {len(digests) // DIGEST} digests came")
    if not isinstance(given, list) or not all(type(one) is int and 0 <= one < count for one in given):
        raise ProtocolError(f"chunks are given by their positions from 0 to {count - 1}, not {shown(given)}")
    if any(one >= other for one, other in pairwise(given)):
        raise ProtocolError("the positions of the chunks that are given grow from one to the next")
    if not isinstance(data, bytes):
        raise ProtocolError(f"the bytes of chunks are bin, not {shown(data)}")
    expected = sum(min(size, nbytes - position * size) for position in given)
    if coding is not None:
        check_coding(coding)
        plain = decoded(data, descriptor.itemsize, coding, expected)
    else:
        plain = np.frombuffer(data, np.uint8)
    if plain.size != expected:
        raise ProtocolError(f"the chunks that are given are {expected} bytes, but {plain.size} came")
    return ChunkedBytes(size=size, digests=digests, given=tuple(given), data=plain)
