"""Answers that were given, kept so that a repeated request is answered again and never run twice."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

from tiremote.protocol.codec import encode, encode_ok
from tiremote.protocol.messages import Failure, RequestId
from tiremote.protocol.receipts import Timing
from tiremote.worker.front.journal import Journal
from tiremote.worker.front.routes import Claim

#: Why an answer is not kept: its client has it, it had to make room, or it is read again instead.
Why = Literal["received", "room", "fetch"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """What a request was answered with: the packed result with its buffers, or a failure.

    ``target`` shows for people what was asked; ``answered_at`` is in seconds since 1970. ``codings`` are those that its
    arrays may have.
    """

    op: str
    target: str
    answered_at: float
    body: bytes = b""
    timing: Timing | None = None
    buffers: tuple[Any, ...] = ()
    failure: Failure | None = None
    codings: tuple[str, ...] = ()

    @property
    def nbytes(self) -> int:
        """What it weighs."""
        text = len(self.failure.message) if self.failure else 0
        return len(self.body) + text + sum(memoryview(buffer).nbytes for buffer in self.buffers)

    def frames(self, request: RequestId, *, collected: bool = False) -> list[Any]:
        """The message for a client that calls the request so; ``collected``: that did not send it."""
        if self.failure is not None:
            return encode(replace(self.failure, id=request))
        op = self.op if collected else None
        return [encode_ok(request, self.body, self.timing or Timing(), op), *self.buffers]


@dataclass(eq=False, kw_only=True, slots=True)
class _Kept:
    answer: Answer
    nbytes: int
    #: Who has not said yet that it came.
    claims: set[Claim]
    #: Whether anybody has.
    received: bool = False


class Record:
    """The answers of one client, and what it was told before them (``journal``).

    Beyond ``max_bytes`` or ``max_answers`` answers are forgotten, the oldest first; so is one that everybody who
    waited for it has. Their ids stay, up to ``max_ids``: those requests are refused, not run again.
    """

    def __init__(
        self,
        max_bytes: int = 64 << 20,
        max_event_bytes: int = 16 << 20,
        max_answers: int = 10_000,
        max_ids: int = 200_000,
    ) -> None:
        self.journal = Journal(max_event_bytes)
        self._kept: OrderedDict[RequestId, _Kept] = OrderedDict()
        self._forgotten: OrderedDict[RequestId, Why] = OrderedDict()
        self._fetched: OrderedDict[RequestId, None] = OrderedDict()
        self._bytes = 0
        self._max_bytes = max_bytes
        self._max_answers = max_answers
        self._max_ids = max_ids
        self._on_change: Callable[[RequestId], object] = lambda _: None

    def watch(self, on_change: Callable[[RequestId], object]) -> None:
        """Has every request told of whose answer is kept, collected or forgotten from now on."""
        self._on_change = on_change

    def known(self) -> Iterator[RequestId]:
        """Every request that is never to run again, as far as it is known, oldest first."""
        yield from self._forgotten
        yield from self._kept

    def restore(
        self, request: RequestId, answer: Answer | None, why: Why | None, claim: Claim, *, received: bool = False
    ) -> None:
        """Takes what was known of a request in an earlier record, the oldest first."""
        if answer is not None:
            self.add(request, answer, {claim})
            if received and request in self._kept:
                self._kept[request].received = True
                self._kept.move_to_end(request, last=False)
        else:
            self._forgotten[request] = why or "room"

    @property
    def nbytes(self) -> int:
        """What all answers and events weigh."""
        return self._bytes + self.journal.nbytes

    def __contains__(self, request: RequestId) -> bool:
        return request in self._kept or request in self._forgotten

    def __len__(self) -> int:
        """How many answers are kept."""
        return len(self._kept)

    def answer(self, request: RequestId) -> Answer | None:
        """The answer, or None where it is forgotten or there never was one."""
        kept = self._kept.get(request)
        return None if kept is None else kept.answer

    def why_not(self, request: RequestId) -> Why | None:
        """Why there is no answer; None where there is one, or the request is not known."""
        return "fetch" if request in self._fetched else self._forgotten.get(request)

    def is_received(self, request: RequestId) -> bool:
        """Whether an answer that is kept is known to have reached somebody."""
        return request in self._kept and self._kept[request].received

    def uncollected(self) -> Iterator[tuple[RequestId, Answer]]:
        """Answers that are not known to have reached anybody, newest first."""
        return ((request, kept.answer) for request, kept in reversed(self._kept.items()) if not kept.received)

    def add(self, request: RequestId, answer: Answer, claims: set[Claim]) -> None:
        """Keeps an answer, for those who wait for it."""
        self._kept[request] = kept = _Kept(answer=answer, nbytes=answer.nbytes, claims=claims)
        self._bytes += kept.nbytes
        self._on_change(request)
        while self._bytes > self._max_bytes or len(self._kept) > self._max_answers:
            self.forget_oldest()

    def add_fetched(self, request: RequestId) -> None:
        """Notes that a fetch was answered: reading again is harmless and may be large, so it is not kept."""
        self._fetched[request] = None
        self.journal.drop(request)
        while len(self._fetched) > self._max_answers:
            self._fetched.popitem(last=False)

    def claim(self, request: RequestId, claim: Claim) -> None:
        """Somebody else waits for an answer that is kept."""
        self._kept[request].claims.add(claim)

    def receive(self, request: RequestId, *claims: Claim) -> None:
        """Those who waited by these claims have the answer."""
        kept = self._kept.get(request)
        if kept is None:
            return
        kept.received = True
        kept.claims.difference_update(claims)
        if kept.claims:
            self._kept.move_to_end(request, last=False)
            self._on_change(request)
        else:
            self._forget(request, "received")

    def leave(self, owner: str, received: Container[RequestId] | None) -> None:
        """The client goes, and has these answers; None: all that there are."""
        for request in list(self._kept):
            if received is None or request in received:
                self.receive(request, (owner, request))

    def forget_oldest(self) -> None:
        """Lets the oldest answer go, or one that somebody has."""
        self._forget(next(iter(self._kept)), "room")

    def _forget(self, request: RequestId, why: Why) -> None:
        self._bytes -= self._kept.pop(request).nbytes
        self.journal.drop(request)
        self._forgotten[request] = why
        self._on_change(request)
        while len(self._forgotten) > self._max_ids:
            oldest, _ = self._forgotten.popitem(last=False)
            self._on_change(oldest)
