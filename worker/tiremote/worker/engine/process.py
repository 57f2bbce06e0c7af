"""The engine process: Taichi on its main thread, the link to the front, and nothing that outlives the front."""

from __future__ import annotations

import faulthandler
import functools
import gc
import os
import signal
import socket
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Sequence
from typing import Any, TextIO

from tiremote.protocol.codec import read_header, request_from_header
from tiremote.protocol.error_wire import error_to_wire
from tiremote.protocol.errors import EngineCrashed, InternalError, Interrupted, Refused, TiremoteError
from tiremote.protocol.messages import EngineRequest
from tiremote.protocol.packing import pack
from tiremote.protocol.results import EngineInfo
from tiremote.worker.engine.frames import poison_in, run_error, without_colours
from tiremote.worker.engine.host_copies import bytes_of
from tiremote.worker.engine.nudges import Nudges, Stopped
from tiremote.worker.engine.orphans import die_with
from tiremote.worker.engine.output import EngineOutput
from tiremote.worker.engine.outside import Outside
from tiremote.worker.engine.runtime import TaichiRuntime
from tiremote.worker.engine.runtime_imports import keep_others_out
from tiremote.worker.engine.service import Service
from tiremote.worker.engine.source import source_of
from tiremote.worker.engine.warm_up import warm_up
from tiremote.worker.host_copy import Moved
from tiremote.worker.link import (
    Channel,
    Compiling,
    Copied,
    Done,
    Exit,
    Load,
    Move,
    Open,
    Prepare,
    PutBack,
    Ready,
    Snap,
    Warned,
    Work,
)
from tiremote.worker.page import Page

#: Seconds without a message after which an engine that is ready counts as a spare.
_UNHURRIED = 0.05


class EngineProcess:
    """Serves the front until it says exit or is gone."""

    def __init__(self, channel: Channel, page: Page, runtime: TaichiRuntime, output: EngineOutput) -> None:
        self._channel = channel
        self._page = page
        self._runtime = runtime
        self._output = output
        runtime.outside = Outside()
        self._nudges = Nudges(page, lambda file: source_of(file) is not None)
        self._service: Service | None = None
        #: What is being answered.
        self._key = 0
        self._options: dict[str, Any] | None = None
        self._is_copy = False
        #: Who forks, where that is a process's main thread.
        self._forking: int | None = None

    def be_forked(self) -> None:
        """Before the user's code forks."""
        process = os.getpid()
        # The kernel takes the end of the thread that forked for the end of the parent.
        self._forking = process if threading.current_thread() is threading.main_thread() else None

    def be_copy(self) -> None:
        """In a process that the user's code forked: the link is its parent's alone, whose death shows in its end."""
        if self._forking is not None:
            die_with(self._forking)
        self._is_copy = True
        self._runtime.compile_clock.tell = None
        self._channel.close()

    def run(self) -> None:
        """Returns when the front says so, or has closed the link."""
        while (received := self._channel.receive()) is not None:
            message, buffers = received
            match message:
                case Prepare(options=options):
                    self._channel.send(self._init(options))
                    self._warm_up()
                case Open():
                    self._open(message)
                case Load():
                    self._load(message)
                case PutBack():
                    self._chore(message.key, functools.partial(self._the_service().put_back, message, buffers))
                case Snap():
                    self._chore(message.key, self._the_service().snapshot)
                case Move():
                    step = functools.partial(self._the_service().move, message.step, message.body, buffers)
                    self._chore(message.key, step)
                case Work():
                    self._work(message, buffers)
                case Exit():
                    if self._service is not None and self._service.moving.has_left:
                        # Nothing of the user's may end here: it goes on in another process.
                        self._runtime.end()
                        os._exit(0)
                    return

    def _warm_up(self) -> None:
        """As a spare, which nobody waits for; a session that is given at once is served at once."""
        if self._options is not None and not self._channel.has_input(_UNHURRIED):
            warm_up(self._runtime)

    def _init(self, options: dict[str, Any]) -> Ready:
        """Initialises Taichi, once for the same options: a spare is ready before it is needed."""
        try:
            if options != self._options:
                self._options = None
                self._runtime.init(options)
                die_plainly()
                self._options = options
                # What there is so far stays: whoever looks for garbage need not look there, which takes 60 ms else.
                gc.collect()
                gc.freeze()
            info = self._runtime.info
            if info is None:
                raise AssertionError("an initialised runtime has told what it runs on")
            return Ready(info=EngineInfo(runtime=info.name, version=info.version, arch=info.arch, device=info.device))
        except Exception as error:
            return Ready(failure=list(error_to_wire(self._typed(error))))

    def _open(self, message: Open) -> None:
        if self._service is not None:
            self._service.close()
        self._service = None
        ready = self._init(message.options)
        if message.last_words:
            faulthandler.enable()
        if ready.info is not None:
            self._service = Service(
                self._runtime,
                message.session,
                message.generation,
                message.limits,
                may_stop=self._nudges.check,
                snapshot_bytes=message.snapshot_bytes,
                chunk_cache=message.chunk_cache,
                send_copies=self._send_copies,
                room=self._channel.cargo.room,
                link=self._channel,
                mark_call=self._page.mark_call,
            )
        self._channel.send(ready)

    def _load(self, message: Load) -> None:
        load = functools.partial(self._the_service().load, message.unit, message.version, message.source)
        self._chore(message.key, load)

    def _chore(self, key: int, do: Callable[[], Any]) -> None:
        """Something that the front wants for itself: no client hears what is printed meanwhile."""
        self._output.begin(key, wanted=False)
        self._answer(key, do)

    def _work(self, message: Work, buffers: list[Any]) -> None:
        self._page.begun = message.key
        if message.key in self._page.withdrawn:
            # Its client has its answer; this one only keeps the order.
            gone = Interrupted("withdrawn before it began")
            self._channel.send(Done(key=message.key, ok=False, body=_packed(gone)))
            return
        service = self._the_service()
        service.moving.interrupted()

        def serve() -> Any:
            request = request_from_header(read_header(message.header, buffers, service.limits))
            if not isinstance(request, EngineRequest):
                raise AssertionError(f"the front keeps {request.op} to itself")
            if message.prints_as is None:
                self._output.begin(message.key, wanted=request.events)
            else:
                self._output.begun(wanted=bool(message.prints_as))
            told: list[str] = []
            self._runtime.compile_clock.tell = lambda **state: self._channel.send(Compiling(key=message.key, **state))
            try:
                with self._runtime.guard_init() as told, self._nudges.stoppable(message.key):
                    return service.serve(request)
            finally:
                self._runtime.compile_clock.tell = None
                for text in (*told, *service.warnings):
                    self._channel.send(Warned(key=message.key, text=text))

        self._answer(message.key, serve)

    def _the_service(self) -> Service:
        if self._service is None:
            raise AssertionError("the front opens a session before it sends work")
        return self._service

    def _send_copies(self, moved: Sequence[Moved], buffers: Sequence[Any]) -> None:
        # Of a snapshot nothing is user code, in which a nudge would stop it.
        if self._page.nudged == self._key:
            raise Stopped
        self._channel.send(Copied(key=self._key, moved=tuple(moved)), buffers)

    def _answer(self, key: int, serve: Any) -> None:
        """Serves and sends exactly one `Done`, whatever happens."""
        service = self._the_service()
        self._key = key
        buffers: list[Any] = []
        poisoned = fault = None
        try:
            body = pack(serve(), buffers, service.codings)
            ok = True
        except BaseException as error:
            poison = poison_in(error)
            poisoned = None if poison is None else f"lost its device ({poison})"
            buffers = []
            told = self._typed(error)
            if isinstance(told, InternalError):
                fault = "".join(traceback.format_exception(error))
            body = _packed(told)
            ok = False
            # Whatever was left half done must not spoil the next request.
            self._runtime.leave_kernel()
        ledger = None
        if poisoned is None:
            try:
                ledger = service.ledger()
            except Exception as error:
                fault = "".join(traceback.format_exception(error))
        self._output.flush()
        if self._is_copy:
            # The user's function has returned in a fork as well: that is no second engine.
            os._exit(0 if ok else 1)
        plain = service.plain if ok and service.moved is not None else None
        if plain is not None:
            buffers.append(bytes_of(plain))
        done = Done(
            key=key,
            ok=ok,
            body=body,
            compile=service.compile_seconds,
            launch=service.launch_seconds,
            changes=service.changes(),
            moved=service.moved,
            ledger=ledger,
            poisoned=poisoned,
            fault=fault,
            beside=plain is not None,
        )
        try:
            self._channel.send(done, buffers)
        except TiremoteError as error:
            # No memory for the result's segment: nothing of it was sent.
            self._channel.send(Done(key=key, ok=False, body=_packed(error), changes=service.changes(), ledger=ledger))
        if poisoned is not None:
            # The requests that wait in the link are for the next engine: none of them may begin here.
            os._exit(1)

    def _typed(self, error: BaseException) -> TiremoteError:
        if isinstance(error, Stopped | KeyboardInterrupt):
            return Interrupted("stopped on demand; everything is as the code left it")
        if (poison := poison_in(error)) is not None:
            return EngineCrashed(poison)
        try:
            return run_error(error, self._runtime)
        except Exception:
            # A fault of ours: the log gets the stack, the user a line.
            return InternalError(f"{type(error).__name__} inside the worker: {error}; see the worker's log")


