"""Kernels that are again what they were after a tape or forward mode.

Taichi notes the mode of a kernel at each call, and puts those back in the order of the calls: one that was called twice
is left in the mode of its second call, and the next tape refuses it with an assertion.
"""

from __future__ import annotations

import functools
import weakref
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tiremote.worker.engine.runtime import TaichiRuntime

_FIRST = "_tiremote_first_modes"


def install(runtime: TaichiRuntime) -> None:
    """Has both kinds of blocks note the mode of a kernel's first call for all of its calls."""
    for block in (runtime.ti.ad.Tape, runtime.ti.ad.FwdMode):
        block.insert = _noting_the_first(block.insert)


def _noting_the_first(insert: Any) -> Any:
    @functools.wraps(insert)
    def noted(self: Any, function: Any, *args: Any) -> None:
        insert(self, function, *args)
        first = self.__dict__.setdefault(_FIRST, weakref.WeakKeyDictionary())
        self.modes[-1] = first.setdefault(function, self.modes[-1])

    return noted
