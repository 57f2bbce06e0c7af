"""A root that gives each block declared on it a tree of its own, for as long as a reload's text is executed.

A reload declares every field again, and most of these are thrown away for those of the version before. Fields of one
tree are only freed together: in Taichi's single root, one new field would hold the memory of all that were thrown away.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tiremote.worker.engine.runtime import TaichiRuntime

#: Trees are few (512 in all): a text that declares more blocks than this has the others in one tree.
MAX_PARTS = 128


class RootSplitter:
    """Makes split roots. One for each runtime."""

    def __init__(self, runtime: TaichiRuntime) -> None:
        self._runtime = runtime
        self._class: type[Any] | None = None

    @contextlib.contextmanager
    def __call__(self) -> Iterator[None]:
        """While it lasts ``ti.root`` is split. It does nothing where something half-declared waits in the root."""
        impl = self._runtime.impl
        before = impl._root_fb
        if not before.empty or before.finalized:
            yield
            return
        builders = self._runtime.module(self._runtime.layout.next_root)
        plain = builders.FieldsBuilder
        made = self._split_class()
        self._runtime.state.unfinalized_fields_builder.pop(before, None)
        impl._root_fb = made()
        # Taichi makes the next root by this name when a launch has allocated the one before.
        builders.FieldsBuilder = made
        try:
            yield
        finally:
            builders.FieldsBuilder = plain

    def settle(self, discarded: Collection[int]) -> None:
        """Drops what is declared and not allocated and has no field but the discarded (ids of members); allocates the
        rest, unless it is incomplete, and gives Taichi a plain root again."""
        runtime, impl = self._runtime, self._runtime.impl
        # Taichi's list of what is to be checked before the next launch would hold them.
        self._forget_pending(discarded)
        parts = getattr(impl._root_fb, "parts", None)
        if parts is None:
            return
        for part in list(parts):
            members = [member for each in runtime.trees.members(part.ptr) if (member := each()) is not None]
            if members and all(id(member) in discarded for member in members):
                parts.remove(part)
        if parts and runtime.has_unplaced_fields():
            return
        if parts:
            runtime.materialize()
        runtime.state.unfinalized_fields_builder.pop(impl._root_fb, None)
        impl._root_fb = runtime.fields_builder_class()()

    def _forget_pending(self, members: Collection[int]) -> None:
        state = self._runtime.state
        for name in ("global_vars", "grad_vars", "dual_vars"):
            setattr(state, name, [each for each in getattr(state, name) if id(each) not in members])
        state.matrix_fields = [
            each for each in state.matrix_fields if not any(id(member) in members for member in each.vars)
        ]

    def _split_class(self) -> type[Any]:
        if self._class is None:
            self._class = _split(self._runtime.fields_builder_class(), self._runtime)
        return self._class


def _split(plain: Any, runtime: TaichiRuntime) -> type[Any]:
    class SplitRoot(plain):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.parts: list[Any] = []

        def _next(self) -> Any:
            self._check_not_finalized()
            self.empty = False
            if len(self.parts) < MAX_PARTS:
                part = plain()
                # Taichi refuses a launch while a builder other than its root is not finalised.
                runtime.state.unfinalized_fields_builder.pop(part)
                self.parts.append(part)
            return self.parts[-1]

        def dense(self, *args: Any, **kwargs: Any) -> Any:
            return self._next().dense(*args, **kwargs)

        def pointer(self, *args: Any, **kwargs: Any) -> Any:
            return self._next().pointer(*args, **kwargs)

        def dynamic(self, *args: Any, **kwargs: Any) -> Any:
            return self._next().dynamic(*args, **kwargs)

        def bitmasked(self, *args: Any, **kwargs: Any) -> Any:
            return self._next().bitmasked(*args, **kwargs)

        def quant_array(self, *args: Any, **kwargs: Any) -> Any:
            return self._next().quant_array(*args, **kwargs)

        def place(self, *args: Any, **kwargs: Any) -> Any:
            return self._next().place(*args, **kwargs)

        def lazy_grad(self) -> None:
            for part in self.parts:
                part.lazy_grad()

        def lazy_dual(self) -> None:
            for part in self.parts:
                part.lazy_dual()

        def _allocate_adjoint_checkbit(self) -> None:
            for part in self.parts:
                part._allocate_adjoint_checkbit()

        def _finalize(self, raise_warning: bool, compile_only: bool) -> Any:
            if not self.parts:
                return super()._finalize(raise_warning, compile_only)
            self._check_not_finalized()
            self.finalized = True
            runtime.state.finalize_fields_builder(self)
            for part in self.parts:
                runtime.state.initialize_fields_builder(part)
                part._finalize(raise_warning, compile_only)
            return None

    return SplitRoot
