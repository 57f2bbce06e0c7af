"""The array that a client's `Alloc` asks for."""

from __future__ import annotations

from typing import Any

from tiremote.protocol.errors import KernelArgumentError
from tiremote.protocol.messages import Alloc
from tiremote.worker.engine.arrays import Arrays


def make_array(request: Alloc, arrays: Arrays) -> Any:
    """Makes it, of zeros. Raises as `Arrays` does."""
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
