"""A worker's status, and the end of a session, for somebody who opens none: no engine is started for a look."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from tiremote.client.exchange import Exchange
from tiremote.client.keys import load_keys
from tiremote.client.link import Link
from tiremote.protocol.messages import Bye, Status
from tiremote.protocol.results import ByeResult, WorkerStatus

#: Seconds to wait for a worker's first sign of life.
_PATIENCE = 5.0


def ask_status(
    url: str,
    *,
    key: str | os.PathLike[str] | None = None,
    server_key: str | os.PathLike[str] | None = None,
    timeout: float | None = None,
) -> WorkerStatus:
    """``timeout``: seconds to wait for the worker's first sign of life, by default 5.

    Raises `WorkerUnreachable`, `Unauthorized`, and `ValueError` for what is no key.
    """
    with _exchange(url, key, server_key, timeout) as exchange:
        return exchange.call(Status(id=""), WorkerStatus)


def end_session(
    url: str,
    session: str,
    *,
    key: str | os.PathLike[str] | None = None,
    server_key: str | os.PathLike[str] | None = None,
    timeout: float | None = None,
) -> None:
    """Ends a session by its id or name, with everything in it. Raises `UnknownName`, and as `ask_status` does."""
    with _exchange(url, key, server_key, timeout) as exchange:
        exchange.call(Bye(id="", end=True, session=session), ByeResult)


@contextlib.contextmanager
def _exchange(
    url: str,
    key: str | os.PathLike[str] | None,
    server_key: str | os.PathLike[str] | None,
    timeout: float | None,
) -> Iterator[Exchange]:
    link = Link(url, quiet_limit=timeout or _PATIENCE, keys=load_keys(key, server_key))
    exchange = Exchange(link, on_output=None)
    try:
        yield exchange
    finally:
        exchange.close()
