"""Kernels that take Python dataclasses remember no launches.

Some runtimes remember what a launch was given by the identities of its arguments. They watch for the end of the arrays
among them, but not of a dataclass: the next one, at the address of one that is gone, would be launched with the arrays
that were in that.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tiremote.worker.engine.runtime import TaichiRuntime


class NoMemory:
    """In the place of a kernel's memory of launches, with its names: ``dicts`` are those that somebody may clear."""

    def __init__(self, dicts: tuple[str, ...]) -> None:
        for name in dicts:
            setattr(self, name, {})

    def cache(self, *_: Any) -> None:
        """Remembers nothing."""

    def populate_launch_ctx_from_cache(self, *_: Any) -> bool:
        """Whether this launch is known: it is not."""
        return False


def install(runtime: TaichiRuntime) -> None:
    """Once for a process."""
    make = runtime.kernel_class.__init__
    if runtime.layout.launches and not hasattr(make, "__wrapped__"):
        runtime.kernel_class.__init__ = _forgetful(make, runtime)


def _forgetful(make: Callable[..., None], runtime: TaichiRuntime) -> Callable[..., None]:
    memory, *dicts = runtime.layout.launches

    @functools.wraps(make)
    def initialise(kernel: Any, *args: Any, **kwargs: Any) -> None:
        make(kernel, *args, **kwargs)
        if any(dataclasses.is_dataclass(each.annotation) for each in runtime.parameters(kernel)):
            setattr(kernel, memory, NoMemory(tuple(dicts)))

    return initialise
