"""The array that a client's `Alloc` asks for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from tiremote.protocol.errors import KernelArgumentError
from tiremote.protocol.messages import Alloc
from tiremote.worker.engine.arrays import Arrays

if TYPE_CHECKING:
    from tiremote.worker.engine.runtime import TaichiRuntime


def make_array(request: Alloc, arrays: Arrays, runtime: TaichiRuntime) -> Any:
    """Makes it, of zeros. Raises as `Arrays` does."""
    if request.members is not None:
        return _make_struct_field(request, request.members, arrays, runtime)
    what = request.dtype, request.shape, request.element_shape, request.needs_grad
    if request.kind == "field":
        return arrays.create_field(*what, needs_dual=request.needs_dual)
    if request.needs_dual:
        raise KernelArgumentError(
            f"needs_dual=True came for an {request.kind}: Taichi's forward mode is for fields alone",
            parameter="needs_dual",
        )
    make = {"ndarray": arrays.create_ndarray, "array": arrays.create_host_array}
    return make[request.kind](*what)


def _make_struct_field(request: Alloc, members: Mapping[str, Any], arrays: Arrays, runtime: TaichiRuntime) -> Any:
    """All members share a tree."""
    metas = [arrays.checked_meta(dtype, request.shape, element, False) for dtype, element in _numbers_in(members)]
    arrays.check_memory(sum(meta.nbytes for meta in metas))
    arrays.make_room_for_tree()
    return runtime.make_struct_field(members, request.shape)


def _numbers_in(members: Mapping[str, Any]) -> Iterator[tuple[str, list[int]]]:
    for member in members.values():
        if isinstance(member, Mapping):
            yield from _numbers_in(member)
        else:
            yield member[0], member[1]
