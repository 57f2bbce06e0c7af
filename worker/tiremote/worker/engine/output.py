"""The engine's own streams: line by line, flushed before every answer, marked by request."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys

from tiremote.worker.link import marker

_LINE_BUFFERED = 1  # _IOLBF of stdio.h, on Linux and macOS


class EngineOutput:
    """Descriptors 1 and 2. Kernels print through C's stdout, sources through Python's."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None)
        self._marked = False
        # Into a pipe C buffers whole blocks: a kernel's print would come when it is too late to help.
        for name in ("stdout", "__stdoutp"):
            with contextlib.suppress(ValueError):
                stream = ctypes.c_void_p.in_dll(self._libc, name)
                self._libc.setvbuf(stream, None, _LINE_BUFFERED, ctypes.c_size_t(1 << 16))

    def begin(self, key: int, *, wanted: bool) -> None:
        """From here on, what is printed belongs to request ``key``, if its client wants it."""
        if wanted or self._marked:
            for fd in (1, 2):
                # A user's code may have closed it: then nothing comes that had to be told apart.
                with contextlib.suppress(OSError):
                    os.write(fd, marker(key if wanted else 0))
        self._marked = wanted

    def begun(self, *, wanted: bool) -> None:
        """The front knows by itself whose output begins here; ``wanted`` as for `begin`."""
        self._marked = wanted

    def flush(self) -> None:
        """Everything that was printed is in the pipes afterwards."""
        for name in ("stdout", "stderr"):
            # A user's source may have closed, replaced or deleted them.
            with contextlib.suppress(Exception):
                getattr(sys, name).flush()
        self._libc.fflush(None)
