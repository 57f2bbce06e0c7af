"""The floor of any message there and back over ZeroMQ: 64 bytes between two processes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import zmq

from bench.processes import server

#: Bytes of a message.
SIZE = 64


class Echo:
    """A DEALER here and a ROUTER in another process, over tcp loopback."""

    def __init__(self) -> None:
        self._stack = ExitStack()

    def __enter__(self) -> Echo:
        address = self._stack.enter_context(server(_serve))
        context: zmq.Context[zmq.Socket[bytes]] = self._stack.enter_context(zmq.Context())
        self._socket = self._stack.enter_context(context.socket(zmq.DEALER))
        self._socket.linger = 0
        self._socket.connect(address)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def call(self) -> None:
        """There and back."""
        self._socket.send(b"x" * SIZE)
        self._socket.recv()


def _serve(ready: Callable[[Any], None]) -> None:
    with zmq.Context() as context, context.socket(zmq.ROUTER) as socket:
        ready(f"tcp://127.0.0.1:{socket.bind_to_random_port('tcp://127.0.0.1')}")
        while True:
            socket.send_multipart(socket.recv_multipart())
