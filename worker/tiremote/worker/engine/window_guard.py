"""Windows where no display is: with a Vulkan driver there, Taichi ends the process instead of raising."""

from __future__ import annotations

import functools
import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tiremote.worker.engine.runtime import TaichiRuntime

_DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY")


def install(runtime: TaichiRuntime) -> None:
    """Has ``ti.ui.Window`` raise RuntimeError where it would be shown and cannot be."""
    window = getattr(getattr(runtime.ti, "ui", None), "Window", None)
    if window is None:
        return
    make = window.__init__

    @functools.wraps(make)
    def __init__(  # noqa: N807 - it is that
        self: Any, name: Any, res: Any, vsync: bool = False, show_window: bool = True, *args: Any, **kwargs: Any
    ) -> None:
        if show_window and sys.platform == "linux" and not any(os.environ.get(each) for each in _DISPLAYS):
            raise RuntimeError(
                "ti.ui.Window: the worker has no display to show a window on; show_window=False draws without one"
            )
        make(self, name, res, vsync, show_window, *args, **kwargs)

    window.__init__ = __init__
