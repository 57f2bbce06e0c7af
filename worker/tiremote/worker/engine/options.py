"""The options of a session, checked before Taichi sees them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from tiremote.protocol.errors import Refused

ARCHS = ("auto", "cpu", "cuda", "vulkan", "metal", "amdgpu")

Check = Callable[[Any], str | None]


def _one_of(*taken: str) -> Check:
    def check(value: Any) -> str | None:
        return None if isinstance(value, str) and value in taken else f"one of {', '.join(taken)}"

    return check


def _flag(value: Any) -> str | None:
    return None if isinstance(value, bool) else "True or False"


def _whole(lowest: int, highest: int = 2**31 - 1) -> Check:
    def check(value: Any) -> str | None:
        if isinstance(value, int) and not isinstance(value, bool) and lowest <= value <= highest:
            return None
        return f"a whole number from {lowest} to {highest}"

    return check


def _number(lowest: float, highest: float) -> Check:
    def check(value: Any) -> str | None:
        if isinstance(value, (int, float)) and not isinstance(value, bool) and lowest <= value <= highest:
            return None
        return f"a number from {lowest:g} to {highest:g}"

    return check


#: What a session may ask for. What prints, writes files or stops in a debugger is not here.
SESSION_OPTIONS: Mapping[str, Check] = {
    "arch": _one_of(*ARCHS),
    "default_fp": _one_of("f16", "f32", "f64"),
    "default_ip": _one_of("i32", "i64"),
    "debug": _flag,
    "random_seed": _whole(0),
    "fast_math": _flag,
    "offline_cache": _flag,
    "check_out_of_bound": _flag,
    "advanced_optimization": _flag,
    "opt_level": _whole(0, 3),
    "unrolling_limit": _whole(0),
    "short_circuit_operators": _flag,
    "cpu_max_num_threads": _whole(1, 4096),
    "default_cpu_block_dim": _whole(1, 65536),
    "default_gpu_block_dim": _whole(1, 1024),
    "max_block_dim": _whole(1, 1024),
    "device_memory_GB": _number(0, 1024),
    "device_memory_fraction": _number(0, 1),
    "ad_stack_size": _whole(0),
    "flatten_if": _flag,
    "kernel_profiler": _flag,
}


def check_options(options: Mapping[str, Any], flags: Collection[str] = ()) -> dict[str, Any]:
    """A copy without the options that are None; ``flags`` are options of this runtime alone.

    Raises `Refused`, in one line, for the first that is not taken.
    """
    taken = {**SESSION_OPTIONS, **dict.fromkeys(flags, _flag)}
    checked = {name: value for name, value in options.items() if value is not None}
    for name, value in checked.items():
        check = taken.get(name)
        if check is None:
            raise Refused(f"unknown session option {name!r}; taken are {', '.join(taken)}")
        expected = check(value)
        if expected is not None:
            raise Refused(f"session option {name}={value!r} is not taken; it must be {expected}")
    return checked
