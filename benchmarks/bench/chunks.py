"""The floor of an array over ZeroMQ: chunks between two buffers in two processes, and nothing else."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import numpy as np
import zmq

from bench.processes import server

#: Bytes of a chunk, of which the fastest is taken.
SIZES = (1 << 20, 2 << 20, 4 << 20, 8 << 20, 16 << 20, 64 << 20)


class Chunks:
    """A DEALER here and a ROUTER in another process, over tcp loopback, with a buffer of ``nbytes`` there."""

    def __init__(self, nbytes: int) -> None:
        self._nbytes = nbytes
        self._stack = ExitStack()
        #: The chunk of each direction, as `choose` found it.
        self.size = {"put": 4 << 20, "fetch": 4 << 20}

    def __enter__(self) -> Chunks:
        address = self._stack.enter_context(server(_serve, self._nbytes))
        context: zmq.Context[zmq.Socket[bytes]] = self._stack.enter_context(zmq.Context())
        self._socket = self._stack.enter_context(context.socket(zmq.DEALER))
        self._socket.linger = 0
        self._socket.sndhwm = self._socket.rcvhwm = 0
        self._socket.connect(address)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def put(self, values: np.ndarray) -> None:
        """Until all of it is in the buffer there."""
        data, size = values.data.cast("B"), self.size["put"]
        self._socket.send_multipart([b"put", str(len(data)).encode()])
        for start in range(0, len(data), size):
            self._socket.send(data[start : start + size], copy=False)
        self._socket.recv()

    def fetch(self, nbytes: int) -> np.ndarray:
        """So much of the buffer there, in a new array."""
        out = np.empty(nbytes, np.uint8)
        self._socket.send_multipart([b"fetch", str(nbytes).encode(), str(self.size["fetch"]).encode()])
        _receive(self._socket, out)
        return out

    def choose(self, values: np.ndarray) -> None:
        """Tries each size in both directions, twice, and stays with the fastest."""
        for way, move in (("put", lambda: self.put(values)), ("fetch", lambda: self.fetch(values.nbytes))):
            taken: dict[int, float] = {}
            for size in SIZES * 2:
                self.size[way] = size
                started = time.perf_counter()
                move()
                taken[size] = min(taken.get(size, float("inf")), time.perf_counter() - started)
            self.size[way] = min(taken, key=taken.__getitem__)


def _receive(socket: zmq.Socket[bytes], out: np.ndarray) -> None:
    done = 0
    while done < out.size:
        *_, frame = socket.recv_multipart(copy=False)
        part = np.frombuffer(frame.buffer, np.uint8)
        out[done : done + part.size] = part
        done += part.size


def _serve(ready: Callable[[Any], None], nbytes: int) -> None:
    buffer = np.zeros(nbytes, np.uint8)
    with zmq.Context() as context, context.socket(zmq.ROUTER) as socket:
        socket.sndhwm = socket.rcvhwm = 0
        ready(f"tcp://127.0.0.1:{socket.bind_to_random_port('tcp://127.0.0.1')}")
        while True:
            client, what, *numbers = socket.recv_multipart()
            wanted = int(numbers[0])
            if what == b"put":
                _receive(socket, buffer[:wanted])
                socket.send_multipart([client, b"done"])
                continue
            data, size = buffer.data[:wanted], int(numbers[1])
            for start in range(0, wanted, size):
                socket.send_multipart([client, data[start : start + size]], copy=False)
