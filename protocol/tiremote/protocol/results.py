"""The ``result`` of each op's `Ok`, typed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tiremote.protocol.messages import RequestId
from tiremote.protocol.receipts import ArrayHolding, Receipt, Summary, UnitVersion
from tiremote.protocol.values import Handle, WireArray

#: Fields that were declared together share a tree. Taichi holds so many: the next one is refused.
MAX_SNODE_TREES = 512


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """Bytes and counts above which the worker refuses."""

    header_bytes: int = 8 << 20
    #: One buffer: larger arrays go in several requests, by ``flat`` ranges.
    buffer_bytes: int = 64 << 20
    buffers: int = 128
    source_bytes: int = 4 << 20
    #: Payload bytes of a session that wait for its engine at one time.
    session_bytes: int = 1 << 30
    queue: int = 100_000
    sessions: int = 64


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineInfo:
    """What Taichi really runs on. ``arch`` is the real one, such as ``x64`` or ``cuda``."""

    runtime: str
    version: str
    arch: str
    device: str


@dataclass(frozen=True, kw_only=True, slots=True)
class HelloResult:
    """``token`` goes into every later request. ``rejoined``: the session was there already.

    ``generation`` counts the engines that it has had. ``runtimes`` are those that a session of this worker may ask for.
    ``codings`` are those of arrays that the worker reads and makes. ``chunk_cache``: so many bytes of chunks the
    session's engine keeps, 0 for none; ``chunk_key`` is what their digests are keyed by.
    """

    version: int
    token: str
    session: str
    engine: EngineInfo
    worker_version: str
    limits: Limits
    ops: tuple[str, ...]
    options: dict[str, Any] = field(default_factory=dict)
    runtimes: tuple[str, ...] = ()
    rejoined: bool = False
    lease: float = 0.0
    generation: int = 0
    codings: tuple[str, ...] = ()
    chunk_cache: int = 0
    chunk_key: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Pong:
    """``missing``: of the ids asked about, those that are answered already or never came: send them again."""

    missing: tuple[RequestId, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Running:
    """The request that the engine is busy with, for how many seconds, and whether it compiles a kernel now."""

    request: RequestId
    op: str
    target: str
    seconds: float
    client: str | None = None
    compiling: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionStatus:
    """``state`` is ``starting``, ``idle``, ``busy`` or ``stopping``; memory in bytes; ``generation`` counts engines.

    ``array_bytes`` is what is kept under handles, ``unit_bytes`` what lies behind the names of units; an array may be
    both. ``host_bytes`` of them are in NumPy arrays, and copies to be put back after a crash take ``copies_bytes``. Of
    what clients sent its engine keeps ``chunk_bytes``, not to be sent it again.
    ``held_versions`` counts replaced versions of units that somebody holds still. ``engine_memory`` is its process's
    resident memory, ``device_free`` and ``device_total`` are the GPU's, as of the last request; None where there is
    none, or it cannot be asked. ``recycle`` says how it stands with replacing an engine that has leaked memory:
    ``off``, ``due``, ``under way``, ``not possible: `` and why, None where there is nothing to say; ``leaked`` are the
    bytes, ``recycled`` how often it was done.
    """

    session: str
    state: str
    generation: int
    clients: int
    queued: int
    running: Running | None = None
    units: int = 0
    unit_bytes: int = 0
    held_versions: int = 0
    arrays: int = 0
    array_bytes: int = 0
    host_bytes: int = 0
    copies_bytes: int = 0
    chunk_bytes: int = 0
    snode_trees: int = 0
    snode_trees_limit: int = MAX_SNODE_TREES
    engine_pid: int | None = None
    engine_memory: int | None = None
    device_free: int | None = None
    device_total: int | None = None
    leaked: int = 0
    recycled: int = 0
    recycle: str | None = None
    engine: EngineInfo | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionLine:
    """A session in a list: ``id`` names it to `Bye`, ``name`` is None for a private one, ``unused`` is in seconds."""

    id: str
    name: str | None
    state: str
    clients: int
    unused: float
    running: Running | None = None
    units: int = 0
    arrays: int = 0
    array_bytes: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkerStatus:
    """``session`` is that of the token. ``sessions`` counts all, ``listed`` has those of the asking client's key.

    ``dropped`` messages could not be answered; ``crashes`` counts engines that died unasked. ``state`` is ``kept``
    where sessions are on disk, or why they cannot be written there now, and None where they end with the worker.
    """

    pid: int
    uptime: float
    worker_version: str
    engine: EngineInfo | None
    sessions: int
    spares: int
    requests: int
    dropped: int
    crashes: int
    state: str | None = None
    session: SessionStatus | None = None
    listed: tuple[SessionLine, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class RequestLine:
    """A request in a list. ``state`` is ``running``, ``queued`` or ``answered``, and it has been so for ``seconds``.

    ``client`` shows who sent it; ``seat`` is that client's number in the session. Of one that is answered ``code`` is
    the error's, None where it went well, and ``nbytes`` the answer's size.
    """

    request: RequestId
    op: str
    target: str
    seat: int
    state: str
    seconds: float
    client: str | None = None
    code: str | None = None
    nbytes: int = 0

    def __str__(self) -> str:
        how = f", with the error {self.code}," if self.code else ""
        return f"{self.request}: {self.target}, {self.state}{how} for {self.seconds:.1f} s ({self.client})"


@dataclass(frozen=True, kw_only=True, slots=True)
class RequestsResult:
    """What runs first, then what waits in its order, then what is answered, newest first; ``omitted`` more are not
    listed."""

    requests: tuple[RequestLine, ...] = ()
    omitted: int = 0

    def __len__(self) -> int:
        return len(self.requests)

    def __iter__(self) -> Iterator[RequestLine]:
        return iter(self.requests)

    def __getitem__(self, position: int) -> RequestLine:
        return self.requests[position]


@dataclass(frozen=True, kw_only=True, slots=True)
class InterruptResult:
    """``stopped`` is the request that is being stopped, None where nothing ran."""

    stopped: RequestId | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class CancelResult:
    """``cancelled`` False: it had started, was answered, or never came."""

    cancelled: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class ByeResult:
    """``session_ended`` False: it is kept for ``lease`` seconds."""

    session_ended: bool = False
    lease: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class CompileAllResult:
    """A receipt for each unit, in the order of the request. What others were built again is told by the last."""

    receipts: tuple[Receipt, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class RunResult:
    """``written``: (place, array) for every array argument that the call changed.

    A place is a position or a keyword; of what is inside of an argument it is the path there, such as ``0.mass``.
    ``remembered``: the request's ``site`` can be called over a lane.
    """

    value: Any = None
    written: tuple[tuple[int | str, WireArray], ...] = ()
    remembered: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class ArrayResult:
    """Of ``put`` and ``alloc``: what is there now."""

    holding: ArrayHolding | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class FetchResult:
    """One of the three, by the form that was asked for; ``value`` holds an array or a plain value."""

    value: Any = None
    summary: Summary | None = None
    handle: Handle | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class SnapshotResult:
    """``copied`` names what would be put back as of now; ``skipped`` maps a name to the reason why it would not.

    ``nbytes`` is what the copies take, each some 500 bytes more than its array; ``every_seconds`` and ``every_runs``
    are what holds from now on, 0 for never.
    """

    copied: tuple[str, ...] = ()
    skipped: dict[str, Any] = field(default_factory=dict)
    nbytes: int = 0
    every_seconds: float = 0.0
    every_runs: int = 0

    def __str__(self) -> str:
        lines = [f"{len(self.copied)} copied, {self.nbytes:,} bytes: {', '.join(self.copied) or 'nothing'}"]
        lines += [f"  not {name}: {reason}" for name, reason in self.skipped.items()]
        every = [f"{self.every_seconds:g} s"] if self.every_seconds else []
        every += [f"{self.every_runs:,} request{'' if self.every_runs == 1 else 's'}"] if self.every_runs else []
        lines += [f"  from now on by itself after every {' or '.join(every)}"] if every else []
        return "\n".join(lines)


@dataclass(frozen=True, kw_only=True, slots=True)
class CleanupResult:
    """What is gone, and the bytes of arrays that came back."""

    units: tuple[str, ...] = ()
    handles: tuple[str, ...] = ()
    nbytes: int = 0

    def __str__(self) -> str:
        arrays = [f"{len(self.handles):,} array{'' if len(self.handles) == 1 else 's'}"] if self.handles else []
        return f"dropped {', '.join([*self.units, *arrays]) or 'nothing'}; {self.nbytes:,} bytes came back"


@dataclass(frozen=True, kw_only=True, slots=True)
class HistoryResult:
    """``current`` is the version that is loaded."""

    unit: str
    current: int
    versions: tuple[UnitVersion, ...] = ()

    def __str__(self) -> str:
        return "\n".join(f"{'*' if one.version == self.current else ' '} {one}" for one in self.versions)
