"""A front on the bench: a clock that is set by hand, clients and engines played by the test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

import numpy as np

from memory_disk import MemoryDisk
from tiremote.protocol.codec import decode_reply, encode
from tiremote.protocol.error_wire import error_to_wire
from tiremote.protocol.errors import TiremoteError
from tiremote.protocol.messages import Compile, Event, Failure, Hello, Ok, Put, Reply, Request, Run
from tiremote.protocol.packing import pack
from tiremote.protocol.receipts import ArrayHolding, Definition, UnitHolding
from tiremote.protocol.results import EngineInfo
from tiremote.protocol.values import Handle, Name, Ref, wire_array
from tiremote.worker.front.core import Front
from tiremote.worker.front.effects import Effect, Kill, Nudge, Send, Spawn, Stop, ToEngine
from tiremote.worker.front.progress import Progress
from tiremote.worker.front.settings import Settings
from tiremote.worker.front.state.rows import Save, Saved
from tiremote.worker.host_copy import Moved, Piece
from tiremote.worker.link import (
    Changes,
    Copied,
    Done,
    Exit,
    Load,
    Move,
    Open,
    PutBack,
    Ready,
    Snap,
    UnitArrays,
    Work,
)
from tiremote.worker.page import Calls

INFO = EngineInfo(runtime="taichi", version="1.7.4", arch="cpu", device="bench")


class FrontBench:
    """Plays everything around a `Front`. Engines get ready by themselves unless ``ready`` is False.

    With a ``disk`` it finds there what an earlier worker left, and keeps its sessions there.
    """

    def __init__(
        self,
        settings: Settings | None = None,
        *,
        ready: bool = True,
        disk: MemoryDisk | None = None,
        saved: Saved | None = None,
        now: float = 1000.0,
    ) -> None:
        self.now = now
        self.disk = disk
        self.ready = ready
        self.begun: dict[int, int] = {}
        #: Resident bytes of engines, by their pids, which are their numbers.
        self.memory: dict[int, int] = {}
        self.withdrawn: list[int] = []
        #: The engine begins what it is to pass over in the moment in which it is told so.
        self.begins_at_once = False
        self.undelivered = 0
        self.settings = settings or Settings()
        self.front = self._make_front(saved or (disk and disk.saved({})))
        self.sent: list[tuple[bytes, Reply]] = []
        self.spawned: list[int] = []
        self.killed: list[int] = []
        self.nudged: list[tuple[int, int]] = []
        self.opens: list[tuple[int, Open]] = []
        self.work: list[tuple[int, Work]] = []
        #: The bytes that came with each of `work`.
        self.work_bytes: list[list[bytes]] = []
        #: What came with each work, by its key.
        self.buffers: dict[int, tuple[Any, ...]] = {}
        self.loads: list[tuple[int, Load]] = []
        self.moves: list[tuple[int, Move, tuple[Any, ...]]] = []
        self.dismissed: list[int] = []
        self.put_backs: list[tuple[int, PutBack]] = []
        #: What engines do over lanes.
        self.calls: dict[int, Calls] = {}
        #: The bytes that came with each of `put_backs`.
        self.put_back_bytes: list[list[bytes]] = []
        self.snaps: list[tuple[int, Snap]] = []
        self.stopped = False
        self._ids = count(1)
        self.pump()

    def _make_front(self, saved: Saved | None) -> Front:
        return Front(
            self.settings,
            now=self.now,
            memory_of=self.memory.get,
            progress=Progress(
                lambda number: self.begun.get(number, 0),
                lambda number: self.calls.get(number, Calls()),
                self._pass_over,
            ),
            undelivered=lambda _: self.undelivered,
            saved=saved,
        )

    def restart(self) -> None:
        """The worker is killed and started again: what it had sent to engines is gone with them."""
        assert self.disk is not None
        saved = self.disk.saved(self.begun)
        self.begun.clear()
        self.work.clear()
        self.front = self._make_front(saved)
        self.pump()

    # -- the loop

    def pump(self) -> None:
        """Carries out effects until there are none."""
        while effects := self.front.take():
            for effect in effects:
                self._carry_out(effect)

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case Save() if self.disk is not None:
                self.disk.write(effect)
            case Send(route, frames):
                self.sent.append((route.identity, decode_reply(frames)))
            case Spawn(number, _):
                self.spawned.append(number)
                self.front.scheduler.pool.engines[number].pid = number
                if self.ready:
                    self.front.on_engine(number, Ready(info=INFO), [], self.now)
            case ToEngine(number, Open() as opened):
                self.opens.append((number, opened))
                if self.ready:
                    self.front.on_engine(number, Ready(info=INFO), [], self.now)
            case ToEngine(number, Work() as work, buffers):
                self.work.append((number, work))
                self.buffers[work.key] = buffers
                self.begun.setdefault(number, work.key)
            case ToEngine(number, Load() as load):
                self.loads.append((number, load))
            case ToEngine(number, PutBack() as message, buffers):
                self.put_backs.append((number, message))
                self.put_back_bytes.append([bytes(one) for one in buffers])
            case ToEngine(number, Snap() as snap):
                self.snaps.append((number, snap))
            case ToEngine(number, Move() as move, buffers):
                self.moves.append((number, move, buffers))
            case ToEngine(number, Exit()):
                self.dismissed.append(number)
            case Kill(number):
                self.killed.append(number)
            case Nudge(number, key):
                self.nudged.append((number, key))
            case Stop():
                self.stopped = True

    def _pass_over(self, number: int, key: int) -> None:
        self.withdrawn.append(key)
        if self.begins_at_once:
            self.begun[number] = key

    def wait(self, seconds: float) -> None:
        """Lets time pass."""
        self.now += seconds
        self.front.tick(self.now)
        self.pump()

    # -- clients

    def ask(self, request: Request, identity: bytes = b"laptop", user: str = "") -> Request:
        """Sends a request."""
        self.front.on_client(identity, user, [bytes(memoryview(f)) for f in encode(request)], self.now)
        self.pump()
        return request

    def hello(self, identity: bytes = b"laptop", user: str = "", **fields: Any) -> str:
        """Opens a session and returns its token."""
        request = self.ask(Hello(id=f"hello-{next(self._ids)}", **fields), identity, user)
        return str(self.result(request)["token"])

    def run(
        self, token: str, name: str = "step", identity: bytes = b"laptop", user: str = "", **fields: Any
    ) -> Request:
        """Sends a run request with an id of its own."""
        return self.ask(Run(id=next(self._ids), token=token, target=Name(name=name), **fields), identity, user)

    def replies(self, request: Request) -> list[Reply]:
        """Everything that was sent about a request."""
        return [reply for _, reply in self.sent if reply.id == request.id]

    def answer(self, request: Request) -> Ok | Failure:
        """The one answer to a request."""
        answers = [reply for reply in self.replies(request) if not isinstance(reply, Event)]
        assert len(answers) == 1, answers
        return answers[0]

    def result(self, request: Request) -> Any:
        """The result of a request that went well."""
        answer = self.answer(request)
        assert isinstance(answer, Ok), answer
        return answer.result

    def error(self, request: Request) -> Failure:
        """The error of a request that did not."""
        answer = self.answer(request)
        assert isinstance(answer, Failure), answer
        return answer

    # -- engines

    def done(
        self,
        work: tuple[int, Work],
        value: Any = None,
        changes: Changes | None = None,
        moved: Moved | None = None,
        buffers: Sequence[bytes] = (),
    ) -> None:
        """The engine finishes a job and begins the next that it has."""
        number, message = work
        self.begun[number] = min(
            (one.key for at, one in self.work if at == number and one.key > message.key), default=0
        )
        body = pack({"value": value, "written": []}, [])
        done = Done(key=message.key, ok=True, body=body, changes=changes, moved=moved)
        self.front.on_engine(number, done, list(buffers), self.now)
        self.pump()

    def failed(self, work: tuple[int, Work], error: TiremoteError, poisoned: str | None = None) -> None:
        """The engine reports an error."""
        number, message = work
        body = pack(list(error_to_wire(error)), [])
        self.front.on_engine(number, Done(key=message.key, ok=False, body=body, poisoned=poisoned), [], self.now)
        self.pump()

    def loaded(self, load: tuple[int, Load], *, ok: bool = True) -> None:
        """The engine has loaded a unit again, or could not."""
        number, message = load
        body = pack({} if ok else ["compile", "line 1 is wrong now", {}], [])
        self.front.on_engine(number, Done(key=message.key, ok=ok, body=body), [], self.now)
        self.pump()

    def put_back(self, sent: tuple[int, PutBack], error: TiremoteError | None = None) -> None:
        """The engine has put an array back, or could not."""
        number, message = sent
        body = pack({} if error is None else list(error_to_wire(error)), [])
        kept = error is None and message.holding is not None
        changes = Changes(arrays=(message.holding,)) if kept and message.holding is not None else None
        self.front.on_engine(number, Done(key=message.key, ok=error is None, body=body, changes=changes), [], self.now)
        self.pump()

    def put_back_all(self) -> None:
        """The engine puts back whatever it is sent."""
        done = 0
        while done < len(self.put_backs):
            if self.put_backs[done][0] in self.front.scheduler.pool.engines:
                self.put_back(self.put_backs[done])
            done += 1

    def copied(self, number: int, key: int, arrays: Mapping[Ref, bytes]) -> None:
        """The engine sends arrays of bytes for a snapshot."""
        moved = tuple(whole(target, data) for target, data in arrays.items())
        self.front.on_engine(number, Copied(key=key, moved=moved), list(arrays.values()), self.now)

    def snapped(self, number: int, key: int, arrays: Mapping[Ref, bytes], skipped: Mapping[str, str] = {}) -> None:
        """The engine has made a snapshot, of arrays of bytes."""
        self.copied(number, key, arrays)
        self.front.on_engine(number, Done(key=key, ok=True, body=pack(dict(skipped), [])), [], self.now)
        self.pump()

    def die(self, number: int, returncode: int = -11, *, begun: bool = True) -> None:
        """The engine's process ends, in the middle of the first job that it was given and has not answered."""
        inflight = self.front.scheduler.pool.engines[number].inflight
        key = inflight[0].key if begun and inflight else 0
        self.front.on_exit(number, returncode, key, self.now, self.calls.pop(number, Calls()))
        self.pump()

    def load_unit(
        self, token: str, unit: str = "sim", source: str = "x = 1", version: int = 1, **definition: Any
    ) -> Request:
        """A unit is compiled, with one definition."""
        request = self.ask(Compile(id=next(self._ids), token=token, source=source, unit=unit))
        self.loaded_as(request, unit, version, **definition)
        return request

    def loaded_as(self, request: Request, unit: str, version: int, **definition: Any) -> None:
        """The engine reports that the last job loaded a unit."""
        definitions = (Definition(**{"name": "step", "kind": "kernel", **definition}),)
        holding = UnitHolding(unit=unit, version=version, definitions=definitions, loaded_by=request.id)
        fields = tuple(one.name for one in definitions if one.kind in ("field", "ndarray"))
        arrays = (UnitArrays(unit=unit, names=fields),)
        self.done(self.work[-1], changes=Changes(units=(holding,), unit_arrays=arrays))

    def keep_array(
        self,
        token: str,
        handle: str = "s.1.1",
        label: str | None = None,
        nbytes: int = 40,
        place: Name | None = None,
        kind: str = "ndarray",
    ) -> None:
        """An array is made, or a handle of one that a unit has at that place."""
        self.run(token)
        holding = ArrayHolding(handle=Handle(kind=kind, id=handle), label=label, nbytes=nbytes, place=place)
        self.done(self.work[-1], changes=Changes(arrays=(holding,)))

    def put_array(self, token: str, data: bytes, handle: str = "s.1.1", label: str | None = None) -> Request:
        """An array of these bytes is made."""
        holding = ArrayHolding(handle=Handle(kind="ndarray", id=handle), label=label, nbytes=len(data))
        array = np.frombuffer(data, np.uint8)
        request = self.ask(Put(id=next(self._ids), token=token, array=wire_array(array), label=label))
        self.done(self.work[-1], changes=Changes(arrays=(holding,)), moved=whole(holding.handle, data))
        return request

    def put_into(self, token: str, target: Ref, data: bytes) -> Request:
        """An array gets these bytes."""
        array = np.frombuffer(data, np.uint8)
        request = self.ask(Put(id=next(self._ids), token=token, target=target, array=wire_array(array)))
        self.done(self.work[-1], moved=whole(target, data))
        return request


def whole(target: Ref, data: bytes) -> Moved:
    """An array of these bytes, all of it."""
    return Moved(target=target, dtype="u8", shape=(len(data),), piece=Piece(dtype="u8", shape=(len(data),)))
