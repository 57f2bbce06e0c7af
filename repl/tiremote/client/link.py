"""The one thread that owns the socket: it carries messages between `Core` and the worker, and wakes for both."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import zmq
from zmq.utils.monitor import recv_monitor_message

from tiremote.client.core import NO_HANDSHAKE, Core, Pending
from tiremote.client.keys import CurveKeys
from tiremote.client.resolve import needs_ipv6
from tiremote.protocol.codec import decode_reply, id_in
from tiremote.protocol.errors import InternalError, Refused, TiremoteError, Unauthorized, WorkerUnreachable
from tiremote.protocol.messages import RequestId
from tiremote.protocol.results import Limits

_log = logging.getLogger("tiremote.client")

#: Seconds after which the thread looks around although nothing happened: what was garbage-collected is released then.
_LOOK_AROUND = 1.0

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
    """A connection to a worker and its thread. `send` is for any thread; everything else happens on the link's own.

    ``on_pass`` is called there from time to time, and after everything that happens.
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
        self._context = zmq.Context()
        self._lost: str | None = None
        self._waker: zmq.Socket[bytes] = self._context.socket(zmq.PAIR)
        self._waker.bind("inproc://wake")
        self.thread = threading.Thread(target=self._run, name=f"tiremote {address}", daemon=True)
        self.thread.start()

    def send(self, pending: Pending) -> None:
        """Hands a request over. Raises `Refused` once the link is closed."""
        with self._lock:
            if self._closing:
                raise Refused("this session is closed: connect() again")
            self._inbox.append(pending)
            pending.handed_over = True
            self._wake()

    def established(self, token: str, *, quiet_limit: float) -> None:
        """Hello was answered. Called on the link's thread, or before anything else is sent."""
        self._core.token = token
        self._core.quiet_limit = quiet_limit

    def lost(self, why: str) -> None:
        """The worker is known to be gone for good: what waits, and all later, fails with `WorkerUnreachable`."""
        with self._lock:
            if not self._closing:
                self._lost = why
                self._wake()

    @property
    def delivered(self) -> tuple[RequestId, ...]:
        """The ids of answers that came, of which the worker may not know."""
        return self._core.delivered

    def close(self) -> None:
        """Ends the thread and the socket; what is pending fails with `Refused`. May be called twice."""
        with self._lock:
            if not self._closing:
                self._closing = True
                self._wake()
        if threading.current_thread() is not self.thread:
            self.thread.join()

    @property
    def closed(self) -> bool:
        return self._closing

    def _wake(self) -> None:
        try:
            self._waker.send(b"", zmq.DONTWAIT)
        except zmq.Again:
            pass  # a thousand wake-ups wait there already
        except zmq.ZMQError:
            self._closing = True  # the thread has ended

    # On the thread

    def _run(self) -> None:
        wake = self._context.socket(zmq.PAIR)
        wake.connect("inproc://wake")
        socket = self._socket()
        monitor = socket.get_monitor_socket(_EVENTS)
        try:
            try:
                socket.ipv6 = needs_ipv6(self.address, self._core.quiet_limit)
                socket.connect(self.address)
            except WorkerUnreachable as error:
                self._core.lost(error.message)
            self._loop(socket, monitor, wake)
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

    def _loop(self, socket: zmq.Socket[bytes], monitor: zmq.Socket[bytes], wake: zmq.Socket[bytes]) -> None:
        poller = zmq.Poller()
        for each in (socket, monitor, wake):
            poller.register(each, zmq.POLLIN)
        while not self._closing:
            due = self._core.next_tick(self.clock())
            # Rounded up: a wait of 0 would spin.
            ready = dict(poller.poll(1 + int(1000 * (_LOOK_AROUND if due is None else min(due, _LOOK_AROUND)))))
            if wake in ready:
                while _readable(wake):
                    wake.recv(zmq.DONTWAIT)
            if socket in ready:
                self._receive(socket)
            # Before anything is sent: a cut that is known must hold the messages back.
            self._watch(monitor)
            if self._lost is not None:
                self._core.lost(self._lost)
            while self._inbox:
                self._core.send(self._inbox.popleft(), self.clock())
            if self.on_pass is not None:
                self.on_pass()
            self._core.tick(self.clock())
            if self._core.wants_reconnect:
                self._core.wants_reconnect = False
                socket.disconnect(self.address)
                self._core.disconnected()
                socket.connect(self.address)
            self._flush(socket)

    def _receive(self, socket: zmq.Socket[bytes]) -> None:
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

    def _flush(self, socket: zmq.Socket[bytes]) -> None:
        messages = self._core.take()
        if messages:
            # ZeroMQ looks at most once a millisecond whether a connection has come; asked like this it looks now.
            socket.get(zmq.EVENTS)
        for frames in messages:
            try:
                socket.send_multipart(frames, zmq.DONTWAIT, copy=False)
            except zmq.Again:
                return  # cut meanwhile: the next pong will call these missing

    def _watch(self, monitor: zmq.Socket[bytes]) -> None:
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
