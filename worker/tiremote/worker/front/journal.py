"""What a client was told while its requests ran, kept so that it can be told again."""

from __future__ import annotations

from collections import OrderedDict, deque

from tiremote.protocol.messages import Event, RequestId

#: What an event weighs beside its text: its object, and its place.
_OVERHEAD = 256


class Journal:
    """The events of one client's requests. Beyond ``max_bytes`` for all together the oldest are forgotten."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        #: Those that are kept, by request, none of them empty; and the number of the last that there was.
        self._events: OrderedDict[RequestId, deque[Event]] = OrderedDict()
        self._last: dict[RequestId, int] = {}
        self.nbytes = 0

    def add(self, request: RequestId, event: str, text: str) -> Event:
        """The next event of a request."""
        seq = self._last[request] = self._last.get(request, 0) + 1
        made = Event(id=request, seq=seq, event=event, text=text)
        self._events.setdefault(request, deque()).append(made)
        self.nbytes += _size(made)
        while self.nbytes > self._max_bytes:
            self._forget_oldest()
        return made

    def since(self, request: RequestId, seen: int) -> list[Event]:
        """The events after number ``seen``; a ``gap`` stands for those that are not kept any more."""
        last = self._last.get(request, 0)
        kept = self._events.get(request, ())
        first = kept[0].seq if kept else last + 1
        events = [event for event in kept if event.seq > seen]
        if seen + 1 < first:
            text = f"output is lost: events {seen + 1} to {first - 1} of this request are no longer kept"
            gap = Event(id=request, seq=first - 1, event="gap", text=text, data={"first": seen + 1, "last": first - 1})
            events.insert(0, gap)
        return events

    def last(self, request: RequestId) -> int:
        """The number of the last event that there was, 0 for none."""
        return self._last.get(request, 0)

    def restore(self, request: RequestId, last: int) -> None:
        """There were so many events in an earlier journal, and they are not kept."""
        if last:
            self._last[request] = last

    def drop(self, request: RequestId) -> None:
        """Forgets all events of a request."""
        self._last.pop(request, None)
        self.nbytes -= sum(map(_size, self._events.pop(request, ())))

    def _forget_oldest(self) -> None:
        request, events = next(iter(self._events.items()))
        self.nbytes -= _size(events.popleft())
        if not events:
            del self._events[request]


def _size(event: Event) -> int:
    return len(event.text.encode()) + _OVERHEAD
