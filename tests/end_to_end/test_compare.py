"""Two versions of a unit compared through a real worker, as a user does."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from real_worker import RawSession
from tiremote.client import In, Session
from tiremote.protocol.errors import CompileError, Interrupted, KernelRuntimeError, UnknownName
from tiremote.protocol.messages import Compare, Describe, Interrupt, Side
from tiremote.protocol.values import Name

SIM = """
state = ti.field(ti.f32, 8)

@ti.kernel
def step(x: ti.types.ndarray(), dt: ti.f32) -> ti.f32:
    for i in state:
        state[i] += x[i] * dt
        x[i] += 1
    return state[7]

def drive(x, n):
    for _ in range(n):
        step(x, 0.5)
    return n
"""
FASTER = SIM.replace("x[i] * dt", "x[i] * dt * 1.5")


@pytest.fixture
def sim(gpu: Session) -> Session:
    """Two versions of a simulation that has run."""
    gpu.compile_and_load(SIM, "sim")
    gpu["sim"].step(np.ones(8, "f4"), 1.0)
    gpu.compile_and_load(FASTER, "sim")
    return gpu


def held(gpu: Session) -> object:
    """Units by version and definitions, and arrays."""
    told = gpu.describe()
    units = [(each.unit, each.version, each.definitions, each.loaded_by) for each in told.units]
    return told.generation, told.newest, units, [each.handle for each in told.arrays], told.nbytes


def test_the_version_before_is_the_default(sim: Session, unharmed: Callable[[], None]) -> None:
    """Numbers, times and a text to read; the session, its history and its arrays are as they were."""
    x = sim.array(np.arange(8, dtype="f4"))
    before = held(sim)
    told = sim.compare("sim", "step", x, 2.0, repeats=3)
    versions = [each.version for each in sim.history("sim").versions]
    assert ([told.before.version, told.after.version], len(told.before.launches)) == (versions, 3)
    differences = {each.name: each for each in told.differences}
    assert (differences["state"].before, differences["state"].after, differences["state"].at) == (15.0, 22.0, (7,))
    assert differences["argument x"].same_bits
    assert differences["returned value"].max_abs == 7.0
    assert not told.same_bits
    lines = str(told).splitlines()
    assert lines[0] == "sim.step, 3 launches of each side in turns"
    assert lines[1].startswith(f"  before version {versions[0]}")
    assert "  state (f32 (8,)): differs by up to 7 (relative 0.318) at [7]: 15 and 22" in lines
    assert held(sim) == before
    assert x.to_numpy().tolist() == list(range(8))
    assert sim["sim"].state.to_numpy().tolist() == [1.0] * 8
    assert [each.version for each in sim.history("sim").versions] == versions
    unharmed()


def test_a_text_is_tried_against_what_is_loaded(sim: Session) -> None:
    """With NumPy arrays, which stay as they are, keywords, and a driver function."""
    x = np.arange(8, dtype="f4")
    told = sim.compare("sim", "drive", x, kwargs={"n": 2}, after_source=FASTER.replace("1.5", "3"), repeats=1)
    loaded = sim.history("sim").current
    assert (told.before.version, told.after.version) == (loaded, None)
    differences = {each.name: each for each in told.differences}
    assert differences["state"].max_abs == 7 * 0.75 + 8 * 0.75
    assert differences["argument x"].same_bits
    assert x.tolist() == list(range(8))
    told = sim.compare("sim", "drive", In(x), 2, before=loaded, after=loaded, repeats=1)
    assert told.same_bits
    assert [each.name for each in told.differences] == ["state", "returned value"]
    with pytest.raises(TypeError, match="give one of them"):
        sim.compare("sim", "drive", x, 2, before=1, before_source=SIM)


def test_arrays_inside_of_an_argument_are_compared(gpu: Session) -> None:
    """Each launch begins with what came, and they are named by parameter and path; the caller's are as they were."""
    text = (
        "P = ti.types.argpack(x=ti.types.ndarray(dtype=ti.f32, ndim=1), by=ti.f32)\n"
        "@ti.kernel\ndef scale(p: P):\n    for i in range(p.x.shape[0]):\n        p.x[i] += p.by\n"
    )
    gpu.compile_and_load(text, "packs")
    x = np.zeros(2, "f4")
    after = text.replace("+= p.by", "+= p.by * 2")
    told = gpu.compare("packs", "scale", {"x": x, "by": 3.0}, after_source=after, repeats=2)
    differences = {each.name: each for each in told.differences}
    assert (differences["argument p.x"].before, differences["argument p.x"].after) == (3.0, 6.0)
    assert x.tolist() == [0, 0]


