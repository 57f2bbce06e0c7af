"""How fast arrays go there and back: ``python benchmarks/array_transfer.py [MIB [ROUNDS [ADDRESS]]]``.

Puts and fetches an f32 array of MIB mebibytes (64), ROUNDS times (9), in turns with what bounds it: raw pyzmq that
moves the same bytes between two processes in pieces, and one memcpy. ADDRESS is where the worker is bound
(``tcp://127.0.0.1:0``; ``ipc://PATH``). Prints medians in GB/s with the quartiles, the ratios, and how many seconds of
each process's time (client, front, engine) a gigabyte took.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import psutil
import zmq

from tiremote.client import connect

#: Sizes of pieces in which raw pyzmq is tried; the best counts.
PIECES = (1 << 20, 2 << 20, 4 << 20)

PEER = """
import sys, numpy as np, zmq
context = zmq.Context()
socket = context.socket(zmq.PAIR)
socket.connect(sys.argv[1])
room = np.ones(int(sys.argv[2]), np.uint8)
while True:
    op, piece = socket.recv_pyobj()
    if op == "end":
        break
    for start in range(0, room.size, piece):
        part = room[start : start + piece]
        if op == "put":
            part[:] = np.frombuffer(socket.recv(copy=False).buffer, np.uint8)
        else:
            socket.send(part, copy=False)
    socket.send(b"")
"""


class RawZmq:
    """Another process that takes and gives the same bytes by bare ZeroMQ."""

    def __init__(self, address: str, nbytes: int) -> None:
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._socket = self._context.socket(zmq.PAIR)
        self._socket.bind(address)
        endpoint = self._socket.last_endpoint.decode().rstrip("\0")
        self._peer = subprocess.Popen([sys.executable, "-c", PEER, endpoint, str(nbytes)])
        self._room = np.ones(nbytes, np.uint8)

    def move(self, op: str, piece: int) -> None:
        """``put`` or ``fetch`` all bytes in pieces of that many."""
        self._socket.send_pyobj((op, piece))
        for start in range(0, self._room.size, piece):
            part = self._room[start : start + piece]
            if op == "put":
                self._socket.send(part, copy=False)
            else:
                part[:] = np.frombuffer(self._socket.recv(copy=False).buffer, np.uint8)
        self._socket.recv()

    def close(self) -> None:
        """Ends the other process."""
        self._socket.send_pyobj(("end", 0))
        self._peer.wait()
        self._context.destroy(linger=0)


@dataclass(kw_only=True, slots=True)
class Figure:
    """What was measured of one way of moving: GB/s, and seconds of each process's time for a gigabyte."""

    move: Callable[[], object]
    rates: list[float] = field(default_factory=list)
    busy: dict[str, list[float]] = field(default_factory=dict)

    def measure(self, nbytes: int, processes: dict[str, psutil.Process]) -> None:
        """Once more."""
        before = {name: _seconds(process) for name, process in processes.items()}
        started = time.perf_counter()
        self.move()
        self.rates.append(nbytes / 1e9 / (time.perf_counter() - started))
        for name, process in processes.items():
            self.busy.setdefault(name, []).append((_seconds(process) - before[name]) / (nbytes / 1e9))

    @property
    def median(self) -> float:
        return float(np.median(self.rates))


def _seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def main(mib: int, rounds: int, address: str) -> None:
    """Measures and prints."""
    nbytes = mib << 20
    command = [sys.executable, "-m", "tiremote.worker", "--bind", address, "--until-eof", "--arch", "cpu"]
    worker = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert worker.stdout is not None
    url = worker.stdout.readline().split()[2]
    raw = RawZmq(address + "-raw" if address.startswith("ipc") else address, nbytes)
    here, there = np.ones(nbytes // 4, np.float32), np.ones(nbytes // 4, np.float32)
    with connect(url) as gpu:
        remote = gpu.ti.ndarray(gpu.ti.f32, here.size)
        status = gpu.status()
        assert status.session is not None
        processes = {
            "client": psutil.Process(),
            "front": psutil.Process(status.pid),
            "engine": psutil.Process(status.session.engine_pid),
        }
        figures = {
            "put": Figure(move=partial(remote.from_numpy, here)),
            "fetch": Figure(move=remote.to_numpy),
            "memcpy": Figure(move=partial(np.copyto, there, here)),
        }
        for op in ("put", "fetch"):
            for piece in PIECES:
                figures[f"raw {op}, {piece >> 20} MiB"] = Figure(move=partial(raw.move, op, piece))
        for _ in range(rounds):
            for figure in figures.values():
                figure.measure(nbytes, processes)
        here[:] = np.arange(here.size) % 1000
        remote.from_numpy(here)
        assert np.array_equal(remote.to_numpy(), here)
    raw.close()
    worker.communicate()
    for name, figure in figures.items():
        low, high = np.percentile(figure.rates, [25, 75])
        busy = ", ".join(f"{process} {np.median(seconds):.2f}" for process, seconds in figure.busy.items())
        told = f"; seconds for a GB: {busy}" if name in ("put", "fetch") else ""
        print(f"{name:18} {figure.median:6.2f} GB/s ({low:.2f} to {high:.2f}){told}")
    for op in ("put", "fetch"):
        floor = max(figure.median for name, figure in figures.items() if name.startswith(f"raw {op}"))
        memcpy = figures["memcpy"].median
        print(f"{op}: {figures[op].median / floor:.2f} of raw pyzmq, {figures[op].median / memcpy:.2f} of a memcpy")


if __name__ == "__main__":
    arguments = dict(enumerate(sys.argv[1:]))
    main(int(arguments.get(0, 64)), int(arguments.get(1, 9)), arguments.get(2, "tcp://127.0.0.1:0"))
