"""The engine's ops: a typed request in, a typed result out, and what changed in what the session holds."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from tiremote.protocol.comparison import Comparison
from tiremote.protocol.errors import KernelArgumentError, ProtocolError
from tiremote.protocol.messages import (
    Alloc,
    Bench,
    Cleanup,
    ClearGradients,
    CloseTape,
    Compare,
    Compile,
    CompileAll,
    EngineRequest,
    Fetch,
    FindChunks,
    GetAttribute,
    GetSyntaxTree,
    Lend,
    OpenLane,
    OpenTape,
    Put,
    Run,
    SetAttribute,
    Snapshot,
)
from tiremote.protocol.receipts import ArrayHolding, Receipt
from tiremote.protocol.results import ArrayResult, CleanupResult, CompileAllResult, FetchResult, Limits
from tiremote.protocol.tapes import ClosedTape, TapeResult
from tiremote.protocol.values import Handle, Name, Ref, wire_array
from tiremote.worker.engine.accounts import Accounts
from tiremote.worker.engine.arrays import Arrays, Room
from tiremote.worker.engine.attributes import Attributes
from tiremote.worker.engine.chunk_cache import ChunkCache
from tiremote.worker.engine.comparing import Comparer
from tiremote.worker.engine.fetching import check_size
from tiremote.worker.engine.holdings import Holdings
from tiremote.worker.engine.host_copies import HostCopies, SendCopies
from tiremote.worker.engine.lanes import Lanes, Link
from tiremote.worker.engine.loader import KernelLoader
from tiremote.worker.engine.making import make_array
from tiremote.worker.engine.moving import Moving
from tiremote.worker.engine.references import References, shown
from tiremote.worker.engine.results import Kept, to_plain
from tiremote.worker.engine.runs import Runs
from tiremote.worker.engine.runtime import TaichiRuntime
from tiremote.worker.engine.syntax_trees import SyntaxTrees
from tiremote.worker.engine.tapes import Tapes
from tiremote.worker.engine.unit_reports import UnitReports
from tiremote.worker.engine.whereabouts import Whereabouts
from tiremote.worker.host_copy import Moved
from tiremote.worker.ledger import Ledger
from tiremote.worker.link import Changes, PutBack

#: After these every name and handle stands for what it stood for before; a `Run` says itself whether that is so.
_HARMLESS = Run | Put | Alloc | Fetch | FindChunks | OpenLane | Lend


class Service:
    """One session's ops, on the thread that owns Taichi. `serve` may raise anything that user code raises.

    ``may_stop`` is called where a long request may be stopped that runs no user code, and raises then. ``link`` and
    ``mark_call`` are for lanes, of which there are none without a link.
    """

    def __init__(
        self,
        runtime: TaichiRuntime,
        session: str,
        generation: int,
        limits: Limits,
        *,
        snapshot_bytes: int = 0,
        chunk_cache: int = 0,
        send_copies: SendCopies = lambda *_: None,
        may_stop: Callable[[], None] = lambda: None,
        room: Room = lambda _: None,
        link: Link | None = None,
        mark_call: Callable[[bytes | None], None] = lambda _: None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._runtime = runtime
        self.limits = limits
        self._clock = clock
        self._room = room
        self._loader = KernelLoader(runtime)
        self._arrays = Arrays(runtime)
        self._holdings = Holdings(session, generation)
        self._references = References(self._loader, self._holdings)
        self._chunks = ChunkCache(chunk_cache, session, self._arrays, self._references.resolve)
        self._comparer = Comparer(runtime, self._arrays, self._loader, self._references, may_stop)
        self._whereabouts = Whereabouts(runtime, self._loader, self._holdings)
        self._copies = HostCopies(runtime, self._arrays, self._loader, self._holdings, self._whereabouts)
        self._take_snapshot = functools.partial(self._copies.snapshot, snapshot_bytes, send_copies)
        self._accounts = Accounts(runtime, self._loader, self._arrays, self._holdings, lambda: self._chunks.nbytes)
        self._tapes = Tapes(runtime, self._references, may_stop)
        self._reports = UnitReports(self._loader, self._whereabouts)
        self._runs = Runs(runtime, self._loader, self._references, self._tapes, self._sent, may_stop, clock)
        self._lanes = Lanes(self._runs.sites, link, mark=mark_call, may_stop=may_stop)
        attributes = Attributes(runtime, self._references, self._sent)
        self._ops: dict[type[EngineRequest], Callable[[Any], Any]] = {
            Compile: self._compile,
            CompileAll: self._compile_all,
            Run: self._runs.run,
            Bench: self._runs.bench,
            OpenLane: self._lanes.open,
            Lend: self._lanes.lend,
            Put: self._put,
            Alloc: self._alloc,
            Fetch: self._fetch,
            Cleanup: self._cleanup,
            Snapshot: self._snapshot,
            Compare: self._compare,
            OpenTape: self._open_tape,
            CloseTape: self._close_tape,
            ClearGradients: self._tapes.clear_gradients,
            GetAttribute: attributes.get,
            SetAttribute: attributes.set,
            FindChunks: self._chunks.find,
            GetSyntaxTree: SyntaxTrees(runtime, self._references, limits).get,
        }
        self.moving = Moving(runtime, self._loader, self._holdings, self._arrays, self._reports, self._whereabouts)
        self._begin(None)

    def _begin(self, request: EngineRequest | None) -> None:
        self._request = request
        #: What arrays of the answer may be coded with.
        self.codings: tuple[str, ...] = request.codings if isinstance(request, Run) else ()
        self._reports.begin()
        self._dropped_units: list[str] = []
        self._new: list[ArrayHolding] = []
        self._dropped: list[str] = []
        self._reset: list[Ref] = []
        #: What of an array came or is going, and its bytes where the message has them coded.
        self.moved: Moved | None = None
        self.plain: np.ndarray | None = None
        self._runtime.compile_clock.restart()
        if not isinstance(request, _HARMLESS):
            self._runs.sites.clear()
        self._runs.begin()
        #: Seconds of the request so far.
        self.compile_seconds = 0.0

    @property
    def warnings(self) -> list[str]:
        """What is to be told beside the result."""
        return self._runs.warnings

    @property
    def launch_seconds(self) -> float:
        """Seconds of the request so far in which kernels ran."""
        return self._runs.launch_seconds

    def close(self) -> None:
        """No client reaches it any more."""
        self._lanes.close()

    def serve(self, request: EngineRequest) -> Any:
        """The op's result, ready to be packed."""
        self._begin(request)
        try:
            return self._ops[type(request)](request)
        finally:
            # A load has counted as a whole already.
            self.compile_seconds = max(self.compile_seconds, self._runtime.compile_clock.compiled)

    def load(self, unit: str, version: int, source: str) -> Receipt:
        """Loads a unit again, as the version that it was."""
        self._begin(None)
        return self._load(source, unit, version, keep=True)

    def snapshot(self) -> dict[str, str]:
        """Sends every array that can be put back, for the front: with no request of a client."""
        self._begin(None)
        return self._snapshot(None)

    def _snapshot(self, _request: Snapshot | None) -> dict[str, str]:
        try:
            return self._take_snapshot()
        finally:
            self._reports.find_arrays()

    def move(self, step: str, body: bytes, buffers: list[Any]) -> dict[str, Any]:
        """One step of moving the session to another engine, or from there to here."""
        self._begin(None)
        return self.moving.step(step, body, buffers)

    def put_back(self, message: PutBack, buffers: list[Any]) -> None:
        """Has an array hold again what it held in an earlier engine."""
        self._begin(None)
        holding = self._copies.put_back(message, buffers)
        if holding is not None:
            self._new.append(holding)

    def changes(self) -> Changes | None:
        """What the request changed so far, also where it failed in the end."""
        told = {holding.handle.id: holding for holding in (*self._new, *self._holdings.take_changed())}
        reports = self._reports
        if not (reports.units or reports.arrays or self._dropped_units or told or self._dropped or self._reset):
            return None
        return Changes(
            units=tuple(reports.units),
            dropped_units=tuple(self._dropped_units),
            arrays=tuple(told.values()),
            dropped=tuple(self._dropped),
            reset=tuple(self._reset),
            unit_arrays=tuple(reports.arrays),
        )

    def ledger(self) -> Ledger | None:
        """What there is now, None where that was told before."""
        return self._accounts.ledger(
            changed=bool(self._reports.units or self._dropped_units or self._new or self._dropped)
        )

    # ------------------------------------------------------------ code

    def _compile(self, request: Compile) -> Receipt:
        return self._load(request.source, request.unit, None, keep=request.keep)

    def _load(self, source: str, unit: str | None, version: int | None, *, keep: bool) -> Receipt:
        started = self._clock()
        with self._whereabouts.watched_load(self._reset):
            receipt = self._loader.compile_and_load(source, unit, version=version, keep=keep)
        self.compile_seconds = self._clock() - started
        self._reports.loaded({receipt.unit: source}, self._request.id if self._request else None, receipt)
        return receipt

    def _compile_all(self, request: CompileAll) -> CompileAllResult:
        sources = {each.unit: each.source for each in request.units}
        started = self._clock()
        with self._whereabouts.watched_load(self._reset):
            receipts = self._loader.compile_and_load_all(sources, keep=request.keep)
        self.compile_seconds = self._clock() - started
        self._reports.loaded(sources, request.id, *receipts.values())
        return CompileAllResult(receipts=tuple(receipts.values()))

    def _open_tape(self, request: OpenTape) -> TapeResult:
        return TapeResult(tape=self._keep(self._tapes.open(request), made=True).handle)

    def _close_tape(self, request: CloseTape) -> ClosedTape:
        tape = self._tapes.of(request.tape, request.token)
        # Whatever comes of it, it is not there any more.
        self._holdings.drop(request.tape)
        self._dropped.append(request.tape.id)
        with self._runs.launching():
            result = tape.close(evaluate=request.evaluate)
            self._runtime.sync()
        return result

    def _compare(self, request: Compare) -> Comparison:
        compared = self._comparer.compare(request)
        self.compile_seconds = compared.before.compile + compared.after.compile
        self._runs.launch_seconds = sum((*compared.before.launches, *compared.after.launches))
        return compared

    # ------------------------------------------------------------ arrays

    def _put(self, request: Put) -> ArrayResult:
        self._chunks.complete(request.array)
        source = None if request.source is None else self._references.resolve(request.source)
        data = self._arrays.read(source) if request.array is None else request.array.view()
        if request.target is None:
            made = self._arrays.create_ndarray(self._dtype_of(data), data.shape)
            self._arrays.write(made, data)
            holding = self._keep(made, request.label, made=True)
            self._note_put(request, holding.handle, made, data, source)
            return ArrayResult(holding=holding)
        target = self._references.resolve(request.target)
        self._arrays.write(target, data, request.region, request.flat, cast=request.cast)
        self._note_put(request, request.target, target, data, source)
        return ArrayResult(holding=None)

    def _note_put(self, request: Put, name: Ref, target: Any, data: np.ndarray, source: Any) -> None:
        self.moved = self._copies.put(request, name, target, source)
        if request.array is not None and request.array.descriptor.coding is not None:
            self.plain = data

    def _dtype_of(self, data: np.ndarray) -> str:
        return self._arrays.meta(data).dtype

    def _alloc(self, request: Alloc) -> ArrayResult:
        if request.target is not None:
            self._fill(self._references.resolve(request.target), request)
            return ArrayResult(holding=None)
        if request.copy_of is not None:
            original = self._references.resolve(request.copy_of)
            made: Any = self._arrays.read(original)
            self.moved = self._copies.copied(request.copy_of, original)
        else:
            made = make_array(request, self._arrays, self._runtime)
            if request.fill != "empty":
                self._fill(made, request)
        return ArrayResult(holding=self._keep(made, request.label, made=True))

    def _fill(self, target: Any, request: Alloc) -> None:
        self._arrays.fill(target, request.fill, number=request.value, seed=request.seed)

    def _fetch(self, request: Fetch) -> FetchResult:
        target = self._references.resolve(request.target)
        if request.form == "handle":
            label = str(request.target) if isinstance(request.target, Name) else None
            return FetchResult(handle=self._keep(target, label, called=request.target).handle)
        if request.form == "summary":
            return FetchResult(summary=self._arrays.summary(target))
        if self._arrays.kind(target) == "object":
            if request.region is not None or request.flat is not None:
                raise KernelArgumentError(f"{shown(request.target, target)} is no array: it has no parts to fetch")
            plain = to_plain(target, self._runtime)
            if isinstance(plain, Kept):
                return FetchResult(value=self._keep(plain.value, called=request.target).handle)
            return FetchResult(value=self._sent(plain))
        check_size(request, self._arrays.meta(target), shown(request.target, target), self.limits)
        array = self._arrays.read(target, request.region, request.flat, room=self._room)
        self.moved = self._copies.fetched(request, target, array)
        wire = wire_array(array).coded(request.codings)
        self.plain = None if wire.descriptor.coding is None else array
        return FetchResult(value=wire)

    def _cleanup(self, request: Cleanup) -> CleanupResult:
        units: list[str] = []
        targets: dict[str, Handle] = {}
        if request.everything:
            units = list(self._loader)
            targets = {handle.id: handle for handle in self._holdings.all()}
        elif request.unit is not None:
            self._loader[request.unit]  # raises where there is none, before anything is dropped
            units = [request.unit]
        for ref in request.targets:
            if not isinstance(ref, Handle):
                raise ProtocolError(f"op cleanup drops handles and units; {ref} goes with its unit")
            self._holdings.value(ref)
            # One that is named twice, or with everything, goes once.
            targets[ref.id] = ref
        nbytes = 0
        for handle in targets.values():
            held = self._holdings.drop(handle)
            nbytes += held.holding.nbytes
            self._dropped.append(handle.id)
            del held
        for unit in units:
            self._loader.cleanup(unit)
            self._reports.dropped(unit)
            self._dropped_units.append(unit)
        self._whereabouts.settle_all()
        self._runtime.collect()
        return CleanupResult(units=tuple(units), handles=tuple(targets), nbytes=nbytes)

    # ------------------------------------------------------------ values

    def _keep(
        self, value: Any, label: str | None = None, *, made: bool = False, called: Ref | None = None
    ) -> ArrayHolding:
        """``made`` just now: no unit has it. ``called`` so by the request."""
        arrays = self._arrays
        made_by = self._request.id if self._request else None
        holding, new = self._holdings.keep(
            value,
            arrays.kind(value),
            {**arrays.describe(value), "nbytes": arrays.nbytes(value)},
            arrays.nbytes(value),
            label=label,
            made_by=made_by,
            place=None if made else self._whereabouts.place_of(value, called),
        )
        if new:
            self._new.append(holding)
        return holding

    def _sent(self, value: Any) -> Any:
        """A plain value with handles for what stays here, also for arrays that are too large for one answer."""
        if isinstance(value, Kept):
            return self._keep(value.value).handle
        if isinstance(value, np.ndarray) and value.nbytes > self.limits.buffer_bytes:
            return self._keep(value).handle
        if isinstance(value, list):
            return [self._sent(one) for one in value]
        if isinstance(value, tuple):
            return tuple(self._sent(one) for one in value)
        if isinstance(value, dict):
            return {key: self._sent(one) for key, one in value.items()}
        return value
