"""``import taichi`` in a user's source means the runtime of the session, whichever that is.

A second runtime in one process ends it, so that another one than the session's is never imported.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Final

from tiremote.worker.runtimes import RUNTIMES

#: What every program of the family says that is for no runtime in particular.
_ANY: Final = "taichi"


class OtherRuntimeError(ImportError):
    """A runtime is imported that is not the session's."""

    def __init__(self, asked: str, own: str) -> None:
        super().__init__(
            f"this session runs on {own}, and {asked} cannot be in the same process: "
            f"import {_ANY}, which means the session's own, or open a session with runtime={asked!r}",
            name=asked,
        )


def meant_by(module: str, own: str) -> str:
    """The module that is to be imported where a text says ``module``. Raises `OtherRuntimeError`."""
    package, dot, rest = module.partition(".")
    if package not in RUNTIMES or package == own:
        return module
    if package != _ANY:
        raise OtherRuntimeError(package, own)
    return f"{own}{dot}{rest}"


def everything(module: ModuleType) -> ModuleType:
    """What ``from taichi import *`` takes: every public name. Some runtimes list a few of theirs only."""
    taken = ModuleType(module.__name__)
    taken.__dict__.update({name: value for name, value in vars(module).items() if not name.startswith("_")})
    return taken


class _OthersFinder(MetaPathFinder):
    """Finds no other runtime for libraries, which say its real name."""

    def __init__(self, own: str) -> None:
        self._own = own

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002 (what a finder is given)
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        if fullname in RUNTIMES and fullname != self._own:
            raise OtherRuntimeError(fullname, self._own)
        return None


def keep_others_out(own: str) -> None:
    """From now on nothing in this process imports another runtime."""
    sys.meta_path.insert(0, _OthersFinder(own))
