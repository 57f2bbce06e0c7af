"""What a load that fails may leave behind in Taichi, and how it is taken away again.

A failed text leaves kernels in the register, fields without a place (every later launch of any kernel then
fails), SNodes without children, and, when it failed in the middle of a compile, a runtime that believes to be
inside a kernel.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tiremote.worker.engine.snode_trees import is_allocatable

if TYPE_CHECKING:
    from tiremote.worker.engine.runtime import TaichiRuntime

#: Lists of what is declared and not yet allocated.
_PENDING = ("global_vars", "grad_vars", "dual_vars", "matrix_fields")
#: Where a compile or a tape stands.
_POSITION = (
    "inside_kernel",
    "compiling_callable",
    "current_kernel",
    "target_tape",
    "fwd_mode_manager",
    "grad_replaced",
)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The half-declared state of a runtime at one moment."""

    kernels: tuple[Any, ...]
    pending: dict[str, tuple[Any, ...]]
    position: dict[str, Any]
    source_info: tuple[Any, ...]
    builders: tuple[Any, ...]
    root: Any
    root_was_empty: bool

    def restore(self, runtime: TaichiRuntime) -> None:
        """Takes away what came since. What was declared before stays, allocated meanwhile or not."""
        state = runtime.state
        before_the_load = {id(kernel) for kernel in self.kernels}
        runtime.unregister_kernels(lambda kernel: id(kernel) not in before_the_load)
        for name, value in self.position.items():
            setattr(state, name, value)
        state.src_info_stack[:] = self.source_info
        for name, before in self.pending.items():
            now = getattr(state, name)
            setattr(state, name, [each for each in now if _holds(before, each)])
        for builder in list(state.unfinalized_fields_builder):
            if not _holds(self.builders, builder):
                del state.unfinalized_fields_builder[builder]
        root = runtime.impl._root_fb
        if root is self.root and not self.root_was_empty and not root.finalized:
            return
        if root is self.root and root.empty and not root.finalized:
            return
        state.unfinalized_fields_builder.pop(root, None)
        runtime.impl._root_fb = runtime.fields_builder_class()()


def take_snapshot(runtime: TaichiRuntime) -> Snapshot:
    """Allocates what is completely declared, so that a failing text cannot spoil it, and notes the rest."""
    state = runtime.state
    if _is_complete(runtime):
        runtime.materialize()
    return Snapshot(
        kernels=tuple(state.kernels),
        pending={name: tuple(getattr(state, name)) for name in _PENDING},
        position={name: getattr(state, name) for name in _POSITION},
        source_info=tuple(state.src_info_stack),
        builders=tuple(state.unfinalized_fields_builder),
        root=runtime.impl._root_fb,
        root_was_empty=bool(runtime.impl._root_fb.empty),
    )


def leave_kernel(runtime: TaichiRuntime) -> None:
    """Puts the runtime where it stands when nothing is compiled and nothing recorded."""
    state = runtime.state
    state.inside_kernel = state.grad_replaced = False
    state.compiling_callable = state.current_kernel = None
    state.target_tape = state.fwd_mode_manager = None
    state.src_info_stack.clear()


def has_unplaced_fields(runtime: TaichiRuntime) -> bool:
    """Whether a launch would fail now because something is declared and not placed, or a builder not finalised."""
    state = runtime.state
    root = runtime.impl._root_fb
    waiting = [each for name in _PENDING[:3] for each in getattr(state, name)]
    if any(member.ptr.snode() is None for member in waiting):
        return True
    if any(builder is not root for builder in state.unfinalized_fields_builder):
        return True
    return not root.finalized and not root.empty and not is_allocatable(root)


def _is_complete(runtime: TaichiRuntime) -> bool:
    root = runtime.impl._root_fb
    return bool(
        not root.empty and not root.finalized and runtime.state.global_vars and not has_unplaced_fields(runtime)
    )


def _holds(items: tuple[Any, ...], wanted: object) -> bool:
    # Fields and expressions overload ==.
    return any(item is wanted for item in items)
