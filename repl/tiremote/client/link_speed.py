"""How many bytes a second a link carries one way, from the large messages that went there. Sans-IO."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable

#: Messages below this tell more of the round trip than of the link.
MEASURED = 128 << 10

#: Bytes per second below which bytes are worth some thought: half a gigabit. Making them fewer goes on at 400 MB/s or
#: more on each side, beside the sending; on faster links it would take time from other things for little.
SLOW = 60e6

#: Seconds of a message that are not the link's, as far as anybody can tell: on a busy machine two processes wait for
#: a processor so long that a small message seems slow on the fastest link. Large ones, of which it is little, tell
#: better.
_HELD_UP = 0.01

#: The last so many count, together: a reader that is held up takes several at once, which by themselves seem fast.
_KEPT = 4
#: So many are needed for a link to be slow, each of which is: anything may hold a single one up.
_DECISIVE = 3

#: Seconds after which a slow link is measured anew.
_GOOD_FOR = 30.0


class LinkSpeed:
    """Of one direction."""

    def __init__(self) -> None:
        #: Bytes, and the seconds that they took.
        self._messages: deque[tuple[int, float]] = deque(maxlen=_KEPT)
        self._carried_until = float("-inf")
        # Asked about with every call.
        self._seems_slow = False
        # Answers come on one thread, and are asked about on any.
        self._lock = threading.Lock()

    def carried(self, nbytes: int, since: float, until: float) -> None:
        """A message of so many bytes, at least `MEASURED`, was ready to go and had come at these times.

        It did not begin to go before those before it had come.
        """
        with self._lock:
            # At least a microsecond: two clocks need not agree.
            self._messages.append((nbytes, max(until - max(since, self._carried_until), 1e-6)))
            self._carried_until = max(until, self._carried_until)
            self._seems_slow = len(self._messages) >= _DECISIVE and not _are_fast(self._messages)

    @property
    def rate(self) -> float | None:
        """Bytes per second, None where nothing is known."""
        with self._lock:
            return self._rate()

    def is_slow(self, now: float) -> bool:
        """Whether it is known to be slow."""
        return self._seems_slow and not self.is_unknown(now)

    def is_unknown(self, now: float) -> bool:
        """Whether a message is needed that tells more: there were none, or so long ago that the link may be another."""
        with self._lock:
            if self._seems_slow and now - self._carried_until > _GOOD_FOR:
                self._messages.clear()
                self._seems_slow = False
            fast = any(_are_fast((each,)) for each in self._messages)
            return not fast and len(self._messages) < _DECISIVE

    def _rate(self) -> float | None:
        seconds = sum(seconds for _, seconds in self._messages)
        return sum(nbytes for nbytes, _ in self._messages) / seconds if seconds else None


def _are_fast(messages: Iterable[tuple[int, float]]) -> bool:
    """Whether they may have come over a link that is not slow."""
    each = list(messages)
    return sum(nbytes for nbytes, _ in each) >= SLOW * sum(max(seconds - _HELD_UP, 0.0) for _, seconds in each)
