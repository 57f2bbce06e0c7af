"""What somebody writes in an afternoon: a ROUTER that launches by itself, and pieces of 4 MiB."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import zmq

from bench.peers import Peer, pieces
from bench.processes import server
from bench.served import Served


class Client:
    """A DEALER whose messages name what to do."""

    def __init__(self, socket: zmq.Socket[bytes], large: int) -> None:
        self._socket = socket
        self._large = large

    def call(self) -> None:
        """Asks, and waits."""
        self._socket.send(b"call")
        self._socket.recv()

    def put(self, values: np.ndarray) -> None:
        """All pieces at once; one answer to the last."""
        data = values.data.cast("B")
        for start, stop in pieces(len(data)):
            self._socket.send_multipart([b"piece", str(start).encode(), data[start:stop]], copy=False)
        self._socket.send(b"staged")
        self._socket.recv()

    def fetch(self) -> np.ndarray:
        """All pieces, as they come."""
        values = np.empty(self._large, np.float32)
        flat = values.view(np.uint8)
        self._socket.send(b"fetch")
        for start, stop in pieces(values.nbytes):
            flat[start:stop] = np.frombuffer(self._socket.recv(copy=False).buffer, np.uint8)
        return values


@contextmanager
def start(arch: str, large: int) -> Iterator[Peer]:
    """Over tcp loopback."""
    with server(_serve, arch, large) as address, zmq.Context() as context, context.socket(zmq.DEALER) as socket:
        socket.linger = 0
        socket.sndhwm = socket.rcvhwm = 0
        socket.connect(address)
        yield Client(socket, large)


def _serve(ready: Callable[[Any], None], arch: str, large: int) -> None:
    served = Served(arch, large)
    served.begin()
    with zmq.Context() as context, context.socket(zmq.ROUTER) as socket:
        socket.sndhwm = socket.rcvhwm = 0
        ready(f"tcp://127.0.0.1:{socket.bind_to_random_port('tcp://127.0.0.1')}")
        while True:
            client, what, *rest = socket.recv_multipart(copy=False)
            match what.bytes:
                case b"call":
                    served.call()
                    socket.send_multipart([client.bytes, b""])
                case b"piece":
                    served.put_piece(int(rest[0].bytes), rest[1].buffer)
                case b"staged":
                    served.put_staged()
                    socket.send_multipart([client.bytes, b""])
                case b"fetch":
                    data = served.fetch().data.cast("B")
                    for first, stop in pieces(len(data)):
                        socket.send_multipart([client.bytes, data[first:stop]], copy=False)
