"""``ti.init`` and ``ti.reset`` in a user's source: nearly every program has one, and it would destroy all data."""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from tiremote.protocol.errors import Refused
from tiremote.worker.engine.options import SESSION_OPTIONS
from tiremote.worker.unit_files import FILE_PREFIX

if TYPE_CHECKING:
    from tiremote.worker.engine.runtime import TaichiRuntime

#: Change speed, space or what is printed, never a result: another value than the session's is not worth a refusal.
_WITHOUT_EFFECT = frozenset(
    {
        "advanced_optimization",
        "cpu_max_num_threads",
        "default_cpu_block_dim",
        "default_gpu_block_dim",
        "device_memory_GB",
        "device_memory_fraction",
        "enable_fallback",
        "gdb_trigger",
        "log_level",
        "max_block_dim",
        "num_compile_threads",
        "print_full_traceback",
        "require_version",
        "src_ll_cache",
        "timeline",
        "verbose",
    }
)
_WITHOUT_EFFECT_PREFIXES = ("print_", "offline_cache", "make_", "simplify_", "verbose_")


class InitGuard:
    """Stands before the runtime's ``init`` and ``reset``. It only acts inside its context."""

    def __init__(self, runtime: TaichiRuntime) -> None:
        self._runtime = runtime
        self._active: list[list[str]] = []
        self._installed = False

    @contextlib.contextmanager
    def __call__(self) -> Iterator[list[str]]:
        """While it lasts, ``init`` compares and ``reset`` is refused; gives the list that warnings go to."""
        self.install()
        warnings: list[str] = []
        self._active.append(warnings)
        try:
            yield warnings
        finally:
            # By identity: two lists without a warning are equal.
            del self._active[max(i for i, each in enumerate(self._active) if each is warnings)]

    @contextlib.contextmanager
    def lifted(self) -> Iterator[None]:
        """For the worker's own ``init``."""
        active, self._active = self._active, []
        try:
            yield
        finally:
            self._active = active

    def install(self) -> None:
        """Puts it there, inactive."""
        if self._installed:
            return
        self._installed = True
        misc, impl = self._runtime.lang("misc"), self._runtime.impl
        init, reset = misc.init, impl.reset

        @functools.wraps(init)
        def guarded_init(*args: Any, **kwargs: Any) -> Any:
            if self._active:
                return self._compare(_arguments(args, kwargs))
            result = init(*args, **kwargs)
            self._runtime.trees.watch()
            return result

        @functools.wraps(reset)
        def guarded_reset(*args: Any, **kwargs: Any) -> Any:
            if self._active:
                raise Refused(
                    f"{_where()}ti.reset() would destroy every field and ndarray of the session; "
                    "use cleanup, or open another session"
                )
            return reset(*args, **kwargs)

        for module in list(sys.modules.values()):
            if getattr(module, "__name__", "").partition(".")[0] != self._runtime.name:
                continue
            for name, original, guarded in (("init", init, guarded_init), ("reset", reset, guarded_reset)):
                if vars(module).get(name) is original:
                    setattr(module, name, guarded)

    def _compare(self, asked: Mapping[str, Any]) -> None:
        different: dict[str, tuple[Any, Any]] = {}
        for name, value in asked.items():
            if value is None or name in _WITHOUT_EFFECT or name.startswith(_WITHOUT_EFFECT_PREFIXES):
                continue
            if name == "arch":
                self._compare_arch(value, different)
                continue
            wanted, have = self._value(name, value), self._session_value(name)
            if wanted != have:
                different[name] = (wanted, have)
        if different:
            raise Refused(_refusal(different, {*SESSION_OPTIONS, *self._runtime.layout.flags}))

    def _compare_arch(self, value: Any, different: dict[str, tuple[Any, Any]]) -> None:
        wanted = [self._runtime.arch_name(each) for each in (value if isinstance(value, (list, tuple)) else [value])]
        have = self._runtime.arch()
        if have in wanted:
            return
        if len(wanted) == 1:
            different["arch"] = (wanted[0], have)
            return
        # ti.gpu is a list: Taichi itself would go on with the CPU where none of them is there.
        self._active[-1].append(
            f"{_where()}ti.init asks for a GPU ({', '.join(wanted)}); this session runs on {have!r}"
        )

    def _value(self, name: str, value: Any) -> Any:
        if name in ("default_fp", "default_ip"):
            return self._runtime.dtype_name(value)
        return value

    def _session_value(self, name: str) -> Any:
        state, config = self._runtime.state, self._runtime.config()
        if name in ("default_fp", "default_ip"):
            return self._runtime.dtype_name(getattr(state, name))
        for holder in (state, config):
            if hasattr(holder, name):
                return getattr(holder, name)
        raise Refused(f"{_where()}ti.init has no option {name!r}")


def _arguments(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    return {**dict(zip(("arch", "default_fp", "default_ip"), args, strict=False)), **kwargs}


def _refusal(different: Mapping[str, tuple[Any, Any]], of_a_session: Collection[str]) -> str:
    wants = ", ".join(f"{name}={wanted!r}" for name, (wanted, _) in different.items())
    has = ", ".join(f"{name}={have!r}" for name, (_, have) in different.items())
    text = f"{_where()}ti.init asks for {wants}, but this session runs with {has}"
    if all(name in of_a_session for name in different):
        return f"{text}; remove that, or open such a session: connect(..., {wants})"
    return f"{text}; remove that"


def _where() -> str:
    """``line 3: `` of the user's own text, where it is the caller."""
    frame = sys._getframe(1)
    while frame is not None and not frame.f_code.co_filename.startswith(FILE_PREFIX):
        if frame.f_back is None:
            return ""
        frame = frame.f_back
    return f"line {frame.f_lineno}: "
