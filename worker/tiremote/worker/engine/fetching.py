"""What a client may fetch at one time."""

from __future__ import annotations

from tiremote.protocol.errors import PayloadTooLarge
from tiremote.protocol.messages import Fetch
from tiremote.protocol.results import Limits
from tiremote.worker.engine.signature import ArrayMeta


def check_size(request: Fetch, meta: ArrayMeta, name: str, limits: Limits) -> None:
    """Refuses a whole that is too large for a frame before it is read; parts are bounded by what was asked.

    ``name`` is what the array is called in the error, a `PayloadTooLarge`.
    """
    limit = limits.buffer_bytes
    size = meta.nbytes if request.region is None else 0
    if request.flat is not None:
        size = max(request.flat[1] - request.flat[0], 0) * meta.itemsize
    if size > limit:
        raise PayloadTooLarge(
            f"{name} has {size} bytes, at most {limit} go in one answer: fetch flat ranges",
            size=size,
            limit=limit,
        )
