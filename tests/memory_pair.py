"""The client's core and the front's core joined in memory: no socket, no process, a clock that is set by hand."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

from front_bench import FrontBench
from tiremote.client.core import Core, Pending
from tiremote.protocol.codec import decode_reply, encode
from tiremote.protocol.errors import TiremoteError
from tiremote.protocol.messages import Hello, Ok, Request
from tiremote.worker.front.effects import Effect, Send
from tiremote.worker.front.settings import Settings


class MemoryPair(FrontBench):
    """One client and one worker. What is on its way when the connection is `cut` is lost, in both directions."""

    def __init__(self, settings: Settings | None = None) -> None:
        self.to_client: deque[Sequence[Any]] = deque()
        self.to_worker: deque[Sequence[Any]] = deque()
        self._connections = 0
        super().__init__(settings)
        self.core = Core("memory", quiet_limit=1e6)
        #: What each request was answered with; a second answer to one is kept as well.
        self.answers: dict[Any, list[Ok | TiremoteError]] = {}
        self.join()
        self.request(Hello(id="hello"))
        self.shuttle()
        (welcome,) = self.answers["hello"]
        assert isinstance(welcome, Ok)
        self.core.token = welcome.result["token"]

    @property
    def identity(self) -> bytes:
        """The ROUTER's name of the connection there is now."""
        return b"connection %d" % self._connections

    def _carry_out(self, effect: Effect) -> None:
        if not isinstance(effect, Send):
            super()._carry_out(effect)
        elif effect.route.identity == self.identity:
            self.to_client.append(effect.frames)

    def join(self) -> None:
        """A new connection."""
        self._connections += 1
        self.core.connected(self.now)

    def cut(self) -> None:
        """The connection ends without a word."""
        self.core.disconnected()
        self.to_client.clear()
        self.to_worker.clear()
        self._connections += 1

    def request(self, request: Request) -> None:
        """The client's program asks for something."""
        answers = self.answers.setdefault(request.id, [])
        self.core.send(Pending(request, encode(request), answers.append), self.now)

    def shuttle(self, steps: int = 1_000_000) -> None:
        """Moves messages, one at a time and in turns, until none is left or so many were moved."""
        for _ in range(steps):
            self.to_worker.extend(self.core.take())
            if self.to_worker:
                frames = [bytes(memoryview(frame)) for frame in self.to_worker.popleft()]
                self.front.on_client(self.identity, "", frames, self.now)
                self.pump()
            elif not self.to_client:
                return
            if self.to_client:
                self.core.received(decode_reply(self.to_client.popleft()), self.now)
