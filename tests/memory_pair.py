"""The client's core and the front's core joined in memory: no socket, no process, a clock that is set by hand."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from front_bench import FrontBench
from memory_disk import MemoryDisk
from tiremote.client.core import Core, Pending
from tiremote.protocol.codec import decode_reply, encode
from tiremote.protocol.errors import TiremoteError
from tiremote.protocol.messages import Event, Hello, Ok, Request
from tiremote.worker.front.effects import Effect, Send
from tiremote.worker.front.settings import Settings
from tiremote.worker.link import Work


class MemoryPair(FrontBench):
    """One client and one worker. What is on its way when the connection is `cut` is lost, in both directions, or comes
    to the worker late (`straggle`).

    ``undeliverable(stands)`` is asked for each message to the client whether the worker is told at once that it does
    not get there; where the connection does not stand, it gets lost either way.
    """

    def __init__(self, settings: Settings | None = None, disk: MemoryDisk | None = None) -> None:
        self.to_client: deque[Sequence[Any]] = deque()
        self.to_worker: deque[Sequence[Any]] = deque()
        self._connections = 0
        self._stragglers: deque[tuple[bytes, Sequence[Any]]] = deque()
        self.undeliverable: Callable[[bool], bool] = lambda _: False
        super().__init__(settings, disk=disk)
        self.core = Core("memory", quiet_limit=1e6)
        #: What each request was answered with; a second answer to one is kept as well.
        self.answers: dict[Any, list[Ok | TiremoteError]] = {}
        #: What each request was told before its answer.
        self.events: dict[Any, list[Event]] = {}
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
            return
        listener, stands = effect.listener, effect.route.identity == self.identity
        if listener is not None and listener.route != effect.route:
            return
        if self.undeliverable(stands):
            if listener is not None:
                listener.route = None
        elif stands:
            self.to_client.append(effect.frames)

    def join(self) -> None:
        """A new connection."""
        self._connections += 1
        self.core.connected(self.now)

    def cut(self) -> None:
        """The connection ends without a word."""
        self.core.disconnected()
        self._stragglers.extend((self.identity, frames) for frames in self.to_worker)
        self.to_client.clear()
        self.to_worker.clear()
        self._connections += 1

    def straggle(self, *, arrives: bool) -> None:
        """The next message that was on its way when a connection ended gets through after all, or not."""
        if self._stragglers:
            identity, frames = self._stragglers.popleft()
            if arrives:
                self._to_front(identity, frames)

    def request(self, request: Request) -> None:
        """The client's program asks for something."""
        answers = self.answers.setdefault(request.id, [])
        events = self.events.setdefault(request.id, [])

        def told(event: Event) -> None:
            assert not answers, "an event came behind the answer"
            events.append(event)

        self.core.send(Pending(request, encode(request), answers.append, told), self.now)

    def print(self, work: tuple[int, Work], text: str) -> None:
        """The engine prints in a job."""
        number, message = work
        self.front.on_output(number, "stdout", message.key, text.encode(), self.now)
        self.pump()

    def shuttle(self, steps: int = 1_000_000) -> None:
        """Moves messages, one at a time and in turns, until none is left or so many were moved."""
        for _ in range(steps):
            self.to_worker.extend(self.core.take())
            if self.to_worker:
                self._to_front(self.identity, self.to_worker.popleft())
            elif not self.to_client:
                return
            if self.to_client:
                self.core.received(decode_reply(self.to_client.popleft()), self.now)

    def _to_front(self, identity: bytes, frames: Sequence[Any]) -> None:
        self.front.on_client(identity, "", [bytes(memoryview(frame)) for frame in frames], self.now)
        self.pump()
