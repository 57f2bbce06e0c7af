"""The GPU machine's half.

``front``
    The process that owns the public socket, sessions, queues, time limits, and the source and history of
    every unit. It never imports Taichi and never waits for it.
``engine``
    One process per session. Its main thread owns Taichi: the loader, arguments, arrays, launches.
    `tiremote.worker.engine.runtime` is the only way to Taichi, or a fork of it: `runtime_modules` imports that when a
    runtime is made, never when it is imported itself. ``runtimes``, beside both, tells which there are.
``link``
    What goes between the two: requests over a Unix socket, bulk bytes beside them in shared memory (``cargo``, with
    ``slots`` and ``segments``).

`KernelLoader` is of use without any of that, in a process of one's own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tiremote.worker.engine.loader import KernelLoader as KernelLoader

__all__ = ["KernelLoader"]


def __getattr__(name: str) -> Any:
    if name == "KernelLoader":
        # The front imports this package, and none of the engine.
        from tiremote.worker.engine.loader import KernelLoader

        return KernelLoader
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
