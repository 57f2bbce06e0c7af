"""Engines that die at every moment of everything that the front has them do, by a seed."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from front_bench import FrontBench, whole
from tiremote.protocol.errors import KernelArgumentError, KernelRuntimeError
from tiremote.protocol.messages import Compile, Event, Fetch, Put, Run, Snapshot
from tiremote.protocol.receipts import ArrayHolding, Definition, UnitHolding
from tiremote.protocol.values import Handle, Name, Ref, wire_array
from tiremote.worker.front.settings import Settings
from tiremote.worker.link import Changes, Load, PutBack, Snap, UnitArrays, Work

DATA = b"some bytes"
BUDGET = 20_000
X, FIELD = Handle(kind="ndarray", id="s.1.1"), Name(unit="sim", name="f")


class Storm:
    """Two clients of one session, and engines that do what they are told, or fail at it, or die."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.bench = FrontBench(Settings(copies_bytes=BUDGET, snapshot_seconds=3.0))
        self.tokens = [self.bench.hello(session="lab"), self.bench.hello(b"other", session="lab")]
        self.requests: list[Any] = []
        self.made = 0
        self.version = 0

    # -- clients

    def ask(self) -> None:
        seat = self.chance.randrange(2)
        self.made += 1
        common = {"id": f"r{self.made}", "token": self.tokens[seat], "events": self.chance.random() < 0.5}
        array = wire_array(np.frombuffer(DATA, np.uint8))
        request: Any = self.chance.choice(
            [
                lambda: Run(target=Name(name="step"), **common),
                lambda: Put(array=array, label=f"x{self.made}", **common),
                lambda: Put(target=self.target(), array=array, **common),
                lambda: Fetch(target=self.target(), **common),
                lambda: Snapshot(**common),
            ]
        )()
        self.requests.append(self.bench.ask(request, [b"laptop", b"other"][seat]))

    def target(self) -> Ref:
        return self.chance.choice([X, FIELD])

    def compile(self) -> None:
        self.version += 1
        request = Compile(id=f"c{self.version}", token=self.tokens[0], source=f"f = {self.version}", unit="sim")
        self.requests.append(self.bench.ask(request))

    # -- the engine

    def engine(self) -> Any:
        return next((each for each in self.bench.front.scheduler.pool.engines.values() if each.session), None)

    def next_message(self) -> Any:
        """What the session's engine has to do next."""
        engine = self.engine()
        if engine is None:
            return None
        key = next(iter(engine.chores), None) or (engine.inflight[0].key if engine.inflight else None)
        sent = (*self.bench.loads, *self.bench.put_backs, *self.bench.snaps, *self.bench.work)
        return next((one for one in sent if one[0] == engine.number and one[1].key == key), None)

    def work(self) -> None:
        sent = self.next_message()
        if sent is None:
            return
        ok = self.chance.random() < 0.8
        match sent[1]:
            case Load():
                self.bench.loaded(sent, ok=ok)
            case PutBack():
                self.bench.put_back(sent, None if ok else KernelArgumentError("it is another now"))
            case Snap(key=key):
                self.bench.snapped(sent[0], key, {FIELD: DATA})
            case Work():
                self.answer(sent, ok=ok)

    def answer(self, sent: tuple[int, Work], *, ok: bool) -> None:
        request: Any = next(job.request for job in self.engine().inflight if job.key == sent[1].key)
        if isinstance(request, Snapshot):
            self.bench.snapped(sent[0], sent[1].key, {FIELD: DATA})
        elif not ok:
            self.bench.failed(sent, KernelRuntimeError("no"))
        elif isinstance(request, Put) and request.target is None:
            handle = Handle(kind="ndarray", id=f"s.1.{sent[1].key}")
            holding = ArrayHolding(handle=handle, label=request.label)
            self.bench.done(sent, changes=Changes(arrays=(holding,)), moved=whole(handle, DATA))
        elif isinstance(request, Put | Fetch):
            assert request.target is not None
            buffers = [DATA] if isinstance(request, Fetch) else []
            self.bench.done(sent, moved=whole(request.target, DATA), buffers=buffers)
        elif isinstance(request, Compile):
            definitions = (Definition(name="f", kind="field"),)
            unit = UnitHolding(unit="sim", version=self.version, definitions=definitions, loaded_by=request.id)
            arrays = (UnitArrays(unit="sim", names=("f",)),)
            self.bench.done(sent, changes=Changes(units=(unit,), unit_arrays=arrays))
        else:
            self.bench.done(sent)

    def die(self) -> None:
        engine = self.engine()
        if engine is not None:
            self.bench.die(engine.number, -9, begun=self.chance.random() < 0.5)

    def wait(self) -> None:
        self.bench.wait(self.chance.choice([0.1, 1.0, 5.0]))

    # -- the end

    def settle(self) -> None:
        """Nobody asks for anything more, and nothing dies."""
        for _ in range(5_000):
            if self.next_message() is None:
                self.bench.wait(1.0)
                if self.next_message() is None and not self.engine().chores and not self.engine().inflight:
                    return
            self.work()
        pytest.fail("it never comes to an end")


@pytest.mark.parametrize("seed", range(12))
def test_every_request_is_answered_once_whatever_dies_when(seed: int) -> None:
    """And the session has an engine that is ready, and accounts that add up."""
    storm = Storm(seed)
    moves = {storm.ask: 6, storm.compile: 1, storm.work: 8, storm.die: 1, storm.wait: 1}
    for _ in range(400):
        storm.chance.choices(list(moves), list(moves.values()))[0]()
    storm.settle()
    bench = storm.bench
    for request in storm.requests:
        answers = [reply for reply in bench.replies(request) if not isinstance(reply, Event)]
        assert len(answers) == 1, request
    (session,) = list(bench.front._sessions)
    assert session.engine is not None
    assert session.engine.restored
    assert [*session.mourning, *session.queue, *session.stock, *session.engine.refills] == []
    copies = bench.front.scheduler.copies
    assert copies.nbytes <= BUDGET
    crash = copies.of_crash(session.id)
    for_a_crash = 0 if crash is None else crash.cost
    assert copies.nbytes_of(session.id) - for_a_crash == sum(copy.nbytes for copy in copies.of(session.id))
    # What has a copy is there; the bench makes no array under this one handle.
    held = {holding.handle for holding in session.arrays.values()}
    assert {copy.target for copy in copies.of(session.id) if isinstance(copy.target, Handle)} - held <= {X}
