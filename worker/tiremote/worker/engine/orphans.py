"""A process that is not to outlive its parent. Imports nothing that takes long: the wish has to be first."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def die_with(parent: int) -> None:
    """Has the kernel end this process when its parent ends, also while a kernel of Taichi's runs and holds the GIL."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        # It ended before the wish was heard.
        os._exit(1)
