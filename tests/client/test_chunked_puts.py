"""`tiremote.client.chunked_puts`, against the cache that an engine has and no worker."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, cast

import numpy as np
import pytest

from tiremote.client.chunked_puts import CHUNK, send_in_chunks
from tiremote.client.exchange import Exchange
from tiremote.client.thrift import Thrift
from tiremote.protocol.chunks import FindChunks, cut, digest_of, in_chunks, read_chunks
from tiremote.protocol.errors import EngineCrashed, KernelArgumentError, MissingChunks
from tiremote.protocol.messages import Put
from tiremote.protocol.results import ArrayResult, Limits
from tiremote.protocol.values import Name, wire_array
from tiremote.worker.engine.chunk_cache import ChunkCache

X = Name(name="x")
#: Of each put, in numbers.
PIECE = 8 * CHUNK // 4


class Played:
    """An exchange whose worker is here: what is put, piece by piece, and what came with its bytes."""

    def __init__(self, cache_bytes: int = 256 << 20) -> None:
        self.thrift = Thrift(False, True, local=False, clock=lambda: 0.0)
        self.cache = ChunkCache(cache_bytes, "", cast(Any, None), cast(Any, None))
        self.array = np.zeros(64 * PIECE, "u4")
        self.limits = Limits()
        self.given: list[int] = []
        self.busy = False
        #: What the next requests are answered with.
        self.losses: list[EngineCrashed] = []
        #: Called before a put is done.
        self.before: Callable[[], None] = lambda: None

    def digests(self, values: np.ndarray) -> bytes:
        """Of its chunks."""
        return b"".join(digest_of(chunk, b"") for chunk in cut(values.data, CHUNK))

    def submit(self, request: Any, _result: Any, then: Callable[[Any], Any]) -> Future[Any]:
        future: Future[Any] = Future()
        if self.losses:
            future.set_exception(self.losses.pop(0))
            return future
        if isinstance(request, FindChunks):
            request = FindChunks(id=1, digests=request.digests, size=request.size)
            future.set_result(then(self.cache.find(request)))
            return future
        try:
            future.set_result(then(self.put(request)))
        except (MissingChunks, KernelArgumentError) as error:
            future.set_exception(error)
        return future

    def call(self, request: Any, result: Any) -> Any:
        return self.submit(request, result, lambda done: done).result()

    def wait(self, future: Future[Any], *, patience: float | None = None) -> Any:
        if self.busy and patience is not None:
            raise TimeoutError
        return future.result()

    def put(self, request: Put) -> ArrayResult:
        self.before()
        assert request.array is not None
        assert request.flat is not None
        in_chunks = request.array.descriptor.coding == "chunks"
        if in_chunks:
            self.given.append(len(read_chunks(request.array.descriptor, request.array.data).given))
        else:
            self.given.append(-1)
        self.cache.complete(request.array)
        self.array[slice(*request.flat)] = request.array.view()
        return ArrayResult()

    def send(self, values: np.ndarray, progress: Any = None) -> list[int]:
        """Puts it in pieces; how many chunks of each request had their bytes, -1 for an array that came plainly."""
        self.given.clear()
        puts = (
            Put(id="", target=X, flat=(start, start + PIECE), array=wire_array(values[start : start + PIECE]))
            for start in range(0, values.size, PIECE)
        )
        send_in_chunks(cast(Exchange, self), puts, values.nbytes, progress)
        np.testing.assert_array_equal(self.array[: values.size], values)
        return self.given


VALUES = np.random.default_rng(0).integers(0, 1 << 32, 16 * PIECE, dtype="u4")


def test_the_chunks_that_changed_are_sent_and_no_others() -> None:
    """A number in the third piece, and two at the two ends of a chunk in the fifth."""
    worker = Played()
    assert worker.send(VALUES) == [8] * 16
    other = VALUES.copy()
    other[[2 * PIECE + 5, 4 * PIECE, 4 * PIECE + CHUNK // 4 - 1]] += 1
    assert worker.send(other) == [0, 0, 1, 0, 1] + [0] * 11
    assert worker.send(VALUES) == [0] * 16


def test_equal_chunks_are_sent_once_in_each_piece() -> None:
    """Zeros are one chunk."""
    assert Played().send(np.zeros(PIECE, "u4")) == [1]


def test_what_was_evicted_between_the_question_and_the_put_is_sent() -> None:
    """As the error names it: the pieces that were asked about before are sent again, with their bytes."""
    worker = Played()
    worker.send(VALUES)

    def evict() -> None:
        if len(worker.given) == 3:
            worker.cache = ChunkCache(256 << 20, "", cast(Any, None), cast(Any, None))

    worker.before = evict
    assert worker.send(VALUES[: 5 * PIECE]) == [0, 0, 0, 0, 0, 8, 8]


def test_where_nothing_stays_the_array_is_sent_plainly_in_the_end() -> None:
    """Tries are bounded: the third is without chunks."""
    worker = Played()
    worker.send(VALUES[:PIECE])

    class Forgetful(ChunkCache):
        def complete(self, array: Any) -> None:
            if array.descriptor.coding == "chunks":
                raise MissingChunks("gone", chunks=(0,))

    cache = worker.cache
    worker.cache = Forgetful(1 << 20, "", cast(Any, None), cast(Any, None))
    worker.cache.find = cache.find  # type: ignore[method-assign]
    assert worker.send(VALUES[:PIECE]) == [0, 1, -1]


def test_where_the_answer_is_late_everything_is_sent() -> None:
    """The engine is busy, and the link is not."""
    worker = Played()
    worker.send(VALUES[: 4 * PIECE])
    worker.busy = True
    assert worker.send(VALUES[: 4 * PIECE]) == [8] * 4


def test_an_array_that_fills_a_buffer_goes_as_it_is_where_its_digests_would_not_fit() -> None:
    """In chunks where it needs less."""
    worker = Played()
    worker.limits = Limits(buffer_bytes=PIECE * 4)
    assert worker.send(VALUES[:PIECE]) == [-1]
    changed = VALUES[:PIECE].copy()
    changed[0] += 1
    worker.cache.complete(in_chunks(wire_array(VALUES[:PIECE]), CHUNK, worker.digests(VALUES[:PIECE]), range(8)))
    assert worker.send(changed) == [1]


def test_progress_is_told_of_each_piece() -> None:
    """Of what is there, whether it was sent or not."""
    told: list[tuple[int, int]] = []
    Played().send(VALUES[: 3 * PIECE], lambda done, total: told.append((done, total)))
    assert told == [(number * PIECE * 4, 3 * PIECE * 4) for number in (1, 2, 3)]


def test_an_error_of_the_put_is_the_callers() -> None:
    """Any other than missing chunks."""
    worker = Played()

    def refuse() -> None:
        raise KernelArgumentError("no")

    worker.before = refuse
    with pytest.raises(KernelArgumentError):
        worker.send(VALUES[:PIECE])


def test_what_was_lost_is_told_by_the_first_answer_however_late_that_comes() -> None:
    """A worker tells it once, and to the later requests only that they were not run."""
    worker = Played()
    worker.busy = True
    worker.losses = [EngineCrashed("x is lost"), EngineCrashed("not run"), EngineCrashed("not run")]
    with pytest.raises(EngineCrashed, match="x is lost"):
        worker.send(VALUES[:PIECE])
