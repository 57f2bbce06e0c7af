"""A worker's status for somebody who opens no session: an engine is not started for a look."""

from __future__ import annotations

import os

from tiremote.client.exchange import Exchange
from tiremote.client.keys import load_keys
from tiremote.client.link import Link
from tiremote.protocol.messages import Status
from tiremote.protocol.results import WorkerStatus

#: Seconds to wait for a worker's first sign of life.
_PATIENCE = 5.0


def ask_status(
    url: str, *, key: str | os.PathLike[str] | None = None, server_key: str | os.PathLike[str] | None = None
) -> WorkerStatus:
    """Raises `WorkerUnreachable`, `Unauthorized`, and `ValueError` for what is no key."""
    exchange = Exchange(Link(url, quiet_limit=_PATIENCE, keys=load_keys(key, server_key)), on_output=None)
    try:
        return exchange.call(Status(id=""), WorkerStatus)
    finally:
        exchange.close()
