"""How a message's buffers get to the other end of the link: in it, in slots, or in segments of their own."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from tiremote.worker.segments import make_segment, map_segment
from tiremote.worker.slots import AVAILABLE, UNIT, UNITS, Lent, SlotReader, SlotWriter, make_slots

#: Below this a copy through the socket is cheaper.
INLINE_BYTES = 64 << 10


class Cargo:
    """One end's buffers, out and in.

    Of each buffer the message has its bytes where it is small, the size of its segment, or in which slot it lies:
    ``[first unit, size]``, with a third item where the slots' own descriptor comes along, once.
    """

    def __init__(self) -> None:
        self._writer: SlotWriter | None = None
        self._reader: SlotReader | None = None
        self._unsent: int | None = None

    def close(self) -> None:
        """Closes what was not sent. What came stays good."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        if self._unsent is not None:
            os.close(self._unsent)
            self._unsent = None

    def room(self, nbytes: int) -> Lent | None:
        """Memory, of so many bytes, that need not be copied to be sent; None where there is none."""
        if not (AVAILABLE and INLINE_BYTES < nbytes <= UNITS * UNIT):
            return None
        if self._writer is None:
            fd = None
            try:
                fd = make_slots()
                self._writer = SlotWriter(fd)
            except OSError:
                # Of descriptors, mostly. There may be some the next time.
                close_all([] if fd is None else [fd])
                return None
            self._unsent = fd
        return self._writer.take(nbytes)

    def load(self, buffers: Iterable[Any]) -> tuple[list[Any], list[int]]:
        """What the message tells of them, and the descriptors that go with it. Raises `OutOfMemory`."""
        told: list[Any] = []
        descriptors: list[int] = []
        try:
            for buffer in buffers:
                view = memoryview(buffer)
                if view.nbytes <= INLINE_BYTES:
                    told.append(bytes(view))
                elif (place := self._in_slot(view)) is not None:
                    told.append([place, view.nbytes])
                    if self._unsent is not None and self._unsent not in descriptors:
                        told[-1].append(None)
                        descriptors.append(self._unsent)
                else:
                    descriptors.append(make_segment([view]))
                    told.append(view.nbytes)
        except BaseException:
            self._unload_again(told, descriptors)
            raise
        if self._unsent in descriptors:
            self._unsent = None
        return told, descriptors

    def _unload_again(self, told: list[Any], descriptors: list[int]) -> None:
        """Nobody will be told."""
        close_all(fd for fd in descriptors if fd != self._unsent)
        for each in told:
            if isinstance(each, list) and self._writer is not None:
                self._writer.take_back(each[0], each[1])

    def _in_slot(self, view: memoryview) -> int | None:
        if self._writer is not None and (place := self._writer.hand_over(view)) is not None:
            return place
        room = self.room(view.nbytes)
        if room is None or self._writer is None:
            return None
        np.copyto(room, np.frombuffer(view, np.uint8))
        return self._writer.hand_over(room.data)

    def unload(self, told: Sequence[Any], descriptors: deque[int]) -> list[Any]:
        """The buffers of a message that has come; takes its descriptors."""
        return [self._one(each, descriptors) for each in told]

    def _one(self, told: Any, descriptors: deque[int]) -> Any:
        if isinstance(told, int):
            return map_segment(descriptors.popleft(), told)
        if not isinstance(told, list):
            return told
        if len(told) > 2:
            fd = descriptors.popleft()
            try:
                self._reader = SlotReader(fd)
            finally:
                os.close(fd)
        if self._reader is None:
            raise ValueError("a slot is told of before the slots have come")
        return self._reader.view(told[0], told[1])

    @property
    def is_idle(self) -> bool:
        """Whether `trim` has nothing to give back, now or the next time."""
        return self._writer is None or self._writer.is_idle

    def trim(self) -> None:
        """Gives memory back that was not used since this was called last."""
        if self._writer is not None:
            self._writer.trim()


def close_all(descriptors: Iterable[int]) -> None:
    """Closes them."""
    for fd in descriptors:
        os.close(fd)
