"""What a field or ndarray was declared as: two with the same declaration may stand for one another.

A field's declaration is the way from the root to each of its members. What else lies in the same cell does not count
where the way is dense; in a sparse tree, where neighbours are activated together, the whole of it does.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tiremote.worker.engine.runtime import TaichiRuntime


def is_array(value: object, runtime: TaichiRuntime) -> bool:
    """Whether this is a field or an ndarray."""
    return runtime.is_field(value) or runtime.is_ndarray(value)


def declaration(value: Any, runtime: TaichiRuntime) -> tuple[Any, ...] | None:
    """What can be compared of it; None for a field that has no place yet."""
    if runtime.is_ndarray(value):
        return (
            type(value),
            str(value.element_type),
            tuple(value.shape),
            str(value.layout),
            value.grad is not None,
        )
    found: list[Any] = [type(value), getattr(value, "n", None), getattr(value, "m", None), getattr(value, "ndim", None)]
    for where, member in members(value, runtime):
        node = member.ptr.snode()
        if node is None:
            if where.startswith("primal"):
                return None
            continue
        found.append((where, *_way(node)))
    return tuple(found)


def members(field: Any, runtime: TaichiRuntime) -> Iterator[tuple[str, Any]]:
    """Every member expression of a field with its place in it, those of its gradients too."""
    for kind, each in (("primal", field), ("grad", field.grad), ("dual", field.dual)):
        if each is not None:
            yield from _members(kind, each, runtime)


def _members(where: str, field: Any, runtime: TaichiRuntime) -> Iterator[tuple[str, Any]]:
    if runtime.is_struct_field(field):
        for name, each in field.field_dict.items():
            if each is not None:
                yield from _members(f"{where}.{name}", each, runtime)
        return
    for number, member in enumerate(field.vars):
        if member is not None:
            yield f"{where}.{number}", member


def parts(field: Any, other: Any, runtime: TaichiRuntime) -> Iterator[tuple[Any, Any]]:
    """The pairs of fields that two equally declared fields consist of, themselves first."""
    yield field, other
    if runtime.is_ndarray(field):
        if field.grad is not None:
            yield field.grad, other.grad
        return
    for mine, theirs in ((field.grad, other.grad), (field.dual, other.dual)):
        if mine is not None and theirs is not None:
            yield from parts(mine, theirs, runtime)
    if runtime.is_struct_field(field):
        for name, each in field.field_dict.items():
            if each is not None and other.field_dict[name] is not None:
                yield from parts(each, other.field_dict[name], runtime)


def ancestors(node: Any) -> list[Any]:
    """The nodes above a place, nearest first, without the root."""
    found = []
    above = node.parent
    while above is not None and above.parent is not None:
        found.append(above)
        above = above.parent
    return found


def is_sparse(node: Any) -> bool:
    """Whether a place lies below anything but dense blocks."""
    return any(_kind(each) != "dense" for each in ancestors(node))


def leaves(node: Any) -> Iterator[int]:
    """The ids of the places below a node, its own if it is one."""
    if node.is_place():
        yield int(node.id)
    for index in range(node.get_num_ch()):
        yield from leaves(node.get_ch(index))


def _way(node: Any) -> tuple[Any, ...]:
    above = ancestors(node)
    way = tuple(_block(each) for each in above)
    whole = _structure(above[-1]) if is_sparse(node) else ()
    return (node.data_type().to_string(), tuple(node.offset), _sizes(node), way, whole)


def _block(node: Any) -> tuple[Any, ...]:
    return (_kind(node), _sizes(node))


def _structure(node: Any) -> tuple[Any, ...]:
    inside = tuple(_structure(node.get_ch(index)) for index in range(node.get_num_ch()))
    kind = node.data_type().to_string() if node.is_place() else ""
    return (*_block(node), kind, inside)


def _kind(node: Any) -> str:
    return str(node.type).rpartition(".")[2]


def _sizes(node: Any) -> tuple[tuple[int, int], ...]:
    axes = [axis for axis in node.get_physical_index_position() if axis >= 0]
    return tuple((axis, node.get_shape_along_axis(number)) for number, axis in enumerate(axes))
