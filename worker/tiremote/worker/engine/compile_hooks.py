"""Where Taichi compiles, a clock runs.

A kernel's instance for some types of arguments is made in three steps: its front end before it is called or checked,
its back end before its first launch, and machine code in that launch. A GPU's driver can take twenty times as long for
the third as the other two took. There a launch mostly does not wait for what it has started, so that its end is the end
of the making. Where it does wait, and on a CPU, nothing tells where the making ends and the running begins.
"""

from __future__ import annotations

import functools
import types
from typing import TYPE_CHECKING, Any, Final

from tiremote.worker.engine.compile_clock import CompileClock

if TYPE_CHECKING:
    from tiremote.worker.engine.runtime import TaichiRuntime

_INSTALLED: Final = "_tiremote_compile_hooks"

#: For how long a first launch that runs as well is spared: so many times what the two steps before it took, and a bit
#: for those of the smallest kernels. Measured: up to 1.1 times on a CPU and 22 on an H200, where that was more than the
#: bit, also where the back end came from Taichi's cache on disk.
_CPU_TIMES: Final = 1.5
_GPU_TIMES: Final = 25.0
_BIT: Final = 0.05


class CompileHooks:
    """Has ``clock`` run in every compile of this process."""

    def __init__(self, runtime: TaichiRuntime) -> None:
        self.clock = CompileClock()
        self._runtime = runtime
        self._impl = runtime.impl
        self._cpu = runtime.ti.cpu
        self._array_type = runtime.ti.types.ndarray_type.NdarrayType
        kernels, kernel_class = runtime.module(runtime.layout.kernels), runtime.kernel_class
        self._as_python = kernels.handle_exception_from_cpp
        kernel_class.materialize = self._materialize(kernel_class.materialize)
        # A launch that prints waits for that, by this name, when it has started it.
        kernels.runtime_ops = types.SimpleNamespace(sync=self._sync)

    def _materialize(self, original: Any) -> Any:
        clock, layout = self.clock, self._runtime.layout
        instances, of_call = layout.instances[0], layout.compiled_for

        @functools.wraps(original)
        def materialize(kernel: Any, key: Any, **given: Any) -> None:
            if key in getattr(kernel, instances):
                original(kernel, key, **given)
                return
            before = clock.compiled
            with clock.compiling():
                original(kernel, key, **given)
            if clock.on_compiled is not None:
                clock.on_compiled(kernel, given.get(of_call) or ())
            first = kernel.__dict__.get("launch_kernel")
            if first is None:
                # Only on this one kernel, and only as long as it is needed: no other launch takes longer.
                first = kernel.launch_kernel = _FirstLaunch(kernel, self, layout.launched)
            first.waiting[getattr(kernel, instances)[key]] = clock.compiled - before

        return materialize

    def _sync(self) -> None:
        self.clock.stop()
        self._impl.get_runtime().sync()

    def make_back_end(self, instance: Any) -> None:
        """Raises as a launch would that makes it."""
        program = self._impl.get_runtime().prog
        try:
            program.compile_kernel(program.config(), program.get_device_caps(), instance)
        except Exception as error:
            raise self._as_python(error) from None

    def waits(self, kernel: Any, args: tuple[Any, ...]) -> bool:
        """Whether a launch ends only when all of it has run. Raises what went wrong on the device before."""
        config = self._impl.current_cfg()
        if config.arch == self._cpu or config.debug or config.kernel_profiler or kernel.return_type is not None:
            return True
        for parameter, value in zip(self._runtime.parameters(kernel), args, strict=False):
            # Of another's array the driver makes a copy, which it brings back.
            if isinstance(parameter.annotation, self._array_type) and not self._runtime.is_ndarray(value):
                return True
        # The driver may let what runs already end before it makes machine code.
        self._impl.get_runtime().sync()
        return False

    def spare(self, seconds: float) -> float:
        """How long a launch that waits may make machine code, after a compile that took so long."""
        times = _CPU_TIMES if self._impl.current_cfg().arch == self._cpu else _GPU_TIMES
        return times * seconds + _BIT


class _FirstLaunch:
    """Stands before a kernel's ``launch_kernel`` while it has instances that were never launched.

    ``waiting`` are these, and the seconds that their front ends took. ``launched``: the layout's.
    """

    def __init__(self, kernel: Any, hooks: CompileHooks, launched: tuple[int, int]) -> None:
        self.waiting: dict[Any, float] = {}
        self._kernel = kernel
        self._hooks = hooks
        self._instance, self._arguments = launched

    def __call__(self, *given: Any, **more: Any) -> Any:
        kernel, hooks, clock = self._kernel, self._hooks, self._hooks.clock
        instance, launch = given[self._instance], type(kernel).launch_kernel
        if instance not in self.waiting:
            return launch(kernel, *given, **more)
        before = clock.compiled
        with clock.compiling():
            hooks.make_back_end(instance)
        spare = hooks.spare(self.waiting[instance] + clock.compiled - before)
        waits = hooks.waits(kernel, given[self._arguments :])
        with clock.launching_first(spare) if waits else clock.compiling():
            value = launch(kernel, *given, **more)
        del self.waiting[instance]
        if not self.waiting:
            del kernel.launch_kernel
        return value


def install(runtime: TaichiRuntime) -> CompileClock:
    """The clock of this process, which `CompileHooks` have run."""
    installed: CompileHooks | None = getattr(runtime.kernel_class, _INSTALLED, None)
    if installed is None:
        installed = CompileHooks(runtime)
        setattr(runtime.kernel_class, _INSTALLED, installed)
    return installed.clock
