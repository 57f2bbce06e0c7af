"""A real worker process, and a client of it that speaks the protocol and nothing more."""

from __future__ import annotations

import shlex
import signal
import subprocess
import sys
import time
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TextIO

import numpy as np
import psutil
import zmq

from tested_runtime import RUNTIME
from tiremote.protocol.codec import decode_reply, encode, error_of
from tiremote.protocol.messages import (
    Alloc,
    Compile,
    Event,
    Failure,
    Fetch,
    Hello,
    Ok,
    Ping,
    Put,
    Request,
    Run,
    Status,
)
from tiremote.protocol.values import Handle, Name, wire_array

#: Seconds that anything may take before a test fails; only that bounds how long a broken test waits.
PATIENCE = 30.0


class RealWorker:
    """``python -m tiremote.worker`` on a free port; killed with its engines when the block ends.

    ``log`` takes what it logs, of which else no more than a pipe holds may come.
    """

    def __init__(
        self, *options: str, arch: str = "cpu", address: str = "tcp://127.0.0.1:0", log: TextIO | None = None
    ) -> None:
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "tiremote.worker",
                "--bind",
                address,
                "--arch",
                arch,
                "--runtime",
                RUNTIME,
                "--until-eof",
                *options,
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log or subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.ready_line = self.process.stdout.readline()
        if not self.ready_line:
            _, errors = self.process.communicate()
            raise RuntimeError(f"the worker did not start: {errors}")
        self.address = shlex.split(self.ready_line)[2]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> tuple[int, str]:
        """Ends the worker; its exit code and what it logged."""
        _, errors = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, errors

    def engines(self) -> list[psutil.Process]:
        """Its engine processes."""
        return psutil.Process(self.process.pid).children(recursive=True)

    def send_signal(self, number: signal.Signals) -> None:
        """Signals the front."""
        self.process.send_signal(number)


def engines_lost(gpu: Any) -> int:
    """How many engines a client's session has lost; one that was replaced because it leaked is none."""
    session = gpu.status().session
    return int(session.generation - session.recycled)


class RestartableWorker:
    """A worker on one port that keeps its sessions in ``directory``, and can be ended and started again."""

    def __init__(self, directory: Path, arch: str, *options: str, log: TextIO | None = None) -> None:
        self.directory = directory
        self._arch = arch
        self._options = options
        self._log = log
        self.worker = self._start("tcp://127.0.0.1:0")
        self.address = self.worker.address

    def _start(self, address: str) -> RealWorker:
        return RealWorker(
            "--state", str(self.directory), *self._options, arch=self._arch, address=address, log=self._log
        )

    def end(self, number: signal.Signals = signal.SIGKILL) -> int:
        """Ends it; its exit code."""
        self.worker.send_signal(number)
        return self.worker.stop()[0]

    def start(self) -> None:
        """Another process on the same port, which somebody else may have for a moment."""
        give_up = time.monotonic() + PATIENCE
        while True:
            try:
                self.worker = self._start(self.address)
                return
            except RuntimeError as error:
                if ("cannot listen" not in str(error) and self._log is None) or time.monotonic() > give_up:
                    raise

    def restart(self, number: signal.Signals = signal.SIGKILL) -> None:
        """Ends it and starts another."""
        self.end(number)
        self.start()


class RawSession:
    """One connection with a session of its own. Requests may be sent without waiting for their answers."""

    def __init__(
        self, address: str, *, kind: int = zmq.DEALER, hello: bool = True, high_water: int = 1000, **hello_fields: Any
    ) -> None:
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self.socket = self._context.socket(kind)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.socket.setsockopt(zmq.RCVHWM, high_water)
        self.socket.connect(address)
        self._ids = count(1)
        self._answers: dict[str | int | None, Ok | Failure] = {}
        self.events: dict[str | int, list[Event]] = {}
        self.token: str | None = None
        if hello:
            self.hello = self.ask(Hello, **hello_fields)
            self.token = self.hello["token"]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.socket.close()
        self._context.term()

    def send(self, op: type[Request], **fields: Any) -> Request:
        """Sends a request and does not wait."""
        request = op(id=fields.pop("id", None) or next(self._ids), token=self.token, **fields)
        self.socket.send_multipart(encode(request), copy=False)
        return request

    def answer(self, request: Request, patience: float = PATIENCE) -> Ok | Failure:
        """Waits for a request's answer, keeping whatever else comes."""
        while request.id not in self._answers:
            reply = self.receive(patience)
            if isinstance(reply, Event):
                self.events.setdefault(reply.id, []).append(reply)
            else:
                self._answers[reply.id] = reply
        return self._answers.pop(request.id)

    def receive(self, patience: float = PATIENCE) -> Ok | Failure | Event:
        """The next message of any kind."""
        if not self.socket.poll(int(patience * 1000)):
            raise TimeoutError(f"nothing came for {patience} s")
        frames = [frame.buffer for frame in self.socket.recv_multipart(copy=False)]
        return decode_reply(frames if frames[0].nbytes else frames[1:])

    def ask(self, op: type[Request], **fields: Any) -> Any:
        """The result of a request. Raises the error that it got."""
        return self.result(self.send(op, **fields))

    def result(self, request: Request) -> Any:
        """The result of a request that was sent. Raises the error that it got."""
        answer = self.answer(request)
        if isinstance(answer, Failure):
            raise error_of(answer)
        return answer.result

    def ask_raw(self, request: str, frames: list[bytes]) -> Any:
        """Sends frames as they are and waits for the answer to that id. Raises the error that it got."""
        self.socket.send_multipart(frames)
        return self.result(Ping(id=request))

    def printed(self, request: Request, event: str = "stdout") -> str:
        """What a request has printed so far."""
        return "".join(one.text for one in self.events.get(request.id, []) if one.event == event)

    # -- the ops, short

    def compile(self, source: str, unit: str | None = None) -> Any:
        """Loads a source; its receipt."""
        return self.ask(Compile, source=source, unit=unit)

    def run(self, name: str, *args: Any, unit: str | None = None, **fields: Any) -> Any:
        """Runs a name; its value."""
        return self.ask(Run, target=Name(unit=unit, name=name), args=args, **fields)["value"]

    def start(self, name: str, *args: Any, unit: str | None = None, **fields: Any) -> Request:
        """Sends a run and does not wait."""
        return self.send(Run, target=Name(unit=unit, name=name), args=args, **fields)

    def put(self, array: np.ndarray, **fields: Any) -> Handle:
        """A new ndarray with this content."""
        handle = self.ask(Put, array=wire_array(array), **fields)["holding"]["handle"]
        assert isinstance(handle, Handle)
        return handle

    def alloc(self, **fields: Any) -> Handle:
        """A new array."""
        handle = self.ask(Alloc, **fields)["holding"]["handle"]
        assert isinstance(handle, Handle)
        return handle

    def fetch(self, target: Handle | Name, **fields: Any) -> np.ndarray:
        """The content of an array."""
        return np.asarray(self.ask(Fetch, target=target, **fields)["value"].copy())

    def status(self) -> Any:
        """The worker's status."""
        return self.ask(Status)

    def ping(self) -> Any:
        """One ping."""
        return self.ask(Ping)
