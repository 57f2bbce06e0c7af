"""A page of memory that front and engine share: numbers that either sees at once, however busy it is."""

from __future__ import annotations

import mmap
import struct


class Page:
    """Numbers that front and engine see at once, without a message that a busy engine could not read.

    ``nudged``: the request that the front wants stopped. ``begun``: the request that the engine began last.
    ``withdrawn``: requests on their way that the engine is not to begin.
    """

    SIZE = mmap.PAGESIZE
    #: More than are ever on their way to one engine (`Settings.window`): the oldest is done when it is overwritten.
    WITHDRAWN = 64
    _NUMBER = struct.Struct("<Q")
    _LIST = struct.Struct(f"<{WITHDRAWN}Q")

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
        self._NUMBER.pack_into(self._memory, 8, key)

    def withdraw(self, key: int, place: int) -> None:
        """Written by the front."""
        self._NUMBER.pack_into(self._memory, 16 + 8 * (place % self.WITHDRAWN), key)

    @property
    def withdrawn(self) -> tuple[int, ...]:
        """Read by the engine when it has said what it begins."""
        return self._LIST.unpack_from(self._memory, 16)

    def close(self) -> None:
        """Lets go of the memory."""
        self._memory.close()
