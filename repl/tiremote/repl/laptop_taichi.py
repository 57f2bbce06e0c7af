"""What ``import taichi as ti`` means on a laptop without Taichi: the session's remote names, and the rest by name."""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable
from difflib import get_close_matches
from typing import Any

from tiremote.client import Session
from tiremote.protocol.errors import Refused
from tiremote.protocol.receipts import Receipt
from tiremote.repl.taichi_names import PUBLIC_NAMES

#: What programs import that are for any runtime: the session's.
ANY_RUNTIME = "taichi"

#: Options of ``ti.init`` that a session may be opened with.
OF_A_SESSION = (
    "arch", "default_fp", "default_ip", "debug", "random_seed",
    "fast_math", "check_out_of_bound", "advanced_optimization", "opt_level", "cpu_max_num_threads",
)  # fmt: skip
#: Which arch a session is opened with for Taichi's name; ``ti.gpu`` is whatever the worker chose itself.
_ARCHS = {name: name for name in ("cpu", "cuda", "vulkan", "metal", "amdgpu")} | {"x64": "cpu", "arm64": "cpu"}


class OnWorker:
    """A name of Taichi that means something only in text that the worker loads, such as ``ti.math.vec3``.

    ``known`` tells what is wrong with a path below Taichi, None where nothing is.
    """

    def __init__(self, path: str, known: Callable[[str], str | None] = lambda _: None) -> None:
        self._path = path
        self._known = known

    def __getattr__(self, name: str) -> OnWorker:
        if name.startswith("__"):  # what `inspect`, `copy` and others probe for
            raise AttributeError(name)
        path = f"{self._path}.{name}"
        if wrong := self._known(path):
            raise AttributeError(wrong)
        return OnWorker(path, self._known)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ARG002 - any call is answered alike
        if self._path.split(".")[0] in ("kernel", "func", "pyfunc", "real_func", "data_oriented", "dataclass"):
            raise Refused(f"ti.{self._path} works at the left margin of a cell, not inside another block")
        raise Refused(
            f"ti.{self._path} exists on the worker only: call it in a kernel or in a function (def ...), "
            f"which then runs there, or give it a name on a line of its own: name = ti.{self._path}(...)"
        )

    def __repr__(self) -> str:
        return f"<ti.{self._path}, on the worker>"


class LaptopTaichi:
    """``ti`` at the prompt: `Session.ti`, ``init``, and an `OnWorker` for each other name."""

    def __init__(self, gpu: Session, show: Callable[[str], None], reopen: Callable[[dict[str, Any]], bool]) -> None:
        self._gpu = gpu
        self._show = show
        self._reopen = reopen

    def adopt(self, gpu: Session) -> None:
        """Another session takes the place of the one it had."""
        self._gpu = gpu

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            return getattr(self._gpu.ti, name)
        except AttributeError:
            if wrong := self.missing(name):
                raise AttributeError(wrong) from None
            return OnWorker(name, self.missing)

    def is_called(self, package: str) -> bool:
        """Whether an import of this package means the session's runtime. Raises `Refused` for another runtime."""
        own = self._gpu.info.engine.runtime
        if package in (ANY_RUNTIME, own):
            return True
        if package in self._gpu.info.runtimes:
            raise Refused(
                f"this session runs on {own}: import {ANY_RUNTIME}, which means the session's own, "
                f"or open a session on {package} (tiremote --runtime {package})"
            )
        return False

    def missing(self, path: str) -> str | None:
        """That Taichi has no such name, with the nearest that it has; None where it may have it."""
        if self._gpu.info.engine.runtime != ANY_RUNTIME:
            return None  # a fork has names of its own
        module = ""
        for name in path.split("."):
            names = PUBLIC_NAMES.get(module)
            if names is None or name.startswith("_"):
                return None
            if name not in names:
                close = get_close_matches(name, names, n=1, cutoff=0.7)
                where = f"taichi.{module}" if module else "Taichi"
                return f"{where} has no {name!r}{f'; did you mean {close[0]!r}?' if close else ''}"
            module = f"{module}.{name}" if module else name
        return None

    def init(self, *args: Any, **kwargs: Any) -> None:
        """Checks the options against the session's, by the worker's own rule.

        Where they differ, a private session in which nothing was made yet gives way to one with these options;
        any other raises `Refused`.
        """
        asked = [taichi_text(each) for each in args] + [f"{name}={taichi_text(v)}" for name, v in kwargs.items()]
        # At the caller's line, so that a refusal names it.
        line = sys._getframe(1).f_lineno
        source = "\n" * (line - 1) + f"ti.init({', '.join(asked)})\n"
        try:
            receipt = check_init(self._gpu, source)
        except Refused:
            options = session_options(args, kwargs)
            if not options or not self._reopen(options):
                raise
            receipt = check_init(self._gpu, source)
        engine = self._gpu.info.engine
        self._show(f"ti.init: this session runs on {engine.arch} ({engine.device}), {engine.runtime} {engine.version}")
        for warning in receipt.warnings:
            self._show(f"  warning: {warning}")

    def __dir__(self) -> list[str]:
        return sorted({"init", *dir(self._gpu.ti)})

    def __repr__(self) -> str:
        return "<taichi, on the worker>"


