"""What the front knows: sessions, the clients seated in them, their jobs, and the engines that serve them."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from tiremote.protocol.errors import EngineCrashed, TiremoteError
from tiremote.protocol.messages import EngineRequest, Hello, Lend, RequestId, Run
from tiremote.protocol.receipts import ArrayHolding, UnitHolding
from tiremote.protocol.results import EngineInfo
from tiremote.protocol.values import Ref
from tiremote.worker.front.copies import HostCopy
from tiremote.worker.front.crash import Crash
from tiremote.worker.front.history import UnitHistory
from tiremote.worker.front.leaks import Leak
from tiremote.worker.front.noted import NotedDict
from tiremote.worker.front.output import Output
from tiremote.worker.front.record import Record
from tiremote.worker.front.routes import Listener, Route
from tiremote.worker.front.usage import Usage
from tiremote.worker.ledger import Ledger
from tiremote.worker.link import Compiling


@dataclass(eq=False, kw_only=True, slots=True)
class Seat:
    """One client of a session: what its token stands for. Ids of requests are unique within it.

    ``number`` counts the clients of the session: it names this one to the others, who must not know its token.
    """

    token: str
    number: int
    session: Session
    user: str
    client: str | None
    record: Record
    jobs: dict[RequestId, Job] = field(default_factory=dict)
    #: Its requests to collect: whose request each is after, under which id.
    collects: OrderedDict[RequestId, tuple[Seat, RequestId]] = field(default_factory=OrderedDict)
    #: By the numbers that it gave them, its runs that it may make again over a lane.
    sites: dict[int, Run] = field(default_factory=dict)
    last_seen: float = 0.0

    def job(self, request: RequestId) -> Job | None:
        """The job that the client waits for by this id, sent or collected."""
        owner, original = self.collects.get(request, (self, request))
        return owner.jobs.get(original)

    def is_awaiting(self) -> bool:
        """Whether it waits for an answer."""
        return bool(self.jobs) or any(map(self.job, self.collects))


@dataclass(eq=False, kw_only=True, slots=True)
class Job:
    """A request that waits for its engine, or is with it. ``listeners`` are told: first the client that sent it."""

    key: int
    seat: Seat
    listeners: list[Listener]
    request: EngineRequest
    header: bytes
    buffers: tuple[Any, ...]
    nbytes: int
    received: float
    output: Output
    #: The texts that it loads, by unit; that of a unit which the worker names is under None.
    texts: Mapping[str | None, str] = field(default_factory=dict)
    started: float | None = None
    stop: Stopping | None = None
    #: What its engine said last of the compiling in it.
    compiling: Compiling | None = None
    #: Answered already; the engine passes over it.
    withdrawn: bool = False


@dataclass(eq=False, kw_only=True, slots=True)
class Stopping:
    """A running job that is to be stopped: why, when patience ends, and which request asked for it; None: the time."""

    error: TiremoteError
    kill_at: float
    asked_by: RequestId | None = None


@dataclass(eq=False, kw_only=True, slots=True)
class Unit:
    """The text of a loaded unit, from which it is loaded again after a crash, and the texts it had before.

    ``arrays``: the names that lead to its fields and ndarrays.
    """

    holding: UnitHolding
    source: str
    history: UnitHistory
    arrays: tuple[str, ...] = ()


EngineState = Literal["starting", "prepared", "opening", "serving", "leaving"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Loading:
    """A unit is loaded again."""

    unit: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Refilling:
    """An array is put back, or so many of its copy's pieces; ``name`` is what it is called in reports.

    ``copy``: without its bytes; None where only a handle is made again.
    """

    target: Ref
    name: str
    copy: HostCopy | None = None
    pieces: tuple[int, int] = (0, 0)
    nbytes: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Snapping:
    """Everything is copied, because it is time for it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MoveStep:
    """A step of moving a session to another engine, and of which piece."""

    step: str
    number: int = 0


Chore = Loading | Refilling | Snapping


@dataclass(kw_only=True, slots=True)
class SnapshotPlan:
    """How often a session's arrays are copied by themselves, and what has happened since; 0 for never."""

    every_seconds: float
    every_runs: int
    runs: int = 0
    since: float = 0.0
    #: What a snapshot that is being made has brought so far: each copy's order and bytes, None where there is no room.
    taken: dict[Ref, tuple[int, int] | None] = field(default_factory=dict)
    #: Something may be there, or be other, than when everything was copied last.
    behind: bool = False

    def due_at(self) -> float | None:
        """When the time has come, None where it never does by itself."""
        if not self.runs:
            return None
        if self.every_runs and self.runs >= self.every_runs:
            return self.since
        return self.since + self.every_seconds if self.every_seconds else None


@dataclass(eq=False, kw_only=True, slots=True)
class Engine:
    """One engine process. ``inflight`` is in order: its first is what the engine is busy with."""

    number: int
    runtime: str
    state: EngineState = "starting"
    pid: int | None = None
    info: EngineInfo | None = None
    session: Session | None = None
    inflight: deque[Job] = field(default_factory=deque)
    #: What the front has it do for itself, in order, by the keys of the messages; no job goes to it meanwhile.
    chores: OrderedDict[int, Chore] = field(default_factory=OrderedDict)
    #: Steps of a move that it has been asked for; other work may be with it meanwhile.
    moving: dict[int, MoveStep] = field(default_factory=dict)
    #: It is to take its session over from the engine that serves it.
    is_heir: bool = False
    #: Units that could not be loaded again, and why, until all have been tried.
    unloaded: dict[str, str] = field(default_factory=dict)
    loads_again: bool = False
    #: Its arrays have been put back, or are being so; everything is there that can be.
    refilled: bool = False
    restored: bool = False
    #: What of them is still to be sent; something is among the chores then.
    refills: deque[Refilling] = field(default_factory=deque)
    #: What launched kernels on it last and has ended, for people.
    launched: str | None = None
    #: Why the engine is about to go, where the front knows.
    fate: str | None = None
    kill_at: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Loss:
    """What a session held when it lost its engine, at ``died_at``, with names for people."""

    died_at: float
    held: Mapping[Ref, str] = field(default_factory=dict)


