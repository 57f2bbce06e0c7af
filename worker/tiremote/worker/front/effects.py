"""What the front's core wants done to the outside world; the loop does it, tests look at it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tiremote.worker.front.routes import Listener, Route
from tiremote.worker.front.state.rows import Save
from tiremote.worker.link import Message


@dataclass(frozen=True, slots=True)
class Send:
    """Frames for a client; one that has gone is no error. ``session``: whose budget of undelivered bytes it takes.

    ``listener``: where it cannot be delivered, that one has no route any more, and what else is on its way there goes
    nowhere.
    """

    route: Route
    frames: list[Any]
    session: str | None = None
    listener: Listener | None = None


@dataclass(frozen=True, slots=True)
class Spawn:
    """A new engine process with a runtime, to be known by this number."""

    engine: int
    runtime: str


@dataclass(frozen=True, slots=True)
class ToEngine:
    """A message for an engine, with its buffers."""

    engine: int
    message: Message
    buffers: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class Nudge:
    """Ask the engine to stop what it does for the request ``key``, if it is still at it."""

    engine: int
    key: int


@dataclass(frozen=True, slots=True)
class Kill:
    """End the engine process at once."""

    engine: int


@dataclass(frozen=True, slots=True)
class Stop:
    """The worker is done: every engine has been told, nothing runs any more."""


Effect = Save | Send | Spawn | ToEngine | Nudge | Kill | Stop
