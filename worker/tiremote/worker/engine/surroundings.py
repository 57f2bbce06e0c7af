"""What a session's code has around it: the process that it shares with Taichi, and the world outside of that."""

from __future__ import annotations

import atexit
import contextlib
import decimal
import functools
import gc
import locale
import logging
import os
import random
import signal
import site
import stat
import sys
import sysconfig
import threading
import types
import warnings
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any, Final

import numpy as np
import psutil

from tiremote.worker.engine.landmarks import NotMovable
from tiremote.worker.engine.pairing import MODULE_PREFIX
from tiremote.worker.unit_files import FILE_PREFIX


class Surroundings:
    """Compares a process with how it was when it was opened for a session."""

    def __init__(self) -> None:
        self._threads = set(threading.enumerate())
        self._descriptors = _descriptors()
        self._modules = frozenset(sys.modules)

    def check(self) -> None:
        """Raises `NotMovable` for what has to stay in this process: threads, processes, open files, generators."""
        for thread in threading.enumerate():
            if thread not in self._threads:
                raise NotMovable(f"a thread runs: {thread.name}")
        for child in psutil.Process().children():
            with contextlib.suppress(psutil.Error):
                raise NotMovable(f"a process runs: {child.name()}")
        for number, *_ in _descriptors() - self._descriptors:
            shown = _shown_descriptor(number)
            if shown is not None:
                raise NotMovable(f"{shown} is open")
        for name in set(sys.modules) - self._modules:
            file = getattr(sys.modules[name], "__file__", None)
            package = name.partition(".")[0]
            known = package in self._modules or name.startswith(MODULE_PREFIX)
            if not known and isinstance(file, str) and not _is_installed(package, file):
                raise NotMovable(f"{name} is a module of this machine's own, and what it holds is not known")
        for each in gc.get_objects():
            if type(each) in _UNDER_WAY and _code_of(each).co_filename.startswith(FILE_PREFIX):
                raise NotMovable(f"{_code_of(each).co_name} is a {type(each).__name__} under way")

    def facts(self) -> dict[str, str]:
        """What code may have changed and what must be alike in the next process, by what it is called."""
        return {
            "the current folder": os.getcwd(),
            "os.environ": repr(sorted(os.environ.items())),
            "sys.path": repr(sys.path),
            "the recursion limit": str(sys.getrecursionlimit()),
            "sys.stdout": type(sys.stdout).__name__,
            "sys.stderr": type(sys.stderr).__name__,
            "sys.excepthook": _named(sys.excepthook),
            "a function for the end of the process (atexit)": str(atexit._ncallbacks()),
            "np.seterr": repr(np.geterr()),
            "np.set_printoptions": repr(np.get_printoptions()),
            "warnings.filters": repr(warnings.filters),
            "decimal's context": repr(decimal.getcontext()),
            "the locale": locale.setlocale(locale.LC_ALL),
            "a signal's handler": repr([_named(signal.getsignal(number)) for number in signal.valid_signals()]),
            "logging": repr((logging.root.level, list(map(_named, map(type, logging.root.handlers))))),
            "the garbage collector": repr((gc.isenabled(), gc.get_threshold())),
        }

    def random_states(self) -> tuple[Any, Any]:
        """Of Python's own random numbers, and of NumPy's."""
        numpy: Any = np.random.get_state(legacy=True)
        name, key, *rest = numpy
        return random.getstate(), (name, key.tobytes(), *rest)

    def set_random_states(self, states: tuple[Any, Any]) -> None:
        """Has both go on where they were."""
        random.setstate(states[0])
        name, key, *rest = states[1]
        np.random.set_state((name, np.frombuffer(key, np.uint32), *rest))


_UNDER_WAY: Final = (types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType)


_INSTALLED: Final = tuple(
    {sysconfig.get_path(kind) for kind in ("stdlib", "platstdlib", "purelib", "platlib")} | {site.getusersitepackages()}
)


def _is_installed(package: str, file: str) -> bool:
    """Whether it is Python's own, or of a distribution, wherever that was installed to: what these hold is known."""
    return any(Path(file).is_relative_to(folder) for folder in _INSTALLED) or package in _distributed(tuple(sys.path))


@functools.lru_cache(1)
def _distributed(_path: tuple[str, ...]) -> frozenset[str]:
    return frozenset(packages_distributions())


def _code_of(value: Any) -> types.CodeType:
    name = {types.GeneratorType: "gi_code", types.CoroutineType: "cr_code"}.get(type(value), "ag_code")
    code: types.CodeType = getattr(value, name)
    return code


def _descriptors() -> set[tuple[int, int, int]]:
    """Those that are open, with what they are open on."""
    found = set()
    for name in os.listdir("/dev/fd"):
        # One of them was that of the folder.
        with contextlib.suppress(OSError):
            state = os.fstat(int(name))
            found.add((int(name), state.st_dev, state.st_ino))
    return found


def _shown_descriptor(number: int) -> str | None:
    """A descriptor for people; None for one that is closed, and for devices, which drivers open as they like."""
    try:
        mode = os.fstat(number).st_mode
        path = os.readlink(f"/dev/fd/{number}") if sys.platform == "linux" else f"descriptor {number}"
    except OSError:
        return None
    if stat.S_ISREG(mode):
        return None if path.startswith("/memfd:") else f"the file {path}"
    if stat.S_ISSOCK(mode):
        return "a socket"
    return "a pipe" if stat.S_ISFIFO(mode) else None


def _named(value: Any) -> str:
    return f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', value)}"