@dataclass(eq=False, kw_only=True, slots=True)
class Mourning:
    """The answer to the job that an engine died with: it waits a little for what could be restored."""

    job: Job
    error: TiremoteError
    hint_at: float
    send_by: float
    loss: Loss
    in_full: bool = True
    hinted: bool = False

    def due(self) -> float:
        """When something is to be said."""
        return self.send_by if self.hinted else min(self.hint_at, self.send_by)


@dataclass(frozen=True, kw_only=True, slots=True)
class Word:
    """What the next request of a client is told: that an engine was lost while none of its requests ran."""

    error: EngineCrashed
    loss: Loss


@dataclass(eq=False, kw_only=True, slots=True)
class Session:
    """A session: what it holds, who is seated, what waits."""

    id: str
    name: str | None
    owner: str
    options: dict[str, Any]
    lease: float
    last_seen: float
    #: When its engine last had something to do, as far as that was looked at; and whether it had then.
    last_busy: float
    was_busy: bool = False
    #: How many clients it has had.
    seated: int = 0
    generation: int = 0
    #: The last generation with whose engine something was lost.
    lost_in: int = 0
    engine: Engine | None = None
    seats: dict[str, Seat] = field(default_factory=dict)
    queue: deque[Job] = field(default_factory=deque)
    queued_bytes: int = 0
    units: OrderedDict[str, Unit] = field(default_factory=OrderedDict)
    newest: str | None = None
    arrays: NotedDict[str, ArrayHolding] = field(default_factory=NotedDict)
    #: By the ids of handles of tapes that are open, whose each is.
    tapes: dict[str, Seat] = field(default_factory=dict)
    ledger: Ledger = field(default_factory=Ledger)
    usage: Usage = field(default_factory=Usage)
    #: How often units were loaded or dropped.
    loads: int = 0
    leak: Leak = field(default_factory=Leak)
    #: Nothing is sent to its engine: it is about to have another.
    held: bool = False
    #: By the tokens of clients that have not heard yet that an engine was lost.
    unsaid: dict[str, Word] = field(default_factory=dict)
    #: What was kept under handles when the engine was lost, until it is put back or found to be gone.
    stock: NotedDict[str, ArrayHolding] = field(default_factory=NotedDict)
    #: Units that could not be loaded again after a crash, and arrays that could not be put back, with the reasons.
    broken: dict[str, str] = field(default_factory=dict)
    unrestored: dict[Ref, str] = field(default_factory=dict)
    #: What was lost last, and what of it was put back: the copies, without their bytes.
    loss: Loss | None = None
    put_back: dict[Ref, HostCopy] = field(default_factory=dict)
    welcomes: list[tuple[Route, Hello, Seat, bool]] = field(default_factory=list)
    mourning: list[Mourning] = field(default_factory=list)
    crash: Crash | None = None
    #: Jobs that wait for its explanation, with an engine of their own.
    explaining: list[Job] = field(default_factory=list)
    #: What the last engine died at while it was brought to where the one before was.
    suspect: Chore | None = None
    #: Engines in a row that died before everything was there again.
    relapses: int = 0
    snapshots: SnapshotPlan
    #: Engines in a row that died before they served it.
    failed_starts: int = 0
    #: Work waits because its clients do not take the answers they have.
    unread: bool = False
    #: Its engine is to say where Python was when a signal ends it.
    last_words: bool = False
    #: It may not be what is on disk of it.
    unsaved: bool = True

    @property
    def runtime(self) -> str:
        """The runtime that its engines have."""
        return str(self.options["runtime"])

    def taichi_options(self) -> dict[str, Any]:
        """Those of its options that its engine takes."""
        return {name: value for name, value in self.options.items() if name != "runtime"}

    def running(self) -> Job | None:
        """What the engine is busy with."""
        return self.engine.inflight[0] if self.engine and self.engine.inflight else None

    def is_lent(self) -> bool:
        """Whether its engine is with a client's lane, or will be when it begins what it was sent."""
        job = self.running()
        return job is not None and isinstance(job.request, Lend)

    @property
    def last_needed(self) -> float:
        """When a client was heard or work was done last: its lease counts from then."""
        return max(self.last_seen, self.last_busy)

    def is_awaited(self) -> bool:
        """Whether somebody waits for an answer of its engine."""
        return bool(self.running() or self.queue or self.welcomes or self.mourning or self.explaining)

    def holdings(self) -> dict[str, ArrayHolding]:
        """Everything that is kept under a handle, also what is to be put back first."""
        return {**self.stock, **self.arrays}

    def array_bytes(self) -> int:
        """Its bytes."""
        return sum(holding.nbytes for holding in self.holdings().values())


def describe(job: Job) -> str:
    """What a job does, for people: ``run add_base``."""
    if isinstance(job.request, Lend):
        return "calls over a lane"
    subject = getattr(job.request, "target", None) or getattr(job.request, "unit", None)
    subject = getattr(subject, "id", subject) or ", ".join(each.unit for each in getattr(job.request, "units", ())[:8])
    return f"{job.request.op} {subject}" if subject else job.request.op
