"""Arrow Flight: an action for a call, a stream of record batches for an array."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.flight

from bench.peers import PIECE, Peer
from bench.processes import server
from bench.served import Served

_SCHEMA = pa.schema([("x", pa.float32())])
_ROWS = PIECE // 4


class Client:
    """A Flight client."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._path = pa.flight.FlightDescriptor.for_path("large")

    def call(self) -> None:
        """An action, and the end of its results."""
        list(self._client.do_action(pa.flight.Action("call", b"")))

    def put(self, values: np.ndarray) -> None:
        """In batches; the server answers when they are in the ndarray."""
        writer, reader = self._client.do_put(self._path, _SCHEMA)
        with writer:
            writer.write_table(pa.table([pa.array(values)], schema=_SCHEMA), max_chunksize=_ROWS)
            writer.done_writing()
            reader.read()

    def fetch(self) -> np.ndarray:
        """In batches, put together here."""
        table = self._client.do_get(pa.flight.Ticket(b"large")).read_all()
        return np.concatenate([chunk.to_numpy() for chunk in table.column(0).chunks])


@contextmanager
def start(arch: str, large: int) -> Iterator[Peer]:
    """Over tcp loopback."""
    with server(_serve, arch, large) as port, pa.flight.connect(f"grpc://127.0.0.1:{port}") as client:
        yield Client(client)


def _serve(ready: Callable[[Any], None], arch: str, large: int) -> None:
    served = Served(arch, large)
    # Its handlers run on threads of its own, and Taichi wants to stay on one.
    taichi = ThreadPoolExecutor(1)
    taichi.submit(served.begin).result()

    class Server(pa.flight.FlightServerBase):  # type: ignore[misc]
        def do_action(self, _context: Any, _action: Any) -> list[Any]:
            taichi.submit(served.call).result()
            return []

        def do_put(self, _context: Any, _descriptor: Any, reader: Any, writer: Any) -> None:
            column = reader.read_all().column(0)
            values = np.concatenate([chunk.to_numpy() for chunk in column.chunks])
            taichi.submit(served.put, values).result()
            writer.write(pa.py_buffer(b"done"))

        def do_get(self, _context: Any, _ticket: Any) -> Any:
            values = taichi.submit(served.fetch).result()
            batches = pa.table([pa.array(values)], schema=_SCHEMA).to_batches(max_chunksize=_ROWS)
            return pa.flight.GeneratorStream(_SCHEMA, iter(batches))

    flight = Server("grpc://127.0.0.1:0")
    ready(flight.port)
    flight.serve()
