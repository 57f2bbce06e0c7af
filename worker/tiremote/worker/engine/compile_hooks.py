"""Where Taichi compiles, a clock runs.

A kernel's instance for some types of arguments is made in three steps: its front end before it is called or checked,
its back end before its first launch, and machine code in that launch, which runs it at once: where in there the making
ends nothing tells.
"""

from __future__ import annotations

import functools
from typing import Any, Final

from tiremote.worker.engine.compile_clock import CompileClock

_INSTALLED: Final = "_tiremote_compile_clock"

#: Machine code took 0.01 to 0.04 s for small kernels, on a CPU and on an H200, and for larger ones at most as long as
#: the two steps before it, also where the back end came from Taichi's cache on disk.
_SPARE: Final = 0.05


def install(kernel_impl: Any, impl: Any) -> CompileClock:
    """Has a clock run in every compile of this process, and gives it. ``kernel_impl`` makes kernels."""
    kernel_class = kernel_impl.Kernel
    installed: CompileClock | None = getattr(kernel_class, _INSTALLED, None)
    if installed is not None:
        return installed
    clock = CompileClock()
    setattr(kernel_class, _INSTALLED, clock)
    original = kernel_class.materialize

    @functools.wraps(original)
    def materialize(kernel: Any, key: Any, args: Any = None, arg_features: Any = None) -> None:
        if key in kernel.compiled_kernels:
            # In the way of every launch: all that the original does then, without its looking a second time.
            kernel.runtime.materialize()
            return
        before = clock.compiled
        with clock.compiling():
            original(kernel, key, args, arg_features)
        first = kernel.__dict__.get("launch_kernel")
        if first is None:
            # Only on this one kernel, and only as long as it is needed: no other launch takes longer.
            first = kernel.launch_kernel = _FirstLaunch(kernel, kernel_impl, impl, clock)
        first.waiting[kernel.compiled_kernels[key]] = clock.compiled - before

    kernel_class.materialize = materialize
    return clock


class _FirstLaunch:
    """Stands before a kernel's ``launch_kernel`` while it has instances that were never launched.

    ``waiting`` are these, and the seconds that their front ends took.
    """

    def __init__(self, kernel: Any, kernel_impl: Any, impl: Any, clock: CompileClock) -> None:
        self.waiting: dict[Any, float] = {}
        self._kernel = kernel
        self._kernel_impl = kernel_impl
        self._impl = impl
        self._clock = clock

    def __call__(self, instance: Any, *args: Any) -> Any:
        launch = type(self._kernel).launch_kernel
        if instance not in self.waiting:
            return launch(self._kernel, instance, *args)
        clock = self._clock
        before = clock.compiled
        with clock.compiling():
            self._make_back_end(instance)
        spare = self.waiting.pop(instance) + clock.compiled - before + _SPARE
        if not self.waiting:
            del self._kernel.launch_kernel
        with clock.launching_first(spare):
            return launch(self._kernel, instance, *args)

    def _make_back_end(self, instance: Any) -> None:
        program = self._impl.get_runtime().prog
        try:
            program.compile_kernel(program.config(), program.get_device_caps(), instance)
        except Exception as error:
            # As the launch itself would raise it.
            raise self._kernel_impl.handle_exception_from_cpp(error) from None
