"""What is kept on disk, typed: each class is a table, each instance a row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from tiremote.protocol.messages import RequestId
from tiremote.protocol.receipts import ArrayHolding, UnitHolding, UnitVersion
from tiremote.protocol.values import Ref
from tiremote.worker.front.record import Answer, Why
from tiremote.worker.host_copy import Piece

Key = tuple[str | int | bytes, ...]

#: Times are in seconds of a clock that stands still while no worker is up: no lease ends and no copy ages meanwhile,
#: and the system's clock may jump as it likes.
Uptime = float


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionRow:
    """``units`` are in the order in which they are loaded again.

    ``exact``: the copies on disk are what the arrays hold, once all up to this number are there; None where they are
    not. ``heard`` may be behind by a minute.
    """

    key: ClassVar[tuple[str, ...]] = ("session",)

    session: str
    name: str | None
    owner: str
    options: dict[str, Any]
    lease: float
    heard: Uptime
    seated: int
    generation: int
    lost_in: int
    newest: str | None
    units: tuple[str, ...]
    every_seconds: float
    every_runs: int
    exact: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class HeldName:
    """An array that held something when its engine was lost, and its name for people."""

    target: Ref
    name: str


@dataclass(frozen=True, kw_only=True, slots=True)
class SavedWord:
    """What the next request of a client is to be told."""

    message: str
    signal: str | None
    died_at: Uptime
    held: tuple[HeldName, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class SeatRow:
    """A client of a session."""

    key: ClassVar[tuple[str, ...]] = ("session", "token")

    session: str
    token: str
    number: int
    user: str
    client: str | None
    unsaid: SavedWord | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class UnitRow:
    """The text of a loaded unit. ``arrays`` lead to its fields and ndarrays; ``owner`` is its client's name."""

    key: ClassVar[tuple[str, ...]] = ("session", "unit")

    session: str
    unit: str
    holding: UnitHolding
    source: str
    arrays: tuple[str, ...] = ()
    owner: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class VersionRow:
    """A text that a unit has or had."""

    key: ClassVar[tuple[str, ...]] = ("session", "unit", "version")

    session: str
    unit: str
    version: int
    text: UnitVersion


@dataclass(frozen=True, kw_only=True, slots=True)
class ArrayRow:
    """What is kept under a handle."""

    key: ClassVar[tuple[str, ...]] = ("session", "handle")

    session: str
    handle: str
    holding: ArrayHolding
    owner: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Begun:
    """A request is with an engine: ``number`` is its key there, ``target`` says for people what it does.

    ``run`` and ``engine`` say which: engines are counted anew by each worker.
    """

    run: str
    engine: int
    number: int
    op: str
    target: str


@dataclass(frozen=True, kw_only=True, slots=True)
class RequestRow:
    """A request that is never to run again: it is with an engine (``begun``), or was answered (``answer``), or was
    answered and the answer is not kept (``why``).

    ``request`` is the packed ``id``. ``place`` grows with each row. ``events``: so many were told before the answer.
    ``received``: somebody has the answer, if not all who waited for it.
    """

    key: ClassVar[tuple[str, ...]] = ("session", "token", "request")

    session: str
    token: str
    request: bytes
    place: int
    id: RequestId
    begun: Begun | None = None
    answer: Answer | None = None
    why: Why | None = None
    events: int = 0
    received: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class FloorRow:
    """Copies below this number are not of the array that has this name now, wherever they still are."""

    key: ClassVar[tuple[str, ...]] = ("session", "unit", "name")

    session: str
    unit: str
    name: str
    below: int


Row = SessionRow | SeatRow | UnitRow | VersionRow | ArrayRow | RequestRow | FloorRow
#: The rows of a session come after its own.
ROWS: tuple[type[Row], ...] = (SessionRow, SeatRow, UnitRow, VersionRow, ArrayRow, RequestRow, FloorRow)


def key_of(row: Row) -> Key:
    """Where a row belongs in its table."""
    return tuple(getattr(row, name) for name in row.key)


@dataclass(frozen=True, slots=True)
class Gone:
    """The row of that key is gone, or all whose keys begin so."""

    table: type[Row]
    key: Key


@dataclass(frozen=True, kw_only=True, slots=True)
class KeptCopy:
    """A copy of an array (`HostCopy`). ``number`` grows with each that is handed over."""

    session: str
    number: int
    target: Ref
    request: RequestId | None
    op: str
    at: Uptime
    dtype: str
    shape: tuple[int, ...]
    pieces: tuple[tuple[Piece, Any], ...]


@dataclass(frozen=True, slots=True)
class CopyGone:
    """The copy of an array is gone, or (None) all of its session."""

    session: str
    target: Ref | None
    number: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Save:
    """What has changed; ``everything``: it is all that there is, and whatever else is on disk is gone.

    ``gone`` comes before ``rows``. Both are written in one step, before anything else that the front wants is done;
    ``copies`` follow in their own time.
    """

    clock: Uptime
    rows: tuple[Row, ...] = ()
    gone: tuple[Gone, ...] = ()
    copies: tuple[KeptCopy | CopyGone, ...] = ()
    everything: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Saved:
    """What was on disk when the worker started. All copies up to the number ``copied`` are there.

    ``run`` is a name for the time that this worker is up.
    """

    run: str
    clock: Uptime = 0.0
    rows: tuple[Row, ...] = ()
    copies: tuple[KeptCopy, ...] = ()
    copied: int = 0
