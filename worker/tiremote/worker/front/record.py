"""Answers that were given, kept so that a repeated request is answered again and never run twice."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from tiremote.protocol.messages import RequestId


class Record:
    """The answers of one client. Beyond ``max_bytes`` or ``max_answers`` the oldest are forgotten, not their ids.

    Of an answer that is forgotten the id stays, up to ``max_ids``: its request is refused, not run again.
    """

    def __init__(self, max_bytes: int = 64 << 20, max_answers: int = 10_000, max_ids: int = 200_000) -> None:
        self._answers: OrderedDict[RequestId, tuple[Sequence[Any], int]] = OrderedDict()
        self._forgotten: OrderedDict[RequestId, None] = OrderedDict()
        self._bytes = 0
        self._max_bytes = max_bytes
        self._max_answers = max_answers
        self._max_ids = max_ids

    def __contains__(self, request: RequestId) -> bool:
        return request in self._answers or request in self._forgotten

    def answer(self, request: RequestId) -> Sequence[Any] | None:
        """The frames of the answer, or None where it is forgotten or there never was one."""
        kept = self._answers.get(request)
        return None if kept is None else kept[0]

    def add(self, request: RequestId, frames: Sequence[Any]) -> None:
        """Keeps an answer."""
        size = sum(memoryview(frame).nbytes for frame in frames)
        self._answers[request] = (frames, size)
        self._bytes += size
        while self._bytes > self._max_bytes or len(self._answers) > self._max_answers:
            oldest, (_, freed) = self._answers.popitem(last=False)
            self._bytes -= freed
            self._forgotten[oldest] = None
        self._bound_ids()

    def forget(self) -> None:
        """Keeps the ids of all answers and none of their bytes: the client has said that it has them."""
        self._forgotten.update(dict.fromkeys(self._answers))
        self._answers.clear()
        self._bytes = 0
        self._bound_ids()

    def _bound_ids(self) -> None:
        while len(self._forgotten) > self._max_ids:
            self._forgotten.popitem(last=False)
