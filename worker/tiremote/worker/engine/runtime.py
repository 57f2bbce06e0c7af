"""The seam to Taichi: the only module of the project that imports it.

A `TaichiRuntime` stands for one of the runtimes of the family: ``taichi``, ``gstaichi``, ``quadrants``.
Nothing is imported before one is made, and a process makes at most one. Every method must be called on the thread
that called `TaichiRuntime.init`.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import gc
import importlib
import io
import types
import weakref
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from tiremote.protocol.errors import Refused
from tiremote.worker.engine import compile_hooks, debug_duals, index_guard, source_hooks
from tiremote.worker.engine.baked import BakedValues
from tiremote.worker.engine.device import cpu_name, cuda_device_name
from tiremote.worker.engine.half_declared import Snapshot, has_unplaced_fields, leave_kernel, take_snapshot
from tiremote.worker.engine.init_guard import InitGuard
from tiremote.worker.engine.options import check_options
from tiremote.worker.engine.outside import Outside
from tiremote.worker.engine.quiet import quiet_environment, silenced
from tiremote.worker.engine.runtime_arrays import ArrayRuntime
from tiremote.worker.engine.snode_trees import SNodeTrees
from tiremote.worker.engine.split_root import RootSplitter
from tiremote.worker.runtimes import RUNTIMES

#: Names on the wire of what Taichi calls otherwise; every other primitive type has the same name in both.
_WIRE_TO_TAICHI = {"bool": "u1"}
_TAICHI_TO_WIRE = {taichi: wire for wire, taichi in _WIRE_TO_TAICHI.items()}

PRIMITIVES = ("bool", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f16", "f32", "f64")

#: What ``arch="auto"`` tries, best first. OpenGL and DirectX are left out: asking Taichi whether OpenGL is
#: there ends the process where there is no display.
_GPUS = ("cuda", "amdgpu", "metal", "vulkan")


@dataclass(frozen=True, kw_only=True, slots=True)
class RuntimeInfo:
    """What came up: ``arch`` is the real one (``cpu``, ``cuda``), ``device`` the name of the hardware."""

    name: str
    version: str
    arch: str
    device: str


@dataclass(frozen=True, slots=True)
class CompiledInstances:
    """Which instances of which kernels exist at one moment."""

    known: Mapping[int, tuple[Any, frozenset[Any]]]

    def forget_later(self, runtime: TaichiRuntime) -> None:
        """Drops what was compiled since: it may have fields baked in that are no more."""
        for kernel in runtime.every_kernel():
            _, before = self.known.get(id(kernel), (None, frozenset()))
            runtime.forget_compiled(kernel, [key for key in runtime.instances(kernel) if key not in before])


class TaichiRuntime(ArrayRuntime):
    """One imported runtime. ``ti`` is its module, ``tm`` its ``math``."""

    def __init__(self, name: str = "taichi") -> None:
        self.name = name
        self.layout = layout = RUNTIMES[name].layout
        self._modules: dict[str, Any] = {}
        with quiet_environment(layout.environment):
            self.ti: Any = importlib.import_module(name)
            self.tm: Any = importlib.import_module(f"{name}.math")
        self.impl: Any = self.lang("impl")
        self.core: Any = importlib.import_module(f"{name}._lib").core
        self._decorated: type[Any] = self.found(layout.decorated) if layout.decorated else types.FunctionType
        self._bound: type[Any] = self.found(layout.bound)
        self.kernel_class: type[Any] = self.module(layout.kernels).Kernel
        self.compile_clock = compile_hooks.install(self)
        source_hooks.install(self)
        index_guard.install(self)
        debug_duals.install(self)
        for (module, name), value in layout.mended.items():
            setattr(self.module(module), name, value)
        if layout.decorated:
            _bind_anew(self._decorated, self._bound)
        self.trees = SNodeTrees(self)
        self.split_root = RootSplitter(self)
        self.guard_init = InitGuard(self)
        self.baked = BakedValues(self)
        #: Out of the runtime's own register, but perhaps still called through an old handle.
        self._unregistered: weakref.WeakSet[Any] = weakref.WeakSet()
        #: Where an engine has it: it cannot be taken out of a process again.
        self.outside: Outside | None = None
        self.info: RuntimeInfo | None = None

    def module(self, path: str) -> Any:
        """A module below the runtime's package, such as ``lang.impl``."""
        found = self._modules.get(path)
        if found is None:
            found = self._modules[path] = importlib.import_module(f"{self.name}.{path}")
        return found

    def lang(self, module: str) -> Any:
        """A module of the runtime's ``lang`` package, such as ``impl``."""
        return self.module(f"lang.{module}")

    def found(self, place: tuple[str, str]) -> Any:
        """What is at a place of the layout: a module and a name in it, perhaps one in a class."""
        return functools.reduce(getattr, place[1].split("."), self.module(place[0]))

    def exception(self, name: str) -> type[BaseException]:
        """The runtime's own exception, such as ``CompilationError``."""
        return getattr(self.lang("exception"), f"{self.layout.errors}{name}")  # type: ignore[no-any-return]

    # Starting ---------------------------------------------------------------------------------------------

    def init(self, options: Mapping[str, Any] | None = None) -> RuntimeInfo:
        """Starts the runtime with a session's options; ``arch`` is ``auto`` where it is not given.

        Raises `Refused` for an option that is unknown or of a bad value, and for an arch that is not there.
        """
        checked = check_options(dict(options or {}))
        asked = checked.pop("arch", "auto")
        for key in ("default_fp", "default_ip"):
            if key in checked:
                checked[key] = self.dtype_object(checked[key])
        arch = self._choose_arch(asked)
        with contextlib.redirect_stdout(io.StringIO()), self.guard_init.lifted():
            try:
                self.ti.init(arch=getattr(self.ti, arch), log_level="error", **self.layout.init, **checked)
            except Exception as error:
                raise Refused(f"arch={asked!r} does not start here: {_one_line(error)}") from error
        real = self.arch()
        if real != arch:
            raise Refused(f"arch={asked!r} was asked for, but the runtime started on {real!r}")
        self.trees.watch()
        self.free_what_is_dropped()
        self.info = RuntimeInfo(name=self.name, version=self.version(), arch=real, device=self.device_name(real))
        return self.info

    def end(self) -> None:
        """Writes the cache of compiled kernels. Nothing works afterwards."""
        with self.guard_init.lifted():
            self.ti.reset()

    def adopt(self) -> None:
        """Instead of `init`, where somebody else calls ``ti.init``, before or after."""
        self.guard_init.install()
        self.trees.watch()
        self.free_what_is_dropped()

    def is_started(self) -> bool:
        return getattr(self.state, self.layout.program) is not None

    def _choose_arch(self, asked: str) -> str:
        if asked == "auto":
            return next((arch for arch in _GPUS if self.has_arch(arch)), "cpu")
        if not self.has_arch(asked):
            real = self._choose_arch("auto")
            raise Refused(f"arch={asked!r} was asked for, but this machine has none; here it would start on {real!r}")
        return asked

    def has_arch(self, arch: str) -> bool:
        """Whether this machine has a usable ``cuda``, ``vulkan``, ... (``cpu`` always)."""
        if arch == "cpu":
            return True
        with silenced(self.ti):
            try:
                return bool(getattr(self.core, f"with_{arch}")())
            except Exception:
                return False

    def arch(self) -> str:
        """The arch that runs now; both CPU families are ``cpu``."""
        return self.arch_name(self.config().arch)

    def arch_name(self, arch: Any) -> str:
        """The name of one of the runtime's arch constants."""
        return "cpu" if arch == self.ti.cpu else str(self.core.arch_name(arch))

    def version(self) -> str:
        return ".".join(str(part) for part in self.ti.__version__)

    def device_name(self, arch: str) -> str:
        """The name of the GPU where it can be told, else that of the CPU."""
        if arch == "cuda":
            return cuda_device_name() or "CUDA device"
        return cpu_name() if arch == "cpu" else f"{arch} device"

    # State ------------------------------------------------------------------------------------------------

    @property
    def state(self) -> Any:
        """The runtime's one mutable object (``impl.get_runtime()``)."""
        return self.impl.get_runtime()

    def config(self) -> Any:
        """The configuration of what runs now."""
        return self.impl.current_cfg()

    def sync(self) -> None:
        """Waits for the device; kernel prints are out afterwards."""
        self.ti.sync()

    def materialize(self) -> None:
        """Allocates every field that is declared and placed. Raises RuntimeError where one is not placed."""
        self.state.materialize()

    def fields_builder_class(self) -> Any:
        return self.ti.FieldsBuilder

    def snode_tree_count(self) -> int:
        """How many SNode trees exist; `MAX_SNODE_TREES` is the most there can be."""
        return self.trees.count()

    def has_unplaced_fields(self) -> bool:
        """Whether every launch would fail now, because something is declared and has no place yet."""
        return has_unplaced_fields(self)

    def take_snapshot(self) -> Snapshot:
        """Notes the half-declared state; ``restore(runtime)`` takes away what came since."""
        return take_snapshot(self)

    def watch_outside(self) -> contextlib.AbstractContextManager[list[str]]:
        """Notes in a list what is done outside of this process."""
        return contextlib.nullcontext([]) if self.outside is None else self.outside.watched()

    def leave_kernel(self) -> None:
        """After a call that failed: the runtime must not believe that it is still inside a kernel or a tape."""
        leave_kernel(self)

    # Kernels and functions --------------------------------------------------------------------------------

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
        return len(dropped)

    def collect(self) -> None:
        """Gives back what nobody holds any more: Python's cycles and the SNode trees of dead fields."""
        gc.collect()
        self.trees.collect()

    # Data ---------------------------------------------------------------------------------------------------

    def is_field(self, value: object) -> bool:
        return issubclass(type(value), (self.lang("field").Field, self.lang("matrix").MatrixField))

    def is_ndarray(self, value: object) -> bool:
        return issubclass(type(value), self.lang("_ndarray").Ndarray)

    def is_struct_type(self, value: object) -> bool:
        """Whether this is what ``@ti.dataclass`` or ``ti.types.struct`` makes."""
        return issubclass(type(value), self.lang("struct").StructType)

    def is_snode(self, value: object) -> bool:
        """Whether this is a block such as ``ti.root.dense(...)`` gives."""
        return issubclass(type(value), self.lang("snode").SNode)

    def snode(self, node: Any) -> Any:
        """The block of a core node."""
        return self.lang("snode").SNode(node)

    def is_snode_tree(self, value: object) -> bool:
        """Whether this is what ``FieldsBuilder.finalize`` gives."""
        return self.trees.is_tree(value)

    def is_type(self, value: object) -> bool:
        """Whether this is a type of the runtime's own: ``ti.f32``, ``ti.types.vector(3, ti.f32)``, a struct's."""
        return issubclass(
            type(value), (type(self.ti.f32), self.lang("matrix").MatrixType, self.lang("struct").StructType)
        )

    def same_value(self, old: Any, new: Any) -> bool:
        """Whether two types, or two vectors or matrices, are equal; False for all else."""
        if self.is_struct_type(new) and self.is_struct_type(old):
            same_methods = old.methods.keys() == new.methods.keys() and not new.methods
            return same_methods and _same_members(old.members, new.members, self)
        if self.is_type(new) and self.is_type(old):
            return str(old.to_string()) == str(new.to_string())
        mine, theirs = self.matrix_values(old), self.matrix_values(new)
        if mine is None or theirs is None:
            return False
        return mine.dtype == theirs.dtype and mine.shape == theirs.shape and mine.tobytes() == theirs.tobytes()

    def copy_value(self, value: Any, otherwise: Any) -> Any:
        """A copy of a vector or matrix; a type is its own."""
        if self.is_type(value):
            return value
        return copy.deepcopy(value) if self.matrix_values(value) is not None else otherwise

    def data_pointer(self, ndarray: Any) -> int:
        """The address of an ndarray's memory: of the host on CPU, of the device on CUDA, 0 elsewhere."""
        return int(self.state.prog.get_ndarray_data_ptr_as_int(ndarray.arr))

    def dtype_object(self, name: str) -> Any:
        """The runtime's object for a wire name such as ``f32`` or ``bool``. Raises KeyError."""
        if name not in PRIMITIVES:
            raise KeyError(name)
        return getattr(self.ti, _WIRE_TO_TAICHI.get(name, name))

    def primitive_name(self, value: object) -> str | None:
        """The wire name of one of the runtime's own primitive types, None for anything else."""
        return next((name for name in PRIMITIVES if self.dtype_object(name) is value), None)

    def dtype_name(self, dtype: Any) -> str:
        """The wire name of a primitive type given as an object, or as Python's int, float or bool."""
        text = str(self.lang("util").cook_dtype(dtype).to_string())
        return _TAICHI_TO_WIRE.get(text, text)

    # Errors -----------------------------------------------------------------------------------------------

    def compile_errors(self) -> tuple[type[BaseException], ...]:
        """What the runtime raises while it compiles a kernel."""
        return (self.exception("CompilationError"),)

    def argument_errors(self) -> tuple[type[BaseException], ...]:
        """What the runtime raises for an argument that it cannot take."""
        return (self.exception("RuntimeTypeError"),)

    def assertion_errors(self) -> tuple[type[BaseException], ...]:
        """What a failed ``assert`` in a kernel and an index out of bounds in a debug session raise."""
        return (self.exception("AssertionError"), getattr(self.core, f"{self.layout.errors}AssertionError"))


def _same_members(old: Mapping[str, Any], new: Mapping[str, Any], runtime: TaichiRuntime) -> bool:
    return list(old) == list(new) and all(
        old[name] is new[name] or runtime.same_value(old[name], new[name]) for name in new
    )


def _bind_anew(decorated: Any, bound: Any) -> None:
    """Has what a method is got from not remember it in its object: there it would be an attribute of the user's, and
    outlive the class that the object had before a reload."""

    def get(method: Any, instance: Any, owner: Any) -> Any:  # noqa: ARG001 (what `__get__` is given)
        return method if instance is None else bound(instance, method)

    decorated.__get__ = get


def _one_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