def _packed(error: TiremoteError) -> bytes:
    return pack(list(error_to_wire(error)), [])


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,  # noqa: ARG001 (the name is that of `warnings.showwarning`)
) -> None:
    """A warning of user code, in the user's own lines."""
    source = source_of(filename)
    where = f"line {lineno} of {source.unit!r}: " if source is not None else ""
    text = " ".join(without_colours(str(message)).split())
    print(f"{where}{category.__name__}: {text}", file=file or sys.stderr)


def die_plainly() -> None:
    """Taichi turns a crash into pages of its own stack, in a debug session also into an exit; the front tells the
    signal."""
    for number in (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL):
        signal.signal(number, signal.SIG_DFL)


def main(argv: list[str]) -> None:
    """``python -m tiremote.worker.engine LINK PAGE RUNTIME``: two descriptors and a name, from the front."""
    link, page, runtime = int(argv[0]), int(argv[1]), argv[2]
    keep_others_out(runtime)
    channel = Channel(socket.socket(fileno=link))
    try:
        made = TaichiRuntime(runtime)
    except Exception as error:
        # What it is told to prepare cannot be; a worker may have been started without what a kept session needs.
        why = Refused(f"runtime {runtime!r} cannot be imported on the worker: {type(error).__name__}: {error}")
        channel.send(Ready(failure=list(error_to_wire(why))))
        channel.receive()
        return
    engine = EngineProcess(channel, Page(page), made, EngineOutput())
    os.close(page)
    # Nothing that the user's code starts may keep the link open: the front would not see this process die.
    os.set_inheritable(link, False)
    os.register_at_fork(before=engine.be_forked, after_in_child=engine.be_copy)
    warnings.showwarning = _show_warning
    die_plainly()
    engine.run()
