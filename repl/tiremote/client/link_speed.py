"""How many bytes a second a link carries one way, from the large messages that went there. Sans-IO."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass

#: Messages below this tell more of the round trip than of the link.
_MEASURED = 128 << 10

#: Bytes per second below which bytes are worth some thought: half a gigabit. Making them fewer goes on at 400 MB/s or
#: more on each side, beside the sending; on faster links it would take time from other things for little.
SLOW = 60e6

#: The fastest of the last so many counts: anything may hold a single one up.
_KEPT = 4
#: So many have to be slow before the link counts as that.
_DECISIVE = 2

#: Seconds after which a slow link is measured anew.
_GOOD_FOR = 30.0


@dataclass(frozen=True, slots=True)
class UnderWay:
    """A message on its way: since when, and the bytes that the link has to carry until it is there."""

    started: float
    nbytes: int
    ahead: int


class LinkSpeed:
    """Of one direction."""

    def __init__(self) -> None:
        self._rates: deque[float] = deque(maxlen=_KEPT)
        self._noted = 0.0
        self._under_way = 0
        # Messages are sent by any thread, and answered on another.
        self._lock = threading.Lock()

    def began(self, nbytes: int, now: float) -> UnderWay | None:
        """A message of so many bytes is sent, or asked for; None where it is too small to tell anything."""
        if nbytes < _MEASURED:
            return None
        with self._lock:
            self._under_way += nbytes
            return UnderWay(now, nbytes, self._under_way)

    def ended(self, message: UnderWay, now: float, elsewhere: float | None) -> None:
        """It was answered, ``elsewhere`` seconds of that time being no matter of the link; None: it tells nothing."""
        with self._lock:
            self._under_way -= message.nbytes
            if elsewhere is not None:
                # At least a microsecond: two clocks need not agree.
                self._rates.append(message.ahead / max(now - message.started - elsewhere, 1e-6))
                self._noted = now

    @property
    def rate(self) -> float | None:
        """Bytes per second, None where nothing is known."""
        return max(self._rates, default=None)

    def is_slow(self, now: float) -> bool:
        """Whether it is known to be slow."""
        rate = self.rate
        return rate is not None and rate < SLOW and not self.is_unknown(now)

    def is_unknown(self, now: float) -> bool:
        """Whether a message is needed that tells more: there were none, or so long ago that the link may be another."""
        rate = self.rate
        if rate is None:
            return True
        if rate >= SLOW:
            return False
        if now - self._noted > _GOOD_FOR:
            with self._lock:
                self._rates.clear()
        return len(self._rates) < _DECISIVE
