"""The messages, as frozen dataclasses: requests of a client, and what a worker sends back.

One request class per op; ``OPS`` maps the op's wire name to its class. The bytes are made and read in `codec`
alone, and checked there against the annotations here: a wrong type never gets as far as an instance.

What all requests have is in `request`, those about source are in `code_requests`, those about arrays in
`array_requests`; all are given on from here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from tiremote.protocol.array_requests import FILLS, FORMS, KINDS, Alloc, Axis, Fetch, FlatRange, Put
from tiremote.protocol.attributes import GetAttribute, SetAttribute
from tiremote.protocol.benchmarking import Bench
from tiremote.protocol.chunks import FindChunks
from tiremote.protocol.code_requests import Compare, Compile, CompileAll, History, Rollback, Side, UnitText
from tiremote.protocol.errors import ProtocolError, shown
from tiremote.protocol.explanation import ExplainCrash
from tiremote.protocol.lanes import Lend, OpenLane
from tiremote.protocol.receipts import Timing
from tiremote.protocol.request import EngineRequest, FollowedRequest, Request, RequestId, check_limit, check_seconds
from tiremote.protocol.syntax_tree import GetSyntaxTree
from tiremote.protocol.tapes import ClearGradients, CloseTape, OpenTape
from tiremote.protocol.values import Handle, Ref

__all__ = [
    "FILLS",
    "FORMS",
    "KINDS",
    "OLDEST_VERSION",
    "OPS",
    "REPLIES",
    "VERSION",
    "Alloc",
    "Axis",
    "Bench",
    "Bye",
    "Cancel",
    "Cleanup",
    "ClearGradients",
    "CloseTape",
    "Collect",
    "Compare",
    "Compile",
    "CompileAll",
    "Describe",
    "EngineRequest",
    "Event",
    "ExplainCrash",
    "Failure",
    "Fetch",
    "FindChunks",
    "FlatRange",
    "FollowedRequest",
    "GetAttribute",
    "GetSyntaxTree",
    "Hello",
    "History",
    "Interrupt",
    "Lend",
    "Ok",
    "OpenLane",
    "OpenTape",
    "Ping",
    "Put",
    "Reply",
    "Request",
    "RequestId",
    "Requests",
    "Rollback",
    "Run",
    "SetAttribute",
    "Side",
    "Snapshot",
    "Status",
    "UnitText",
]

#: The version this code speaks, and the oldest that it still understands.
VERSION = 1
OLDEST_VERSION = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Hello(Request):
    """Opens a session, or rejoins one by ``token`` (after a cut) or by its ``session`` name.

    ``options`` are ``runtime`` and Taichi's (``arch``, ``default_fp``, ``debug``, ``random_seed``, ...) and matter only
    when the session is made. ``lease``: seconds that it outlives its last client.
    """

    op: ClassVar[str] = "hello"

    versions: tuple[int, int] = (OLDEST_VERSION, VERSION)
    session: str | None = None
    client: str | None = None
    options: dict[str, Any] = field(default_factory=dict)
    lease: float | None = None

    def __post_init__(self) -> None:
        Request.__post_init__(self)
        check_seconds("lease", self.lease)
        for name, value in self.options.items():
            # They are handed on by the front, which nothing that came may bring down.
            if not isinstance(name, str) or not isinstance(value, bool | int | float | str | None):
                raise ProtocolError(f"an option is a name and nil, a boolean, a number or text; {shown(value)} came")


@dataclass(frozen=True, kw_only=True, slots=True)
class Ping(Request):
    """Liveness. ``pending``: ids the client waits for; those not in the worker's hands come back as ``missing``.

    ``seen`` has the last ``seq`` that came for each of them, 0 where it is shorter. ``received``: ids whose answers
    came, so that they need not be kept.
    """

    op: ClassVar[str] = "ping"

    pending: tuple[RequestId, ...] = ()
    seen: tuple[int, ...] = ()
    received: tuple[RequestId, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Status(Request):
    """What runs and waits, since when, and what it all weighs. Without a token: of the worker alone."""

    op: ClassVar[str] = "status"


@dataclass(frozen=True, kw_only=True, slots=True)
class Describe(Request):
    """What the session holds."""

    op: ClassVar[str] = "describe"


@dataclass(frozen=True, kw_only=True, slots=True)
class Interrupt(Request):
    """Stops ``request``, or whatever runs now. Code that does not stop by itself costs the engine."""

    op: ClassVar[str] = "interrupt"

    request: RequestId | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Cancel(Request):
    """Takes ``request`` out of the queue, if it has not started."""

    op: ClassVar[str] = "cancel"

    request: RequestId


@dataclass(frozen=True, kw_only=True, slots=True)
class Requests(Request):
    """What the session's clients asked for that runs, waits, or was answered and is not known to have arrived."""

    op: ClassVar[str] = "requests"


