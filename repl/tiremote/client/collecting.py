"""Requests that were sent before, by this client or another of the session: listed, and collected with their output."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tiremote.client.directory import Directory
from tiremote.client.request_future import RequestFuture
from tiremote.client.transfer import local_array
from tiremote.client.units import thawed
from tiremote.protocol.explanation import CrashExplanation
from tiremote.protocol.messages import (
    Alloc,
    Cleanup,
    Collect,
    Compile,
    CompileAll,
    ExplainCrash,
    Fetch,
    Ok,
    Put,
    RequestId,
    Requests,
    Rollback,
    Run,
    Snapshot,
)
from tiremote.protocol.receipts import Receipt
from tiremote.protocol.results import (
    ArrayResult,
    CleanupResult,
    CompileAllResult,
    FetchResult,
    RequestLine,
    RequestsResult,
    RunResult,
    SnapshotResult,
)
from tiremote.protocol.structures import structure

_AS_THEY_ARE: Mapping[str, type[Any]] = {
    Compile.op: Receipt,
    Rollback.op: Receipt,
    Cleanup.op: CleanupResult,
    Snapshot.op: SnapshotResult,
    ExplainCrash.op: CrashExplanation,
}


def list_requests(directory: Directory) -> RequestsResult:
    """What the session's clients wait for, without what this one has and the worker does not know yet."""
    exchange = directory.exchange

    def without_delivered(result: RequestsResult) -> RequestsResult:
        return replace(result, requests=exchange.without_delivered(result))

    return exchange.wait(exchange.submit(Requests(id=""), RequestsResult, without_delivered))


def collect(directory: Directory, request: RequestLine | RequestId) -> RequestFuture[Any]:
    """A future of what that request comes to; its output goes where this client's goes, from the first that is kept."""
    exchange = directory.exchange
    written: dict[int | str, Any] = {}

    def typed(ok: Ok) -> Any:
        op = ok.collected or ""
        what = f"the result of {op}"
        if op == Run.op:
            run = structure(RunResult, ok.result, what)
            written.update((key, local_array(wire)) for key, wire in run.written)
            return thawed(exchange, run.value)
        if op in _AS_THEY_ARE:
            # Some of them change what is loaded.
            directory.forget()
            return structure(_AS_THEY_ARE[op], ok.result, what)
        if op == CompileAll.op:
            directory.forget()
            return {receipt.unit: receipt for receipt in structure(CompileAllResult, ok.result, what).receipts}
        if op in (Put.op, Alloc.op):
            holding = structure(ArrayResult, ok.result, what).holding
            return None if holding is None else thawed(exchange, holding.handle)
        if op == Fetch.op:
            fetched = structure(FetchResult, ok.result, what)
            one = fetched.value if fetched.summary is None else fetched.summary
            return thawed(exchange, one if fetched.handle is None else fetched.handle)
        return ok.result

    line = request if isinstance(request, RequestLine) else None
    asked = Collect(
        id="",
        request=request if isinstance(request, str | int) else request.request,
        seat=None if line is None else line.seat,
        events=exchange.events,
        codings=exchange.thrift.compression.codings,
    )
    future = exchange.collect(asked, typed, expects=0 if line is None else line.nbytes)
    future.written = written
    return future
