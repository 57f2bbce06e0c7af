"""What of a crash takes room: the request's own bytes, and copies of arrays that only its explanation needs by now."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from tiremote.protocol.values import Ref

if TYPE_CHECKING:
    from tiremote.worker.front.copies import HostCopy


class CrashCopies:
    """The copies as they were then. They are the session's own, and cost nothing, until it has others."""

    def __init__(self, copies: Iterable[HostCopy], header: bytes, buffers: tuple[Any, ...], nbytes: int) -> None:
        #: The message with which the engine died; None: it had to make room.
        self.message: tuple[bytes, tuple[Any, ...]] | None = (header, buffers)
        self.cost = nbytes
        self._message_bytes = nbytes
        self._copies = {one.target: one for one in copies}
        #: Those that the session has no more, or not as they are here.
        self._own: set[Ref] = set()

    def copies(self) -> tuple[HostCopy, ...]:
        """In the order in which they are to be put back."""
        return tuple(self._copies.values())

    def replaced(self, target: Ref) -> None:
        """The session has another copy of that array now, or none."""
        copy = self._copies.get(target)
        if copy is not None and target not in self._own:
            self._own.add(target)
            self.cost += copy.nbytes

    def make_room(self) -> None:
        """Lets the copies go that only this needs, or where there are none, the message."""
        if self._own:
            for target in self._own:
                self.cost -= self._copies.pop(target).nbytes
            self._own.clear()
        elif self.message is not None:
            self.message = None
            self.cost -= self._message_bytes
