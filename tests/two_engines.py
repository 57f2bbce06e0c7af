"""Two real engine processes without a front: a session that one of them has is moved to the other."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from itertools import count
from types import TracebackType
from typing import Any, Self

import numpy as np

from tested_runtime import RUNTIME
from tiremote.protocol.codec import encode
from tiremote.protocol.error_wire import error_from_wire
from tiremote.protocol.messages import Alloc, Cleanup, Compile, Fetch, Put, Request, Run
from tiremote.protocol.packing import pack, unpack
from tiremote.protocol.results import Limits
from tiremote.protocol.values import Handle, Name, wire_array
from tiremote.worker.link import Done, Exit, Message, Move, Open, Prepare, Ready, Work, make_link
from tiremote.worker.page import Page

_ANY_SIZE = Limits(header_bytes=1 << 31)


class Engine:
    """One engine process, at the front's end of its link."""

    def __init__(self, arch: str) -> None:
        self._channel, theirs = make_link()
        self._channel.sock.setblocking(True)
        with tempfile.TemporaryFile() as page:
            page.truncate(Page.SIZE)
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tiremote.worker.engine", str(theirs.fileno()), str(page.fileno()), RUNTIME],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno(), page.fileno()],
                env={**os.environ, "TIREMOTE_FRONT": str(os.getpid())},
            )
        theirs.close()
        self._keys = count(1)
        self._arch = arch
        self.generation = 0
        self._channel.send(Prepare(options={"arch": arch}))
        self._receive(Ready)

    def open(self, generation: int, **options: Any) -> None:
        """Begins a session in it; what was there before is gone."""
        if self.generation:
            self.ask(Cleanup, everything=True)
        self.generation = generation
        self._channel.send(Open(session="s1", generation=generation, options={"arch": self._arch, **options}))
        assert self._receive(Ready)[0].failure is None

    def close(self) -> None:
        """Ends the process."""
        self._channel.send(Exit())
        self.process.wait(30)
        self._channel.close()

    def _receive(self, kind: type[Message]) -> tuple[Any, list[Any]]:
        while True:
            received = self._channel.receive()
            assert received is not None, "the engine has died"
            if isinstance(received[0], kind):
                return received

    def step(self, step: str, body: dict[str, Any] | None = None, buffers: tuple[Any, ...] = ()) -> tuple[Any, Any]:
        """One step of a move; what is told, and the buffers for the other engine."""
        self._channel.send(Move(key=next(self._keys), step=step, body=pack(body or {}, [])), buffers)
        done, given = self._receive(Done)
        assert done.fault is None, done.fault
        told = unpack(done.body, given, _ANY_SIZE)
        assert done.ok, told
        return told, tuple(given)

    # -- a client's requests

    def ask(self, op: type[Request], **fields: Any) -> Any:
        """The result of a request. Raises the error that it got."""
        header, *buffers = encode(op(id=next(self._keys), token="t", **fields))
        self._channel.send(Work(key=next(self._keys), header=bytes(memoryview(header))), buffers)
        done, given = self._receive(Done)
        told = unpack(done.body, given, _ANY_SIZE)
        if not done.ok:
            raise error_from_wire(*told)
        return told

    def compile(self, source: str, unit: str | None = None, **fields: Any) -> Any:
        return self.ask(Compile, source=source, unit=unit, **fields)

    def run(self, name: str, *args: Any, unit: str | None = None, **fields: Any) -> Any:
        return self.ask(Run, target=Name(unit=unit, name=name), args=args, **fields)["value"]

    def put(self, array: np.ndarray, **fields: Any) -> Handle:
        handle: Handle = self.ask(Put, array=wire_array(array), **fields)["holding"]["handle"]
        return handle

    def alloc(self, **fields: Any) -> Handle:
        handle: Handle = self.ask(Alloc, **fields)["holding"]["handle"]
        return handle

    def fetch(self, target: Handle | str, **fields: Any) -> np.ndarray:
        ref = Name(unit=None, name=target) if isinstance(target, str) else target
        return np.asarray(self.ask(Fetch, target=ref, **fields)["value"].copy())


class TwoEngines:
    """``first`` has a session; `move` has ``second`` take it over, after which the two have changed places."""

    def __init__(self, arch: str) -> None:
        self.first, self.second = Engine(arch), Engine(arch)
        self.options: dict[str, Any] = {}
        self.seconds: dict[str, float] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        for engine in (self.first, self.second):
            engine.close()

    def begin(self, **options: Any) -> Engine:
        """A new session in the first."""
        self.options = options
        self.first.open(1, **options)
        return self.first

    def refusal(self) -> str | None:
        """Why the session cannot be moved, as far as its own engine knows."""
        told, _ = self.first.step("survey", {"options": self.options})
        return told["refused"]  # type: ignore[no-any-return]

    def move(self) -> Engine:
        """Moves the session; the engine that has it then."""
        refused = self.try_to_move()
        assert refused is None, refused
        self.first, self.second = self.second, self.first
        return self.first

    def try_to_move(self) -> str | None:
        """Why it cannot be moved, None where the second engine has it now as well."""
        self._started = time.perf_counter()
        told, buffers = self.first.step("survey", {"options": self.options})
        if told["refused"]:
            return str(told["refused"])
        self._note("survey")
        self.second.open(self.first.generation + 1, **{**self.options, **told["options"]})
        self._note("open")
        refused = self.second.step("build", {"thorough": True}, buffers)[0]["refused"]
        self._note("build")
        number, pieces = 0, 0
        while refused is None and number <= pieces:
            told, buffers = self.first.step("give", {"number": number})
            pieces = told.get("pieces", pieces)
            self._note("give")
            refused = told["refused"] or self.second.step("take", {"number": number}, buffers)[0]["refused"]
            self._note("take")
            number += 1
        refused = refused or self.second.step("settle")[0]["refused"]
        self._note("settle")
        return None if refused is None else str(refused)

    def _note(self, step: str) -> None:
        now = time.perf_counter()
        self.seconds[step] = self.seconds.get(step, 0.0) + now - self._started
        self._started = now
