"""Tapes whose client is gone are closed: what they hold is freed with them."""

from __future__ import annotations

from tiremote.protocol.codec import encode
from tiremote.protocol.messages import CloseTape
from tiremote.protocol.values import Handle
from tiremote.worker.front.output import Output
from tiremote.worker.front.scheduler import Scheduler
from tiremote.worker.front.session_table import SessionTable
from tiremote.worker.front.sessions import Job, Seat, Session
from tiremote.worker.front.settings import Settings


class LeftTapes:
    """Sans-IO. A client is gone when it has said so, its seat is another's, or it was not heard for the lease.

    Others may keep its session alive for ever, and nobody else can close its tapes.
    """

    def __init__(self, settings: Settings, sessions: SessionTable, scheduler: Scheduler) -> None:
        self._settings = settings
        self._sessions = sessions
        self._scheduler = scheduler

    def tick(self, now: float) -> None:
        """Has engines close what is left behind now."""
        for session in self._sessions:
            for tape, seat in list(session.tapes.items()):
                held = session.arrays.get(tape)
                if held is None:
                    del session.tapes[tape]
                elif not seat.is_awaiting() and now >= _gone_at(session, seat):
                    del session.tapes[tape]
                    self._close(held.handle, seat, now)

    def next_deadline(self) -> float | None:
        """When `tick` has something to do, None where no tape is open."""
        return min(
            (
                _gone_at(session, seat)
                for session in self._sessions
                for seat in session.tapes.values()
                if not seat.is_awaiting()
            ),
            default=None,
        )

    def _close(self, tape: Handle, seat: Seat, now: float) -> None:
        # Nobody waits for the answer: it is in no client's list of requests.
        request = CloseTape(id=f"left:{tape.id}", token=seat.token, tape=tape, evaluate=False, events=False)
        header = bytes(memoryview(encode(request)[0]))
        self._scheduler.submit(
            Job(
                key=self._scheduler.new_key(),
                seat=seat,
                listeners=[],
                request=request,
                header=header,
                buffers=(),
                nbytes=len(header),
                received=now,
                output=Output(self._settings.output_bytes),
            ),
            now,
        )


def _gone_at(session: Session, seat: Seat) -> float:
    if session.seats.get(seat.token) is not seat:
        return float("-inf")
    return seat.last_seen + session.lease
