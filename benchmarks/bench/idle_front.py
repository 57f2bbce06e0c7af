"""A front that knows many sessions, with engines that are played: a thousand real ones fit no machine."""

from __future__ import annotations

import gc
import tracemalloc

from front_bench import FrontBench
from tiremote.protocol.messages import Ping
from tiremote.protocol.results import Limits
from tiremote.worker.front.settings import Settings


class IdleFront:
    """With so many sessions whose clients say nothing."""

    def __init__(self, sessions: int) -> None:
        tracemalloc.start()
        self._bench = FrontBench(Settings(limits=Limits(sessions=sessions), spares=0))
        self._token = self._opened(0)
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        for number in range(1, sessions):
            self._opened(number)
        gc.collect()
        #: Bytes of the front for each.
        self._each = (tracemalloc.get_traced_memory()[0] - before) / max(sessions - 1, 1)
        tracemalloc.stop()

    def each(self) -> float:
        """Bytes that the front has for each session."""
        return self._each

    def ping(self) -> None:
        """What the front does for one ping, its look at what is due included."""
        self._bench.ask(Ping(id=1, token=self._token))
        self._bench.front.next_deadline(self._bench.now)
        self._bench.wait(0.0)
        self._bench.sent.clear()

    def _opened(self, number: int) -> str:
        token: str = self._bench.hello(f"laptop-{number}".encode())
        # What the bench remembers is not the front's.
        for seen in (self._bench.sent, self._bench.opens, self._bench.spawned):
            seen.clear()
        return token
