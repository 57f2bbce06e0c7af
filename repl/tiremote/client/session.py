"""`Session`: what a user holds. Everything in it can be used from many threads."""

from __future__ import annotations

import atexit
import contextlib
import os
import weakref
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from tiremote.client import collecting
from tiremote.client.arrays import RemoteArray
from tiremote.client.directory import Directory
from tiremote.client.exchange import Exchange
from tiremote.client.facade import Facade
from tiremote.client.loading import Loading
from tiremote.client.remote import Remote
from tiremote.client.request_future import RequestFuture
from tiremote.client.transfer import Progress
from tiremote.client.units import RemoteKernel, RemoteObject, RemoteUnit, thawed
from tiremote.client.watch import Reload, Watch, print_reloads
from tiremote.protocol.benchmarking import Benchmark
from tiremote.protocol.errors import Refused, TiremoteError
from tiremote.protocol.explanation import CrashExplanation
from tiremote.protocol.messages import (
    Bye,
    Cleanup,
    ExplainCrash,
    GetSyntaxTree,
    Interrupt,
    Ping,
    RequestId,
    Snapshot,
    Status,
)
from tiremote.protocol.receipts import Description, Timing
from tiremote.protocol.results import (
    ByeResult,
    CleanupResult,
    HelloResult,
    InterruptResult,
    Pong,
    RequestLine,
    RequestsResult,
    SnapshotResult,
    WorkerStatus,
)
from tiremote.protocol.syntax_tree import SyntaxTree
from tiremote.protocol.values import Handle, Name

if TYPE_CHECKING:
    from tiremote.client.connect import Opening
    from tiremote.client.local_worker import LocalWorker


