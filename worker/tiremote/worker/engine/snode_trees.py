"""SNode trees: every field lives in one, Taichi holds 512 at most, and reading a destroyed one ends the process.

So a tree is destroyed only when no field object that was placed in it is alive any more.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from tiremote.protocol.errors import Refused

if TYPE_CHECKING:
    from tiremote.worker.engine.runtime import TaichiRuntime

#: The highest number that Taichi can hold: the next one ends the process (SIGSEGV).
MAX_SNODE_TREES = 512


class SNodeTrees:
    """Watches every tree that is finalised after `watch`."""

    def __init__(self, runtime: TaichiRuntime) -> None:
        self._runtime = runtime
        self._watched: dict[int, tuple[Any, weakref.WeakSet[Any]]] = {}

    def count(self) -> int:
        return len(self._watched)

    def watch(self) -> None:
        self._watched.clear()

    def collect(self) -> None:
        pass