def test_arrays_too_large_for_one_frame(sim: Session) -> None:
    """They are uploaded for the call, each launch begins with them as they came, and nothing of them stays."""
    size = sim.info.limits.buffer_bytes // 8 + 1
    text = "def first(x):\n    x += 1\n    return x[0]\n"
    sim.compile_and_load(text, "large")
    told = sim.compare("large", "first", np.zeros(size), after_source=text.replace("+= 1", "+= 2"), repeats=1)
    assert [(each.before, each.after) for each in told.differences] == [(1.0, 2.0)] * 2
    sim.ti.sync()
    assert sim.describe().arrays == ()


@pytest.mark.parametrize(
    ("fields", "kind", "words"),
    [
        ({"before": 999}, UnknownName, "no version 999"),
        ({"after_source": "def step(:\n"}, CompileError, "after \\(the text\\): SyntaxError"),
        ({"before_source": SIM.replace("step(x, 0.5)", "1 / 0")}, KernelRuntimeError, "before \\(the text\\): Zero"),
    ],
)
def test_what_goes_wrong_says_on_which_side(
    sim: Session, fields: dict[str, object], kind: type[Exception], words: str
) -> None:
    """A version that is not there, a text that does not load, one that fails; the session goes on."""
    with pytest.raises(kind, match=words):
        sim.compare("sim", "drive", np.ones(8, "f4"), 2, **fields)  # type: ignore[arg-type]
    assert sim["sim"].state.to_numpy().tolist() == [1.0] * 8


def test_an_interrupt_stops_it_and_keeps_the_engine(session: RawSession) -> None:
    """Code of either side stops between two of its steps, and what it had changed is put back."""
    text = "x = ti.field(ti.i32, 2)\ndef wait():\n    x[0] += 1\n    print('waits', flush=True)\n    while FOR_EVER:\n        pass\n"  # fmt: skip  # noqa: E501
    session.compile(text + "FOR_EVER = False\n", "u")
    session.run("wait")
    asked = session.send(
        Compare, target=Name(unit="u", name="wait"), after=Side(source=text + "FOR_EVER = True\n"), events=True
    )
    while session.printed(asked).count("waits") < 2:
        event = session.receive()
        session.events.setdefault(asked.id, []).append(event)  # type: ignore[arg-type]
    assert session.ask(Interrupt)["stopped"] == asked.id
    with pytest.raises(Interrupted):
        session.result(asked)
    assert session.fetch(Name(unit="u", name="x")).tolist() == [1, 0]
    assert session.ask(Describe)["generation"] == 1


def test_an_interrupt_between_launches_of_a_kernel_keeps_the_engine(session: RawSession) -> None:
    """No code of the user's runs there; it stops all the same, and the arrays are what they were."""
    text = "x = ti.field(ti.i32, 2)\n@ti.kernel\ndef add():\n    print('adds')\n    for i in x:\n        x[i] += N\n"
    session.compile(text + "N = 1\n", "u")
    session.run("add")
    asked = session.send(
        Compare, target=Name(unit="u", name="add"), after=Side(source=text + "N = 2\n"), repeats=10_000, events=True
    )
    while session.printed(asked).count("adds") < 4:
        event = session.receive()
        session.events.setdefault(asked.id, []).append(event)  # type: ignore[arg-type]
    assert session.ask(Interrupt)["stopped"] == asked.id
    with pytest.raises(Interrupted):
        session.result(asked)
    assert session.fetch(Name(unit="u", name="x")).tolist() == [1, 1]
    assert session.ask(Describe)["generation"] == 1
