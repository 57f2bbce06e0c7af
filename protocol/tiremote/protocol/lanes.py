"""Lanes: a socket from a client straight to its session's engine, for calls that were made before.

On one machine the way through the front takes longer than most launches. A `Run` with a ``site`` has the engine
remember the call: its kernel, its arrays, and which of its arguments are numbers. While the engine is lent, of which
the front hears as of any request, the same call with other numbers goes over the lane: ``[lend, call, site, numbers]``
there, ``[call, seconds, value]`` back, ``[call]`` where the site is not known or the numbers are not taken, and
``[nil, lend]`` when the lend is over. Each message is its length in 4 bytes, little-endian, and one msgpack array.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import ClassVar

from tiremote.protocol.errors import ProtocolError
from tiremote.protocol.request import EngineRequest

LENGTH = struct.Struct("<I")

#: Bytes of a message there: it holds numbers alone.
MAX_CALL = 1 << 16

#: Bytes to ask the socket for at a time: most messages have some thirty.
READ_BYTES = 4096

#: The types of what a call can be given anew. No others: a bool is not an int here, nor a NumPy scalar a float.
NUMBERS = (bool, int, float)

#: Sites that an engine remembers for one client.
MAX_SITES = 1024

#: Seconds without a call after which the engine takes itself back, and seconds after which it does so in any case.
IDLE = 0.05
LONGEST = 2.0


def framed(message: bytes) -> bytes:
    """As it goes over the socket."""
    return LENGTH.pack(len(message)) + message


class Frames:
    """Takes messages out of what comes over the socket."""

    def __init__(self) -> None:
        self._came = bytearray()

    def feed(self, data: bytes) -> None:
        """So much has come."""
        self._came += data

    def next(self) -> bytes | None:
        """The next message that is whole. Raises `ProtocolError` for a length above `MAX_CALL`."""
        if len(self._came) < LENGTH.size:
            return None
        (length,) = LENGTH.unpack_from(self._came)
        if length > MAX_CALL:
            raise ProtocolError(f"over a lane go messages of at most {MAX_CALL} bytes; one of {length} came")
        end = LENGTH.size + length
        if len(self._came) < end:
            return None
        message = bytes(self._came[LENGTH.size : end])
        del self._came[:end]
        return message


@dataclass(frozen=True, kw_only=True, slots=True)
class OpenLane(EngineRequest):
    """Asks the engine to listen for this client on the machine that they share."""

    op: ClassVar[str] = "open_lane"


@dataclass(frozen=True, kw_only=True, slots=True)
class LaneResult:
    """``address`` is the name of a Unix socket in Linux's abstract namespace, None where there are no lanes.

    The first message is ``[secret]``, by which the engine tells the client from others.
    """

    address: str | None = None
    secret: bytes = b""


@dataclass(frozen=True, kw_only=True, slots=True)
class Lend(EngineRequest):
    """Lends the engine to this client's lane, until another request waits or nothing came for a while.

    ``number`` counts the lends of a lane from 1: calls tell it, so that none is run that came too late for its own.
    Fails with what a call raised; all calls before it were answered.
    """

    op: ClassVar[str] = "lend"

    number: int

    def __post_init__(self) -> None:
        EngineRequest.__post_init__(self)
        if self.number < 1:
            raise ProtocolError(f"the lends of a lane count from 1; {self.number} came")


@dataclass(frozen=True, kw_only=True, slots=True)
class LendResult:
    """``calls``: how many came over the lane."""

    calls: int = 0