def check_init(gpu: Session, source: str) -> Receipt:
    receipt = gpu.compile_and_load(source, "ti.init")
    gpu.cleanup("ti.init")
    return receipt


def taichi_path(root: LaptopTaichi, path: str) -> Any:
    """The value of ``taichi.<path>`` on the laptop. Raises ImportError where Taichi has no such name."""
    if path and (wrong := root.missing(path)):
        raise ImportError(wrong)
    value: Any = root
    for name in path.split(".") if path else []:
        value = getattr(value, name, None) or OnWorker(path)
        if isinstance(value, OnWorker):
            return OnWorker(path)
    return value


def importer(root: LaptopTaichi) -> Callable[..., Any]:
    """``__import__`` for code at the prompt: inside functions, too, Taichi is the worker's."""

    plain_import = builtins.__import__

    def import_(name: str, scope: Any = None, local: Any = None, wanted: Any = (), level: int = 0) -> Any:
        runtime, _, path = name.partition(".")
        if level or not root.is_called(runtime):
            return plain_import(name, scope, local, wanted, level)
        for each in wanted or ():
            if each != "*" and (wrong := root.missing(f"{path}.{each}" if path else each)):
                raise ImportError(wrong)
        return taichi_path(root, path) if wanted else root

    return import_


def is_callable_here(root: LaptopTaichi, path: str) -> bool:
    """Whether the laptop itself can call ``taichi.<path>`` and gives what Taichi would give."""
    if path in ("Vector", "Matrix"):
        return False
    value = taichi_path(root, path)
    return callable(value) and not isinstance(value, OnWorker)


def session_options(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Those of ``ti.init``'s arguments that a session can be opened with, as they travel."""
    given = {**dict(zip(("arch", "default_fp", "default_ip"), args, strict=False)), **kwargs}
    options: dict[str, Any] = {}
    for name in OF_A_SESSION:
        value = given.get(name)
        plain = value._path if isinstance(value, OnWorker) else getattr(value, "name", value)
        if name == "arch":
            plain = _ARCHS.get(plain) if isinstance(plain, str) else None
        if isinstance(plain, (bool, int, float, str)):
            options[name] = plain
    return options


def taichi_text(value: Any) -> str:
    """An option of ``ti.init`` as source. Raises `Refused` for what has none."""
    if isinstance(value, OnWorker):
        return f"ti.{value._path}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(taichi_text, value))}]"
    if value is None or isinstance(value, (bool, int, float, str)):
        return repr(value)
    if isinstance(value, type):
        return value.__name__
    name = getattr(value, "name", None)
    if isinstance(name, str):
        return f"ti.{name}"
    raise Refused(f"ti.init takes plain values and Taichi's own, not {type(value).__name__}")
