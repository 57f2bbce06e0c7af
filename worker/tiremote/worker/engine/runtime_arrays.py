"""The half of the seam to Taichi that arguments and arrays go through; `TaichiRuntime` inherits it."""

from __future__ import annotations

import dataclasses
import functools
import typing
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tiremote.protocol.dtypes import DTYPES, name_of
from tiremote.protocol.errors import Refused, UnsupportedType
from tiremote.worker.engine.argpacks import mend_structs_in_packs
from tiremote.worker.engine.runtime_making import MakingRuntime
from tiremote.worker.engine.signature import (
    ArrayMeta,
    ArrayType,
    MatrixType,
    OpaqueType,
    PackType,
    ParameterType,
    ScalarType,
    StructType,
    TemplateType,
)
from tiremote.worker.engine.template_keys import told_apart
from tiremote.worker.engine.ways import Way

_META = "_tiremote_meta"


class ArrayRuntime(MakingRuntime):
    """Signatures of kernels, and everything that lies in an array."""

    kernel_class: type[Any]

    if TYPE_CHECKING:

        def is_bound_kernel(self, value: object) -> bool: ...
        def dtype_name(self, dtype: Any) -> str: ...
        def dtype_object(self, name: str) -> Any: ...
        def is_ndarray(self, value: object) -> bool: ...
        def is_field(self, value: object) -> bool: ...
        def is_destroyed(self, field: Any) -> bool: ...
        def sync(self) -> None: ...

    def __init__(self, name: str) -> None:
        super().__init__(name)
        #: Vectors and matrices that kernels were compiled with.
        self._constants: dict[Any, Any] = {}

    # Signatures -------------------------------------------------------------------------------------------

    @property
    def max_arguments(self) -> int:
        """The most arguments that one launch takes."""
        return self.layout.max_arguments

    def kernel_behind(self, target: Any) -> tuple[Any, int]:
        """The ``Kernel`` object that calling ``target`` launches, and how many leading arguments it fills itself.

        ``target`` is a decorated kernel, a kernel got from an instance, or the ``grad`` of one of them.
        """
        if isinstance(target, self.kernel_class):
            return target, 0
        owner = getattr(target, "__self__", None)
        if self.is_bound_kernel(owner):
            return owner._adjoint, 1  # type: ignore[union-attr]
        return target._primal, int(self._takes_owner(target))

    def _takes_owner(self, kernel: Any) -> bool:
        """Whether this kernel was got from an instance, which is its first argument."""
        return self.is_bound_kernel(kernel) and not getattr(kernel, "_is_staticmethod", False)

    def parameters(self, callee: Any) -> Sequence[Any]:
        """The parameters of a ``Kernel`` object or a func's, each with a ``name`` and an ``annotation``."""
        return getattr(callee, self.layout.parameters)  # type: ignore[no-any-return]

    def parameter_types(self, kernel: Any) -> tuple[tuple[str, ParameterType], ...]:
        """Name and type of every parameter of a ``Kernel`` object, ``self`` included."""
        return tuple(
            (each.name, _or_none(self.parameter_type(each.annotation), getattr(each, "optional", False)))
            for each in self.parameters(kernel)
        )

    def called_with(self, kernel: Any) -> tuple[tuple[str, ParameterType], ...]:
        """Name and type of what a caller gives to a decorated kernel, or to one got from an object."""
        return self.parameter_types(kernel._primal)[int(self._takes_owner(kernel)) :]

    def parameter_type(self, annotation: Any) -> ParameterType:
        """An annotation in our words."""
        if isinstance(annotation, self.ti.types.ndarray_type.NdarrayType):
            return self._array_type(annotation)
        if isinstance(annotation, self.lang("matrix").MatrixType):
            return MatrixType(
                dtype=self.dtype_name(annotation.dtype),
                shape=(annotation.n, annotation.m)[: annotation.ndim],
                annotation=annotation,
            )
        if isinstance(annotation, self.lang("struct").StructType):
            members = tuple((name, self.parameter_type(each)) for name, each in annotation.members.items())
            return StructType(members=members, annotation=annotation)
        if type(annotation).__name__ == "ArgPackType":
            types = self.ti.types
            mend_structs_in_packs(
                self.lang("struct").StructType,
                lambda dtype: dtype in types.primitive_types.real_types,
                types.utils.is_signed,
            )
            members = tuple((name, self.parameter_type(each)) for name, each in annotation.members.items())
            return PackType(what="argpack", members=members, annotation=annotation)
        if isinstance(annotation, type) and dataclasses.is_dataclass(annotation):
            return self._dataclass_type(annotation)
        template = self.ti.types.annotations.template
        if isinstance(annotation, template) or annotation is template:
            return TemplateType()
        for what, module, kinds in (
            ("texture", "_texture", ("TextureType", "RWTextureType")),
            ("sparse matrix builder", "impl", ("sparse_matrix_builder",)),
        ):
            if type(annotation).__name__ in kinds:
                return OpaqueType(what=what, cls=self._opaque_class(what, module))
        if typing.get_origin(annotation) is typing.Final:
            # A member of a dataclass that is compiled in.
            return TemplateType()
        try:
            return ScalarType(dtype=self.dtype_name(annotation))
        except ValueError:
            # Something that only this runtime has: whatever is kept here may be that.
            return OpaqueType(what=getattr(annotation, "__name__", str(annotation)), cls=object)

    def _dataclass_type(self, annotation: type[Any]) -> PackType:
        taken = [each for each in dataclasses.fields(annotation) if each.init]
        missing = dataclasses.MISSING
        return PackType(
            what="dataclass",
            members=tuple((each.name, self.parameter_type(each.type)) for each in taken),
            optional=frozenset(
                each.name for each in taken if (each.default, each.default_factory) != (missing, missing)
            ),
            annotation=annotation,
        )

    def _opaque_class(self, what: str, module: str) -> type:
        if what == "sparse matrix builder":
            return self.ti.linalg.SparseMatrixBuilder  # type: ignore[no-any-return]
        return self.lang(module).Texture  # type: ignore[no-any-return]

    def _array_type(self, annotation: Any) -> ArrayType:
        dtype = annotation.dtype
        if isinstance(dtype, self.lang("matrix").MatrixType):
            return ArrayType(
                dtype=None if dtype.dtype is None else self.dtype_name(dtype.dtype),
                ndim=annotation.ndim,
                element_shape=(dtype.n, dtype.m)[: dtype.ndim],
                needs_grad=annotation.needs_grad,
            )
        if dtype is not None:
            # With Python's float or int as dtype Taichi refuses every NumPy array (an AttributeError inside).
            annotation.dtype = self.lang("util").cook_dtype(dtype)
        return ArrayType(
            dtype=None if dtype is None else self.dtype_name(dtype),
            ndim=annotation.ndim,
            element_shape=None if dtype is None else (),
            needs_grad=annotation.needs_grad,
        )

    # Values -------------------------------------------------------------------------------------------------

    def matrix_values(self, value: Any) -> np.ndarray | None:
        """The numbers of a vector or matrix value, or None for anything else."""
        if issubclass(type(value), self.lang("matrix").Matrix):
            return np.asarray(value.to_numpy())
        return None

    def constant_matrix(self, values: np.ndarray) -> Any:
        """A vector or a matrix as a template argument, one object for all that are equal: its identity counts."""
        key = (values.dtype.str, values.shape, values.tobytes())
        if key not in self._constants:
            dtype = self.dtype_object(name_of(values.dtype))
            self._constants[key] = self.ti.Matrix(values.tolist(), dt=dtype)
        return self._constants[key]

    def struct_values(self, value: Any) -> Mapping[str, Any] | None:
        """The members of a struct value, each in the runtime's own type, or None for anything else."""
        if issubclass(type(value), self.lang("struct").Struct):
            return {name: value[name] for name in value.keys}
        return None

    def pack_values(self, value: Any) -> Mapping[str, Any] | None:
        """The members of an argpack or of a Python dataclass, or None for anything else."""
        if type(value).__name__.startswith("ArgPack") and issubclass(type(value), self.lang("argpack").ArgPack):
            return dict(value._ArgPack__entries)
        if dataclasses.is_dataclass(type(value)):
            return {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}
        return None

    def is_struct_field(self, value: object) -> bool:
        return issubclass(type(value), self.lang("struct").StructField)

    # Arrays -------------------------------------------------------------------------------------------------

    def array_meta(self, value: Any) -> ArrayMeta:
        """What an ndarray or a field is.

        Raises `UnsupportedType` for struct fields and quantised dtypes, `Refused` for a field without a place.
        """
        found = value.__dict__.get(_META)
        if found is not None:
            return found  # type: ignore[no-any-return]
        if self.is_struct_field(value):
            raise UnsupportedType("a struct field is no single array: name one of its members")
        if not self.is_ndarray(value) and value.vars[0].ptr.snode() is None:
            raise Refused("the field has no place yet: declare it with a shape, or place it under ti.root")
        if self.is_ndarray(value):
            element_shape = tuple(value.element_shape)
        elif isinstance(value, self.lang("matrix").MatrixField):
            element_shape = (value.n, value.m)[: value.ndim]
        else:
            element_shape = ()
        dtype = self.dtype_name(value.dtype)
        if dtype not in DTYPES:
            raise UnsupportedType(
                f"a field of the quantised type {dtype} does not travel, and has no to_numpy() either: copy it into a "
                f"field of one of {', '.join(DTYPES)} in a kernel"
            )
        meta = ArrayMeta(
            dtype=dtype,
            shape=tuple(map(int, value.shape)),
            element_shape=tuple(map(int, element_shape)),
            itemsize=DTYPES[dtype].itemsize,
        )
        value.__dict__[_META] = meta
        return meta

    def about_bytes(self, value: object) -> int:
        """What a field or ndarray weighs, gradients left out; 0 for anything else, and for what is not placed yet."""
        if not (self.is_field(value) or self.is_ndarray(value)):
            return 0
        if self.is_struct_field(value):
            return sum(self.about_bytes(each) for each in value.field_dict.values())  # type: ignore[attr-defined,misc]
        try:
            return self.array_meta(value).nbytes
        except Exception:
            return 0

    def has_grad(self, array: Any) -> bool:
        """Whether an ndarray or a field has room for its gradient."""
        return (self.is_ndarray(array) and array.grad is not None) or self._is_placed(array, "grad")

    def has_dual(self, array: Any) -> bool:
        """Whether a field has room for what forward mode computes."""
        return self._is_placed(array, "dual")

    def derivatives(self, array: Any) -> dict[str, Any]:
        """``needs_grad`` and ``needs_dual``, each True where the array was made with it."""
        if isinstance(array, np.ndarray):
            return {}
        has = {"needs_grad": self.has_grad(array), "needs_dual": self.has_dual(array)}
        return {name: True for name, there in has.items() if there}

    def _is_placed(self, field: Any, which: str) -> bool:
        # Every real field has both; without a place they are names alone.
        if not self.is_field(field) or self.is_struct_field(field):
            return False
        inside = getattr(field, which, None)
        return inside is not None and inside.vars[0].ptr.snode() is not None

    def has_placed_grad(self, value: Any) -> bool:
        """Whether a field or ndarray has a gradient that lies somewhere."""
        if self.is_ndarray(value):
            return self.has_grad(value)
        return value.grad is not None and all(each.ptr.snode() is not None for each in value.grad.vars)

    def field_offset(self, field: Any) -> tuple[int, ...]:
        """The index of a field's first element: zeros unless it was made with ``offset``."""
        offset = tuple(map(int, field.snode.ptr.offset)) or (0,) * len(field.shape)
        order = self.axis_order(field)
        return offset if order is None else tuple(offset[order.index(axis)] for axis in range(len(offset)))

    def axis_order(self, array: Any) -> tuple[int, ...] | None:
        """Which of an array's axes each axis in memory is, where it was declared with an order of its own."""
        name = self.layout.axis_order
        return None if name is None else getattr(array, name, None)

    def dense_offsets(self, field: Any) -> list[int] | None:
        """Where each member of a field lies within a cell, in bytes from the first; None where cells do not hold
        all of them, or are not all there (sparse, quantised)."""
        nodes = [self.lang("snode").SNode(member.ptr.snode()) for member in field.vars]
        cell = nodes[0].parent()
        if any(node.parent()._id != cell._id for node in nodes):
            return None
        kinds = self.core.SNodeType
        while cell is not None and cell.ptr.type != kinds.root:
            if cell.ptr.type != kinds.dense:
                return None
            cell = cell.parent()
        first = nodes[0]._offset_bytes_in_parent_cell
        return [int(node._offset_bytes_in_parent_cell - first) for node in nodes]

    def way_to(self, field: Any) -> Way | None:
        """Where a field lies in its tree; None where anything but dense blocks is between."""
        kinds = self.core.SNodeType
        # Before that nothing has a place in memory.
        self.impl.get_runtime().materialize_root_fb(False)
        node = field.vars[0].ptr.snode()
        offset, steps = 0, []
        while node.parent is not None:
            if node.type not in (kinds.place, kinds.dense):
                return None
            offset += int(node.offset_bytes_in_parent_cell)
            axes = [axis for axis in node.get_physical_index_position() if axis >= 0]
            sizes = tuple((axis, int(node.get_shape_along_axis(number))) for number, axis in enumerate(axes))
            steps.append((int(node.cell_size_bytes), sizes))
            node = node.parent
        return Way(root=int(node.id), offset=offset, steps=tuple(steps), order=self.axis_order(field))

    def max_dimensions(self) -> int:
        """The most axes of a field or ndarray, without the element's own."""
        return int(self.core.get_max_num_indices())

    def free_what_is_dropped(self) -> None:
        """Mends what keeps the memory of arrays for ever after their last reference is gone. Once is enough."""
        self._finalise_element_ndarrays()
        self._tell_templates_apart()

    def _finalise_element_ndarrays(self) -> None:
        # Scalar ndarrays have a finaliser; vector and matrix ones were forgotten.
        def delete(ndarray: Any) -> None:
            state = self.impl and self.impl.get_runtime()  # modules are None while the interpreter ends
            if ndarray.arr is not None and state is not None and state.prog is not None:
                state.prog.delete_ndarray(ndarray.arr)

        for cls in (self.lang("matrix").VectorNdarray, self.lang("matrix").MatrixNdarray):
            if not hasattr(cls, "__del__"):
                cls.__del__ = delete

    def _tell_templates_apart(self) -> None:
        fields = (self.lang("field").Field, self.lang("matrix").MatrixField, self.lang("struct").StructField)
        for module, name in self.layout.features:
            *classes, function = name.split(".")
            place = functools.reduce(getattr, classes, self.module(module))
            extract = getattr(place, function)
            if not hasattr(extract, "__wrapped__"):
                ours = told_apart(extract, fields)
                setattr(place, function, staticmethod(ours) if classes else ours)


def _or_none(kind: ParameterType, optional: bool) -> ParameterType:
    return dataclasses.replace(kind, optional=True) if optional and isinstance(kind, ArrayType) else kind
