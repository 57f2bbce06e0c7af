"""Two engines of one session in this process, one after the other, and what the front keeps between them."""

from __future__ import annotations

from itertools import count
from typing import Any

import numpy as np

from tiremote.protocol.errors import TiremoteError
from tiremote.protocol.messages import Alloc, Cleanup, Compile, EngineRequest, Fetch, Put, Run
from tiremote.protocol.packing import pack, unpack
from tiremote.protocol.receipts import ArrayHolding
from tiremote.protocol.results import Limits
from tiremote.protocol.values import Handle, Name, Ref, wire_array
from tiremote.worker.engine.runtime import TaichiRuntime
from tiremote.worker.engine.service import Service
from tiremote.worker.front.copies import CopyStore
from tiremote.worker.link import PutBack

SESSION = "s"


class Engines:
    """Does what a client asks for, and puts back what is known when an engine is `lose`-d."""

    def __init__(self, runtime: TaichiRuntime) -> None:
        self._runtime = runtime
        self._ids = count(1)
        self._generation = 0
        self.store = CopyStore(1 << 30)
        self.units: dict[str, str] = {}
        self.holdings: dict[str, ArrayHolding] = {}
        #: Why what was not put back was not.
        self.failed: dict[Ref, str] = {}
        self.unit_arrays: dict[str, tuple[str, ...]] = {}
        self._open()

    def _open(self) -> None:
        self._generation += 1
        self.service = Service(
            self._runtime,
            SESSION,
            self._generation,
            Limits(),
            snapshot_bytes=1 << 30,
            send_copies=self._take,
        )

    def close(self) -> None:
        """An engine takes its units along; here they are in a process that goes on."""
        self.service.serve(Cleanup(id="close", everything=True))

    def _take(self, moved: Any, buffers: Any) -> None:
        for one, data in zip(moved, buffers, strict=True):
            self.store.moved(SESSION, one, bytes(data), request="snapshot", op="snapshot", now=0.0)

    def ask(self, request: EngineRequest) -> Any:
        """Its result, as a client gets it."""
        buffers: list[Any] = []
        result = unpack(pack(self.service.serve(request), buffers), buffers)
        changes, moved = self.service.changes(), self.service.moved
        if changes is not None:
            for gone in changes.reset:
                self.store.drop(SESSION, gone)
            for handle in changes.dropped:
                self.holdings.pop(handle, None)
                self.store.drop_handle(SESSION, handle)
            self.holdings.update({one.handle.id: one for one in changes.arrays})
            self.unit_arrays.update({one.unit: one.names for one in changes.unit_arrays})
        if isinstance(request, Put) and request.array is None and moved is not None:
            self.store.put_from(SESSION, moved, request=request.id, now=0.0)
        elif isinstance(request, Put | Fetch) and moved is not None:
            data = request.array.data if isinstance(request, Put) and request.array is not None else buffers[0]
            self.store.moved(SESSION, moved, bytes(data), request=request.id, op=request.op, now=0.0)
        elif isinstance(request, Run | Compile | Put):
            self.store.changed(SESSION)
        return result

    # -- a client's ops

    def compile(self, source: str, unit: str = "sim", *, keep: bool = True) -> Any:
        receipt = self.ask(Compile(id=next(self._ids), source=source, unit=unit, keep=keep))
        self.units.pop(unit, None)
        self.units[unit] = source
        return receipt

    def run(self, name: str, *args: Any, unit: str | None = None) -> Any:
        return self.ask(Run(id=next(self._ids), target=Name(unit=unit, name=name), args=args))["value"]

    def put(self, target: Ref | str, array: Any, **fields: Any) -> Any:
        return self.ask(Put(id=next(self._ids), target=_ref(target), array=wire_array(np.asarray(array)), **fields))

    def array(self, array: Any) -> Handle:
        made = self.ask(Put(id=next(self._ids), array=wire_array(np.asarray(array))))
        return made["holding"]["handle"]  # type: ignore[no-any-return]

    def alloc(self, **fields: Any) -> Handle:
        return self.ask(Alloc(id=next(self._ids), **fields))["holding"]["handle"]  # type: ignore[no-any-return]

    def fetch(self, target: Ref | str, **fields: Any) -> Any:
        value = self.ask(Fetch(id=next(self._ids), target=_ref(target), **fields))["value"]
        return value.copy() if hasattr(value, "copy") else value

    def handle(self, target: Ref | str) -> Handle:
        return self.ask(Fetch(id=next(self._ids), target=_ref(target), form="handle"))["handle"]  # type: ignore[no-any-return]

    def snapshot(self) -> dict[str, str]:
        """What was left out, and why."""
        skipped = self.service.snapshot()
        changes = self.service.changes()
        self.holdings.update({one.handle.id: one for one in changes.arrays} if changes else {})
        return skipped

    # -- and then

    def lose(self) -> None:
        """The engine is another now, with what was kept."""
        stock, self.holdings, self.failed = self.holdings, {}, {}
        self.store.engine_lost(SESSION)
        self.close()
        self._open()
        for unit, source in self.units.items():
            self.service.load(unit, 1, source)
        for copy in self.store.of(SESSION):
            holding = stock.get(copy.target.id) if isinstance(copy.target, Handle) else None
            if isinstance(copy.target, Handle) and holding is None:
                continue
            self._put_back(
                PutBack(
                    key=0,
                    target=copy.target,
                    dtype=copy.dtype,
                    shape=copy.shape,
                    pieces=tuple(piece for piece, _ in copy.pieces),
                    holding=holding,
                ),
                [data for _, data in copy.pieces],
            )
        for holding in stock.values():
            if holding.handle.id not in self.holdings and holding.place is not None:
                self._put_back(PutBack(key=0, target=holding.handle, holding=holding), [])

    def _put_back(self, message: PutBack, buffers: list[Any]) -> None:
        try:
            self.service.put_back(message, buffers)
        except TiremoteError as error:
            self.failed[message.target] = error.message
            self.store.drop(SESSION, message.target)
            return
        self.store.was_put_back(SESSION, message.target)
        if message.holding is not None:
            self.holdings[message.holding.handle.id] = message.holding

    def known(self) -> set[str]:
        """What there are copies of."""
        return {
            str(copy.target) if isinstance(copy.target, Name) else copy.target.id for copy in self.store.of(SESSION)
        }


def _ref(target: Ref | str) -> Ref:
    if not isinstance(target, str):
        return target
    unit, _, name = target.partition(".")
    return Name(unit=unit, name=name)
