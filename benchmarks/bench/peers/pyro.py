"""Pyro5 with its msgpack serializer, which takes bytes as they are, and its multiplex server on one thread."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import Pyro5.api

from bench.peers import Peer
from bench.processes import server
from bench.served import Served


class Client:
    """A proxy."""

    def __init__(self, proxy: Any) -> None:
        self._proxy = proxy

    def call(self) -> None:
        """One method call."""
        self._proxy.call()

    def put(self, values: np.ndarray) -> None:
        """As one bytes: pieces are no faster here."""
        self._proxy.put(values.tobytes())

    def fetch(self) -> np.ndarray:
        """Likewise."""
        return np.frombuffer(self._proxy.fetch_bytes(), np.float32)


@contextmanager
def start(arch: str, large: int) -> Iterator[Peer]:
    """Over tcp loopback."""
    Pyro5.api.config.SERIALIZER = "msgpack"
    with server(_serve, arch, large) as uri, Pyro5.api.Proxy(uri) as proxy:
        yield Client(proxy)


def _serve(ready: Callable[[Any], None], arch: str, large: int) -> None:
    Pyro5.api.config.SERIALIZER = "msgpack"
    Pyro5.api.config.SERVERTYPE = "multiplex"

    @Pyro5.api.expose
    class Exposed(Served):
        def fetch_bytes(self) -> bytes:
            return self.fetch().tobytes()

    # Of a parent only what is exposed there can be called.
    for name in ("call", "put"):
        setattr(Exposed, name, Pyro5.api.expose(getattr(Served, name)))
    served = Exposed(arch, large)
    served.begin()
    with Pyro5.api.Daemon(host="127.0.0.1") as daemon:
        ready(str(daemon.register(served)))
        daemon.requestLoop()
