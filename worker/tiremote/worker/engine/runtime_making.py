"""The part of the seam to Taichi that makes arrays for clients; `ArrayRuntime` inherits it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tiremote.worker.engine.runtime_modules import RuntimeModules

_MADE = "_tiremote_made"


class MakingRuntime(RuntimeModules):
    """New arrays of zeros; shapes were checked before."""

    if TYPE_CHECKING:

        def dtype_object(self, name: str) -> Any: ...

    def is_made_here(self, field: Any) -> bool:
        """Whether `make_field` has made it."""
        return _MADE in field.__dict__

    def make_ndarray(self, dtype: str, shape: tuple[int, ...], element_shape: tuple[int, ...], needs_grad: bool) -> Any:
        """A new ndarray."""
        return self.ti.ndarray(self._element_type(dtype, element_shape), shape, needs_grad=needs_grad)

    def make_field(
        self,
        dtype: str,
        shape: tuple[int, ...],
        element_shape: tuple[int, ...],
        needs_grad: bool,
        needs_dual: bool = False,
    ) -> Any:
        """A new field in an SNode tree of its own, so that it can be given back alone."""
        made = self.ti.field(self._element_type(dtype, element_shape), needs_grad=needs_grad, needs_dual=needs_dual)
        self._place(shape, made, *[made.grad] * needs_grad, *[made.dual] * needs_dual)
        made.__dict__[_MADE] = True
        return made

    def make_struct_field(self, members: Mapping[str, Any], shape: tuple[int, ...]) -> Any:
        """A new field of structs, likewise; ``members`` are (dtype, element shape) or members again."""
        made = self.ti.Struct.field(self._member_types(members))
        self._place(shape, made)
        return made

    def _place(self, shape: tuple[int, ...], *fields: Any) -> None:
        # Not before it is known that there can be such a field: one that is not finished is in the way of every launch.
        builder = self.ti.FieldsBuilder()
        for each in fields:
            # A 0-d field is placed at the root itself.
            (builder.dense(self.ti.axes(*range(len(shape))), shape) if shape else builder).place(each)
        builder.finalize()

    def _member_types(self, members: Mapping[str, Any]) -> dict[str, Any]:
        return {
            name: self.ti.types.struct(**self._member_types(each))
            if isinstance(each, Mapping)
            else self._element_type(*each)
            for name, each in members.items()
        }

    def _element_type(self, dtype: str, element_shape: Sequence[int]) -> Any:
        scalar = self.dtype_object(dtype)
        if not element_shape:
            return scalar
        if len(element_shape) == 1:
            return self.ti.types.vector(element_shape[0], scalar)
        return self.ti.types.matrix(*element_shape, scalar)
