"""Textures where there are none: Taichi makes one on a CPU as well, and the process ends with a signal."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from tiremote.protocol.errors import Refused

if TYPE_CHECKING:
    from tiremote.worker.engine.runtime import TaichiRuntime

_HAVE_THEM = ("vulkan", "opengl", "gles", "metal", "dx11", "dx12")


def install(runtime: TaichiRuntime) -> None:
    """Has ``ti.Texture`` raise `Refused` on a backend without textures."""
    texture = getattr(runtime.ti, "Texture", None)
    if texture is None:
        return
    make = texture.__init__

    @functools.wraps(make)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807 - it is that
        arch = runtime.arch()
        if arch not in _HAVE_THEM:
            raise Refused(
                f"ti.Texture needs a graphics backend, and this session runs on {arch}: open one with arch='vulkan', "
                "or use a field"
            )
        make(self, *args, **kwargs)

    texture.__init__ = __init__
