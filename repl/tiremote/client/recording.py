"""Which calls of this client go onto a tape: those made in the tape's block, by the thread or task that is in it."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tiremote.protocol.errors import Refused
from tiremote.protocol.values import Handle

if TYPE_CHECKING:
    from tiremote.client.exchange import Exchange


@dataclass(eq=False, slots=True)
class Recording:
    """A tape whose block has begun and not ended. ``runs`` counts the calls that were sent to go onto it."""

    exchange: Exchange
    tape: Handle
    what: str
    runs: int = 0


_blocks: ContextVar[tuple[Recording, ...]] = ContextVar("tiremote_tapes", default=())


def enter(recording: Recording) -> None:
    """The block of that tape begins here."""
    _blocks.set((*_blocks.get(), recording))


def leave(recording: Recording) -> None:
    """It has ended."""
    _blocks.set(tuple(each for each in _blocks.get() if each is not recording))


def recording_on(exchange: Exchange) -> Recording | None:
    """The tape of this session in whose block the caller is."""
    return next((each for each in _blocks.get() if each.exchange is exchange), None)


def tape_for_run(exchange: Exchange) -> Handle | None:
    """The tape that a call which is about to be sent goes onto, None outside of a block."""
    recording = recording_on(exchange)
    if recording is None:
        return None
    recording.runs += 1
    return recording.tape


def check_write(exchange: Exchange, what: object) -> None:
    """Raises `Refused` where contents are about to be replaced that calls on a tape were made with."""
    recording = recording_on(exchange)
    if recording is not None and recording.runs:
        raise Refused(
            f"{what} is written to after calls were recorded on ti.ad.{recording.what}: what is put is not "
            "differentiated, so gradients would be wrong. Put it before the block, or write it in a kernel"
        )
