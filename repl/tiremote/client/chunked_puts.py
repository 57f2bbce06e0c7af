"""Puts of arrays in chunks: the worker is asked which it has, and is sent the others."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from tiremote.client.exchange import Exchange
from tiremote.client.request_future import RequestFuture
from tiremote.protocol.chunks import DIGEST, FindChunks, FoundChunks, cut, digest_of, each_digest, in_chunks
from tiremote.protocol.errors import EngineError, MissingChunks, TiremoteError
from tiremote.protocol.messages import Put
from tiremote.protocol.results import ArrayResult
from tiremote.protocol.values import WireArray

#: Bytes of a chunk.
CHUNK = 128 << 10

#: Puts whose chunks are asked for ahead of the one that is sent, and puts under way.
_AHEAD = 4
_UNDER_WAY = 8


@dataclass(frozen=True, slots=True, eq=False)
class _InChunks:
    """A put of an array that is not coded, and the digests of its chunks. ``limit``: bytes of a buffer."""

    put: Put
    array: WireArray
    digests: bytes
    codings: tuple[str, ...]
    limit: int

    def first_of(self, positions: Iterable[int]) -> list[int]:
        """Of these chunks the first of each content."""
        firsts: dict[bytes, int] = {}
        digests = each_digest(self.digests)
        for position in positions:
            firsts.setdefault(digests[position], position)
        return sorted(firsts.values())

    def given(self, positions: Iterable[int]) -> Put:
        """The request that brings these chunks."""
        made = in_chunks(self.array, CHUNK, self.digests, self.first_of(positions), self.codings)
        # With its digests, an array of just as many bytes as go in one buffer is more than these.
        return replace(self.put, array=made) if len(made.data) <= self.limit else self.whole()

    def whole(self) -> Put:
        """The request that needs nothing on the other side."""
        return replace(self.put, array=self.array.coded(self.codings))


def send_in_chunks(
    exchange: Exchange, puts: Iterable[Put], total: int, progress: Callable[[int, int], None] | None
) -> None:
    """Does these puts, of arrays that are not coded and ``total`` bytes together, in turn."""
    reuse, codings = exchange.thrift.reuse, exchange.thrift.compression.for_sending()
    asked: deque[tuple[_InChunks, RequestFuture[FoundChunks]]] = deque()
    unheard: list[RequestFuture[FoundChunks]] = []
    under_way: deque[tuple[_InChunks, list[int], RequestFuture[ArrayResult]]] = deque()
    patience = 1.0
    done = 0

    def ask(put: Put, array: WireArray) -> None:
        digests = b"".join(digest_of(chunk, reuse.key) for chunk in cut(array.data, CHUNK))
        # What is converted there has other bytes.
        target = None if put.cast else put.target
        request = FindChunks(id="", digests=digests, size=CHUNK, target=target, region=put.region, flat=put.flat)
        future = exchange.submit(request, FoundChunks, lambda found: found)
        asked.append((_InChunks(put, array, digests, codings, exchange.limits.buffer_bytes), future))

    def send_next() -> None:
        nonlocal patience
        chunked, question = asked.popleft()
        try:
            found = exchange.wait(question, patience=patience * reuse.patience(chunked.array.descriptor.nbytes))
            missing = list(found.missing)
        except TimeoutError:
            # Something else runs there. The bytes may as well be on their way, and the next question is not waited for.
            patience = 0.0
            unheard.append(question)
            missing = list(range(len(chunked.digests) // DIGEST))
        if len(under_way) == _UNDER_WAY:
            finish()
        under_way.append((chunked, missing, exchange.submit(chunked.given(missing), ArrayResult, lambda done: done)))

    def finish() -> None:
        nonlocal done
        chunked, given, future = under_way.popleft()
        try:
            exchange.wait(future)
        except MissingChunks as error:
            _send_again(exchange, chunked, {*given, *error.chunks})
        done += chunked.array.descriptor.nbytes
        if progress is not None:
            progress(done, total)

    try:
        for put in puts:
            if put.array is not None:
                ask(put, put.array)
            if len(asked) > _AHEAD:
                send_next()
        while asked:
            send_next()
        while under_way:
            finish()
    except TiremoteError:
        # As of any transfer: what is under way has ended before the caller knows of the error.
        for _, _, future in under_way:
            future.exception()
        for question in unheard:
            # What was lost is told once: in answer to what was asked first.
            if isinstance(error := question.exception(), EngineError):
                raise error from None
        raise


def _send_again(exchange: Exchange, chunked: _InChunks, given: Iterable[int]) -> None:
    """Some chunks had to make room meanwhile, or went with an engine."""
    try:
        exchange.call(chunked.given(given), ArrayResult)
    except MissingChunks:
        exchange.call(chunked.whole(), ArrayResult)
