"""The socket: messages between `Core` and the worker, moved by a thread of the link's own or by one that waits.

A call that has the link's thread move its messages changes threads twice, which takes longer than the messages. So
that thread lets go when it sees calls that are waited for, and each of these moves the messages itself until it has its
answer. It takes them up again when something is left to be done, or no call has come for a moment.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import zmq
from zmq.utils.monitor import recv_monitor_message

from tiremote.client.core import NO_HANDSHAKE, Core, Pending
from tiremote.client.held_interrupts import HeldInterrupts
from tiremote.client.keys import CurveKeys
from tiremote.client.resolve import needs_ipv6
from tiremote.protocol.codec import decode_reply, id_in
from tiremote.protocol.errors import InternalError, Refused, TiremoteError, Unauthorized, WorkerUnreachable
from tiremote.protocol.messages import RequestId
from tiremote.protocol.results import Limits

_log = logging.getLogger("tiremote.client")

#: Seconds after which the thread looks around although nothing happened: what was garbage-collected is released then.
_LOOK_AROUND = 1.0

#: Seconds for which the link's thread leaves the messages to callers after the last call that was waited for.
_REST = 0.05

#: Stands for the link's thread until that knows that it is to move messages. No thread's number.
_THE_LINKS_OWN = 0

#: On Windows Ctrl-C does not break a wait for messages.
_CALLERS_MOVE = sys.platform != "win32"

#: Messages that are read before what was asked for meanwhile is sent.
_AT_A_TIME = 64

#: What a worker answers is as large as it thinks right.
_ANY = Limits(header_bytes=1 << 31)

_EVENTS = (
    zmq.EVENT_HANDSHAKE_SUCCEEDED
    | zmq.EVENT_DISCONNECTED
    | zmq.EVENT_CONNECT_RETRIED
    | zmq.EVENT_HANDSHAKE_FAILED_AUTH
    | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
    | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
)

#: There is no answer at all, so that the causes can only be named.
_KEYS_ADVICE = (
    "With keys (CURVE) a worker stays silent to a client whose keys do not match; one that was started without "
    "--keys takes none: leave them out then"
)


class Link:
    """A connection to a worker and its thread. `send` and `carry` are for any thread.

    Everything else happens on the thread that moves the messages; ``on_pass`` is called there from time to time, and
    after everything that happens.
    """

    def __init__(
        self,
        address: str,
        *,
        quiet_limit: float,
        keys: CurveKeys | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.address = address
        self.clock = clock
        self.on_pass: Callable[[], None] | None = None
        self._keys = keys
        advice = "" if keys is None else _KEYS_ADVICE
        self._core = Core(address, quiet_limit=quiet_limit, advice=advice)
        self._inbox: deque[Pending] = deque()
        self._lock = threading.Lock()
        self._closing = False
        #: The thread that moves the messages, None while the link's own rests and no caller does.
        self._mover: int | None = _THE_LINKS_OWN
        #: The thread that is in the middle of that.
        self._stepping: int | None = None
        #: Somebody waited for an answer while the link's thread moved the messages.
        self._wanted = False
        self._rouse = threading.Event()
        #: When a caller moved them last.
        self._lent_at = 0.0
        self._context = zmq.Context()
        self._lost: str | None = None
        self._waker: zmq.Socket[bytes] = self._context.socket(zmq.PAIR)
        self._waker.bind("inproc://wake")
        self.thread = threading.Thread(target=self._run, name=f"tiremote {address}", daemon=True)
        self.thread.start()

    def send(self, pending: Pending) -> None:
        """Hands a request over. Raises `Refused` once the link is closed."""
        with self._lock:
            self._take(pending)
            self._call_for_attention()

    def carry(self, pending: Pending, done: Callable[[], bool]) -> None:
        """`send`, and where nobody moves the messages does so on this thread until ``done()``; else returns at once."""
        with HeldInterrupts() as held:
            try:
                with self._lock:
                    self._take(pending)
                    # It is this thread already where a signal's handler raised before it could be given back.
                    if self._mover in (None, threading.get_ident()) and _CALLERS_MOVE:
                        self._mover = threading.get_ident()
                    else:
                        self._wanted = True
                        self._call_for_attention()
                        return
                while not (done() or self._closing):
                    self._step(held)
            except BaseException:
                # Of a signal's handler, say. In the middle of a message: what it did is asked for again.
                self._core.wants_reconnect |= self._mover == threading.get_ident() and not held.waiting
                raise
            finally:
                if self._mover == threading.get_ident():
                    self._give_back()

    def _take(self, pending: Pending) -> None:
        if self._closing:
            raise Refused("this session is closed: connect() again")
        self._inbox.append(pending)
        pending.handed_over = True

    @property
    def is_moved_here(self) -> bool:
        """Whether the calling thread is in the middle of moving messages, which nobody else would do meanwhile."""
        return self._stepping == threading.get_ident()

    def established(self, token: str, *, quiet_limit: float) -> None:
        """Hello was answered. Called where the messages are moved, or before anything else is sent."""
        self._core.token = token
        self._core.quiet_limit = quiet_limit

    def lost(self, why: str) -> None:
        """The worker is known to be gone for good: what waits, and all later, fails with `WorkerUnreachable`."""
        with self._lock:
            if not self._closing:
                self._lost = why
                self._call_for_attention()

    @property
    def delivered(self) -> tuple[RequestId, ...]:
        """The ids of answers that came, of which the worker may not know."""
        return self._core.delivered

    def close(self) -> None:
        """Ends the thread and the socket; what is pending fails with `Refused`. May be called twice."""
        with self._lock:
            if not self._closing:
                self._closing = True
                self._call_for_attention()
        if not self.is_moved_here:
            self.thread.join()

    @property
    def closed(self) -> bool:
        return self._closing

    def _call_for_attention(self) -> None:
        """Under the lock."""
        if self._mover is None:
            self._rouse.set()
            return
        try:
            self._waker.send(b"", zmq.DONTWAIT)
        except zmq.Again:
            pass  # a thousand wake-ups wait there already
        except zmq.ZMQError:
            self._closing = True  # the thread has ended

    def _give_back(self) -> None:
        with self._lock:
            self._mover, self._lent_at = None, self.clock()
            if self._is_needed():
                self._mover = _THE_LINKS_OWN
                self._rouse.set()

    def _is_needed(self) -> bool:
        return bool(self._inbox or self._core.busy or self._core.wants_reconnect or self._closing or self._lost)

    # On the thread

    def _run(self) -> None:
        self._mover = threading.get_ident()
        wake = self._woken = self._context.socket(zmq.PAIR)
        wake.connect("inproc://wake")
        socket = self._worker = self._socket()
        monitor = self._monitor = socket.get_monitor_socket(_EVENTS)
        self._poller = zmq.Poller()
        for each in (socket, monitor, wake):
            self._poller.register(each, zmq.POLLIN)
        try:
            try:
                socket.ipv6 = needs_ipv6(self.address, self._core.quiet_limit)
                socket.connect(self.address)
            except WorkerUnreachable as error:
                self._core.lost(error.message)
            held = HeldInterrupts()
            while not self._closing:
                self._step(held)
                if self._wanted:
                    self._rest()
            self._core.fail_all(lambda: Refused("the session was closed before this was answered"))
        except Exception as error:
            _log.exception("the thread of the session ends")
            text = f"the client's own thread failed: {type(error).__name__}: {error}"
            self._core.fail_all(lambda: InternalError(text))
        finally:
            with self._lock:
                self._closing = True
                left, self._inbox = self._inbox, deque()
            for pending in left:
                pending.settle(Refused("the session was closed before this was sent"))
            socket.disable_monitor()
            self._context.destroy(linger=200)

    def _socket(self) -> zmq.Socket[bytes]:
        socket: zmq.Socket[bytes] = self._context.socket(zmq.DEALER)
        # Only a live connection takes messages: what a cut leaves unsent must not overtake what it lost.
        socket.immediate = True
        socket.sndhwm = socket.rcvhwm = 0
        socket.reconnect_ivl, socket.reconnect_ivl_max = 100, 2000
        socket.tcp_keepalive, socket.tcp_keepalive_idle, socket.tcp_keepalive_intvl = 1, 15, 5
        if self._keys is not None:
            socket.curve_publickey, socket.curve_secretkey = self._keys.public, self._keys.secret
            socket.curve_serverkey = self._keys.server
        return socket

    def _rest(self) -> None:
        """Leaves the messages to those who wait for them, as long as nothing else is to be done."""
        with self._lock:
            if self._is_needed():
                return
            self._wanted = False
            self._rouse.clear()
            self._mover, self._lent_at = None, self.clock()
        while True:
            roused = self._rouse.wait(_REST)
            with self._lock:
                over = self._mover is None and (roused or self.clock() - self._lent_at >= _REST)
                if over or self._mover == _THE_LINKS_OWN:
                    self._mover = threading.get_ident()
                    return
                # A caller that moves them rouses when it leaves something to be done.
                self._rouse.clear()

    # On the thread that moves the messages

    def _step(self, held: HeldInterrupts) -> None:
        """Sends what is to be sent, waits, and takes what came."""
        self._stepping = threading.get_ident()
        try:
            self._move(held)
        finally:
            self._stepping = None

    def _move(self, held: HeldInterrupts) -> None:
        # A cut that is known must hold the messages back.
        self._watch()
        if self._lost is not None:
            self._core.lost(self._lost)
        while self._inbox:
            # Taken out afterwards: a signal's handler may raise here.
            self._core.send(self._inbox[0], self.clock())
            self._inbox.popleft()
        self._flush()
        if self.on_pass is not None:
            self.on_pass()
        self._core.tick(self.clock())
        if self._core.wants_reconnect:
            self._core.wants_reconnect = False
            self._worker.disconnect(self.address)
            self._core.disconnected()
            self._worker.connect(self.address)
        self._flush()
        due = self._core.next_tick(self.clock())
        # Rounded up: a wait of 0 would spin.
        patience = 0 if self._inbox else 1 + int(1000 * (_LOOK_AROUND if due is None else min(due, _LOOK_AROUND)))
        held.wait()
        ready = dict(self._poller.poll(patience))
        held.go_on()
        if self._woken in ready:
            while _readable(self._woken):
                self._woken.recv(zmq.DONTWAIT)
        if self._worker in ready:
            self._receive()

    def _receive(self) -> None:
        socket = self._worker
        for _ in range(_AT_A_TIME):
            if not _readable(socket):
                return
            frames: list[Any] = socket.recv_multipart(zmq.DONTWAIT, copy=False)
            buffers = [frame.buffer for frame in frames]
            try:
                reply = decode_reply(buffers)
            except TiremoteError as error:
                # Whom it was for is told where anything of it can be read: else it would be asked for without end.
                self._core.unreadable(id_in(buffers[0], _ANY), error, self.clock())
            else:
                self._core.received(reply, self.clock())

    def _flush(self) -> None:
        messages, socket = self._core.take(), self._worker
        if messages:
            # ZeroMQ looks at most once a millisecond whether a connection has come; asked like this it looks now.
            socket.get(zmq.EVENTS)
        for frames in messages:
            try:
                socket.send_multipart(frames, zmq.DONTWAIT, copy=False)
            except zmq.Again:
                return  # cut meanwhile: the next pong will call these missing

    def _watch(self) -> None:
        monitor = self._monitor
        while _readable(monitor):
            event = recv_monitor_message(monitor, zmq.DONTWAIT)["event"]
            if event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
                self._core.connected(self.clock())
            elif event == zmq.EVENT_DISCONNECTED:
                self._core.disconnected()
            elif event == zmq.EVENT_CONNECT_RETRIED:
                self._core.trouble = self._core.trouble or "no connection is accepted"
            elif event == zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL:
                self._core.trouble = NO_HANDSHAKE
            else:
                self._core.disconnected()
                self._core.fail_all(lambda: Unauthorized(self._refused()))

    def _refused(self) -> str:
        if self._keys is None:
            return (
                f"the worker at {self.address} does not admit a client without keys: "
                "run `tiremote keygen`, have the public key admitted there, and give the worker's "
                "(server_key=, --server-key)"
            )
        return (
            f"the worker at {self.address} does not admit these keys: "
            "have the client's public key admitted there, and check the worker's (server_key=, --server-key); "
            "if it was started without --keys, leave them out"
        )


def _readable(socket: zmq.Socket[bytes]) -> bool:
    return bool(int(socket.get(zmq.EVENTS)) & zmq.POLLIN)
