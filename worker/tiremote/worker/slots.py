"""Shared memory that is used again and again: what carries bulk bytes in one direction between two processes.

A segment for each buffer costs four system calls and fresh pages, which take several times as long as the copy. Here
both processes map one anonymous file once. Its first page has a byte for each unit of the rest: the writer takes units
that are 0 and sets them to 1, the reader sets them to 0 again when nobody refers to the bytes any more. Only the writer
takes and only the reader gives back, so that nothing has to be locked or said; a process that dies leaves nothing.

Memory is asked for before a unit is used first, so that a full one is an error and no SIGBUS, and given back by `trim`.
"""

from __future__ import annotations

import functools
import mmap
import os
import weakref
from typing import Any

import numpy as np

#: Bytes of a unit. A buffer takes as many in a row as it needs.
UNIT = 1 << 20

#: Units of one direction: twelve pieces of 4 MiB, four more than a client has under way.
UNITS = 48

_HEAD = mmap.PAGESIZE
_FREE, _TAKEN = b"\0", b"\1"

#: Whether the system has what this needs.
AVAILABLE = hasattr(os, "memfd_create") and hasattr(os, "posix_fallocate") and hasattr(mmap, "MADV_REMOVE")


class Lent(np.ndarray):
    """Bytes in a slot, shape (n,), uint8: they are the caller's until this and all views on it are gone."""


def is_lent(buffer: Any) -> bool:
    """Whether a buffer lies in a slot, so that whoever keeps it for long should keep a copy."""
    return isinstance(memoryview(buffer).obj, Lent)


class Slots:
    """Either end of one direction. ``fd`` is the file, which the caller closes; it may be of any number of units."""

    def __init__(self, fd: int) -> None:
        self._memory = mmap.mmap(fd, 0)
        self._units = (len(self._memory) - _HEAD) // UNIT
        self._address = int(np.frombuffer(self._memory, np.uint8, 1).__array_interface__["data"][0])
        #: By the first unit: who is to be waited for.
        self._lent: dict[int, weakref.ref[Lent]] = {}
        # A process that the user's code forks gets its own references, and must not give back what is still in use.
        self._process = os.getpid()

    def _bytes(self, first: int, nbytes: int) -> Lent:
        return np.ndarray.__new__(Lent, (nbytes,), np.uint8, buffer=self._memory, offset=_HEAD + first * UNIT)

    def _lend(self, first: int, nbytes: int) -> Lent:
        lent = self._bytes(first, nbytes)
        self._lent[first] = weakref.ref(lent, functools.partial(self._give_back, first, units_of(nbytes)))
        return lent

    def _give_back(self, first: int, units: int, _: weakref.ref[Lent]) -> None:
        if self._process == os.getpid():
            del self._lent[first]
            self._memory[first : first + units] = _FREE * units


class SlotWriter(Slots):
    """The end that fills slots: `take`, fill, then `hand_over` and tell the reader. `trim` from time to time."""

    def __init__(self, fd: int) -> None:
        super().__init__(fd)
        self._fd = os.dup(fd)
        #: For each unit, whether it has memory, and whether it was taken since the last `trim`.
        self._has_memory = bytearray(self._units)
        self._touched = bytearray(self._units)
        #: Nothing was taken for so long that `trim` has nothing more to do.
        self.is_idle = True

    def close(self) -> None:
        """What is lent stays good; nothing more is to be taken."""
        os.close(self._fd)

    def take(self, nbytes: int) -> Lent | None:
        """Room for so many bytes, which is free again when it is dropped before it was handed over.

        None where there is not as much that is free, or no memory for it.
        """
        units = units_of(nbytes)
        # The lowest that are free: those are in the processor's caches, and the others can be trimmed.
        first = self._memory[: self._units].find(_FREE * units)
        if first < 0:
            return None
        if 0 in self._has_memory[first : first + units]:
            try:
                os.posix_fallocate(self._fd, _HEAD + first * UNIT, units * UNIT)
            except OSError:
                return None
            self._has_memory[first : first + units] = _TAKEN * units
        self._touched[first : first + units] = _TAKEN * units
        self._memory[first : first + units] = _TAKEN * units
        self.is_idle = False
        return self._lend(first, nbytes)

    def hand_over(self, buffer: memoryview) -> int | None:
        """The first unit of what `take` gave, if the buffer is all of that: from now on the reader frees it."""
        place = _address_of(buffer) - self._address - _HEAD
        first, beside = divmod(place, UNIT)
        lent = self._lent.get(first)
        whole = None if lent is None else lent()
        if beside or whole is None or whole.nbytes != buffer.nbytes:
            return None
        del self._lent[first]
        return first

    def take_back(self, first: int, nbytes: int) -> None:
        """What was handed over is free: the reader was not told of it."""
        units = units_of(nbytes)
        self._memory[first : first + units] = _FREE * units

    def trim(self) -> None:
        """Gives the memory back of free units that were not taken since this was called last."""
        self.is_idle = 1 not in self._touched
        for unit, taken in enumerate(self._memory[: self._units]):
            if self._has_memory[unit] and not taken and not self._touched[unit]:
                self._memory.madvise(mmap.MADV_REMOVE, _HEAD + unit * UNIT, UNIT)
                self._has_memory[unit] = 0
        self._touched[:] = bytes(self._units)


class SlotReader(Slots):
    """The end that reads."""

    def view(self, first: int, nbytes: int) -> memoryview:
        """What the writer has handed over, free again when nothing refers to it any more.

        Raises `ValueError` for what does not lie in the slots.
        """
        if not 0 <= first < first + units_of(nbytes) <= self._units:
            raise ValueError(f"{nbytes} bytes from unit {first} do not lie in {self._units} units")
        return self._lend(first, nbytes).data


def units_of(nbytes: int) -> int:
    """How many units so many bytes take."""
    return max(-(-nbytes // UNIT), 1)


def make_slots(units: int = UNITS) -> int:
    """A descriptor of a new file for slots, without memory yet. Raises `OSError`."""
    fd = os.memfd_create("tiremote", os.MFD_CLOEXEC)
    try:
        os.ftruncate(fd, _HEAD + units * UNIT)
        # The page that is written without asking.
        os.posix_fallocate(fd, 0, _HEAD)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _address_of(buffer: memoryview) -> int:
    return int(np.frombuffer(buffer, np.uint8).__array_interface__["data"][0])
