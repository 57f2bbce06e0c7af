"""What a load that fails may leave behind in Taichi, and how it is taken away again.

A failed text leaves kernels in the register, fields without a place (every later launch of any kernel then
fails), SNodes without children, and, when it failed in the middle of a compile, a runtime that believes to be
inside a kernel.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tiremote.worker.engine.snode_trees import is_allocatable

if TYPE_CHECKING:
    from tiremote.worker.engine.runtime import TaichiRuntime

#: Lists of what is declared and not yet allocated.
_PENDING = ("global_vars", "grad_vars", "dual_vars", "matrix_fields")
#: Where a compile or a tape stands, beside what the layout names; and where nothing is compiled and nothing recorded.
_POSITION = {"inside_kernel": False, "grad_replaced": False, "target_tape": None, "fwd_mode_manager": None}


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


@dataclass(frozen=True, slots=True)
class Waiting:
    """What one version of a unit declared and left without a place: until it has one, no kernel of anybody runs."""

    members: tuple[weakref.ref[Any], ...] = ()
    builders: tuple[weakref.ref[Any], ...] = ()
    root: weakref.ref[Any] | None = None
    placed: tuple[weakref.ref[Any], ...] = ()

    def set_aside(self, runtime: TaichiRuntime) -> Callable[[], None]:
        """Takes away what waits still, for good or until the function that it gives is called."""
        state, impl = runtime.state, runtime.impl
        before = {name: getattr(state, name) for name in _PENDING}
        builders = dict(state.unfinalized_fields_builder)
        root = impl._root_fb
        gone = {id(each) for each in _living(self.members) if each.ptr.snode() is None}
        for builder in _living(self.builders):
            if builder in builders:
                del state.unfinalized_fields_builder[builder]
                gone |= {id(each) for each in _living(runtime.trees.members(builder.ptr))}
        mine = self.root() if self.root is not None else None
        if mine is not None and mine is root and not mine.finalized and not is_allocatable(mine):
            inside = {id(each) for each in _living(runtime.trees.members(mine.ptr))}
            if inside <= {id(each) for each in _living(self.placed)}:
                gone |= inside
                state.unfinalized_fields_builder.pop(mine, None)
                impl._root_fb = runtime.fields_builder_class()()
        for name in _PENDING[:3]:
            setattr(state, name, [each for each in before[name] if id(each) not in gone])
        state.matrix_fields = [each for each in state.matrix_fields if not any(id(one) in gone for one in each.vars)]

        def put_back() -> None:
            for name, value in before.items():
                setattr(state, name, value)
            state.unfinalized_fields_builder.clear()
            state.unfinalized_fields_builder.update(builders)
            impl._root_fb = root

        return put_back if gone or impl._root_fb is not root or len(builders) > 1 else _nothing


def left_waiting(since: Snapshot, runtime: TaichiRuntime) -> Waiting:
    """What was declared since and has no place yet."""
    state, root = runtime.state, runtime.impl._root_fb
    members = [
        each for name in _PENDING[:3] for each in getattr(state, name)
        if each.ptr.snode() is None and not _holds(since.pending[name], each)
    ]  # fmt: skip
    builders = [
        each for each in state.unfinalized_fields_builder if each is not root and not _holds(since.builders, each)
    ]
    waits = not root.finalized and not root.empty and since.root_was_empty and not is_allocatable(root)
    return Waiting(
        members=tuple(weakref.ref(each) for each in members),
        builders=tuple(weakref.ref(each) for each in builders),
        root=weakref.ref(root) if waits else None,
        placed=tuple(runtime.trees.members(root.ptr)) if waits else (),
    )


def take_snapshot(runtime: TaichiRuntime) -> Snapshot:
    """Allocates what is completely declared, so that a failing text cannot spoil it, and notes the rest."""
    state = runtime.state
    if _is_complete(runtime):
        runtime.materialize()
    return Snapshot(
        kernels=tuple(state.kernels),
        pending={name: tuple(getattr(state, name)) for name in _PENDING},
        position={name: getattr(state, name) for name in (*_POSITION, *runtime.layout.compiling)},
        source_info=tuple(state.src_info_stack),
        builders=tuple(state.unfinalized_fields_builder),
        root=runtime.impl._root_fb,
        root_was_empty=bool(runtime.impl._root_fb.empty),
    )


def leave_kernel(runtime: TaichiRuntime) -> None:
    """Puts the runtime where it stands when nothing is compiled and nothing recorded."""
    state = runtime.state
    for name, value in (*_POSITION.items(), *((name, None) for name in runtime.layout.compiling)):
        setattr(state, name, value)
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


def _living(references: Iterable[weakref.ref[Any]]) -> list[Any]:
    return [each for reference in references if (each := reference()) is not None]


def _nothing() -> None:
    """Puts nothing back."""


def _holds(items: tuple[Any, ...], wanted: object) -> bool:
    # Fields and expressions overload ==.
    return any(item is wanted for item in items)
