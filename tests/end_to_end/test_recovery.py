"""What a session holds after its engine died: for every array what the error says, checked against a model."""

from __future__ import annotations

import random
import resource
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from real_worker import RawSession, RealWorker
from tiremote.client import connect
from tiremote.protocol.errors import (
    CompileError,
    DeadlineExceeded,
    EngineCrashed,
    EngineError,
    Interrupted,
    StaleHandle,
)
from tiremote.protocol.messages import Alloc, Bye, Cleanup, Compile, Fetch, Interrupt, Put, Snapshot
from tiremote.protocol.values import Handle, Name, Ref, wire_array
from tiremote.worker.front.settings import Settings

TEXT = """
import os

C = {constant}
total = ti.field(ti.i32, {size})
pair = ti.Vector.field(2, ti.f32, (2, 3))
parts = ti.Struct.field({{"mass": ti.f32, "place": ti.types.vector(3, ti.f32)}}, shape=4)
layers = [ti.field(ti.i32, 3), ti.ndarray(ti.i32, 2)]

class Grid:
    def __init__(self):
        self.cells = ti.field(ti.i32, (2, 2))

grid = Grid()

@ti.kernel
def add(x: ti.types.ndarray(), n: ti.i32):
    for i in ti.grouped(x):
        x[i] += n

@ti.kernel
def bump(n: ti.i32):
    for i in total:
        total[i] += n * C
    for i in ti.grouped(pair):
        pair[i] += n
    for i in parts:
        parts[i].mass += n

def bump_more(n):
    grid.cells.from_numpy(grid.cells.to_numpy() + n)
    for each in layers:
        each.from_numpy(each.to_numpy() + n)

def read_layer(number):
    return layers[number].to_numpy()

def die(number):
    os.kill(os.getpid(), number)
"""

FIELDS = ["total", "pair", "parts.mass", "parts.place", "grid.cells"]


@pytest.fixture(scope="module")
def copying_worker(arch: str) -> Iterator[RealWorker]:
    with RealWorker("--spares", "2", arch=arch) as worker:
        yield worker


