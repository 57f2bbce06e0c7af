"""The front's I/O: one thread that moves bytes between the ROUTER, the engines and the sans-IO core."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

import psutil
import zmq

from tiremote.protocol.error_wire import error_to_wire
from tiremote.protocol.errors import OutOfMemory
from tiremote.protocol.packing import pack
from tiremote.worker.front.core import Front
from tiremote.worker.front.effects import Kill, Nudge, Send, Spawn, Stop, ToEngine
from tiremote.worker.front.output import Stream
from tiremote.worker.front.processes import EngineProcess, page_without_name
from tiremote.worker.front.progress import Progress
from tiremote.worker.front.settings import Settings
from tiremote.worker.front.state.rows import Save
from tiremote.worker.front.state.store import Store
from tiremote.worker.link import IDLE, Done, Move, PutBack, Work
from tiremote.worker.page import Calls

_log = logging.getLogger(__name__)

#: Smaller messages are copied by ZeroMQ; their number is bounded by its high-water mark.
_TRACKED_BYTES = zmq.COPY_THRESHOLD

#: As numbers: whoever combines flags of an enumeration makes an object each time.
_READABLE, _WRITABLE = int(zmq.POLLIN), int(zmq.POLLOUT)

#: Messages taken from clients before the engines are looked at again.
_BURST = 64

#: Seconds after which the time is looked at again, however late the next thing is due: poll takes no larger numbers.
_LONGEST_WAIT = 3600.0


class Loop:
    """Runs a `Front` on a bound ROUTER socket until it is drained.

    ``on_ready`` is called once, when the first engine has told what it runs on. ``lifeline`` is a descriptor
    whose end of file ends the worker: the standard input of a worker that belongs to another program. ``store`` is
    where sessions are kept on disk, if they are.
    """

    def __init__(
        self,
        router: zmq.Socket[bytes],
        settings: Settings,
        *,
        curve: bool,
        on_ready: Callable[[Front], None],
        lifeline: int | None = None,
        store: Store | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._router = router
        self._curve = curve
        self._on_ready: Callable[[Front], None] | None = on_ready
        self._lifeline = lifeline
        self._clock = clock
        self._store = store
        self._poller = zmq.Poller()
        self._engines: dict[int, EngineProcess] = {}
        #: Descriptor to the engine that it belongs to.
        self._owners: dict[int, EngineProcess] = {}
        self._running = True
        #: When engines' shared memory is looked at that may not be in use any more.
        self._trim_at: float | None = None
        #: Engines that have been waited for: their number, exit code, and what they began last.
        self._dead: SimpleQueue[tuple[int, int, int, Calls]] = SimpleQueue()
        self._wake, self._woken = socket.socketpair()
        #: Large answers that ZeroMQ has not sent on yet, for each session.
        self._unsent: dict[str, list[tuple[zmq.MessageTracker, int]]] = {}
        self._front = Front(
            settings,
            now=clock(),
            memory_of=_memory_of,
            progress=Progress(self._begun_by, self._calls_of, self._pass_over),
            undelivered=self._undelivered,
            saved=None if store is None else store.saved,
            trouble=(lambda: None) if store is None else store.trouble,
        )

    def run(self) -> None:
        """Returns when the worker has been drained. Raises the reason where it cannot work at all."""
        self._poller.register(self._router, zmq.POLLIN)
        if self._lifeline is not None:
            self._poller.register(self._lifeline, zmq.POLLIN)
        self._poller.register(self._woken, zmq.POLLIN)
        restore = self._catch_signals()
        try:
            self._carry_out()
            while self._running:
                self._step()
        finally:
            restore()
            for engine in list(self._engines.values()):
                engine.kill()
                engine.close()
                engine.wait()
            self._wake.close()
            self._woken.close()

    def _begun_by(self, number: int) -> int:
        engine = self._engines.get(number)
        return 0 if engine is None else engine.begun

    def _calls_of(self, number: int) -> Calls:
        engine = self._engines.get(number)
        return Calls() if engine is None else engine.calls

    def _pass_over(self, number: int, key: int) -> None:
        if number in self._engines:
            self._engines[number].withdraw(key)

    def _undelivered(self, session: str) -> int:
        waiting = [(tracker, size) for tracker, size in self._unsent.get(session, ()) if not tracker.done]
        if waiting:
            self._unsent[session] = waiting
        else:
            self._unsent.pop(session, None)
        return sum(size for _, size in waiting)

    def _step(self) -> None:
        ready = dict(self._poller.poll(self._patience()))
        if self._router in ready:
            self._read_clients()
        if self._woken.fileno() in ready:
            self._read_wakes()
        if self._lifeline is not None and self._lifeline in ready:
            self._read_lifeline()
        for fd in ready:
            if fd in self._owners:
                self._serve(fd, self._owners[fd])
        self._front.tick(self._clock())
        self._save_again()
        self._trim()
        self._carry_out()
        self._say_ready()

    def _save_again(self) -> None:
        due = None if self._store is None else self._store.again_at()
        if due is not None and self._clock() >= due:
            self._front.save_everything()

    def _trim(self) -> None:
        if self._trim_at is not None and self._clock() >= self._trim_at:
            for engine in self._engines.values():
                engine.channel.cargo.trim()
            self._trim_at = None
        if self._trim_at is None and not all(engine.channel.cargo.is_idle for engine in self._engines.values()):
            self._trim_at = self._clock() + IDLE

    def _patience(self) -> int | None:
        now = self._clock()
        again = None if self._store is None else self._store.again_at()
        due = min(
            (time for time in (self._front.next_deadline(now), again, self._trim_at) if time is not None), default=None
        )
        # ZeroMQ counts whole milliseconds: rounding down would poll in circles until the time has come.
        return None if due is None else int(min(max(0.0, due - now), _LONGEST_WAIT) * 1000) + 1

    def _say_ready(self) -> None:
        pool = self._front.scheduler.pool
        if self._on_ready is None:
            return
        if pool.info is not None:
            self._on_ready(self._front)
            self._on_ready = None
        elif pool.unprepared is not None:
            raise pool.unprepared

    def _catch_signals(self) -> Callable[[], None]:
        for sock in (self._wake, self._woken):
            sock.setblocking(False)
        before = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGTERM, signal.SIGINT)}
        old = signal.set_wakeup_fd(self._wake.fileno(), warn_on_full_buffer=False)

        def restore() -> None:
            signal.set_wakeup_fd(old)
            for number, handler in before.items():
                signal.signal(number, handler)

        return restore

    # ------------------------------------------------------------ reading

    def _read_clients(self) -> None:
        for _ in range(_BURST):
            if not int(self._router.get(zmq.EVENTS)) & _READABLE:
                return
            self._front.on_client(*self._receive(), self._clock())
            self._carry_out()

    def _receive(self) -> tuple[bytes, str, list[Any]]:
        """Who sent a message, under which key, and its frames."""
        router = self._router
        if self._curve:
            sender = router.recv(zmq.NOBLOCK, copy=False)
            identity, user = sender.bytes, str(sender.get("User-Id"))
        else:
            identity, user = router.recv(zmq.NOBLOCK), ""
        frames: list[Any] = []
        # A frame of its own costs more than a header's bytes; what comes after the header is not copied.
        copied = True
        while router.get(zmq.RCVMORE):
            frame = router.recv(zmq.NOBLOCK) if copied else router.recv(zmq.NOBLOCK, copy=False).buffer
            frames.append(frame)
            copied = copied and not frame
        return identity, user, frames

    def _read_wakes(self) -> None:
        """Signals by their number, and 0 for each engine that has been waited for."""
        for number in self._woken.recv(4096):
            if number:
                _log.info("%s: draining", signal.Signals(number).name)
                self._front.drain(self._clock())
        while not self._dead.empty():
            number, returncode, begun, calls = self._dead.get()
            self._front.on_exit(number, returncode, begun, self._clock(), calls)
            if self._store is not None:
                self._store.engine_died(number)

    def _read_lifeline(self) -> None:
        if self._lifeline is not None and not os.read(self._lifeline, 4096):
            _log.info("the program that started this worker has gone: stopping")
            self._poller.unregister(self._lifeline)
            self._lifeline = None
            for _ in range(2):
                self._front.drain(self._clock())

    def _serve(self, fd: int, engine: EngineProcess) -> None:
        if engine.number not in self._engines:
            return
        if fd in engine.pipes:
            self._read_output(engine, fd)
            return
        self._flush(engine)
        if not self._read_engine(engine):
            self._bury(engine)

    def _read_output(self, engine: EngineProcess, fd: int) -> None:
        self._take_output(engine, {fd}, engine.read_output(fd))

    def _take_output(self, engine: EngineProcess, read: set[int], pieces: list[tuple[Stream, int, bytes]]) -> None:
        """``read`` are the pipes that the pieces came from."""
        for stream, key, data in pieces:
            self._front.on_output(engine.number, stream, key, data, self._clock())
        for fd in read - engine.pipes.keys():
            self._poller.unregister(fd)
            del self._owners[fd]

    def _read_engine(self, engine: EngineProcess) -> bool:
        try:
            messages, alive = engine.channel.read()
            for message, buffers in messages:
                # What was printed before a message has to be told before it: the engine flushed first.
                for fd in engine.printed():
                    self._read_output(engine, fd)
                self._front.on_engine(engine.number, message, buffers, self._clock())
                # At once: whoever waits for the answer does not wait for what else is due.
                self._carry_out()
        except Exception:
            # A user's code can write to every descriptor of its process, or there is no room for what came.
            _log.exception("engine %s (pid %s) says what is not understood: it is ended", engine.number, engine.pid)
            return False
        return alive

    def _bury(self, engine: EngineProcess) -> None:
        """Its end of the link has closed: it is dead, or as good as that."""
        engine.kill()
        for fd in [*engine.pipes]:
            self._read_output(engine, fd)
        for fd in [engine.channel.fileno(), *engine.pipes]:
            self._poller.unregister(fd)
            del self._owners[fd]
        del self._engines[engine.number]
        begun, calls = engine.begun, engine.calls
        engine.close()

        def reap() -> None:
            self._dead.put((engine.number, engine.wait(), begun, calls))
            # A full socket wakes the loop as well.
            with contextlib.suppress(OSError):
                self._wake.send(b"\0")

        # Not here: a GPU's driver may take its time to let a process go, and everybody else would wait.
        threading.Thread(target=reap, name=f"reap engine {engine.number}", daemon=True).start()

    # ------------------------------------------------------------ doing

    def _carry_out(self) -> None:
        while effects := self._front.take():
            for effect in effects:
                match effect:
                    case Save() if self._store is not None:
                        self._store.save(effect)
                    case Send():
                        self._send(effect)
                    case ToEngine():
                        self._tell(effect)
                    case Spawn(number, runtime):
                        self._spawn(number, runtime)
                    case Nudge(number, key):
                        if number in self._engines:
                            self._engines[number].nudge(key)
                    case Kill(number):
                        if number in self._engines:
                            self._engines[number].kill()
                    case Stop():
                        self._running = False

    def _send(self, effect: Send) -> None:
        listener = effect.listener
        if listener is not None and listener.route != effect.route:
            return
        size = sum(memoryview(frame).nbytes for frame in effect.frames)
        frames = [effect.route.identity, *([b""] if effect.route.delimited else []), *effect.frames]
        try:
            tracker = self._router.send_multipart(frames, zmq.NOBLOCK, copy=False, track=size >= _TRACKED_BYTES)
        except zmq.ZMQError as error:
            # Gone, or not reading: what was said is in the record, the client's next ping brings it again.
            if error.errno not in (zmq.EHOSTUNREACH, zmq.EAGAIN):
                raise
            if listener is not None:
                listener.route = None
            _log.debug("a message could not be delivered: %s", error)
            return
        if effect.session is not None and tracker is not None and not tracker.done:
            self._unsent.setdefault(effect.session, []).append((tracker, size))

    def _spawn(self, number: int, runtime: str) -> None:
        try:
            page = page_without_name() if self._store is None else self._store.page(number)
            engine = EngineProcess(number, runtime, page)
        except OSError as error:
            _log.warning("engine %s could not be started: %s", number, error)
            self._front.on_exit(number, 1, 0, self._clock())
            return
        self._engines[number] = engine
        for fd in [engine.channel.fileno(), *engine.pipes]:
            self._owners[fd] = engine
            self._poller.register(fd, zmq.POLLIN)
        self._front.scheduler.pool.engines[number].pid = engine.pid

    def _tell(self, effect: ToEngine) -> None:
        engine = self._engines.get(effect.engine)
        if engine is None:
            return
        if isinstance(effect.message, Work) and effect.message.prints_as is not None:
            fds = set(engine.pipes)
            pieces = engine.begin_output(effect.message.prints_as)
            self._take_output(engine, fds, pieces)
        try:
            engine.channel.queue(effect.message, effect.buffers)
        except OutOfMemory as error:
            # What carries buffers is answered under its key: a request, an array that is put back, a step of a move.
            if not isinstance(effect.message, Work | PutBack | Move):
                raise
            body = pack(list(error_to_wire(error)), [])
            self._front.on_engine(effect.engine, Done(key=effect.message.key, ok=False, body=body), [], self._clock())
        self._flush(engine)

    def _flush(self, engine: EngineProcess) -> None:
        try:
            waiting = not engine.channel.flush()
        except OSError:
            # A dead engine is found by reading: what it still said comes first.
            waiting = False
        if waiting != engine.waiting:
            engine.waiting = waiting
            self._poller.register(engine.channel.fileno(), _READABLE | _WRITABLE if waiting else _READABLE)


def _memory_of(pid: int) -> int | None:
    try:
        return int(psutil.Process(pid).memory_info().rss)
    except (psutil.Error, OSError):
        return None
