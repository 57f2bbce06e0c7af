"""The quick start and its hot reload, with what each step took; it checks its own results."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from tiremote.client import Session

_KERNEL = """\
@ti.kernel
def add_base(x: ti.types.ndarray(), base: ti.f32):
    for i in range(x.shape[0]):
        x[i] += {added}
"""


def run_demo(gpu: Session, write: Callable[[str], None], clock: Callable[[], float] = time.perf_counter) -> bool:
    """Whether every result was right."""

    def step(what: str, action: Callable[[], Any]) -> Any:
        started = clock()
        result = action()
        write(f"  {what:<52}{(clock() - started) * 1e3:>9.1f} ms")
        return result

    start = np.arange(10, dtype=np.float32)

    write("Quick start: a kernel that adds base")
    x = step("x = ti.ndarray(ti.f32, shape=10)", lambda: gpu.ti.ndarray(gpu.ti.f32, shape=10))
    step("x.from_numpy(0 .. 9)", lambda: x.from_numpy(start))
    source, changed = _KERNEL.format(added="base"), _KERNEL.format(added="2 * base")
    step("gpu.compile_and_load(source)", lambda: gpu.compile_and_load(source, "add_base"))
    step("gpu[None].add_base(x, 5.0)", lambda: gpu[None].add_base(x, 5.0))
    first = step("x.to_numpy()", x.to_numpy)
    good = _check(write, first, start + 5)

    write("Hot reload: the same kernel now adds 2 * base")
    step("gpu.compile_and_load(changed)", lambda: gpu.compile_and_load(changed, "add_base"))
    step("x.from_numpy(0 .. 9)", lambda: x.from_numpy(start))
    step("gpu[None].add_base(x, 5.0)", lambda: gpu[None].add_base(x, 5.0))
    second = step("x.to_numpy()", x.to_numpy)
    return _check(write, second, start + 10) and good


def _check(write: Callable[[str], None], found: np.ndarray, expected: np.ndarray) -> bool:
    write(f"  x = {' '.join(f'{value:g}' for value in found)}")
    if np.array_equal(found, expected):
        return True
    write(f"  WRONG, expected {' '.join(f'{value:g}' for value in expected)}")
    return False
