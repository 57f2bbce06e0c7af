"""What was asked for before this prompt was there: listed, and collected."""

from __future__ import annotations

from concurrent.futures import wait
from typing import Any

from tiremote.client import RequestFuture, Session
from tiremote.protocol.results import RequestLine, RequestsResult
from tiremote.repl.durations import duration
from tiremote.repl.render import table

#: Seconds of one wait: on Windows Ctrl-C breaks none that has no limit.
_LOOK_AROUND = 0.2


class NotCollected(Exception):
    """Nothing is to be collected under this name, or it goes on."""


class Collecting:
    """The requests that a prompt has taken up. One for which Ctrl-C ended the wait is there for the next."""

    def __init__(self) -> None:
        self._under_way: dict[str, RequestFuture[Any]] = {}

    def collect(self, gpu: Session, request: str) -> Any:
        """The result of the request of that id, or if it has none the arrays that it wrote to.

        Raises `NotCollected`, and what the request was answered with.
        """
        future = self._under_way.get(request)
        if future is None:
            future = self._under_way[request] = gpu.collect(_line(gpu.requests(), request))
        try:
            while not wait([future], _LOOK_AROUND).done:
                pass
        except KeyboardInterrupt:
            raise NotCollected(
                f"{request} goes on: :collect {request} waits for it again, gpu.interrupt() stops what runs"
            ) from None
        del self._under_way[request]
        value = future.result()
        return value if value is not None else dict(future.written) or None


def requests_text(result: RequestsResult) -> str:
    """A table, or that there is nothing."""
    rows = [("id", "does", "sent by", "state", "for")]
    for line in result:
        state = f"answered: {line.code}" if line.code else line.state
        rows.append((str(line.request), line.target, line.client or "", state, duration(line.seconds)))
    if len(rows) == 1:
        return "Nothing runs or waits here, and nothing waits to be collected."
    return table(rows) + (f"\nand {result.omitted:,} more" if result.omitted else "")


def left_behind(result: RequestsResult) -> str:
    """One line about what a session does that somebody joins; empty where it does nothing."""
    answered = sum(line.state == "answered" for line in result)
    busy = len(result) - answered
    parts = [f"{busy:,} {'request runs or waits' if busy == 1 else 'requests run or wait'}"] if busy else []
    parts += [f"{answered:,} {'answer waits' if answered == 1 else 'answers wait'} to be collected"] if answered else []
    return f"{', '.join(parts)}: see :requests and :collect" if parts else ""


def _line(result: RequestsResult, request: str) -> RequestLine:
    found = [line for line in result if str(line.request) == request]
    if not found:
        known = ", ".join(str(line.request) for line in result)
        raise NotCollected(f"there is no request {request!r} to be collected; there is {known or 'none'}")
    if len(found) > 1:
        raise NotCollected(
            f"several clients have a request {request!r}: gpu.collect(line) takes one line of gpu.requests()"
        )
    return found[0]
