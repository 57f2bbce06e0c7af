"""The seam to Taichi: with its halves beside it, the only way to what it imports.

A `TaichiRuntime` stands for one of the runtimes of the family: ``taichi``, ``gstaichi``, ``quadrants``.
Nothing is imported before one is made, and a process makes at most one. Every method must be called on the thread
that called `TaichiRuntime.init`.
"""

from __future__ import annotations

import contextlib
import copy
import gc
import io
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tiremote.protocol.errors import Refused
from tiremote.worker.engine import (
    backend_faults,
    compile_hooks,
    debug_duals,
    definition_places,
    fatal_classes,
    graph_arguments,
    index_guard,
    launch_memory,
    return_hooks,
    source_hooks,
    tape_modes,
)
from tiremote.worker.engine.baked import BakedValues
from tiremote.worker.engine.device import cpu_name, cuda_device_name
from tiremote.worker.engine.half_declared import Snapshot, has_unplaced_fields, leave_kernel, take_snapshot
from tiremote.worker.engine.init_guard import InitGuard
from tiremote.worker.engine.options import check_options
from tiremote.worker.engine.outside import Outside
from tiremote.worker.engine.quiet import silenced
from tiremote.worker.engine.runtime_kernels import KernelRuntime
from tiremote.worker.engine.snode_trees import SNodeTrees
from tiremote.worker.engine.split_root import RootSplitter
from tiremote.worker.engine.vulkan_devices import gpu_names, load_vulkan

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


class TaichiRuntime(KernelRuntime):
    """One imported runtime. ``ti`` is its module, ``tm`` its ``math``."""

    def __init__(self, name: str = "taichi") -> None:
        super().__init__(name)
        self.compile_clock = compile_hooks.install(self)
        source_hooks.install(self)
        definition_places.install(self)
        launch_memory.install(self)
        return_hooks.install(self)
        index_guard.install(self)
        debug_duals.install(self)
        tape_modes.install(self)
        fatal_classes.install(self)
        graph_arguments.install(self)
        self.trees = SNodeTrees(self)
        self.split_root = RootSplitter(self)
        self.guard_init = InitGuard(self)
        self.baked = BakedValues(self)
        #: Where an engine has it: it cannot be taken out of a process again.
        self.outside: Outside | None = None
        self.info: RuntimeInfo | None = None

    # Starting ---------------------------------------------------------------------------------------------

    def init(self, options: Mapping[str, Any] | None = None) -> RuntimeInfo:
        """Starts the runtime with a session's options; ``arch`` is ``auto`` where it is not given.

        Raises `Refused` for an option that is unknown or of a bad value, and for an arch that is not there.
        """
        checked = check_options(dict(options or {}), self.layout.flags)
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
        backend_faults.install(self, real)
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

    def is_destroyed(self, field: Any) -> bool:
        """Whether the source's own code has destroyed the tree that a field was in: it can be neither read nor used."""
        return not self.is_struct_field(field) and self.trees.is_destroyed(field)

    def is_started(self) -> bool:
        return getattr(self.state, self.layout.program) is not None

    def _choose_arch(self, asked: str) -> str:
        if asked == "auto":
            return next((arch for arch in _GPUS if self.has_arch(arch) and _is_on_gpu(arch)), "cpu")
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
        if arch == "vulkan" and len(names := gpu_names(load_vulkan()) or ()) == 1:
            return names[0]
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
        if self.matrix_values(value) is None:
            return otherwise
        # Not a deepcopy of the value: some runtimes make none without its numbers.
        made = object.__new__(type(value))
        vars(made).update(copy.deepcopy(vars(value)))
        return made

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


def _is_on_gpu(arch: str) -> bool:
    """Whether an arch that is there has a GPU behind it, as far as that can be told."""
    return arch != "vulkan" or gpu_names(load_vulkan()) != ()


def _one_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
