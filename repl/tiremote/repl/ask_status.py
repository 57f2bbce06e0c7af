"""A worker's status, and the end of a session, for somebody who opens none: no engine is started for a look."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from tiremote.client import Session
from tiremote.client.exchange import Exchange
from tiremote.client.keys import CurveKeys, load_keys
from tiremote.client.link import Link
from tiremote.protocol.messages import Bye, Status
from tiremote.protocol.results import ByeResult, SessionLine, WorkerStatus

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
    with _exchange(url, load_keys(key, server_key), timeout) as exchange:
        return exchange.call(Status(id=""), WorkerStatus)


def sessions_beside(gpu: Session) -> tuple[SessionLine, ...]:
    """All sessions of its worker that may be seen, its own among them. Raises as `ask_status` does."""
    keys = gpu._opening.keys if gpu._opening is not None else None
    # Asked as somebody who has none: a session is told of itself alone.
    with _exchange(gpu.address, keys) as exchange:
        return exchange.call(Status(id=""), WorkerStatus).listed


def end_session(
    url: str,
    session: str,
    *,
    key: str | os.PathLike[str] | None = None,
    server_key: str | os.PathLike[str] | None = None,
    timeout: float | None = None,
) -> None:
    """Ends a session by its id or name, with everything in it. Raises `UnknownName`, and as `ask_status` does."""
    with _exchange(url, load_keys(key, server_key), timeout) as exchange:
        exchange.call(Bye(id="", end=True, session=session), ByeResult)


@contextlib.contextmanager
def _exchange(url: str, keys: CurveKeys | None, timeout: float | None = None) -> Iterator[Exchange]:
    exchange = Exchange(Link(url, quiet_limit=timeout or _PATIENCE, keys=keys), on_output=None)
    try:
        yield exchange
    finally:
        exchange.close()
