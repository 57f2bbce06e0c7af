"""Where answers go: connections, and the clients that wait at their ends."""

from __future__ import annotations

from dataclasses import dataclass

from tiremote.protocol.messages import RequestId

#: Who an answer is for: the token of a client, and the id by which that client asked for it.
Claim = tuple[str, RequestId]


@dataclass(frozen=True, slots=True)
class Route:
    """Where an answer goes: the ROUTER's name of the connection, and whether an empty frame stands before it."""

    identity: bytes
    delimited: bool = False


@dataclass(eq=False, kw_only=True, slots=True)
class Listener:
    """A client that is told of a request: the one that sent it, or (``collects``) one that collects it.

    Without a ``route`` something did not get through to it. Nothing more is sent then, so that nothing overtakes what
    was lost, until it asks again and says what it has.
    """

    claim: Claim
    route: Route | None
    events: bool
    collects: bool = False
