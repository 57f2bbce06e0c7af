"""What every request has, and every one that runs on an engine."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import ClassVar

from tiremote.protocol.errors import ProtocolError

RequestId = str | int

#: Characters of an id: it is repeated in every event and kept as long as the answer.
MAX_ID = 200


def check_seconds(name: str, value: float | None) -> None:
    """Raises `ProtocolError` for what is no span of time."""
    # Written so that NaN fails as well.
    if value is not None and not 0 <= value < inf:
        raise ProtocolError(f"{name} is a number of seconds from 0; {value} came")


def check_limit(name: str, value: float | None) -> None:
    """Raises `ProtocolError` for what is no time in which anything could be done."""
    check_seconds(name, value)
    if value == 0:
        raise ProtocolError(f"a {name} of 0 seconds came: nothing could run")


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """What every request has. ``token`` is from `Hello`; ``deadline`` is in seconds from when it starts to run."""

    op: ClassVar[str]
    #: Runs on the session's engine, in order; the others are answered by the front at once.
    queued: ClassVar[bool] = False

    id: RequestId
    token: str | None = None

    def __post_init__(self) -> None:
        if isinstance(self.id, str) and len(self.id) > MAX_ID:
            raise ProtocolError(f"an id is at most {MAX_ID} characters; {len(self.id)} came")


@dataclass(frozen=True, kw_only=True, slots=True)
class FollowedRequest(Request):
    """One whose work takes its time. ``events``: output and warnings are wanted while it runs.

    ``seen`` is for one that is sent again: the last ``seq`` that came. Later events are sent again before the answer.
    """

    events: bool = False
    seen: int = 0

    def __post_init__(self) -> None:
        Request.__post_init__(self)
        if self.seen < 0:
            raise ProtocolError(f"seen counts events from 0; {self.seen} came")


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineRequest(FollowedRequest):
    """What every queued request has as well.

    ``generation`` is the last that the client has heard of, from `HelloResult` or an error. Where the session has lost
    contents since, the request is answered with that instead of being run.
    """

    queued: ClassVar[bool] = True

    deadline: float | None = None
    generation: int | None = None

    def __post_init__(self) -> None:
        FollowedRequest.__post_init__(self)
        check_limit("deadline", self.deadline)
