"""The hop between front and engine: messages over a Unix socket pair, bulk bytes beside it in shared memory.

A message is a tagged frozen dataclass. On the socket it is a 4-byte length and one msgpack array ``[tag, fields,
buffers]``; a buffer is its bytes where it is small, else where it lies (`cargo`).
Both ends are ours and of one version: nothing here is for the network.
"""

from __future__ import annotations

import re
import select
import socket
import struct
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, get_args

from tiremote.protocol.errors import ProtocolError
from tiremote.protocol.packing import pack, unpack
from tiremote.protocol.receipts import ArrayHolding, UnitHolding
from tiremote.protocol.results import EngineInfo, Limits
from tiremote.protocol.structures import structure
from tiremote.protocol.values import Ref
from tiremote.worker.cargo import Cargo, close_all
from tiremote.worker.host_copy import Moved, Piece
from tiremote.worker.ledger import Ledger

#: What one sendmsg may carry (Linux: SCM_MAX_FD is 253).
MAX_DESCRIPTORS = 250
#: Seconds after which shared memory that was not used is given back.
IDLE = 1.0
_READ_BYTES = 1 << 16
_LENGTH = struct.Struct("<I")
_UNBOUNDED = Limits(header_bytes=1 << 31)

Buffers = Sequence[Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Prepare:
    """Front to engine: initialise Taichi with these options; a session may come later."""

    tag: ClassVar[str] = "prepare"
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Open:
    """Front to engine: serve this session from now on, initialised anew if the options differ."""

    tag: ClassVar[str] = "open"
    session: str
    generation: int
    options: dict[str, Any] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)
    #: The most bytes that one snapshot may hold.
    snapshot_bytes: int = 0
    #: The most bytes of chunks that it keeps.
    chunk_cache: int = 0
    #: A signal that ends it has Python say first, on standard error, where it was.
    last_words: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Load:
    """Front to engine: load a unit again, as that version, after an engine was replaced."""

    tag: ClassVar[str] = "load"
    key: int
    unit: str
    version: int
    source: str


@dataclass(frozen=True, kw_only=True, slots=True)
class PutBack:
    """Front to engine: an array holds these pieces, one after the other, whose bytes follow.

    ``holding``: there is a handle for it, which is to be made again; without pieces for what the handle's ``place`` is.
    """

    tag: ClassVar[str] = "put back"
    key: int
    target: Ref
    #: Those of the array that the pieces are of.
    dtype: str = ""
    shape: tuple[int, ...] = ()
    pieces: tuple[Piece, ...] = ()
    holding: ArrayHolding | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Snap:
    """Front to engine: do what `Snapshot` asks for, for the front itself: `Copied` for the arrays, then `Done`."""

    tag: ClassVar[str] = "snap"
    key: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Move:
    """Front to engine: do one step of moving the session to another engine (`engine.moving`).

    ``body`` is packed. Buffers that follow are what the other engine gave with the step before.
    """

    tag: ClassVar[str] = "move"
    key: int
    step: str
    body: bytes


@dataclass(frozen=True, kw_only=True, slots=True)
class Work:
    """Front to engine: a client's request, its header as it came. Buffers follow.

    ``prints_as``: the front itself takes for the output of that key (0: nobody's) what is printed from here on, as
    nothing of an earlier request can still be in the pipes. None: the engine has to mark in its streams where this
    request's output begins.
    """

    tag: ClassVar[str] = "work"
    key: int
    header: bytes
    prints_as: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Exit:
    """Front to engine: leave in order, so that Taichi writes its cache."""

    tag: ClassVar[str] = "exit"


