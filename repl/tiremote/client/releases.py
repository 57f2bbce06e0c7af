"""Arrays and objects that were made for this client and garbage-collected here are given back on the worker, some time
after."""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections import deque
from collections.abc import Iterator
from typing import Any

from tiremote.protocol.values import Handle


class Releases:
    """Counts the proxies of each handle that this client made. A handle whose last proxy died is to be released.

    The end of a proxy may come at any instruction of any thread, so all that happens then is one append.
    """

    def __init__(self) -> None:
        #: False in a session that others share: somebody else may use the handle.
        self.active = False
        self._alive: dict[str, int] = {}
        #: Held while handles are released, so that what asks for results comes before or after.
        self.gate = threading.RLock()
        self._receiving = 0
        self._dead: deque[Handle] = deque()
        self._lock = threading.Lock()

    def adopt(self, handle: Handle) -> None:
        """This client has made what is behind the handle; `track` its proxies."""
        if self.active:
            with self._lock:
                self._alive.setdefault(handle.id, 0)

    def track(self, proxy: Any, handle: Handle) -> None:
        """Counts a proxy, where the handle was adopted."""
        with self._lock:
            if handle.id not in self._alive:
                return
            self._alive[handle.id] += 1
        weakref.finalize(proxy, self._dead.append, Handle(kind=handle.kind, id=handle.id)).atexit = False

    def receive(self) -> None:
        """A result is on its way that may have any object's handle in it: none is released until `received`."""
        with self.gate:
            self._receiving += 1

    def received(self) -> None:
        """Its handles have their proxies."""
        with self.gate:
            self._receiving -= 1

    @contextlib.contextmanager
    def receiving(self) -> Iterator[None]:
        """`receive` before, `received` after."""
        self.receive()
        try:
            yield
        finally:
            self.received()

    def forget(self, handle: Handle) -> None:
        """It was released already."""
        with self._lock:
            self._alive.pop(handle.id, None)

    def clear(self) -> None:
        """Everything was released already."""
        with self._lock:
            self._alive.clear()

    def take(self) -> tuple[Handle, ...]:
        """The handles to release now; those of objects only while no result is on its way. Under the `gate`."""
        if not self._dead:
            return ()
        released = []
        with self._lock:
            for _ in range(len(self._dead)):
                handle = self._dead.popleft()
                if handle.kind == "object" and self._receiving:
                    self._dead.append(handle)
                    continue
                left = self._alive.get(handle.id)
                if left is None:
                    continue
                if left > 1:
                    self._alive[handle.id] = left - 1
                else:
                    del self._alive[handle.id]
                    released.append(handle)
        return tuple(released)
