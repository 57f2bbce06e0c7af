"""Copies of everything, on demand and by themselves."""

from __future__ import annotations

from typing import Any

from front_bench import FrontBench
from tiremote.protocol.messages import Interrupt, Snapshot
from tiremote.protocol.values import Handle, Name, Ref
from tiremote.worker.front.settings import Settings

X: Ref = Handle(kind="ndarray", id="s.1.1")
POS: Ref = Name(unit="sim", name="pos")


def snapshot(bench: FrontBench, token: str, arrays: dict[Ref, bytes], **plan: Any) -> Any:
    """A client's snapshot, with its result."""
    request = bench.ask(Snapshot(id=f"snapshot {len(bench.sent)}", token=token, **plan))
    number, work = bench.work[-1]
    bench.snapped(number, work.key, arrays, {"sim.cells": "it is sparse"})
    return bench.result(request)


def run(bench: FrontBench, token: str, times: int = 1) -> None:
    """Something runs and ends."""
    for _ in range(times):
        request = bench.run(token)
        bench.done(bench.work[-1])
        assert bench.result(request)


def test_a_snapshot_tells_what_it_has_and_what_not(bench: FrontBench) -> None:
    """By names, with the reason for each that is not there."""
    token = bench.hello()
    told = snapshot(bench, token, {POS: b"pos", X: b"x"})
    assert told["copied"] == ["ndarray s.1.1", "sim.pos"]
    assert told["skipped"] == {"sim.cells": "it is sparse"}
    assert (told["every_seconds"], told["every_runs"]) == (0, 0)


def test_what_there_is_no_room_for_is_skipped(bench: FrontBench) -> None:
    """An older copy of it does not count as one of now."""
    bench = FrontBench(Settings(copies_bytes=2_000))
    token = bench.hello()
    bench.put_array(token, b"x" * 100)
    told = snapshot(bench, token, {X: b"x" * 3_000})
    assert told["copied"] == []
    assert "--copies" in told["skipped"]["ndarray s.1.1"]


def test_a_snapshot_is_due_after_so_many_runs(bench: FrontBench) -> None:
    """Before the next request, which waits for it, and not while something is with the engine."""
    token = bench.hello()
    snapshot(bench, token, {}, every_runs=2)
    run(bench, token)
    first, second, third = (bench.run(token) for _ in range(3))
    assert bench.snaps == []
    begun = len(bench.work)
    bench.done(bench.work[-3])
    assert bench.snaps == []
    bench.done(bench.work[-2])
    bench.done(bench.work[-1])
    (number, snap) = bench.snaps[0]
    fourth = bench.run(token)
    assert len(bench.work) == begun
    bench.snapped(number, snap.key, {POS: b"pos"})
    assert len(bench.work) == begun + 1
    bench.done(bench.work[-1])
    for request in (first, second, third, fourth):
        assert bench.result(request)


def test_a_snapshot_is_due_after_so_many_seconds_if_anything_ran(bench: FrontBench) -> None:
    """Also where nobody asks for anything: the worker wakes for it."""
    token = bench.hello()
    snapshot(bench, token, {}, every_seconds=60.0)
    bench.wait(61.0)
    assert bench.snaps == []
    run(bench, token)
    (number, snap) = bench.snaps[0]
    bench.snapped(number, snap.key, {})
    run(bench, token)
    assert len(bench.snaps) == 1
    due = bench.front.next_deadline(bench.now)
    assert due is not None
    assert due - bench.now == 60.0
    bench.wait(60.0)
    assert len(bench.snaps) == 2


def test_the_workers_own_interval_holds_until_a_client_asks_for_another() -> None:
    """0 ends it."""
    bench = FrontBench(Settings(snapshot_seconds=5.0))
    token = bench.hello()
    run(bench, token)
    bench.wait(5.0)
    ((number, snap),) = bench.snaps
    bench.snapped(number, snap.key, {})
    told = snapshot(bench, token, {}, every_seconds=0.0)
    assert told["every_seconds"] == 0
    run(bench, token)
    bench.wait(1000.0)
    assert len(bench.snaps) == 1


def test_the_arrays_that_came_before_a_crash_in_a_snapshot_count(bench: FrontBench) -> None:
    """Nothing ran meanwhile: each is of the moment of the snapshot."""
    token = bench.hello()
    bench.put_array(token, b"old")
    run(bench, token)
    request = bench.ask(Snapshot(id="snapshot", token=token))
    number, work = bench.work[-1]
    bench.copied(number, work.key, {X: b"new"})
    bench.die(number)
    bench.put_back_all()
    assert bench.put_back_bytes == [[b"new"]]
    (as_of,) = bench.error(request).data["as_of"]
    assert (as_of["request"], as_of["op"]) == ("snapshot", "snapshot")


def test_a_restored_session_is_not_copied_again_before_anything_runs(bench: FrontBench) -> None:
    """It holds what the copies say; a snapshot would only make them look newer than they are."""
    token = bench.hello()
    bench.put_array(token, b"x")
    snapshot(bench, token, {X: b"x"}, every_runs=1)
    bench.run(token)
    bench.die(1)
    bench.put_back_all()
    assert bench.snaps == []


def test_snapshots_that_kill_engines_are_given_up(bench: FrontBench) -> None:
    """Two in a row; the session goes on without."""
    token = bench.hello()
    snapshot(bench, token, {}, every_runs=1)
    for _ in range(2):
        run(bench, token)
        bench.die(bench.snaps[-1][0], -9)
    run(bench, token, 3)
    assert len(bench.snaps) == 2


def test_an_interrupt_while_the_worker_copies_costs_no_engine(bench: FrontBench) -> None:
    """The engine is asked to leave it; only one that loads units again may hang for ever."""
    token = bench.hello()
    snapshot(bench, token, {}, every_runs=1)
    run(bench, token)
    number, snap = bench.snaps[-1]
    bench.ask(Interrupt(id="i", token=token))
    assert bench.killed == []
    assert bench.nudged == [(number, snap.key)]
