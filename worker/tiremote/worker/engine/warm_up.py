# mypy: ignore-errors
# A kernel is not Python: its annotations are values, and only the runtime compiles it.
"""The first machine code of a process, made before anybody waits for it.

It takes 0.2 s longer than the next on a 2-core CPU: the compiler gets ready. No ``from __future__ import annotations``
here: kernels need their annotations as objects.
"""

from typing import Any


def warm_up(runtime: Any) -> None:
    """Compiles and launches a kernel that does next to nothing. Where no session follows, nobody has lost anything."""
    ti = runtime.ti

    @ti.kernel
    def set_first(x: ti.types.ndarray(ti.i32, ndim=1)):
        x[0] = 1

    set_first(runtime.make_ndarray("i32", (1,), (), False))
    runtime.sync()
    runtime.unregister_kernels(lambda kernel: kernel.func.__name__ == "set_first")
