"""The ledger: what a session holds and what that weighs, told while the engine is busy."""

from __future__ import annotations

from typing import Any

from real_worker import RawSession, RealWorker
from tiremote.protocol.messages import Cleanup, Describe, Interrupt
from tiremote.protocol.values import Handle

SIM = """
x = ti.field(ti.f32, (100, 10))
v = ti.Vector.field(3, ti.f32, 50, needs_grad=True)
layers = [ti.ndarray(ti.i32, 25) for _ in range(3)]
table = np.zeros(1000, np.float64)
dt = 0.5

@ti.data_oriented
class Grid:
    def __init__(self):
        self.mass = ti.field(ti.f64, 10)

grid = Grid()

@ti.kernel
def step():
    for i, j in x:
        x[i, j] += 1.0

def get_step():
    return step

def more(n: int):
    grid.more = [ti.ndarray(ti.u8, 1000) for _ in range(n)]

@ti.kernel
def spin(n: ti.i32) -> ti.i32:
    total = 0
    ti.loop_config(serialize=True)
    for i in range(n):
        for j in range(1_000_000):
            total += (i ^ j) % 7
    return total
"""


def unit(session: RawSession, name: str = "sim") -> Any:
    return next(one for one in session.ask(Describe)["units"] if one["unit"] == name)


def status(session: RawSession) -> Any:
    return session.status()["session"]


def test_every_name_has_its_bytes(session: RawSession) -> None:
    """Fields with their gradients, lists and objects by what lies behind them; the unit has the sum, NumPy its part."""
    session.compile(SIM, "sim")
    told = unit(session)
    assert told["sizes"] == {"x": 4000, "v": 2 * 600, "layers": 300, "table": 8000, "grid": 80}
    assert told["nbytes"] == 13580
    after = status(session)
    assert after["unit_bytes"] == 13580
    assert after["host_bytes"] == 8000


def test_a_kept_array_counts_where_it_lies(session: RawSession) -> None:
    """One under a handle is the session's, and on the host where it is a plain array."""
    session.alloc(kind="array", dtype="f64", shape=(100,))
    session.alloc(kind="ndarray", dtype="f32", shape=(10,))
    assert (status(session)["array_bytes"], status(session)["host_bytes"]) == (840, 800)


def test_trees_are_counted(session: RawSession) -> None:
    """Each field that is made by itself is a tree; what is dropped is not counted any more."""
    assert status(session)["snode_trees_limit"] == 512
    # The root has one too, from the first launch on.
    session.fetch(session.alloc(kind="field", dtype="f32", shape=(4,)))
    before = status(session)["snode_trees"]
    handles = [session.alloc(kind="field", dtype="f32", shape=(4,)) for _ in range(5)]
    assert status(session)["snode_trees"] == before + 5
    session.fetch(handles[0])
    session.ask(Cleanup, targets=handles[:3])
    # That of the root may go as well, where nothing is in it.
    assert status(session)["snode_trees"] <= before + 2


def test_a_version_that_somebody_holds_is_told(session: RawSession) -> None:
    """A replaced version whose kernel is kept under a handle, until that is dropped."""
    session.compile(SIM, "sim")
    kernel = session.run("get_step")
    assert isinstance(kernel, Handle)
    session.compile(SIM + "\nnew = 1\n", "sim")
    session.compile(SIM + "\nnew = 2\n", "sim")
    other = session.alloc(shape=(2,))
    while list(unit(session)["held"]) != [1]:
        session.fetch(other)
    assert status(session)["held_versions"] == 1
    session.ask(Cleanup, targets=[kernel])
    while status(session)["held_versions"]:
        session.fetch(other)


def test_all_of_it_is_told_while_the_engine_is_busy(session: RawSession) -> None:
    """Sizes, trees, owner, last use and memory come from the front, at once."""
    session.compile(SIM, "sim")
    running = session.start("spin", 1_000_000)
    while status(session)["running"] is None:
        pass
    told, after = unit(session), status(session)
    assert after["state"] == "busy"
    assert told["sizes"]["x"] == 4000
    assert told["unused"] < 5.0
    assert after["snode_trees"] >= 1
    assert after["engine_memory"] > 10 << 20
    session.ask(Interrupt)
    session.answer(running)


def test_the_owner_is_the_client_that_made_it(worker: RealWorker) -> None:
    """By the name that it said hello with."""
    with RawSession(worker.address, client="ada@laptop") as session:
        session.compile("x = ti.field(ti.f32, 4)", "sim")
        session.alloc(label="y", shape=(4,))
        told = session.ask(Describe)
        assert [one["owner"] for one in (*told["units"], *told["arrays"])] == ["ada@laptop"] * 2


def test_arrays_that_a_call_makes_are_found(session: RawSession) -> None:
    """Nobody is told that code has made arrays: the ledger has them a second later, after any request."""
    session.compile(SIM, "sim")
    session.run("more", 5)
    while unit(session)["sizes"]["grid"] != 80 + 5000:
        session.run("step")


def test_the_gpu_tells_its_memory(session: RawSession, arch: str) -> None:
    """Free and total on CUDA; elsewhere there is nobody to ask."""
    session.alloc(shape=(4,))
    free, total = status(session)["device_free"], status(session)["device_total"]
    if arch == "cuda":
        assert 0 < free < total
    else:
        assert free is total is None
