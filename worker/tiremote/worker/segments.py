"""Anonymous shared memory: bytes that two processes see through one file descriptor.

A segment has no name, so nobody can guess it and nothing is left when a process dies at any moment: the kernel
frees it with the last descriptor and mapping. The descriptor travels over the link's Unix socket.
"""

from __future__ import annotations

import errno
import mmap
import os
import tempfile
from collections.abc import Sequence

from tiremote.protocol.errors import OutOfMemory


def make_segment(parts: Sequence[memoryview]) -> int:
    """A descriptor of a new segment that holds the parts' bytes, end to end. Raises `OutOfMemory`.

    The caller closes it once it is sent.
    """
    try:
        fd = _anonymous_file()
    except OSError as error:
        # Of descriptors, mostly.
        size = sum(part.nbytes for part in parts)
        raise OutOfMemory(f"no shared memory for {size} bytes: {error.strerror}", requested=size) from None
    try:
        for part in parts:
            _write(fd, part.cast("B"))
    except BaseException:
        os.close(fd)
        raise
    return fd


def map_segment(fd: int, size: int) -> memoryview:
    """The bytes of a segment that was received. Closes ``fd``: the mapping lives as long as the view does."""
    try:
        return memoryview(mmap.mmap(fd, size))
    finally:
        os.close(fd)


def _anonymous_file() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("tiremote", os.MFD_CLOEXEC)
    # macOS: a file that has lost its name before anybody could open it.
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def _write(fd: int, data: memoryview) -> None:
    # Written, not mapped and copied: the kernel then need not clear the pages first, nor fault them in one by one,
    # and a full memory is an error here where it would be SIGBUS there.
    size = data.nbytes
    try:
        while data.nbytes:
            data = data[os.write(fd, data) :]
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.ENOMEM, errno.EFBIG):
            raise OutOfMemory(f"no shared memory for {size} bytes: {error.strerror}", requested=size) from None
        raise
