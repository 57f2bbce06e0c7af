"""The part of the seam to Taichi that kernels and funcs go through; `TaichiRuntime` inherits it."""

from __future__ import annotations

import types
import weakref
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tiremote.worker.engine.runtime_arrays import ArrayRuntime


@dataclass(frozen=True, slots=True)
class CompiledInstances:
    """Which instances of which kernels exist at one moment."""

    known: Mapping[int, tuple[Any, frozenset[Any]]]

    def forget_later(self, runtime: KernelRuntime) -> None:
        """Drops what was compiled since: it may have fields baked in that are no more."""
        for kernel in runtime.every_kernel():
            _, before = self.known.get(id(kernel), (None, frozenset()))
            runtime.forget_compiled(kernel, [key for key in runtime.instances(kernel) if key not in before])


class KernelRuntime(ArrayRuntime):
    """What decorators make, and what it is compiled to. ``kernel_class`` is the runtime's ``Kernel``."""

    if TYPE_CHECKING:

        @property
        def state(self) -> Any: ...
        def config(self) -> Any: ...

    def __init__(self, name: str) -> None:
        super().__init__(name)
        layout = self.layout
        self._decorated: type[Any] = self.found(layout.decorated) if layout.decorated else types.FunctionType
        self._bound: type[Any] = self.found(layout.bound)
        self.kernel_class: type[Any] = self.module(layout.kernels).Kernel
        if layout.decorated:
            _bind_anew(self._decorated, self._bound)
        #: Out of the runtime's own register, but perhaps still called through an old handle.
        self._unregistered: weakref.WeakSet[Any] = weakref.WeakSet()

    def is_kernel(self, value: object) -> bool:
        """Whether this is what ``@ti.kernel`` makes of a function or a method."""
        return type(value) is self._decorated and getattr(value, "_is_wrapped_kernel", False) is True

    def is_class_kernel(self, value: object) -> bool:
        """Whether this kernel takes ``self``: it can only be called through an instance."""
        return self.is_kernel(value) and bool(getattr(value, "_is_classkernel", False))

    def is_bound(self, value: object) -> bool:
        """Whether this is a kernel or func got from an instance, of what the runtime makes for that."""
        return issubclass(type(value), self._bound)

    def is_bound_kernel(self, value: object) -> bool:
        """Whether this is a kernel got from an instance of a ``data_oriented`` class."""
        return self.is_bound(value) and getattr(value, "_is_wrapped_kernel", True) is True

    def is_gradient(self, value: object) -> bool:
        """Whether this is the ``grad`` of a kernel, decorated or got from an instance."""
        if type(value) is types.MethodType:
            return value.__name__ == "grad" and self.is_bound_kernel(value.__self__)
        return issubclass(type(value), self.kernel_class)

    def is_func(self, value: object) -> bool:
        """Whether this is what ``@ti.func``, ``@ti.pyfunc`` or ``@ti.real_func`` makes of a function."""
        return type(value) is self._decorated and getattr(value, self.layout.func_mark, False) is True

    def is_for_kernels_alone(self, value: Any) -> bool:
        """Whether this is a func, perhaps got from an instance, that Python code cannot call: no ``ti.pyfunc``."""
        inside: Any = value.__func__ if type(value) is types.MethodType else value
        if not (self.is_func(inside) or (self.is_bound(inside) and not self.is_bound_kernel(inside))):
            return False
        return not (inside.func if self.layout.decorated is None else inside.wrapper).pyfunc

    def primal(self, kernel: Any) -> Any:
        """The ``Kernel`` object behind a decorated kernel or a bound one."""
        return kernel._primal

    def bound_to(self, value: Any) -> Any:
        """The object that a bound kernel or func was got from."""
        return getattr(value, self.layout.owner)

    def owner(self, kernel: Any) -> tuple[Any, ...]:
        """The object that a kernel was got from, in front of its arguments; nothing for any other kernel."""
        return (self.bound_to(kernel),) if self._takes_owner(kernel) else ()

    def python_function(self, kernel: Any) -> Any:
        """The Python function that was decorated as a kernel or func."""
        return self.callee(kernel).func

    def callee(self, decorated: Any) -> Any:
        """The runtime's object behind what was decorated as a kernel or func: it has parameters and a text."""
        if not self.is_func(decorated):
            return self.primal(decorated)
        return decorated.func if self.layout.decorated is None else decorated.wrapper

    def function_behind(self, value: Any) -> Any:
        """The Python function of a kernel, func or method, decorated or got from an object; anything else as it is."""
        if self.is_gradient(value):
            return self.kernel_behind(value)[0].func
        inside: Any = value.__func__ if type(value) is types.MethodType else value
        if self.is_kernel(inside) or self.is_bound_kernel(inside):
            return self.primal(inside).func
        if self.is_func(inside):
            return self.python_function(inside)
        return inside.wrapper.func if self.is_bound(inside) else inside

    def prints(self, kernel: Any) -> bool:
        """Whether a ``Kernel`` object that was compiled prints, as far as the runtime knows."""
        return bool(kernel.has_print)

    def ensure_compiled(self, kernel: Any, *args: Any) -> Any:
        """Builds the front end of a kernel for these arguments without a launch; gives the instance's key.

        A bound or class kernel takes its owner as the first argument.
        """
        primal, config = self.primal(kernel), self.config()
        for name in self.layout.call_settings:
            setattr(primal, name, getattr(config, name))
        return primal.ensure_compiled(*args)

    def instances(self, kernel: Any) -> Mapping[Any, Any]:
        """What a ``Kernel`` object was compiled to, by the keys of its instances."""
        return getattr(kernel, self.layout.instances[0])  # type: ignore[no-any-return]

    def forget_compiled(self, kernel: Any, keys: Collection[Any]) -> None:
        """Drops instances of a ``Kernel`` object."""
        for name in self.layout.instances:
            known = getattr(kernel, name)
            for key in keys:
                known.pop(key, None)
        if keys and self.layout.launches:
            # Another instance may be at the address that a launch is remembered by.
            launches, *remembered = self.layout.launches
            for name in remembered:
                getattr(getattr(kernel, launches), name).clear()
        for name in self.layout.last_launch:
            setattr(kernel, name, None)

    def make_back_end(self, kernel: Any, key: Any) -> None:
        """Makes what it can of an instance's machine code before its first launch."""
        program = self.state.prog
        program.compile_kernel(program.config(), program.get_device_caps(), self.instances(self.primal(kernel))[key])

    def compiled_instances(self) -> CompiledInstances:
        """What is compiled now; ``forget_later(runtime)`` drops what came since."""
        known = [*self.state.kernels, *self._unregistered]
        return CompiledInstances({id(kernel): (kernel, frozenset(self.instances(kernel))) for kernel in known})

    def every_kernel(self) -> list[Any]:
        """Every ``Kernel`` object that somebody may still call."""
        return [*self.state.kernels, *self._unregistered]

    def forget_all_compiled(self) -> None:
        """Drops the instances of every kernel there is."""
        for kernel in [*self.state.kernels, *self._unregistered]:
            self.forget_compiled(kernel, list(self.instances(kernel)))

    def unregister_kernels(self, which: Callable[[Any], bool]) -> int:
        """Takes ``Kernel`` objects out of the runtime's register, which would keep them alive for ever.

        Those that somebody still holds work on.
        """
        register = self.state.kernels
        dropped = [kernel for kernel in register if which(kernel)]
        self._unregistered.update(dropped)
        register[:] = [kernel for kernel in register if not which(kernel)]
        for place in self.layout.class_caches:
            self.found(place).clear()
        return len(dropped)


def _bind_anew(decorated: Any, bound: Any) -> None:
    """Has what a method is got from not remember it in its object: there it would be an attribute of the user's, and
    outlive the class that the object had before a reload."""

    def get(method: Any, instance: Any, owner: Any) -> Any:  # noqa: ARG001 (what `__get__` is given)
        return method if instance is None else bound(instance, method)

    decorated.__get__ = get
