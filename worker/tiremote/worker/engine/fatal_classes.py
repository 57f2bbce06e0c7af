"""Classes whose objects Taichi makes where it cannot have them, and ends the process with: refused before.

A texture on a backend without textures ends it with a signal; a window without a display, where a Vulkan driver is,
with an exit.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tiremote.protocol.errors import Refused
from tiremote.worker.runtimes import GRAPHICS

if TYPE_CHECKING:
    from tiremote.worker.engine.runtime import TaichiRuntime

_DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY")


def install(runtime: TaichiRuntime) -> None:
    """Has ``ti.Texture`` raise `Refused`, and ``ti.ui.Window`` RuntimeError, where they cannot be; a runtime may have
    neither."""
    _check_first(getattr(runtime.ti, "Texture", None), functools.partial(_check_texture, runtime))
    _check_first(getattr(getattr(runtime.ti, "ui", None), "Window", None), _check_window)


def _check_first(cls: type[Any] | None, check: Callable[..., None]) -> None:
    """Has ``check`` called with what an object is made of, before it is made."""
    if cls is None:
        return
    make = cls.__init__

    @functools.wraps(make)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807 - it is that
        check(*args, **kwargs)
        make(self, *args, **kwargs)

    cls.__init__ = __init__


def _check_texture(runtime: TaichiRuntime, *_args: Any, **_kwargs: Any) -> None:
    arch = runtime.arch()
    if arch not in GRAPHICS:
        raise Refused(
            f"ti.Texture needs a graphics backend, and this session runs on {arch}: open one with arch='vulkan', "
            "or use a field"
        )


def _check_window(
    name: Any = None,  # noqa: ARG001 (the names are those of `ti.ui.Window`)
    res: Any = None,  # noqa: ARG001
    vsync: Any = False,  # noqa: ARG001
    show_window: bool = True,
    *_args: Any,
    **_kwargs: Any,
) -> None:
    if show_window and sys.platform == "linux" and not any(os.environ.get(each) for each in _DISPLAYS):
        raise RuntimeError(
            "ti.ui.Window: the worker has no display to show a window on; show_window=False draws without one"
        )
