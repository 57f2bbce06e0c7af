"""A network between a client and a worker that can be cut, held up, and made slow."""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
import time
from types import TracebackType


class CutNetwork:
    """Listens in place of a worker on this machine and passes bytes on. ``rate`` is in bytes per second, each way.

    ``carried`` counts the bytes that have gone either way.
    """

    def __init__(self, address: str) -> None:
        host, _, port = address.removeprefix("tcp://").rpartition(":")
        self._worker = (host, int(port))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"tcp://127.0.0.1:{self._listener.getsockname()[1]}"
        self.rate: float | None = None
        self.carried = 0
        self.passes = threading.Event()
        self.passes.set()
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._ended = False
        self._start(self._accept)

    def cut(self) -> None:
        """Ends every connection. New ones are made at once."""
        with self._lock:
            for pair in self._pairs:
                for one in pair:
                    end(one)

    def __enter__(self) -> CutNetwork:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended = True
        self.passes.set()
        self._listener.close()
        self.cut()
        for thread in self._threads:
            thread.join()
        for pair in self._pairs:
            for one in pair:
                one.close()

    def _start(self, work: object, *args: object) -> None:
        thread = threading.Thread(target=work, args=args)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._listener, selectors.EVENT_READ)
            while not self._ended:
                if selector.select(0.05) and not self._ended:
                    client, _ = self._listener.accept()
                    try:
                        worker = socket.create_connection(self._worker)
                    except OSError:
                        # It is being started again: the client tries again.
                        client.close()
                        continue
                    with self._lock:
                        self._pairs.append((client, worker))
                    self._start(self._pump, client, worker)
                    self._start(self._pump, worker, client)

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        try:
            while data := source.recv(16384):
                if self.rate is not None:
                    time.sleep(len(data) / self.rate)  # not to wait for something: this is the slowness itself
                self.passes.wait()
                with self._lock:
                    self.carried += len(data)
                sink.sendall(data)
        except OSError:
            pass
        end(source)
        end(sink)


class Cutter:
    """Cuts the network again and again, from another thread."""

    def __init__(self, network: CutNetwork) -> None:
        self._network = network
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._cut)
        self.cuts = 0

    def _cut(self) -> None:
        pause = 0.2
        while not self._ended.wait(pause):
            self._network.cut()
            self.cuts += 1
            pause *= 1.3  # a whole message has to get through some time, on a busy machine too

    def __enter__(self) -> Cutter:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()


def end(one: socket.socket) -> None:
    """Ends a connection, if it has not ended."""
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