@dataclass(frozen=True, kw_only=True, slots=True)
class Ready:
    """Engine to front: `Prepare` or `Open` is done; what Taichi runs on. ``failure``: [code, message, data]."""

    tag: ClassVar[str] = "ready"
    info: EngineInfo | None = None
    failure: list[Any] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class UnitArrays:
    """The names that lead to a unit's fields and ndarrays: ``x``, ``sim.grid.mass``."""

    unit: str
    names: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Changes:
    """What a request did to what the session holds. ``reset``: names that lead to another array now, or to none."""

    units: tuple[UnitHolding, ...] = ()
    dropped_units: tuple[str, ...] = ()
    arrays: tuple[ArrayHolding, ...] = ()
    dropped: tuple[str, ...] = ()
    reset: tuple[Ref, ...] = ()
    unit_arrays: tuple[UnitArrays, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Done:
    """Engine to front: a request's answer. Buffers of the result follow.

    ``body`` is packed: the result, or [code, message, data]. ``poisoned``: this engine must be replaced. ``fault`` is
    the stack of a fault of ours, for the worker's log alone. ``beside``: the last buffer is none of the result's, but
    the bytes that ``moved`` tells of, which the messages have coded.
    """

    tag: ClassVar[str] = "done"
    key: int
    ok: bool
    body: bytes
    compile: float = 0.0
    launch: float = 0.0
    changes: Changes | None = None
    moved: Moved | None = None
    #: Where it is another than the one before.
    ledger: Ledger | None = None
    poisoned: str | None = None
    fault: str | None = None
    beside: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Warned:
    """Engine to front: a warning for the client of the running request."""

    tag: ClassVar[str] = "warned"
    key: int
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Compiling:
    """Engine to front: in the running request a compile or a first launch begins, or has ended.

    It is sent before Taichi takes Python's lock, and the front needs no more to know how long it goes on.
    ``compiled``: seconds of the request that were compiling so far; ``spared``: those of first launches that count
    neither as compiling nor as running. ``since``: when what runs now began, by the clock that is one for all
    processes of a machine (`time.monotonic`); None where it has ended. ``spare``: None in a compile, and in a first
    launch how many seconds of it are to be spared.
    """

    tag: ClassVar[str] = "compiling"
    key: int
    compiled: float
    spared: float
    since: float | None = None
    spare: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Copied:
    """Engine to front: arrays that a snapshot has copied so far, whose bytes follow. ``key`` is the snapshot's."""

    tag: ClassVar[str] = "copied"
    key: int
    moved: tuple[Moved, ...]


Message = Prepare | Open | Load | PutBack | Snap | Move | Work | Exit | Ready | Done | Warned | Compiling | Copied
_MESSAGES: dict[str, type[Any]] = {cls.tag: cls for cls in get_args(Message)}
_FIELDS = {cls: tuple(f.name for f in fields(cls)) for cls in _MESSAGES.values()}
#: Messages whose fields are themselves dataclasses, and have to be made so again.
_NESTED = (Open, PutBack, Ready, Copied)
#: Of the message that every request has, only what is seldom there.
_SELDOM: dict[str, type[Any]] = {"changes": Changes, "ledger": Ledger}


class Channel:
    """One end of the link. The engine blocks in `send` and `receive`; the front uses `queue`, `flush`, `read`."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.cargo = Cargo()
        self._out: deque[tuple[memoryview, list[int]]] = deque()
        self._in = bytearray()
        self._descriptors: deque[int] = deque()

    def fileno(self) -> int:
        """The socket's descriptor, for polling."""
        return self.sock.fileno()

    def close(self) -> None:
        """Closes the socket and every descriptor that was not sent or not taken."""
        for _, descriptors in self._out:
            close_all(descriptors)
        self._out.clear()
        close_all(self._descriptors)
        self._descriptors.clear()
        self.cargo.close()
        self.sock.close()

    def send(self, message: Message, buffers: Buffers = ()) -> None:
        """Sends all of it, waiting as long as it takes."""
        self.queue(message, buffers)
        self.flush()

    def queue(self, message: Message, buffers: Buffers = ()) -> None:
        """Takes a message to be sent by `flush`. Raises `OutOfMemory` where no segment can be had."""
        told, descriptors = self.cargo.load(buffers)
        content = [getattr(message, name) for name in _FIELDS[type(message)]]
        if isinstance(message, Done) and message.moved is not None:
            content[_FIELDS[Done].index("moved")] = message.moved.plain()
        body = pack([message.tag, content, told], [])
        # A descriptor needs a byte to travel with, and only so many travel with one.
        data = memoryview(_LENGTH.pack(len(body)) + body)
        while len(descriptors) > MAX_DESCRIPTORS:
            self._out.append((data[:1], descriptors[:MAX_DESCRIPTORS]))
            data, descriptors = data[1:], descriptors[MAX_DESCRIPTORS:]
        self._out.append((data, descriptors))

    def flush(self) -> bool:
        """Sends what the socket takes; True when nothing waits any more. Raises `OSError` when the peer is gone."""
        while self._out:
            data, descriptors = self._out[0]
            try:
                sent = socket.send_fds(self.sock, [data], descriptors) if descriptors else self.sock.send(data)
            except BlockingIOError:
                return False
            close_all(descriptors)
            if sent == len(data):
                self._out.popleft()
            else:
                self._out[0] = (data[sent:], [])
        return True

    def receive(self) -> tuple[Message, list[Any]] | None:
        """Waits for the next message and its buffers; None when the peer has closed."""
        while (message := self._next()) is None:
            while not self.cargo.is_idle and not self.has_input(IDLE):
                self.cargo.trim()
            if not self._fill():
                return None
        return message

    def has_input(self, seconds: float) -> bool:
        """Whether something comes within that time."""
        return bool(self._in) or bool(select.select([self.sock], [], [], seconds)[0])

    def read(self) -> tuple[list[tuple[Message, list[Any]]], bool]:
        """What has come, without waiting; and whether the peer is still there."""
        alive = True
        try:
            while alive:
                before = len(self._in)
                alive = self._fill()
                if 0 < len(self._in) - before < _READ_BYTES and not self._descriptors:
                    # Less than there was room for is all there was; if more has come meanwhile, the poller says so.
                    # Where descriptors came, what was read ends with the byte they came with.
                    break
        except BlockingIOError:
            pass
        except ConnectionError:
            alive = False
        messages = []
        while (message := self._next()) is not None:
            messages.append(message)
        return messages, alive

    def _fill(self) -> bool:
        data, descriptors, _, _ = socket.recv_fds(self.sock, _READ_BYTES, MAX_DESCRIPTORS)
        self._descriptors.extend(descriptors)
        self._in += data
        return bool(data)

    def _next(self) -> tuple[Message, list[Any]] | None:
        if len(self._in) < _LENGTH.size:
            return None
        length = _LENGTH.unpack_from(self._in)[0]
        if length > _UNBOUNDED.header_bytes:
            raise ProtocolError(f"a message of {length} bytes is none of the link's")
        end = _LENGTH.size + length
        if len(self._in) < end:
            return None
        tag, values, told = unpack(bytes(memoryview(self._in)[_LENGTH.size : end]), (), _UNBOUNDED)
        del self._in[:end]
        buffers = self.cargo.unload(told, self._descriptors)
        cls = _MESSAGES[tag]
        content = dict(zip(_FIELDS[cls], values, strict=True))
        if issubclass(cls, _NESTED):
            return structure(cls, content, tag), buffers
        if cls is Done:
            for name, nested in _SELDOM.items():
                content[name] = None if content[name] is None else structure(nested, content[name], tag)
            content["moved"] = None if content["moved"] is None else Moved.of(content["moved"])
        return cls(**content), buffers


MARKER_BYTES = 18


def marker(key: int) -> bytes:
    """What the engine writes into its output before request ``key`` prints; 0: from here on it is nobody's."""
    return b"\x1e%016x\x1e" % key


#: A whole marker, and one whose end has not been read yet.
MARKER = re.compile(rb"\x1e([0-9a-f]{16})\x1e")
MARKER_BEGUN = re.compile(rb"\x1e[0-9a-f]{0,16}\Z")


def make_link() -> tuple[Channel, socket.socket]:
    """The front's end, which never blocks, and the socket for the engine's."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    ours.setblocking(False)
    # Room for a few hundred small messages: fewer round trips through the poller.
    for sock in (ours, theirs):
        for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
            sock.setsockopt(socket.SOL_SOCKET, option, 1 << 20)
    return Channel(ours), theirs