class Session(Loading):
    """A session on a worker, as `connect` opens it.

    ``gpu["id"]`` is what was loaded under that id and ``gpu[None]`` the newest; their attributes are its kernels,
    functions, classes, fields and constants. ``gpu.ti`` has Taichi's names for arrays. Leaving the context ends a
    private session and detaches from a named one.

    Every call raises the typed errors of `tiremote.protocol.errors`. Ctrl-C in a call stops that request on the
    worker and then raises `KeyboardInterrupt`; the session goes on.
    """

    def __init__(
        self,
        exchange: Exchange,
        hello: HelloResult,
        *,
        private: bool = True,
        worker: LocalWorker | None = None,
        opening: Opening | None = None,
    ) -> None:
        self._exchange = exchange
        self._info = hello
        self._private = private
        self._worker = worker
        self._opening = opening
        self._directory = Directory(exchange, shared=not private)
        self._ti = Facade(exchange, hello.options)
        exchange.releases.active = private
        _open_sessions.add(self)

    # What it is

    @property
    def info(self) -> HelloResult:
        """What the worker said when the session was opened: session name, engine (real arch, device), limits."""
        return self._info

    @property
    def name(self) -> str:
        """The session's name on the worker."""
        return self._info.session

    @property
    def address(self) -> str:
        """Where the worker is."""
        return self._exchange.address

    @property
    def ti(self) -> Facade:
        """Taichi's names for arrays and dtypes, made remote."""
        return self._ti

    @property
    def private(self) -> bool:
        """Whether it has no name that others could use, and ends when it is closed."""
        return self._private

    @property
    def closed(self) -> bool:
        """Whether it was closed or detached from."""
        return self._exchange.closed

    @property
    def last_timing(self) -> Timing | None:
        """Where the time of the most recently answered request went, in seconds; None before the first."""
        return self._exchange.last_timing

    @property
    def on_progress(self) -> Progress | None:
        """Told (bytes done, bytes in all) of transfers that were given no ``progress`` of their own."""
        return self._exchange.on_progress

    @on_progress.setter
    def on_progress(self, progress: Progress | None) -> None:
        self._exchange.on_progress = progress

    # Code

    def __getitem__(self, kernel_id: str | None) -> RemoteUnit:
        """What was loaded under the id; None: the newest at the time of each use. Raises `UnknownName`."""
        if kernel_id is not None:
            self._directory.unit(kernel_id)
        return RemoteUnit(self._directory, kernel_id)

    def __contains__(self, kernel_id: object) -> bool:
        """Whether something is loaded under that id."""
        return any(holding.unit == kernel_id for holding in self._directory.describe().units)

    def kernel(self, name: str) -> RemoteKernel:
        """The callable of that name: in the newest unit, or as ``unit.name`` in another. Raises `UnknownName`."""
        unit, inside = self._directory.locate(name)
        return RemoteKernel(self._exchange, Name(unit=unit, name=inside))

    def run(self, name: str, /, *args: Any, **kwargs: Any) -> Any:
        """Calls ``name`` as `kernel` finds it. Every keyword is the kernel's own; for deadlines use
        ``gpu.kernel(name).with_options(deadline=2.0, compile_deadline=60.0)(...)``."""
        return self.kernel(name)(*args, **kwargs)

    def watch(
        self,
        *files: str | os.PathLike[str],
        on_reload: Callable[[tuple[Reload, ...]], None] | None = print_reloads,
        on_note: Callable[[str], None] | None = None,
    ) -> Watch:
        """Loads the files now and each again whenever it is saved, until `Watch.stop` or the end of a ``with`` block.

        A file is loaded under its stem as the id: ``sim.py`` is ``gpu["sim"]``. They may import one another, and those
        that are saved together are loaded as one. What does not load leaves what was loaded before as it is.
        ``on_reload`` is told what became of files that were saved together, first by this call, then on the watch's own
        thread, where it may use the session; the default prints that to stderr. ``on_note`` takes lines on loads that
        take long, which else go to stderr as well.

        Raises `ValueError` for a path that is no file and for two files of one stem.
        """
        return Watch(self, *files, on_reload=on_reload, on_note=on_note)

    # Data

    def array(self, values: Any, *, label: str | None = None, progress: Progress | None = None) -> RemoteArray:
        """A new remote ndarray of the shape, dtype and values of a NumPy array (or what NumPy makes of ``values``)."""
        values = np.asanyarray(values)
        array = self._ti.ndarray(values.dtype, values.shape, label=label)
        array.from_numpy(values, progress=progress)
        return array

    def snapshot(self, *, every_seconds: float | None = None, every_runs: int | None = None) -> SnapshotResult:
        """Copies every array and field into the worker's memory, from where it is put back when an engine is lost.

        What `RemoteArray.from_numpy` sends and `to_numpy` fetches is kept there anyway. ``every_seconds`` and
        ``every_runs``: the worker does so by itself from now on, that often, when something ran meanwhile; 0 ends it.
        """
        return self._exchange.call(Snapshot(id="", every_seconds=every_seconds, every_runs=every_runs), SnapshotResult)

    def proxy(self, handle: Handle) -> Any:
        """What this session keeps under a handle that `describe` lists, ready to be used."""
        return thawed(self._exchange, handle)

    def cleanup(self, what: str | RemoteArray | RemoteObject) -> CleanupResult:
        """Drops what is loaded under the kernel id, or an array or object; its memory comes back.

        Raises `UnknownName`, `StaleHandle`.
        """
        if isinstance(what, Remote) and isinstance(what._target, Handle):
            result = self._exchange.call(Cleanup(id="", targets=(what._target,)), CleanupResult)
            self._exchange.releases.forget(what._target)
            return result
        if not isinstance(what, str):
            raise TypeError(f"cleanup takes a kernel id, or an array or object of its own, not {type(what).__name__}")
        try:
            return self._exchange.call(Cleanup(id="", unit=what), CleanupResult)
        finally:
            self._directory.forget()

    def cleanup_all(self) -> CleanupResult:
        """Drops every unit, array, field and object of the session; its memory comes back."""
        try:
            result = self._exchange.call(Cleanup(id="", everything=True), CleanupResult)
            self._exchange.releases.clear()
            return result
        finally:
            self._directory.forget()

    def ast(self, kernel_id: str | None, name: str) -> SyntaxTree:
        """The tree that a kernel, func, function, class or ``Class.method`` of a unit is made from, as text and JSON.

        ``kernel_id`` None is the newest unit. Raises `UnknownName`, `KernelArgumentError`.
        """
        return self._exchange.call(GetSyntaxTree(id="", target=Name(unit=kernel_id, name=name)), SyntaxTree)

    # How it goes

    def ping(self) -> float:
        """Seconds for a message there and an answer back, whatever the engine does."""
        started = self._exchange.clock()
        self._exchange.call(Ping(id=""), Pong)
        return self._exchange.clock() - started

    def status(self) -> WorkerStatus:
        """What runs and waits, since when, memory in bytes. Answered at once, whatever the engine does."""
        return self._exchange.call(Status(id=""), WorkerStatus)

    def describe(self) -> Description:
        """What the session holds: units with signatures and versions, arrays, fields, objects, bytes."""
        return self._directory.describe()

    def interrupt(self, request: RequestId | RequestFuture[Any] | None = None) -> InterruptResult:
        """Stops ``request`` (an id or a future), or whatever the session runs now."""
        if isinstance(request, RequestFuture):
            request = request.request_id
        return self._exchange.call(Interrupt(id="", request=request), InterruptResult)

    def bench(
        self,
        callee: RemoteKernel | str,
        /,
        *args: Any,
        kwargs: Mapping[str, Any] | None = None,
        repeats: int = 30,
        warmup: int = 3,
        max_spread: float | None = 0.5,
        deadline: float | None = None,
    ) -> Benchmark:
        """Times a kernel, function or method on the worker, from the launch until the device is done.

        ``callee`` is what would be called, or ``unit.name``. It is called ``warmup`` times, which compiles it, and then
        ``repeats`` times, with the arguments as they are now. What is on the worker changes as by any call (`compare`
        runs on copies); NumPy arrays go there once and stay as they are here. Nothing of the network or of the messages
        is in the times.

        Raises as a call does, and `Refused` where the quartiles are further apart than ``max_spread`` times the median:
        then something else had the machine, or the calls are not alike, and one number would mean nothing. None takes
        whatever there is.
        """
        callee = self.kernel(callee) if isinstance(callee, str) else callee
        result = callee._bench(args, kwargs or {}, repeats=repeats, warmup=warmup, deadline=deadline)
        if max_spread is not None and result.spread > max_spread:
            raise Refused(
                f"the times are too far apart to mean anything (spread {result.spread:.2g}, at most {max_spread:g} is "
                f"taken): more repeats or a machine that rests, or max_spread=None to see them all. {result}"
            )
        return result

    def explain_crash(self, *, deadline: float | None = None) -> CrashExplanation:
        """Runs the request with which the session's engine crashed last again, in a debug engine, and tells what it is.

        Of an index out of bounds that is the line, the index and the shape. It has the units as they were then, and
        copies of the arrays as after a crash; nothing of the session changes, and what runs in it goes on. ``deadline``
        is in seconds, 60 unless told otherwise. Raises `Refused` where there was no crash.
        """
        return self._exchange.call(ExplainCrash(id="", deadline=deadline), CrashExplanation)

    def cancel(self, future: RequestFuture[Any]) -> bool:
        """Takes the request of ``submit`` out of the queue. False: it had started already, or is done."""
        return future.cancel()

    # What was asked for before

    def requests(self) -> RequestsResult:
        """What the session's clients sent that runs, waits, or was answered to nobody who is known to have it.

        That is what a program left behind that was killed, or detached without waiting: `collect` takes it up.
        """
        return collecting.list_requests(self._directory)

    def collect(self, request: RequestLine | RequestId) -> RequestFuture[Any]:
        """Takes up a request that was sent before, by whom ever: one of `requests`, or an id.

        What it printed goes to ``on_output`` from the first that is kept, and the future has its result, as it would
        be for the one who sent it, who gets it too. NumPy arrays that the call wrote to are in ``future.written``.
        The future raises `UnknownName` where there is no such request, and `Refused` where its answer is not kept.
        """
        return collecting.collect(self._directory, request)

    # The end

    def close(self) -> None:
        """Ends a private session and all it holds, detaches from a named one, and ends a local worker."""
        self._leave(end=self._private)

    def detach(self) -> str:
        """Leaves, and keeps the session for its lease. Returns the token that `connect` rejoins it with."""
        if self._worker is not None:
            raise Refused("a local worker ends with its client; connect to a tiremote-worker to detach from it")
        self._leave(end=False)
        return self._info.token

    def reopened(self, **options: Any) -> Session:
        """A session opened as this one was, which is closed; ``options`` are Taichi's and replace those given then.

        A local worker that runs is kept; where it has ended, another is started. Nothing of a private session comes
        along. Raises as `connect` does, and leaves this session as it is then.
        """
        if self._opening is None:
            raise Refused("this session was not opened by connect(): call that again")
        worker = self._worker if self._worker is not None and self._worker.running else None
        opened = self._opening.with_options(options).open(worker)
        if worker is not None:
            self._worker = None
        self.close()
        return opened

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _leave(self, *, end: bool, patience: float = 2.0) -> None:
        _open_sessions.discard(self)
        try:
            if not self._exchange.closed:
                # A worker that is gone is no reason to fail: the lease ends what is left there.
                with contextlib.suppress(TiremoteError, TimeoutError):
                    bye = Bye(id="", end=end, received=self._exchange.delivered)
                    self._exchange.call(bye, ByeResult, patience=patience)
        finally:
            # Also where Ctrl-C breaks the wait.
            self._exchange.close()
            if self._worker is not None:
                self._worker.stop()

    def __repr__(self) -> str:
        engine = self._info.engine
        state = ", closed" if self.closed else ""
        return f"<Session {self.name!r} on {self.address}, {engine.arch} ({engine.device}){state}>"


_open_sessions: weakref.WeakSet[Session] = weakref.WeakSet()


@atexit.register
def _close_open_sessions() -> None:
    for session in list(_open_sessions):
        session._leave(end=session._private, patience=1.0)
