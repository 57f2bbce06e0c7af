"""Where Taichi compiles, a clock runs.

A kernel's instance for some types of arguments is made in three steps: its front end before it is called or checked,
its back end before its first launch, and machine code in that launch. A GPU's driver can take twenty times as long for
the third as the other two took. There a launch mostly does not wait for what it has started, so that its end is the end
of the making. Where it does wait, and on a CPU, nothing tells where the making ends and the running begins.
"""

from __future__ import annotations

import functools
import types
from typing import Any, Final

from tiremote.worker.engine.compile_clock import CompileClock

_INSTALLED: Final = "_tiremote_compile_hooks"

#: For how long a first launch that runs as well is spared: so many times what the two steps before it took, and a bit
#: for those of the smallest kernels. Measured: up to 1.1 times on a CPU and 22 on an H200, where that was more than the
#: bit, also where the back end came from Taichi's cache on disk.
_CPU_TIMES: Final = 1.5
_GPU_TIMES: Final = 25.0
_BIT: Final = 0.05


class CompileHooks:
    """Has ``clock`` run in every compile of this process.

    ``kernel_impl`` makes kernels, ``impl`` holds the state, ``cpu`` is the arch without a GPU, ``ndarray`` the class of
    arrays that lie where they are computed on.
    """

    def __init__(self, kernel_impl: Any, impl: Any, cpu: Any, ndarray: type[Any]) -> None:
        self.clock = CompileClock()
        self._impl = impl
        self._cpu = cpu
        self._ndarray = ndarray
        self._array_type = kernel_impl.ndarray_type.NdarrayType
        self._as_python = kernel_impl.handle_exception_from_cpp
        kernel_impl.Kernel.materialize = self._materialize(kernel_impl.Kernel.materialize)
        # A launch that prints waits for that, by this name, when it has started it.
        kernel_impl.runtime_ops = types.SimpleNamespace(sync=self._sync)

    def _materialize(self, original: Any) -> Any:
        clock = self.clock

        @functools.wraps(original)
        def materialize(kernel: Any, key: Any, args: Any = None, arg_features: Any = None) -> None:
            if key in kernel.compiled_kernels:
                # In the way of every launch: all that the original does then, without its looking a second time.
                kernel.runtime.materialize()
                return
            before = clock.compiled
            with clock.compiling():
                original(kernel, key, args, arg_features)
            if clock.on_compiled is not None:
                clock.on_compiled(kernel, args or ())
            first = kernel.__dict__.get("launch_kernel")
            if first is None:
                # Only on this one kernel, and only as long as it is needed: no other launch takes longer.
                first = kernel.launch_kernel = _FirstLaunch(kernel, self)
            first.waiting[kernel.compiled_kernels[key]] = clock.compiled - before

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
        for parameter, value in zip(kernel.arguments, args, strict=False):
            # Of another's array the driver makes a copy, which it brings back.
            if isinstance(parameter.annotation, self._array_type) and not isinstance(value, self._ndarray):
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

    ``waiting`` are these, and the seconds that their front ends took.
    """

    def __init__(self, kernel: Any, hooks: CompileHooks) -> None:
        self.waiting: dict[Any, float] = {}
        self._kernel = kernel
        self._hooks = hooks

    def __call__(self, instance: Any, *args: Any) -> Any:
        kernel, hooks, clock = self._kernel, self._hooks, self._hooks.clock
        launch = type(kernel).launch_kernel
        if instance not in self.waiting:
            return launch(kernel, instance, *args)
        before = clock.compiled
        with clock.compiling():
            hooks.make_back_end(instance)
        spare = hooks.spare(self.waiting[instance] + clock.compiled - before)
        with clock.launching_first(spare) if hooks.waits(kernel, args) else clock.compiling():
            value = launch(kernel, instance, *args)
        del self.waiting[instance]
        if not self.waiting:
            del kernel.launch_kernel
        return value


def install(kernel_impl: Any, impl: Any, cpu: Any, ndarray: type[Any]) -> CompileClock:
    """The clock of this process, which `CompileHooks` have run."""
    installed: CompileHooks | None = getattr(kernel_impl.Kernel, _INSTALLED, None)
    if installed is None:
        installed = CompileHooks(kernel_impl, impl, cpu, ndarray)
        setattr(kernel_impl.Kernel, _INSTALLED, installed)
    return installed.clock
