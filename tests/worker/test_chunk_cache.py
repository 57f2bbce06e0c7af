"""`tiremote.worker.engine.chunk_cache`: what is kept, what goes, and what is told to be missing."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest

from tiremote.protocol.chunks import FindChunks, cut, digest_of, in_chunks
from tiremote.protocol.errors import MissingChunks, ProtocolError
from tiremote.protocol.values import WireArray, wire_array
from tiremote.worker.engine.chunk_cache import ChunkCache

SESSION = "s1-a1b2c3"
SIZE = 4096
#: What ten chunks take.
TEN = 10 * (SIZE + 200)


def cache(max_bytes: int = TEN) -> ChunkCache:
    return ChunkCache(max_bytes, SESSION, cast(Any, None), cast(Any, None))


def numbers(first: int, count: int = 1) -> np.ndarray:
    """So many chunks, each of another number."""
    return np.repeat(np.arange(first, first + count, dtype="f8"), SIZE // 8)


def digests(array: np.ndarray) -> bytes:
    return b"".join(digest_of(chunk, SESSION.encode()) for chunk in cut(wire_array(array).data, SIZE))


def sent(array: np.ndarray, given: list[int]) -> WireArray:
    return in_chunks(wire_array(array), SIZE, digests(array), given)


def give(to: ChunkCache, array: np.ndarray) -> None:
    to.complete(sent(array, list(range(-(-array.nbytes // SIZE)))))


def missing(of: ChunkCache, array: np.ndarray) -> tuple[int, ...]:
    return of.find(FindChunks(id=1, digests=digests(array), size=SIZE)).missing


def test_what_was_given_once_need_not_be_given_again() -> None:
    """An array is put together of chunks that came with others, in any order, and of those that come with it."""
    chunks = cache()
    assert missing(chunks, numbers(0, 4)) == (0, 1, 2, 3)
    give(chunks, numbers(0, 2))
    give(chunks, numbers(3))
    assert missing(chunks, numbers(0, 4)) == (2,)
    wire = sent(numbers(0, 4), [2])
    chunks.complete(wire)
    np.testing.assert_array_equal(wire.view(), numbers(0, 4))


def test_equal_chunks_of_an_array_come_once() -> None:
    """The others are told by their digest."""
    zeros = np.zeros(5 * SIZE // 8)
    wire = sent(zeros, [0])
    cache().complete(wire)
    np.testing.assert_array_equal(wire.view(), zeros)


def test_what_was_used_longest_ago_goes_first() -> None:
    """Asking counts as using, and nothing is kept beyond the bound."""
    chunks = cache()
    give(chunks, numbers(0, 10))
    assert chunks.nbytes == TEN
    assert missing(chunks, numbers(0)) == ()
    give(chunks, numbers(10))
    assert chunks.nbytes == TEN
    assert missing(chunks, numbers(0)) == ()
    assert missing(chunks, numbers(1)) == (0,)
    assert missing(chunks, numbers(2, 9)) == ()


def test_what_had_to_go_is_named_and_nothing_is_put_together() -> None:
    """The error has the positions of those that are missing; what came with it stays."""
    chunks = cache()
    wire = sent(numbers(0, 3), [1])
    with pytest.raises(MissingChunks) as caught:
        chunks.complete(wire)
    assert caught.value.chunks == (0, 2)
    with pytest.raises(ProtocolError):
        wire.view()
    assert missing(chunks, numbers(1)) == ()


def test_what_an_array_needs_is_not_lost_to_what_comes_with_it() -> None:
    """It may be larger than all that is kept."""
    chunks = cache()
    give(chunks, numbers(0, 10))
    wire = sent(numbers(0, 30), list(range(10, 30)))
    chunks.complete(wire)
    np.testing.assert_array_equal(wire.view(), numbers(0, 30))
    assert chunks.nbytes == TEN


def test_bytes_of_another_digest_are_refused_and_not_kept() -> None:
    """Or one client of a session could have another's arrays hold what it likes."""
    chunks = cache()
    wire = in_chunks(wire_array(numbers(7)), SIZE, digests(numbers(8)), [0])
    with pytest.raises(ProtocolError, match="another digest"):
        chunks.complete(wire)
    assert missing(chunks, numbers(8)) == (0,)
    assert chunks.nbytes == 0


def test_a_digest_of_another_session_finds_nothing() -> None:
    """It is keyed."""
    chunks = cache()
    give(chunks, numbers(0))
    theirs = digest_of(numbers(0).data.cast("B"), b"s2-ffffff")
    assert chunks.find(FindChunks(id=1, digests=theirs, size=SIZE)).missing == (0,)


def test_without_room_nothing_is_kept_and_arrays_come_all_the_same() -> None:
    """``--chunk-cache 0``."""
    chunks = cache(0)
    wire = sent(numbers(0, 3), [0, 1, 2])
    chunks.complete(wire)
    np.testing.assert_array_equal(wire.view(), numbers(0, 3))
    assert chunks.nbytes == 0
    assert missing(chunks, numbers(0, 3)) == (0, 1, 2)


def test_an_array_that_is_not_in_chunks_is_left_as_it_is() -> None:
    """Also one that did not come at all."""
    wire = wire_array(numbers(0))
    cache().complete(wire)
    cache().complete(None)
    np.testing.assert_array_equal(wire.view(), numbers(0))
