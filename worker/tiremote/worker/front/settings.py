"""What a worker is told when it starts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tiremote.protocol.results import Limits


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """Times are in seconds."""

    #: Taichi's options of a session that asks for none.
    options: dict[str, Any] = field(default_factory=dict)
    #: The runtime of a session that asks for none, and those that are installed.
    runtime: str = "taichi"
    runtimes: tuple[str, ...] = ("taichi",)
    limits: Limits = field(default_factory=Limits)
    #: How long a session outlives its last client.
    lease: float = 24 * 3600.0
    #: Engines kept ready for the next session, restart or interrupt.
    spares: int = 1
    #: How long user code may take to stop by itself, its state kept, before its engine is killed.
    grace: float = 0.5
    #: How long the answer to a job that lost its engine waits for everything to be there again, and how long before it
    #: is said that it waits.
    mourning: float = 10.0
    hint: float = 0.8
    #: How long a leaving engine may take to write Taichi's cache.
    farewell: float = 2.0
    #: How long a drain waits for what runs.
    drain: float = 30.0
    #: Requests that are with an engine at one time, so that it need not wait for the front between two.
    window: int = 8
    #: How soon a session that waits for its client to read is looked at again.
    reading: float = 0.02
    #: Bytes of output that one request may send.
    output_bytes: int = 1 << 20
    #: Bytes of answers, and of events, that are kept for one client until it has them.
    answer_bytes: int = 64 << 20
    event_bytes: int = 16 << 20
    #: Bytes of both that are kept for all clients of a session.
    kept_bytes: int = 256 << 20
    #: Versions of a unit that are remembered.
    history: int = 100
    #: Bytes of copies of arrays that the worker keeps, to be put back after a crash.
    copies_bytes: int = 1 << 30
    #: Bytes of chunks that the engine of a session keeps of what its clients sent, 0 for none.
    chunk_cache: int = 256 << 20
    #: How often a session's arrays are copied by themselves, until a client asks for something else; 0 for never.
    snapshot_seconds: float = 0.0
    #: An engine that has leaked so many bytes is replaced while its session rests, at twice as many between two
    #: requests; 0 for never.
    recycle_bytes: int = 32 << 20
    #: Clients that one session remembers.
    seats: int = 64
    #: A client counts as attached when it was heard of this recently.
    attached: float = 30.0
    #: Engines that die in a row before they serve: after so many no spare is tried again, and a session's work fails.
    failed_starts: int = 3
