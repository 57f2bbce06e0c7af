"""A request under way, as a `concurrent.futures.Future` that knows its id, its timing, and how it is cancelled."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Generator, Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, TypeVar

from tiremote.protocol.errors import Interrupted, TiremoteError
from tiremote.protocol.messages import Cancel, RequestId
from tiremote.protocol.receipts import Timing
from tiremote.protocol.results import CancelResult

if TYPE_CHECKING:
    from tiremote.client.exchange import Exchange

T = TypeVar("T")


class RequestFuture(Future[T]):
    """A request under way. ``request_id`` names it to the worker; ``timing`` is the worker's, once it is done.

    ``written`` has, of one that was collected, the array arguments that it wrote to, by position or keyword.

    Callbacks run on the thread that moves the session's messages: its own, or one that waits for an answer. They must
    not wait for the session.
    """

    def __init__(self, exchange: Exchange, request_id: RequestId, *, queued: bool) -> None:
        super().__init__()
        self.request_id = request_id
        self.timing: Timing | None = None
        self.written: Mapping[int | str, Any] = {}
        self._exchange = exchange
        self._queued = queued
        self._cancelling = False
        self._cancel_lock = threading.Lock()

    def running(self) -> bool:
        """Whether it is under way: sent and not answered. On the worker it may still wait for what came before."""
        return not self.done()

    def result(self, timeout: float | None = None) -> T:
        """As of any future; `TimeoutError` after ``timeout`` seconds, and the request goes on."""
        try:
            return super().result(timeout)
        except TimeoutError:
            raise self._late(timeout) from None

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """As of any future; `TimeoutError` likewise."""
        try:
            return super().exception(timeout)
        except TimeoutError:
            raise self._late(timeout) from None

    def _late(self, timeout: float | None) -> BaseException:
        if self.done():  # the answer itself was such an error
            return super().exception() or TimeoutError()
        return TimeoutError(
            f"request {self.request_id} was not answered within {timeout:g} s and goes on: wait longer, "
            "or stop it with gpu.interrupt(future)"
        )

    def __await__(self) -> Generator[Any, None, T]:
        """Its result, in asyncio."""
        return asyncio.wrap_future(self).__await__()

    def cancel(self) -> bool:
        """Takes it out of the worker's queue, which is asked first. False: it had started, or is done."""
        if self.done() or not self._queued:
            return self.cancelled()
        self._cancelling = True
        cancel = Cancel(id="", request=self.request_id)
        try:
            taken = self._exchange.call(cancel, CancelResult).cancelled
        except TiremoteError:
            taken = False
        if taken:
            self._cancelled()
        self._cancelling = False
        return self.cancelled()

    def _cancelled(self) -> None:
        # The answers to both requests may get here at one time, on two threads.
        with self._cancel_lock:
            if not self.done() and super().cancel():
                self.set_running_or_notify_cancel()

    def _failed(self, error: TiremoteError) -> None:
        if self._cancelling and isinstance(error, Interrupted):
            self._cancelled()
        elif not self.done():
            self.set_exception(error)
