"""Engines that are lent to a client's lane: which call one is in, as the request that the call stands for.

What goes over a lane the front does not see. It keeps the runs that clients gave a site, and the engine's page tells
with which numbers one of them was begun.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tiremote.protocol.codec import encode
from tiremote.protocol.errors import TiremoteError
from tiremote.protocol.lanes import MAX_SITES, NUMBERS, Lend, LendResult
from tiremote.protocol.messages import Run
from tiremote.protocol.packing import pack
from tiremote.protocol.plain import load
from tiremote.protocol.receipts import Timing
from tiremote.worker.front.answers import Answers
from tiremote.worker.front.copies import CopyStore
from tiremote.worker.front.sessions import Engine, Job, Seat
from tiremote.worker.page import Calls


def remember(job: Job) -> None:
    """A run was made that may be made again over a lane."""
    if isinstance(job.request, Run) and job.request.site is not None:
        sites = job.seat.sites
        sites.pop(job.request.site, None)
        sites[job.request.site] = job.request
        if len(sites) > MAX_SITES:
            del sites[next(iter(sites))]


def doing(job: Job, calls: Calls) -> Job | None:
    """What an engine does for a job that it has begun: None between two calls over a lane."""
    if not isinstance(job.request, Lend):
        return job
    if calls.call is None:
        return None
    called = _called(job.seat, job.request, calls.call)
    return job if called is None else replace(job, request=called)


def died(engine: Engine, begun: int, calls: Calls, answers: Answers, copies: CopyStore) -> None:
    """A lent engine has died, in a call or between two: what it was busy with is that call, or nothing.

    Call it before anything is done about its death.
    """
    job = engine.inflight[0] if engine.inflight else None
    if job is None or not isinstance(job.request, Lend) or job.key > begun:
        return
    if calls.calls:
        # All but the one that it was in were answered.
        copies.changed(job.seat.session.id)
    if calls.call is None and job.stop is None:
        engine.inflight.popleft()
        # Whatever else the client sent over its lane was not begun.
        answers.job_ok(job, pack(LendResult(calls=calls.calls), []), [], Timing())
        return
    called = None if calls.call is None else _called(job.seat, job.request, calls.call)
    if called is not None:
        job.request, job.header = called, bytes(encode(called)[0])


def _called(seat: Seat, lend: Lend, call: bytes) -> Run | None:
    """The run that a call stands for, under the id of the lend; None where the page has not all of it."""
    try:
        _, _, number, numbers = load(call)
    except (TiremoteError, ValueError):
        return None
    run = seat.sites.get(number)
    if run is None:
        return None
    return replace(run, id=lend.id, args=_with_numbers(run.args, numbers), site=None, generation=lend.generation)


def _with_numbers(args: Sequence[Any], numbers: Sequence[Any]) -> tuple[Any, ...]:
    following = iter(numbers)
    return tuple(next(following, each) if type(each) in NUMBERS else each for each in args)