class Model:
    """A session, and of each array what it held after each request that may have left a copy of it."""

    def __init__(self, session: RawSession, seed: int) -> None:
        self.session = session
        self.chance = random.Random(seed)
        self.constant, self.size = 2, 5
        self.handles: dict[str, Handle] = {}
        self.made = 0
        #: Requests that need not have left a copy.
        self.parts: set[Any] = set()
        self.load()

    # -- what is true

    def targets(self) -> dict[str, Ref]:
        """Names in errors to what they are fetched by."""
        fields: dict[str, Ref] = {f"sim.{name}": Name(unit="sim", name=name) for name in FIELDS}
        return {**fields, **{handle.id: handle for handle in self.handles.values()}}

    def load(self) -> None:
        text = TEXT.format(constant=self.constant, size=self.size)
        receipt = self.session.ask(Compile, source=text, unit="sim")
        fresh = {"sim.total": np.zeros(self.size, np.int32)}
        if receipt["previous"] is None:
            fresh |= {
                "sim.pair": np.zeros((2, 3, 2), np.float32),
                "sim.parts.mass": np.zeros(4, np.float32),
                "sim.parts.place": np.zeros((4, 3), np.float32),
                "sim.grid.cells": np.zeros((2, 2), np.int32),
            }
            self.holds: dict[str, np.ndarray] = {}
            self.copies: dict[str, dict[Any, np.ndarray]] = {}
            self.layers = [np.zeros(3, np.int32), np.zeros(2, np.int32)]
            self.layer_copies: list[dict[Any, np.ndarray]] = [{}, {}]
        elif "total" not in receipt["reset"]:
            fresh = {}
        for key, values in fresh.items():
            self.holds[key] = values
            self.copies[key] = {}

    def keep(self, key: str, request: Any, *, surely: bool = True) -> None:
        """``surely``: older copies are not what is put back."""
        if surely:
            self.copies[key].clear()
        self.copies[key][request] = self.holds[key].copy()

    # -- what a client does

    def make(self) -> None:
        self.made += 1
        dtype = self.chance.choice([np.int32, np.float32, np.float64])
        shape = self.chance.choice([(4,), (2, 3), (1 << 15,)])
        values = np.full(shape, self.made, dtype)
        if self.chance.random() < 0.3:
            kind = self.chance.choice(["ndarray", "field", "array"])
            name = {np.int32: "i32", np.float32: "f32", np.float64: "f64"}[dtype]
            request = self.session.send(Alloc, kind=kind, dtype=name, shape=shape)
            handle, values, copied = self.session.result(request)["holding"]["handle"], values * 0, False
        else:
            request = self.session.send(Put, array=wire_array(values))
            handle, copied = self.session.result(request)["holding"]["handle"], True
        self.handles[handle.id] = handle
        self.holds[handle.id], self.copies[handle.id] = values, {}
        if copied:
            self.keep(handle.id, request.id)

    def pick(self) -> tuple[str, Ref]:
        return self.chance.choice(list(self.targets().items()))

    def put(self) -> None:
        key, target = self.pick()
        values = np.full_like(self.holds[key], self.chance.randrange(100))
        if values.ndim > 1 and self.chance.random() < 0.5:
            values = np.asfortranarray(values)
        request = self.session.send(Put, target=target, array=wire_array(values))
        self.session.result(request)
        self.holds[key] = values
        self.keep(key, request.id)

    def put_part(self) -> None:
        key, target = self.pick()
        size = self.holds[key].size
        start = self.chance.randrange(size)
        stop = self.chance.randrange(start, size) + 1
        part = np.full(stop - start, self.chance.randrange(100), self.holds[key].dtype)
        request = self.session.send(Put, target=target, flat=(start, stop), array=wire_array(part))
        self.session.result(request)
        self.holds[key] = self.holds[key].copy()
        self.holds[key].reshape(-1)[start:stop] = part
        # Where code has run since the last copy, a part makes no new one.
        self.keep(key, request.id, surely=False)
        self.parts.add(request.id)

    def put_by_way(self) -> None:
        """As a field is put that is too large for one buffer."""
        key, target = self.pick()
        values = np.full_like(np.ascontiguousarray(self.holds[key]), self.chance.randrange(100))
        names = {"i4": "i32", "f4": "f32", "f8": "f64"}
        way = self.session.alloc(kind="array", dtype=names[values.dtype.str[1:]], shape=values.shape)
        flat, middle = values.reshape(-1), values.size // 2
        for start, stop in ((middle, values.size), (0, middle)):
            self.session.ask(Put, target=way, flat=(start, stop), array=wire_array(flat[start:stop]))
        request = self.session.send(Put, target=target, source=way)
        self.session.result(request)
        self.session.ask(Cleanup, targets=(way,))
        self.holds[key] = values
        self.keep(key, request.id)

    def fetch(self) -> None:
        key, target = self.pick()
        request = self.session.send(Fetch, target=target)
        came = self.session.result(request)["value"].copy()
        assert np.array_equal(came, self.holds[key]), key
        self.keep(key, request.id)

    def fetch_by_copy(self) -> None:
        """In two pieces, with something that runs between them: all of the moment of the copy."""
        key, target = self.pick()
        copied = self.session.send(Alloc, kind="array", copy_of=target)
        copy = self.session.result(copied)["holding"]["handle"]
        self.keep(key, copied.id)
        size = self.holds[key].size
        for start, stop in ((0, size // 2), (size // 2, size)):
            self.session.fetch(copy, flat=(start, stop))
            self.run()
        self.session.ask(Cleanup, targets=(copy,))

    def run(self) -> None:
        n = self.chance.randrange(1, 5)
        what = self.chance.choice(["bump", "bump_more", "add"])
        kernels = [key for key, handle in self.handles.items() if handle.kind in ("ndarray", "array")]
        if what == "add" and kernels:
            key = self.chance.choice(kernels)
            self.session.run("add", self.handles[key], n, unit="sim")
            self.holds[key] = self.holds[key] + np.asarray(n, self.holds[key].dtype)
        elif what == "bump":
            self.session.run("bump", n, unit="sim")
            self.bumped(n)
        else:
            self.session.run("bump_more", n, unit="sim")
            self.holds["sim.grid.cells"] = self.holds["sim.grid.cells"] + np.int32(n)
            self.layers = [each + np.int32(n) for each in self.layers]

    def bumped(self, n: int) -> None:
        self.holds["sim.total"] = self.holds["sim.total"] + np.int32(n * self.constant)
        self.holds["sim.pair"] = self.holds["sim.pair"] + np.float32(n)
        self.holds["sim.parts.mass"] = self.holds["sim.parts.mass"] + np.float32(n)

    def snapshot(self) -> None:
        request = self.session.send(Snapshot)
        told = self.session.result(request)
        assert set(told["skipped"]) == set()
        for key in self.targets():
            self.keep(key, request.id)
        for number, each in enumerate(self.layers):
            self.layer_copies[number][request.id] = each.copy()

    def reload(self) -> None:
        if self.chance.random() < 0.3:
            with pytest.raises(CompileError):
                self.session.compile(TEXT.format(constant="1 // 0", size=self.size), "sim")
            return
        self.constant = self.chance.randrange(1, 9)
        if self.chance.random() < 0.3:
            self.size = 5 if self.size == 9 else 9
        self.load()

    def drop(self) -> None:
        if self.handles:
            key = self.chance.choice(list(self.handles))
            self.session.ask(Cleanup, targets=(self.handles.pop(key),))
            del self.holds[key], self.copies[key]

    # -- what happens to it

    def die(self) -> None:
        if self.chance.random() < 0.3:
            self.die_idle()
            return
        with pytest.raises(EngineCrashed) as caught:
            self.session.run("die", int(signal.SIGSEGV), unit="sim")
        self.check(caught.value)

    def die_idle(self) -> None:
        """The next request is told, and not run; where all is as it was there is nothing to tell, and it runs."""
        psutil.Process(self.session.status()["session"]["engine_pid"]).kill()
        try:
            self.session.run("bump", 1, unit="sim")
        except EngineCrashed as error:
            self.check(error)
        else:
            self.bumped(1)

    def check(self, error: EngineError) -> None:
        """Each array is what the error says, or named as lost; and the model goes on from there."""
        assert error.restored == ("sim",)
        said = {one.target: one for one in error.as_of}
        for key, target in self.targets().items():
            if key in said:
                assert said[key].request in self.copies[key], (key, said[key])
                self.holds[key] = self.copies[key][said[key].request]
            elif isinstance(target, Name):
                assert key in error.lost
                assert len(self.copies[key]) == 0 or all(one in self.parts for one in self.copies[key])
                self.holds[key] = np.zeros_like(self.holds[key])
                self.copies[key].clear()
            else:
                assert any(target.id in each for each in error.lost)
                with pytest.raises(StaleHandle):
                    self.session.fetch(target)
                del self.handles[key], self.holds[key], self.copies[key]
        for number in range(2):
            copy = said.get(f"sim.layers[{number}]")
            before = self.layer_copies[number]
            self.layers[number] = np.zeros_like(self.layers[number]) if copy is None else before[copy.request]
            assert copy is not None or not before
        for key, target in self.targets().items():
            # A region leaves no copy, of which the next crash would have the advantage.
            came = self.session.fetch(target, region=((None, None, None),))
            assert np.array_equal(came, self.holds[key]), key
        for number, each in enumerate(self.layers):
            assert np.array_equal(self.session.run("read_layer", number, unit="sim").copy(), each)


@pytest.mark.parametrize("seed", [1, 2])
def test_after_any_crash_every_array_is_what_the_error_says(copying_worker: RealWorker, seed: int) -> None:
    """As of the request that is named, and that is the newest that left a copy; the rest is named as lost."""
    with RawSession(copying_worker.address) as session:
        model = Model(session, seed)
        moves = {
            model.make: 3,
            model.put: 4,
            model.put_part: 3,
            model.put_by_way: 1,
            model.fetch: 3,
            model.fetch_by_copy: 1,
            model.run: 6,
            model.snapshot: 1,
            model.reload: 2,
            model.drop: 1,
            model.die: 1,
        }
        for _ in range(120):
            (move,) = model.chance.choices(list(moves), list(moves.values()))
            move()
        model.die()


SMALL = """
import os

x = ti.field(ti.i32, 3)

@ti.kernel
def bump():
    for i in x:
        x[i] += 1

@ti.kernel
def endless() -> ti.i32:
    n = 0
    ti.loop_config(serialize=True)
    for i in range(2_000_000_000):
        for j in range(2_000_000_000):
            n += (i ^ j) % 7
    return n

def die(number):
    os.kill(os.getpid(), number)
"""
X = Name(unit="sim", name="x")


def crash(session: RawSession) -> EngineError:
    """What a client is told whose run has ended its engine."""
    with pytest.raises(EngineCrashed) as caught:
        session.run("die", int(signal.SIGKILL), unit="sim")
    return caught.value


@pytest.fixture
def small(copying_worker: RealWorker) -> Iterator[RawSession]:
    """A session with the unit above."""
    with RawSession(copying_worker.address) as session:
        session.compile(SMALL, "sim")
        yield session
        session.ask(Bye, end=True)


def test_arrays_of_many_parts_come_back_whole(small: RawSession) -> None:
    """Sent as the Python client sends them, and fetched as it fetches them: by a copy, in parts."""
    values = np.arange(5 << 20, dtype=np.float32)
    up = small.alloc(shape=values.shape)
    down = small.alloc(kind="field", shape=(3 << 20,), fill="arange", dtype="i32")
    ranges = [(start, min(start + (1 << 20), values.size)) for start in range(0, values.size, 1 << 20)]
    for start, stop in reversed(ranges):
        small.send(Put, target=up, flat=(start, stop), array=wire_array(values[start:stop]))
    copied = small.send(Alloc, kind="array", copy_of=down)
    copy = small.result(copied)["holding"]["handle"]
    for start, stop in ranges[:3]:
        small.fetch(copy, flat=(start, stop))
    small.ask(Cleanup, targets=(copy,))
    error = crash(small)
    assert {one.target: one.op for one in error.as_of} == {up.id: "put", down.id: "fetch"}
    assert next(one.request for one in error.as_of if one.target == down.id) == copied.id
    parts = [small.fetch(up, flat=part) for part in ranges]
    assert np.array_equal(np.concatenate(parts), values)
    assert np.array_equal(small.fetch(down, flat=(0, 3 << 20)), np.arange(3 << 20))


@pytest.mark.parametrize("how", ["interrupt", "deadline"])
def test_an_engine_that_is_ended_on_purpose_costs_no_more(small: RawSession, how: str) -> None:
    """The same is put back, and the same is said, as after a crash."""
    small.ask(Put, target=X, array=wire_array(np.int32([1, 2, 3])))
    handle = small.put(np.arange(4.0), label="y")
    request = small.start("endless", unit="sim", **({"deadline": 0.2} if how == "deadline" else {}))
    if how == "interrupt":
        small.ask(Interrupt, request=request.id)
        small.ask(Interrupt, request=request.id)
    with pytest.raises((Interrupted, DeadlineExceeded)) as caught:
        small.result(request)
    if caught.value.restored:
        assert {one.name: one.op for one in caught.value.as_of} == {"sim.x": "put", "y": "put"}
    assert small.fetch(X).tolist() == [1, 2, 3]
    assert small.fetch(handle).tolist() == [0, 1, 2, 3]


def test_a_snapshot_by_itself_bounds_what_is_lost(small: RawSession) -> None:
    """After every second run and those that are with the engine then; none that is sent meanwhile waits for ever."""
    assert small.ask(Snapshot, every_runs=2)["every_runs"] == 2
    for request in [small.start("bump", unit="sim") for _ in range(21)]:
        small.result(request)
    error = crash(small)
    (as_of,) = error.as_of
    assert (as_of.name, as_of.op, as_of.request) == ("sim.x", "snapshot", None)
    first, *others = small.fetch(X).tolist()
    assert 21 - 2 - Settings().window <= first <= 21
    assert others == [first] * 2


def test_a_session_that_is_opened_with_a_snapshot_interval_has_it(copying_worker: RealWorker, arch: str) -> None:
    """What a kernel did is there after a crash, `describe` tells from when it is, and a put is news again."""
    with connect(copying_worker.address, arch=arch, snapshot_every=0.001, on_output=None) as gpu:
        gpu.compile_and_load(SMALL, "sim")
        gpu["sim"].bump()
        # That long ago the run has ended when the next request comes.
        assert gpu["sim"].x.summary().maximum == 1
        with pytest.raises(EngineCrashed) as caught:
            gpu["sim"].die(int(signal.SIGKILL))
        (as_of,) = caught.value.as_of
        assert (as_of.name, as_of.target, as_of.op, as_of.request) == ("sim.x", "sim.x", "snapshot", None)
        assert gpu.describe().as_of == caught.value.as_of
        assert gpu["sim"].x.to_numpy().tolist() == [1, 1, 1]
        gpu["sim"].x.from_numpy(np.int32([4, 5, 6]))
        assert gpu.describe().as_of == ()


def test_a_unit_that_cannot_be_loaded_again_is_lost_with_its_arrays(small: RawSession, tmp_path: Path) -> None:
    """Its text reads a file that is gone; what others hold is there, and the unit can be sent anew."""
    file = tmp_path / "size"
    file.write_text("3")
    text = f"n = int(open({str(file)!r}).read())\ny = ti.field(ti.f32, n)\n"
    small.compile(text, "reads")
    y = Name(unit="reads", name="y")
    small.ask(Put, target=y, array=wire_array(np.float32([1, 2, 3])))
    small.ask(Put, target=X, array=wire_array(np.int32([1, 2, 3])))
    file.unlink()
    error = crash(small)
    assert error.restored == ("sim",)
    assert "reads.y" in error.lost
    assert any(each.startswith("reads (it could not be loaded again") for each in error.lost)
    assert small.fetch(X).tolist() == [1, 2, 3]
    file.write_text("4")
    small.compile(text, "reads")
    assert small.fetch(y).tolist() == [0] * 4


def test_a_field_whose_size_is_another_on_loading_again_is_lost_with_the_reason(
    small: RawSession, tmp_path: Path
) -> None:
    """The same text makes another field: it does not get what another one held."""
    file = tmp_path / "size"
    file.write_text("3")
    small.compile(f"n = int(open({str(file)!r}).read())\ny = ti.field(ti.f32, n)\n", "reads")
    small.ask(Put, target=Name(unit="reads", name="y"), array=wire_array(np.float32([1, 2, 3])))
    file.write_text("4")
    error = crash(small)
    (told,) = [each for each in error.lost if each.startswith("reads.y")]
    assert "f32 (4,) now, and f32 (3,) was kept" in told
    assert small.fetch(Name(unit="reads", name="y")).tolist() == [0] * 4


def test_everybody_in_a_session_is_told_by_the_same_names(copying_worker: RealWorker) -> None:
    """One client's request is lost, another's next one is not run; both know what is there again."""
    with (
        RawSession(copying_worker.address, session="shared") as mine,
        RawSession(copying_worker.address, session="shared") as theirs,
    ):
        mine.compile(SMALL, "sim")
        handle = mine.put(np.arange(3.0), label="y")
        mine.ask(Put, target=X, array=wire_array(np.int32([1, 2, 3])))
        mine.run("bump", unit="sim")
        error = crash(mine)
        with pytest.raises(EngineCrashed, match="not run") as caught:
            theirs.run("bump", unit="sim")
        for told in (error, caught.value):
            assert {one.name for one in told.as_of} == {"sim.x", "y"}
        theirs.run("bump", unit="sim")
        assert mine.fetch(X).tolist() == [2, 3, 4]
        assert theirs.fetch(handle).tolist() == [0, 1, 2]
        mine.ask(Bye, end=True)


def test_a_worker_that_keeps_no_copies_says_what_is_lost(arch: str) -> None:
    """``--copies 0``: units come back, arrays do not, and a snapshot says how to have it otherwise."""
    with RealWorker("--copies", "0", arch=arch) as worker, RawSession(worker.address) as session:
        session.compile(SMALL, "sim")
        handle = session.put(np.arange(3.0), label="y")
        told = session.ask(Snapshot)
        assert told["copied"] == []
        assert set(told["skipped"]) == {"sim.x", "y"}
        assert all("--copies" in reason for reason in told["skipped"].values())
        error = crash(session)
        assert (error.restored, error.as_of, set(error.lost)) == (("sim",), (), {"sim.x", "y"})
        with pytest.raises(StaleHandle):
            session.fetch(handle)
        session.run("bump", unit="sim")


def test_a_small_budget_keeps_what_was_used_last(arch: str) -> None:
    """Also where one array alone is larger than all of it: that costs the others nothing."""
    with RealWorker("--copies", "100000", arch=arch) as worker, RawSession(worker.address) as session:
        session.compile(SMALL, "sim")
        handles = [session.put(np.full(5_000, number, np.float64), label=f"x{number}") for number in range(4)]
        session.put(np.zeros(20_000), label="large")
        session.fetch(handles[1])
        session.put(np.zeros(4), label="small")
        error = crash(session)
        assert {one.name for one in error.as_of} == {"x1", "x3", "small"}
        assert {"x0", "x2", "large"} <= set(error.lost)
        assert session.fetch(handles[1]).tolist() == [1] * 5_000


def test_no_shared_memory_for_an_array_costs_that_array_and_nobody_else(arch: str) -> None:
    """What is put back goes by shared memory; a front that can have none goes on."""
    with RealWorker(arch=arch) as worker, RawSession(worker.address) as session:
        session.compile(SMALL, "sim")
        handle = session.put(np.arange(100_000.0), label="y")
        session.ask(Put, target=X, array=wire_array(np.int32([1, 2, 3])))
        # Whatever is written from now on is too large for the front; a few kilobytes go by the socket.
        resource.prlimit(worker.process.pid, resource.RLIMIT_FSIZE, (1 << 10, resource.RLIM_INFINITY))
        error = crash(session)
        assert {one.name for one in error.as_of} == {"sim.x"}
        (told,) = [each for each in error.lost if each.startswith("y ")]
        assert "no shared memory" in told
        with pytest.raises(StaleHandle):
            session.fetch(handle)
        assert session.fetch(X).tolist() == [1, 2, 3]
