"""A worker without Taichi: a real ROUTER socket and the protocol's codec, answers by a script."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import zmq

from tiremote.protocol.attributes import AttributeResult
from tiremote.protocol.codec import decode_request, encode, failure
from tiremote.protocol.dtypes import dtype_of, name_of
from tiremote.protocol.errors import StaleHandle, TiremoteError, UnknownName
from tiremote.protocol.messages import (
    Alloc,
    Bye,
    Cancel,
    Cleanup,
    Compile,
    Describe,
    EngineRequest,
    Event,
    Fetch,
    GetAttribute,
    Hello,
    Interrupt,
    Ok,
    Ping,
    Put,
    Request,
    RequestId,
    Run,
    SetAttribute,
    Status,
)
from tiremote.protocol.receipts import ArrayHolding, Definition, Description, Receipt, Summary, UnitHolding
from tiremote.protocol.results import (
    ArrayResult,
    ByeResult,
    CancelResult,
    CleanupResult,
    EngineInfo,
    FetchResult,
    HelloResult,
    InterruptResult,
    Limits,
    Pong,
    RunResult,
    WorkerStatus,
)
from tiremote.protocol.values import Handle, WireArray

#: Returned by a script that keeps the request: it is answered later, by `FakeWorker.answer`.
LATER = object()


class FakeWorker:
    """Keeps arrays as NumPy arrays. ``on_run`` answers calls; ``lose(request)`` True: that message never came.

    What tests look at is under ``requests``, in the order of arrival, repeated ones included; ``ran`` has each
    queued request once.
    """

    def __init__(self, *, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self.requests: list[Request] = []
        self.ran: list[EngineRequest] = []
        self.on_run: Callable[[Run], Any] = lambda _: RunResult()
        self.events_of: Callable[[Request], list[Event]] = lambda _: []
        self.lose: Callable[[Request], bool] = lambda _: False
        self.lose_answer: Callable[[Request], bool] = lambda _: False
        self.silent = False
        self.forgets_clients = False
        self.units: dict[str, UnitHolding] = {}
        self.newest: str | None = None
        self.arrays: dict[str, np.ndarray] = {}
        #: Of every object: what is not here is a method.
        self.attributes: dict[str, Any] = {}
        self.handles: dict[str, Handle] = {}
        self._record: dict[RequestId, Any] = {}
        self._later: dict[RequestId, bytes] = {}
        self._happened = threading.Condition()
        self._ended = False
        self._mail: list[tuple[Any, ...]] = []
        self._context = zmq.Context()
        self._control = self._context.socket(zmq.PAIR)
        self._control.bind("inproc://control")
        self._router = self._context.socket(zmq.ROUTER)
        self.address = self._bind("tcp://127.0.0.1:0")
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    # For tests

    def define(self, unit: str, /, **kinds: str) -> None:
        """Loads a unit whose names have these kinds (``kernel``, ``function``, ``field``, ...)."""
        meta = {"dtype": "f32", "shape": [4], "element_shape": [], "needs_grad": True}
        definitions = tuple(
            Definition(name=name, kind=kind, meta=meta if kind in ("field", "ndarray") else {})
            for name, kind in kinds.items()
        )
        self.units[unit] = UnitHolding(unit=unit, version=1, definitions=definitions)
        self.newest = unit

    def answer(self, request: RequestId, result: Any) -> None:
        """Answers one that was kept for `LATER`."""
        self._tell(("answer", request, result))

    def cut(self) -> None:
        """Drops every connection, and listens again."""
        self._tell(("cut",))

    def wait_for(self, what: Callable[[FakeWorker], bool], patience: float = 10.0) -> None:
        """Until it is true of this worker."""
        with self._happened:
            assert self._happened.wait_for(lambda: what(self), patience), f"only came: {self.requests}"

    def of(self, cls: type[Request]) -> list[Any]:
        """The requests of that class that came."""
        return [request for request in self.requests if isinstance(request, cls)]

    def close(self) -> None:
        self._tell(("end",))
        self._thread.join()
        self._control.close()
        self._context.destroy(linger=0)

    # The thread

    def _tell(self, message: tuple[Any, ...]) -> None:
        self._mail.append(message)
        self._control.send(b"")

    def _bind(self, address: str) -> str:
        self._router.bind(address)
        return self._router.get(zmq.LAST_ENDPOINT).decode()

    def _serve(self) -> None:
        control = self._context.socket(zmq.PAIR)
        control.connect("inproc://control")
        poller = zmq.Poller()
        poller.register(control, zmq.POLLIN)
        poller.register(self._router, zmq.POLLIN)
        while not self._ended:
            ready = dict(poller.poll())
            if control in ready:
                control.recv()
                self._do(*self._mail.pop(0), poller=poller)
            elif self._router in ready:
                identity, *frames = self._router.recv_multipart()
                with self._happened:
                    self._take(identity, frames)
                    self._happened.notify_all()
        control.close()
        self._router.close()

    def _do(self, what: str, *details: Any, poller: zmq.Poller) -> None:
        if what == "end":
            self._ended = True
        elif what == "answer":
            request, result = details
            self._record[request] = result
            self._reply(self._later.pop(request), request, result)
        elif what == "cut":
            poller.unregister(self._router)
            self._router.close(linger=0)
            self._router = self._context.socket(zmq.ROUTER)
            while True:
                try:
                    self._bind(self.address)
                    break
                except zmq.ZMQError:  # the old socket lets go of its port on another thread
                    threading.Event().wait(0.01)
            poller.register(self._router, zmq.POLLIN)

    def _take(self, identity: bytes, frames: list[bytes]) -> None:
        request = decode_request(frames, self.limits)
        if self.silent or self.lose(request):
            return
        self.requests.append(request)
        if isinstance(request, EngineRequest):
            if request.id in self._later:
                self._later[request.id] = identity
                return
            if request.id not in self._record:
                self.ran.append(request)
                for event in self.events_of(request):
                    self._router.send_multipart([identity, *encode(event)])
                result = self._result(request)
                if result is LATER:
                    self._later[request.id] = identity
                    return
                self._record[request.id] = result
            result = self._record[request.id]
        else:
            result = self._result(request, identity)
        if not self.lose_answer(request):
            self._reply(identity, request.id, result)

    def _reply(self, identity: bytes, request: RequestId, result: Any) -> None:
        reply = failure(request, result) if isinstance(result, TiremoteError) else Ok(id=request, result=result)
        self._router.send_multipart([identity, *encode(reply)])

    def _result(self, request: Request, identity: bytes = b"") -> Any:
        try:
            return self._answer(request, identity)
        except TiremoteError as error:
            return error

    def _answer(self, request: Request, identity: bytes) -> Any:
        if self.forgets_clients and request.token is not None:
            raise UnknownName("no session has this token", name="token")
        if isinstance(request, Hello):
            return HelloResult(
                version=1,
                token="token",
                session=request.session or "s1",
                engine=EngineInfo(runtime="fake", version="1", arch="cpu", device="a desk"),
                worker_version="1",
                limits=self.limits,
                ops=(),
                options=request.options,
            )
        if isinstance(request, Ping):
            known = set(self._later)
            for pending in request.pending:
                if pending in known:
                    self._later[pending] = identity
            return Pong(missing=tuple(one for one in request.pending if one not in known))
        if isinstance(request, Status):
            return WorkerStatus(
                pid=1,
                uptime=0.0,
                worker_version="1",
                engine=None,
                sessions=1,
                spares=0,
                requests=0,
                dropped=0,
                crashes=0,
            )
        if isinstance(request, Describe):
            return Description(session="s1", generation=1, newest=self.newest, units=tuple(self.units.values()))
        if isinstance(request, Interrupt):
            return InterruptResult(stopped=request.request)
        if isinstance(request, Cancel):
            return CancelResult(cancelled=self._later.pop(request.request, None) is not None)
        if isinstance(request, Bye):
            return ByeResult(session_ended=request.end)
        if isinstance(request, Compile):
            unit = request.unit or f"kernel_{len(self.units)}"
            self.define(unit, **dict.fromkeys(request.source.split(), "kernel"))
            return Receipt(unit=unit, version=1, definitions=self.units[unit].definitions)
        if isinstance(request, Run):
            return self.on_run(request)
        if isinstance(request, Cleanup):
            return self._cleanup(request)
        if isinstance(request, GetAttribute):
            if request.name not in self.attributes:
                return AttributeResult(callable=True)
            return AttributeResult(value=self.attributes[request.name])
        if isinstance(request, SetAttribute):
            self.attributes[request.name] = request.value
            return AttributeResult(value=request.value)
        return self._array_op(request)

    def _cleanup(self, request: Cleanup) -> CleanupResult:
        for target in request.targets:
            self._find(target)
        for target in request.targets:
            del self.arrays[target.id]
        if request.unit is not None:
            if request.unit not in self.units:
                raise UnknownName("no such unit", name=request.unit)
            del self.units[request.unit]
        return CleanupResult(handles=tuple(target.id for target in request.targets))

    def _find(self, target: Any) -> np.ndarray:
        if target.id not in self.arrays:
            raise StaleHandle("it is gone", handle=target.id)
        return self.arrays[target.id]

    def _array_op(self, request: Any) -> Any:
        if isinstance(request, Alloc) and request.target is None:
            if request.copy_of is not None:
                made = self._find(request.copy_of).copy()
            else:
                made = np.zeros((*request.shape, *request.element_shape), dtype_of(request.dtype))
            return ArrayResult(holding=ArrayHolding(handle=self.keep(made, request.kind, request.element_shape)))
        if isinstance(request, Alloc):
            self._find(request.target)[...] = request.value
            return ArrayResult()
        array = self._find(request.target)
        if request.flat is not None:
            part = array.reshape(-1)[slice(*request.flat)]
        elif request.region is not None:
            part = array[tuple(one if isinstance(one, int) else slice(*one) for one in request.region)]
        else:
            part = array
        if isinstance(request, Put):
            data = self._find(request.source) if request.source is not None else request.array.view()
            array_part = part if isinstance(part, np.ndarray) else None
            if array_part is None:
                array[tuple(request.region)] = data
            else:
                assert array_part.shape == data.shape
                array_part[...] = data
            return ArrayResult()
        assert isinstance(request, Fetch)
        if request.form == "summary":
            return FetchResult(summary=Summary(dtype="f32", shape=array.shape, nbytes=array.nbytes))
        assert part.nbytes <= self.limits.buffer_bytes
        return FetchResult(value=np.asarray(part))

    def keep(self, array: np.ndarray, kind: str = "ndarray", element_shape: tuple[int, ...] = ()) -> Handle:
        """Keeps an array under a new handle."""
        shape = array.shape[: array.ndim - len(element_shape)]
        meta = {"dtype": name_of(array.dtype), "shape": list(shape), "element_shape": list(element_shape)}
        handle = Handle(kind=kind, id=f"h{len(self.handles)}", meta=meta)
        self.handles[handle.id] = handle
        self.arrays[handle.id] = array
        return handle


def array_of(value: Any) -> np.ndarray:
    """An array argument, as the worker got it."""
    assert isinstance(value, WireArray)
    return value.copy()


@contextmanager
def fake_worker(**settings: Any) -> Iterator[FakeWorker]:
    worker = FakeWorker(**settings)
    try:
        yield worker
    finally:
        worker.close()
