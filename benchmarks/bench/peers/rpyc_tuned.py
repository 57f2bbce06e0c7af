"""RPyC without zlib, with whole pieces written and many calls under way: for arrays a hundred times its default."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import rpyc
from rpyc.core.channel import Channel
from rpyc.core.stream import SocketStream

from bench.peers import Peer, pieces
from bench.processes import server
from bench.served import Served

#: Measured: of 0.25, 1 and 4 MiB, with writes of 0.25 to 8 MiB, the fastest.
_PIECE = 1 << 20


class Client:
    """The root of a connection."""

    def __init__(self, root: Any, large: int) -> None:
        self._root = root
        self._large = large
        self._put_piece, self._fetch_piece = rpyc.async_(root.put_piece), rpyc.async_(root.fetch_piece)
        self._call = root.call

    def call(self) -> None:
        """One method call."""
        self._call()

    def put(self, values: np.ndarray) -> None:
        """In pieces that do not wait for one another."""
        data = values.view(np.uint8)
        under_way = [
            self._put_piece(start, data[start:stop].tobytes()) for start, stop in pieces(values.nbytes, _PIECE)
        ]
        for each in under_way:
            each.wait()
        self._root.put_staged()

    def fetch(self) -> np.ndarray:
        """Likewise."""
        values = np.empty(self._large, np.float32)
        flat = values.view(np.uint8)
        self._root.fetch_staged()
        places = pieces(values.nbytes, _PIECE)
        for (start, stop), each in zip(places, [self._fetch_piece(*place) for place in places], strict=True):
            flat[start:stop] = np.frombuffer(each.value, np.uint8)
        return values


@contextmanager
def start(arch: str, large: int) -> Iterator[Peer]:
    """Over tcp loopback."""
    _tune()
    with server(_serve, arch, large) as port:
        connection = rpyc.connect_stream(
            SocketStream.connect("127.0.0.1", port, nodelay=True), config={"sync_request_timeout": 60}
        )
        with connection:
            yield Client(connection.root, large)


def _tune() -> None:
    Channel.COMPRESSION_THRESHOLD = 1 << 40
    Channel.COMPRESSION_THRESHOLD = 1 << 40
    SocketStream.MAX_IO_CHUNK = _PIECE


def _serve(ready: Callable[[Any], None], arch: str, large: int) -> None:
    _tune()
    served = Served(arch, large)
    served.begin()

    class Exposed(rpyc.Service):  # type: ignore[misc]
        exposed_call = served.call
        exposed_put_piece = served.put_piece
        exposed_put_staged = served.put_staged
        exposed_fetch_staged = served.fetch_staged
        exposed_fetch_piece = served.fetch_piece

    with socket.create_server(("127.0.0.1", 0)) as listening:
        ready(listening.getsockname()[1])
        accepted, _ = listening.accept()
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # On this thread, as Taichi needs it.
        rpyc.connect_stream(SocketStream(accepted), service=Exposed()).serve_all()