@dataclass(frozen=True, kw_only=True, slots=True)
class Collect(FollowedRequest):
    """Answered as ``request`` is, by whichever client of the session that was sent, with its events before it.

    ``seat``, of `RequestLine`, tells whose it is where several clients have a request of that id. ``codings``: those
    that this client reads.
    """

    op: ClassVar[str] = "collect"

    request: RequestId
    seat: int | None = None
    codings: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Bye(Request):
    """Detaches. ``end``: the session ends with it, and everything in it.

    ``received``: ids whose answers came; None: of all that were answered. Other answers wait for somebody to collect.

    Without a token, ``session`` is the id or the name of one of the same key's to end (`WorkerStatus.listed`).
    """

    op: ClassVar[str] = "bye"

    end: bool = False
    session: str | None = None
    received: tuple[RequestId, ...] | None = None

    def __post_init__(self) -> None:
        Request.__post_init__(self)
        if self.session is not None and self.token is not None:
            raise ProtocolError(
                f"session {self.session!r} came with a token, which stands for a session already: send one of them"
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class Run(EngineRequest):
    """Calls ``target`` (or its ``method``) with ``args`` and ``kwargs``.

    Where ``compile_deadline`` is given it counts the seconds in which kernels are compiled, wherever in the call that
    is, and ``deadline`` counts all others. On ``tape``, of `OpenTape`, what the call launches is recorded.
    ``codings``: what arrays that come back may be coded with. ``site``: a number by which the client will make the same
    call again over its lane (`lanes`), where the engine says that it can.
    """

    op: ClassVar[str] = "run"

    target: Ref
    method: str | None = None
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    compile_deadline: float | None = None
    tape: Handle | None = None
    codings: tuple[str, ...] = ()
    site: int | None = None

    def __post_init__(self) -> None:
        EngineRequest.__post_init__(self)
        check_limit("compile_deadline", self.compile_deadline)


@dataclass(frozen=True, kw_only=True, slots=True)
class Snapshot(EngineRequest):
    """Copies every array and field to the front's memory, from where they are put back when an engine is lost.

    ``every_seconds`` and ``every_runs`` have that done again, by itself, whenever that much time has passed or as many
    runs have ended since the last one, if anything ran; 0 ends it, None leaves it as it is.
    """

    op: ClassVar[str] = "snapshot"

    every_seconds: float | None = None
    every_runs: int | None = None

    def __post_init__(self) -> None:
        EngineRequest.__post_init__(self)
        check_seconds("every_seconds", self.every_seconds)
        if self.every_runs is not None and self.every_runs < 0:
            raise ProtocolError(f"every_runs counts from 0; {self.every_runs} came")


@dataclass(frozen=True, kw_only=True, slots=True)
class Cleanup(EngineRequest):
    """Drops a ``unit``, ``targets``, or with ``everything`` all there is; memory comes back."""

    op: ClassVar[str] = "cleanup"

    unit: str | None = None
    targets: tuple[Ref, ...] = ()
    everything: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Ok:
    """The answer. ``result`` is the op's own map, see `results`: of a `Collect` that of the op ``collected``."""

    op: ClassVar[str] = "ok"

    id: RequestId
    result: Any = None
    timing: Timing | None = None
    collected: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Failure:
    """The answer where there is none. ``id`` is None where the request was too broken to have one."""

    op: ClassVar[str] = "error"

    id: RequestId | None
    code: str
    message: str
    data: dict[str, Any] = field(default_factory=dict)
    timing: Timing | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    """Something that happens while request ``id`` runs: ``stdout``, ``stderr``, ``warning`` or ``progress``.

    ``seq`` counts from 1 for each request; all events of a request come before its answer. A ``gap`` stands for
    those from ``data["first"]`` to ``data["last"]``, which are not kept any more; its ``seq`` is that of the last.
    """

    op: ClassVar[str] = "event"

    id: RequestId
    seq: int
    event: str
    text: str = ""
    data: dict[str, Any] = field(default_factory=dict)


Reply = Ok | Failure | Event

OPS: Mapping[str, type[Request]] = {
    cls.op: cls
    for cls in (
        Hello, Ping, Status, Describe, Interrupt, Cancel, Bye, Compile, CompileAll, Run, Put, Alloc, Fetch, Cleanup,
        History, Rollback, Compare, Snapshot, Requests, Collect, ExplainCrash,
        OpenTape, CloseTape, ClearGradients, GetAttribute, SetAttribute, GetSyntaxTree, FindChunks,
        OpenLane, Lend, Bench,
    )
}  # fmt: skip

REPLIES: Mapping[str, type[Ok | Failure | Event]] = {cls.op: cls for cls in (Ok, Failure, Event)}
