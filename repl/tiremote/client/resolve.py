"""Host names, looked up once before ZeroMQ does, which would try a name that does not exist for ever."""

from __future__ import annotations

import re
import socket
import threading

from tiremote.protocol.errors import WorkerUnreachable

_HOST = re.compile(r"tcp://\[?([^\]]+?)\]?:(\d+)")


def needs_ipv6(address: str, patience: float) -> bool:
    """Whether the host of a ``tcp://`` address has IPv6 addresses only.

    Raises `WorkerUnreachable` where the name is unknown; a look-up that takes longer than ``patience`` seconds is
    left to ZeroMQ.
    """
    matched = _HOST.fullmatch(address)
    if matched is None:
        return False
    found: list[socket.AddressFamily] = []
    failed: list[str] = []

    def look_up() -> None:
        try:
            found.extend(each[0] for each in socket.getaddrinfo(matched[1], int(matched[2]), type=socket.SOCK_STREAM))
        except OSError as error:
            failed.append(error.strerror or str(error))

    # A look-up cannot be given a time, so it gets a thread.
    thread = threading.Thread(target=look_up, daemon=True)
    thread.start()
    thread.join(patience)
    if failed:
        raise WorkerUnreachable(f"the host {matched[1]!r} of {address} is not found: {failed[0]}; check its spelling")
    return bool(found) and socket.AF_INET not in found
