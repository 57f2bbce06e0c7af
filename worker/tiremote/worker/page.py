"""A page of memory that front and engine share: numbers that either sees at once, however busy it is."""

from __future__ import annotations

import mmap
import struct
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Calls:
    """``calls``: how many an engine that is lent has begun. ``call``: the message of the one that it is in, as much of
    it as there was room for; None between two."""

    calls: int = 0
    call: bytes | None = None


class Page:
    """Numbers that front and engine see at once, without a message that a busy engine could not read.

    ``nudged``: the request that the front wants stopped. ``begun``: the request that the engine began last.
    ``withdrawn``: requests on their way that the engine is not to begin. ``calls``: what it does over a lane for the
    request that it began last.
    """

    SIZE = mmap.PAGESIZE
    #: More than are ever on their way to one engine (`Settings.window`): the oldest is done when it is overwritten.
    WITHDRAWN = 64
    _NUMBER = struct.Struct("<Q")
    _LIST = struct.Struct(f"<{WITHDRAWN}Q")
    _LENGTH = struct.Struct("<I")
    _CALLS = 16 + 8 * WITHDRAWN
    _CALL = _CALLS + 8

    def __init__(self, fd: int) -> None:
        self._memory = mmap.mmap(fd, self.SIZE)

    @property
    def nudged(self) -> int:
        """Written by the front, 0 for none."""
        return int(self._NUMBER.unpack_from(self._memory, 0)[0])

    @nudged.setter
    def nudged(self, key: int) -> None:
        self._NUMBER.pack_into(self._memory, 0, key)

    @property
    def begun(self) -> int:
        """Written by the engine before it does anything of a request, 0 for none."""
        return int(self._NUMBER.unpack_from(self._memory, 8)[0])

    @begun.setter
    def begun(self, key: int) -> None:
        # Whatever was called for the one before, also where that ended in an error.
        self.mark_call(None)
        self._NUMBER.pack_into(self._memory, self._CALLS, 0)
        self._NUMBER.pack_into(self._memory, 8, key)

    def withdraw(self, key: int, place: int) -> None:
        """Written by the front."""
        self._NUMBER.pack_into(self._memory, 16 + 8 * (place % self.WITHDRAWN), key)

    @property
    def withdrawn(self) -> tuple[int, ...]:
        """Read by the engine when it has said what it begins."""
        return self._LIST.unpack_from(self._memory, 16)

    def mark_call(self, call: bytes | None) -> None:
        """Written by the engine before a call over a lane, and with None after it."""
        if call is None:
            self._LENGTH.pack_into(self._memory, self._CALL, 0)
            return
        self._NUMBER.pack_into(self._memory, self._CALLS, 1 + self._NUMBER.unpack_from(self._memory, self._CALLS)[0])
        kept = call[: self.SIZE - self._CALL - self._LENGTH.size]
        start = self._CALL + self._LENGTH.size
        self._memory[start : start + len(kept)] = kept
        self._LENGTH.pack_into(self._memory, self._CALL, len(call))

    @property
    def calls(self) -> Calls:
        """Read by the front."""
        (number,) = self._NUMBER.unpack_from(self._memory, self._CALLS)
        (length,) = self._LENGTH.unpack_from(self._memory, self._CALL)
        start = self._CALL + self._LENGTH.size
        return Calls(calls=number, call=self._memory[start : start + length] if length else None)

    def close(self) -> None:
        """Lets go of the memory."""
        self._memory.close()
