"""A session that is moved to another engine process: everything is there as it was, or it is not moved at all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tested_runtime import RUNTIME
from tiremote.protocol.errors import StaleHandle
from tiremote.protocol.messages import Cleanup, Fetch, Run
from tiremote.protocol.values import Handle, Name
from tiremote.worker.runtimes import RUNTIMES
from two_engines import TwoEngines

from .unmovable import UNMOVABLE


@pytest.fixture(scope="module")
def engines(arch: str) -> Iterator[TwoEngines]:
    with TwoEngines(arch) as engines:
        yield engines


@pytest.fixture
def two(engines: TwoEngines) -> TwoEngines:
    """Both engines, the first with a new session."""
    engines.begin()
    return engines


def unpacked(value: Any) -> Any:
    """Arrays as lists, so that results can be compared."""
    if hasattr(value, "copy") and hasattr(value, "descriptor"):
        return np.asarray(value.copy()).tolist()
    if isinstance(value, list | tuple):
        return [unpacked(each) for each in value]
    return {key: unpacked(each) for key, each in value.items()} if isinstance(value, dict) else value


def stays(two: TwoEngines, source: str, *calls: str, after: tuple[str, ...] = ()) -> None:
    """Loads, calls, and looks before and after a move; then calls and looks in both engines, which go on alike."""
    engine = two.first
    engine.compile(source, "sim")
    for name in calls:
        engine.run(name)
    before = unpacked(engine.run("look"))
    moved = two.move()
    assert unpacked(moved.run("look")) == before
    for name in after or calls:
        engine.run(name)
        moved.run(name)
    assert unpacked(moved.run("look")) == unpacked(engine.run("look"))


def refused(two: TwoEngines, source: str, *calls: str) -> str:
    """Why a session cannot be moved, which goes on unharmed where it was."""
    engine = two.first
    engine.compile(source, "sim")
    for name in calls:
        engine.run(name)
    reason = two.try_to_move()
    assert reason is not None
    assert engine.run("alive") == 7
    return reason


ALIVE = "def alive():\n    return 7\n"

# ---------------------------------------------------------------- arrays

ARRAYS = """
a = ti.field(ti.f32, (3, 4))
b = ti.Vector.field(3, ti.f64, 5)
c = ti.Matrix.field(2, 2, ti.i32, shape=(2, 2))
s = ti.types.struct(p=ti.math.vec3, n=ti.i32).field(shape=4)
o = ti.field(ti.i32, shape=(4, 4), offset=(-2, 3))
z = ti.field(ti.f32, ())
m, n = ti.field(ti.u8), ti.field(ti.i64)
ti.root.dense(ti.i, 4).dense(ti.i, 2).place(m, n)
d = ti.ndarray(ti.f32, (2, 3))
e = ti.Vector.ndarray(3, ti.i16, 4)
h = np.arange(12.0).reshape(3, 4)
f = np.asfortranarray(np.arange(6).reshape(2, 3))
frozen = np.arange(3)
frozen.flags.writeable = False
layers = [ti.field(ti.f32, 3) for _ in range(3)]

@ti.kernel
def fill(k: ti.i32):
    for i, j in a:
        a[i, j] += k * (i * 4 + j)
    for i in b:
        b[i] += ti.Vector([i, k, 2 * i], ti.f64)
    for i, j in c:
        c[i, j] += i + j + k
    for i in s:
        s[i].p += ti.Vector([i, i + k, 0.5])
        s[i].n += i * k
    for i, j in o:
        o[i, j] += i * 100 + j + k
    for i in m:
        m[i] += ti.u8(i + k)
        n[i] += ti.i64(i) << 40
    z[None] += k
    for l in ti.static(range(3)):
        for i in layers[l]:
            layers[l][i] += l + i + k

def go():
    fill(3)
    d.fill(2.5)
    e.fill(7)
    h[1] += 1
    f[1] += 10

def look():
    return [x.to_numpy() for x in (a, b, c, s.p, s.n, o, z, m, n, d, e, *layers)] + [
        h, f, frozen, f.flags.f_contiguous, f.flags.c_contiguous, frozen.flags.writeable, h.flags.writeable]
"""


def test_every_kind_of_array_holds_what_it_held(two: TwoEngines) -> None:
    """Dense fields of scalars, vectors, matrices and structs, with offsets and in blocks; ndarrays; NumPy arrays with
    their order and whether they may be written to."""
    stays(two, ARRAYS, "go")


def test_large_arrays_go_in_pieces(two: TwoEngines) -> None:
    """20 MB of field, of ndarray and of NumPy array."""
    source = """
x = ti.field(ti.f32, 5_000_000)
y = ti.ndarray(ti.f32, 5_000_000)
z = np.arange(5_000_000, dtype=np.float32)
def go():
    x.from_numpy(z)
    y.from_numpy(z * 2)
def look():
    return [float(np.abs(x.to_numpy() - z).max()), float(np.abs(y.to_numpy() - 2 * z).max()), float(z[::1000].sum())]
"""
    stays(two, source, "go")


SPARSE = """
x = ti.field(ti.f32)
y = ti.Vector.field(2, ti.i32)
z = ti.field(ti.i32)
p = ti.root.pointer(ti.ij, (4, 4))
b = p.bitmasked(ti.ij, (3, 2))
b.dense(ti.ij, 2).place(x, y, offset=(-5, 3))
lists = ti.root.dense(ti.i, 5).dynamic(ti.j, 100, chunk_size=8)
lists.place(z)

@ti.kernel
def activate(k: ti.i32):
    x[-3 + k, 5] = 1.5
    y[15, 9] = [7, 8]
    ti.activate(p, [3, 3])
    for i in range(5):
        for j in range(i * 3):
            ti.append(lists, [i], j * 10 + i + k)

@ti.kernel
def count(n: ti.types.ndarray()):
    for i, j in p:
        n[0] += 1 + i * 10 + j * 100
    for i, j in b:
        n[1] += 1 + i * 10 + j * 100
    for i, j in x:
        n[2] += 1
    for i in range(5):
        n[3 + i] = ti.length(lists, [i])

def go():
    activate(1)

activate(0)

def look():
    n = np.zeros(8, np.int32)
    count(n)
    return [n, x.to_numpy(), y.to_numpy(), np.sort(z.to_numpy(), axis=1)]
"""


def test_sparse_fields_keep_which_cells_are_active(two: TwoEngines, arch: str) -> None:
    """Also cells in which nothing is, and the lengths of dynamic lists; what the text activates when it is loaded is
    not there where it was deactivated."""
    if arch not in ("cpu", "cuda"):
        pytest.skip("sparse fields are there on CPU and CUDA alone")
    source = SPARSE + "\ndef clear():\n    p.deactivate_all()\n    lists.deactivate_all()\n"
    stays(two, source, "clear", "go")


def test_gradients_come_along(two: TwoEngines) -> None:
    """Of fields and of ndarrays."""
    source = """
x = ti.field(ti.f32, 4, needs_grad=True)
loss = ti.field(ti.f32, (), needs_grad=True)
y = ti.ndarray(ti.f32, 3, needs_grad=True)

@ti.kernel
def square():
    for i in x:
        loss[None] += x[i] ** 2

def go():
    x.from_numpy(np.arange(4, dtype=np.float32) + 1)
    with ti.ad.Tape(loss):
        square()
    y.grad.fill(5)

def look():
    return [x.to_numpy(), x.grad.to_numpy(), loss[None], y.grad.to_numpy()]
"""
    stays(two, source, "go")


# ---------------------------------------------------------------- plain values

PLAIN = """
import collections, datetime, enum, fractions, pathlib, dataclasses
import math as maths
from math import sin

count = 0
name = "start"
big = 2 ** 80
nested = {"a": [1, (2.5, None)], 3: {"x"}}
alias = nested["a"]
shared = np.zeros(3)
box = [shared, shared]
gone = 1
vector = ti.Vector([1.0, 2.0])
when = datetime.datetime(2024, 1, 2)
queue = collections.deque([1], maxlen=3)
tally = collections.Counter("aab")
third = fractions.Fraction(1, 3)
place = pathlib.Path("/tmp")
function = sin
module = maths
kind = np.float32

class Color(enum.Enum):
    RED = 1
    BLUE = 2

Point = collections.namedtuple("Point", "x y")

@dataclasses.dataclass
class Record:
    at: float = 0.0
    tags: list = dataclasses.field(default_factory=list)

color = Color.RED
record = Record()
point = Point(1, 2)

def go():
    global count, name, added, gone, color, point, kind
    count += 1
    name += "!"
    added = [count]
    alias.append(count)
    box[0][1] += 1
    if "gone" in globals():
        del gone
    vector[1] += 3
    queue.append(count)
    tally["c"] += 1
    color = Color.BLUE
    record.at += 1.5
    record.tags.append(point)
    point = Point(point.y, alias)
    kind = np.int16

def look():
    return [count, name, big == 2 ** 80, str(nested), nested["a"] is alias, shared, box[1] is shared, added,
            "gone" in globals(), list(vector), str(when), list(queue), queue.maxlen, dict(tally), str(third),
            str(place), function is sin, module is maths, color is Color.BLUE, record.at, len(record.tags),
            type(record.tags[0]) is Point, point.y is alias, kind is np.int16]
"""


def test_plain_values_are_what_code_has_made_of_them(two: TwoEngines) -> None:
    """Numbers, text, lists, dicts, arrays, vectors and Python's own kinds, with what is one thing under two names."""
    stays(two, PLAIN, "go")


OBJECTS = """
class Node:
    made = 0
    def __init__(self, name):
        self.name = name
        self.children = []
        type(self).made += 1

@ti.data_oriented
class Sim:
    def __init__(self, n):
        self.n = n
        self.x = ti.field(ti.f32, n)
        self.t = 0.0
        self.old = 1

    @ti.kernel
    def step(self):
        for i in self.x:
            self.x[i] += i

sim = Sim(4)
root = Node("root")

class Items(list):
    pass

class Small:
    __slots__ = ("a",)

items = Items([1])
small = Small()

def counter(start):
    def count(by=[1]):
        nonlocal start
        start += by[0]
        by.append(start)
        count.calls = getattr(count, "calls", 0) + 1
        return start
    return count

tick = counter(10)

def go():
    sim.step()
    sim.t += 0.25
    sim.added = {"me": sim}
    if hasattr(sim, "old"):
        del sim.old
    child = Node("child")
    child.parent = root
    root.children.append(child)
    items.append(root)
    items.label = "l"
    small.a = items
    tick()

def look():
    child = root.children[-1]
    return [sim.x.to_numpy(), sim.t, sim.added["me"] is sim, hasattr(sim, "old"), Node.made, len(root.children),
            child.parent is root, type(child) is Node, items[1] is root, items.label, small.a is items,
            tick.__defaults__[0], tick.calls, tick.__closure__[1].cell_contents]
"""


def test_objects_are_what_code_has_made_of_them(two: TwoEngines) -> None:
    """Attributes that came and went, objects that were made later, classes, closures, defaults and functions'
    attributes; the same object is one wherever it is named."""
    stays(two, OBJECTS, "go")


def test_swapped_buffers_stay_swapped(two: TwoEngines) -> None:
    """Contents go by where names lead now, not by where they led first."""
    source = """
pair = [ti.field(ti.f32, 3), ti.field(ti.f32, 3)]
first, second = pair

@ti.kernel
def fill(x: ti.template(), k: ti.f32):
    for i in x:
        x[i] = k + i

def go():
    global first, second
    fill(first, 1)
    fill(second, 10)
    first, second = second, first

def look():
    return [first.to_numpy(), second.to_numpy(), pair[0].to_numpy(), pair[0] is second]
"""
    stays(two, source, "go")


def test_random_numbers_go_on(two: TwoEngines) -> None:
    """Python's and NumPy's, where they were."""
    source = """
import random
rng = np.random.default_rng(3)
mine = random.Random(5)
def go():
    rng.random(), random.random(), np.random.rand(), mine.random()
def look():
    state = random.getstate(), np.random.get_state()
    drawn = [random.random(), np.random.rand()]
    random.setstate(state[0])
    np.random.set_state(state[1])
    return [*drawn, str(rng.bit_generator.state), str(mine.getstate())]
"""
    stays(two, source, "go")


def test_kernels_that_draw_random_numbers_draw_others(two: TwoEngines) -> None:
    """The next engine does not begin the sequence again. Of a session with a seed it is refused: there it must."""
    source = ALIVE + "@ti.kernel\ndef draw() -> ti.f64:\n    return ti.random(ti.f64)\n"
    two.first.compile(source, "sim")
    drawn = [two.first.run("draw") for _ in range(5)]
    assert not set(drawn) & {two.move().run("draw") for _ in range(5)}
    two.begin(random_seed=3)
    assert "random numbers" in refused(two, source, "draw")


def test_random_numbers_do_not_begin_again_after_two_moves(two: TwoEngines) -> None:
    """Also where nothing was drawn between them, and what draws is not there any more and comes again."""
    source = "@ti.kernel\ndef draw() -> ti.f64:\n    return ti.random(ti.f64)\n"
    two.first.compile(source, "sim")
    drawn = [two.first.run("draw") for _ in range(5)]
    two.first.compile("x = 1", "sim")
    two.move()
    two.move().compile(source, "sim")
    assert not set(drawn) & {two.first.run("draw") for _ in range(5)}


def test_random_numbers_that_are_drawn_for_the_first_time_while_the_next_engine_loads(two: TwoEngines) -> None:
    """It has the session's seed, of which numbers have been drawn since: it is of no use."""
    two.first.compile("@ti.kernel\ndef draw(a: ti.types.ndarray()):\n    a[0] = ti.random(ti.f64)\n", "sim")
    array = two.first.put(np.zeros(1))
    assert two.refusal() is None
    two.first.run("draw", array)
    assert "meanwhile" in two.first.step("give", {"number": 0})[0]["refused"]
    two.move()


# ---------------------------------------------------------------- units, versions, handles

HELPERS = "factor = 2.0\nshared = [0]\n@ti.func\ndef scale(v):\n    return v * factor\n"
USER = """
import_unit("other")
y = ti.field(ti.f32, 2)

@ti.kernel
def step():
    for i in y:
        y[i] += scale(1.0)

def go():
    step()
    shared[0] += 1
    other.x.fill(shared[0])

import other

def look():
    return [y.to_numpy(), shared, other.x.to_numpy()]
"""


def test_units_that_use_one_another(two: TwoEngines) -> None:
    """In whatever order they were loaded: a helper that was loaded again last stays the newest."""
    engine = two.first
    engine.compile(HELPERS, "helpers")
    engine.compile("x = ti.ndarray(ti.f32, 2)\n", "other")
    engine.compile(USER, "user")
    engine.run("go", unit="user")
    engine.compile(HELPERS.replace("2.0", "3.0"), "helpers")
    engine.run("go", unit="user")
    before = unpacked(engine.run("look", unit="user"))
    moved = two.move()
    assert unpacked(moved.run("look", unit="user")) == before
    moved.run("go", unit="user")
    # The newest of all is what has no unit in front: `helpers` has no step.
    assert moved.ask(Fetch, target=Name(unit=None, name="shared"))["value"] == [2]
    receipt = moved.compile(HELPERS.replace("2.0", "4.0"), "helpers")
    assert receipt["version"] == 3
    rebuilt = {one["name"] for one in receipt["changes"] if one["unit"] == "user" and one["status"] == "rebuilt"}
    assert rebuilt >= {"step", "go"}


def test_versions_and_ids_go_on(two: TwoEngines) -> None:
    """Also of a unit that was cleaned up, and the numbers of units without a name."""
    engine = two.first
    for number in range(3):
        engine.compile(f"x = {number}", "gone")
    engine.ask(Cleanup, unit="gone")
    assert [engine.compile(f"y = {n}")["unit"] for n in range(2)] == ["kernel_0", "kernel_1"]
    engine.compile("z = 1", "sim")
    moved = two.move()
    assert moved.compile("x = 9", "gone")["version"] == 4
    assert moved.compile("y = 9")["unit"] == "kernel_2"
    unchanged = moved.compile("z = 1", "sim")
    assert (unchanged["version"], unchanged["unchanged"]) == (1, True)


def test_the_next_reload_knows_what_was_called_and_what_objects_began_with(two: TwoEngines) -> None:
    """It compiles for the last call's types, and keeps what code has changed in an object."""
    source = """
class Box:
    def __init__(self):
        self.a = 1
        self.b = 1

box = Box()

@ti.kernel
def add(x: ti.types.ndarray(), k: ti.f32):
    for i in x:
        x[i] += k

def change():
    box.a = 5
"""
    engine = two.first
    engine.compile(source, "sim")
    array = engine.put(np.zeros(3, np.float32))
    engine.run("add", array, 1.0)
    engine.run("change")
    moved = two.move()
    new = source.replace("+= k", "+= 2 * k").replace("self.b = 1", "self.b = 2")
    receipt = moved.compile(new + "\ndef look():\n    return [box.a, box.b]\n", "sim")
    assert receipt["kept"] == ["box"]
    assert next(one for one in receipt["definitions"] if one["name"] == "add")["checked"]
    assert moved.run("look") == [5, 2]
    moved.run("add", array, 1.0)
    assert moved.fetch(array).tolist() == [3, 3, 3]


def test_handles_stay_good(two: TwoEngines) -> None:
    """Of arrays that requests have made, of what a unit has, and of an object; a new one has a new id, and one that
    was cleaned up is told to have been that."""
    engine = two.first
    engine.compile(
        "x = ti.field(ti.i32, 2)\nclass P:\n    def __init__(self, v):\n        self.v = v\n"
        "def make(v):\n    return P(v)\ndef value(p):\n    return p.v\n",
        "sim",
    )
    put = engine.put(np.arange(5, dtype=np.float32), label="mine")
    field = engine.alloc(kind="field", dtype="f64", shape=(3,), element_shape=(2,), fill="arange")
    grad = engine.alloc(kind="ndarray", shape=(2,), needs_grad=True, fill="value", value=4)
    host = engine.alloc(kind="array", dtype="u8", shape=(4,), fill="arange")
    of_unit = engine.ask(Fetch, target=Name(unit="sim", name="x"), form="handle")["handle"]
    made = engine.run("make", put)
    dropped = engine.put(np.zeros(1))
    engine.ask(Cleanup, targets=[dropped])
    assert isinstance(made, Handle)
    moved = two.move()
    assert moved.fetch(put).tolist() == [0, 1, 2, 3, 4]
    assert moved.fetch(field).tolist() == [[0, 1], [2, 3], [4, 5]]
    assert moved.fetch(grad).tolist() == [4, 4]
    assert moved.fetch(host).tolist() == [0, 1, 2, 3]
    assert moved.fetch(of_unit).tolist() == [0, 0]
    assert moved.run("value", made).id == put.id
    with pytest.raises(StaleHandle, match="cleaned up"):
        moved.fetch(dropped)
    new = moved.put(np.zeros(1))
    assert new.id not in {each.id for each in (put, field, grad, host, of_unit, made, dropped)}
    # The same thing under its name has the handle that it had.
    assert moved.ask(Fetch, target=Name(unit="sim", name="x"), form="handle")["handle"].id == of_unit.id


def test_a_session_can_be_moved_again(two: TwoEngines) -> None:
    """Five times, with work in between: nothing wears off."""
    two.first.compile(OBJECTS, "sim")
    two.first.run("go")
    for _ in range(5):
        two.first.run("go")
        before = unpacked(two.first.run("look"))
        two.move()
        assert unpacked(two.first.run("look")) == before


def test_values_that_are_found_by_what_they_hold(two: TwoEngines) -> None:
    """Objects with a hash of their own in sets and dicts, flags put together, methods under another name than theirs,
    NumPy's and complex numbers, annotations, and a cache with nothing in it."""
    source = """
import dataclasses, enum, functools, types

@dataclasses.dataclass(frozen=True)
class Cell:
    x: int
    near: tuple = ()

class Kind(enum.Flag):
    A = 1
    B = 2
    C = 4

class Base:
    def step(self):
        return "base"

class Derived(Base):
    def step(self):
        return "derived"
    def plain(self):
        return super().step

class Moved:
    def __init__(self, at):
        self.at = at
    def __hash__(self):
        return self.at
    def __eq__(self, other):
        return self.at == other.at

@functools.lru_cache
def twice(k):
    return 2 * k

moved = Moved(1)
derived = Derived()
cells, places, steps, numbers = {}, set(), [], []
kind = Kind.A
Numbers = list[int]

def go():
    global kind
    cells[Cell(3, (Cell(4),))] = "three"
    moved.at += 6
    places.clear()
    places.add(moved)
    steps.append(derived.plain())
    kind = Kind.A | Kind.C
    numbers.extend([np.float32(1.5), np.int64(3), complex(1, -2), np.datetime64("2020-01-01")])

def look():
    return [cells.get(Cell(3, (Cell(4),))), Moved(moved.at) in places, moved in places, [each() for each in steps],
            kind is Kind.A | Kind.C, repr(numbers), str(Numbers), twice.__wrapped__(4)]
"""
    stays(two, source, "go")
    assert two.first.run("twice", 4) == 8


@pytest.mark.parametrize("number", range(5))
def test_what_is_compiled_in_from_objects_of_libraries(two: TwoEngines, number: int) -> None:
    """A namespace, an ordered dict, slots, a partial function and a deque are looked at as lists and dicts are."""
    source, said = UNMOVABLE["what a library's objects have compiled in"]
    engine = two.first
    engine.compile(source, "sim")
    engine.run("go_on")
    assert two.refusal() is None
    engine.run("change", number, False)
    assert said in str(two.refusal())
    engine.run("change", number, True)
    assert two.refusal() is None


def test_an_empty_session_can_be_moved(two: TwoEngines) -> None:
    """Without units and arrays there is nothing to carry."""
    assert two.move().compile("x = 1")["unit"] == "kernel_0"


# ---------------------------------------------------------------- what cannot be moved


@pytest.mark.parametrize("case", UNMOVABLE)
def test_what_cannot_be_carried_is_not_guessed(two: TwoEngines, case: str) -> None:
    """The session stays where it is, unharmed, and the reason names what it is."""
    source, said = UNMOVABLE[case]
    reason = refused(two, ALIVE + source, "go")
    if "def end" in source:
        two.first.run("end")
        assert two.try_to_move() is None
    assert said in reason


def test_a_replaced_version_that_is_held_stays(two: TwoEngines) -> None:
    """Its text is not loaded any more: nothing could make its functions again."""
    two.first.compile(ALIVE + "def other():\n    return alive\n", "sim")
    kept = two.first.run("other")
    reason = refused(two, ALIVE + "x = 2\n")
    assert "version 1 of sim" in reason
    two.first.ask(Cleanup, targets=[kept])
    two.move()


def test_a_text_that_writes_files_when_it_is_loaded(two: TwoEngines, tmp_path: Path) -> None:
    """Loading it again would write them again, over what came since."""
    log = tmp_path / "log.txt"
    source = ALIVE + f"f = open({str(log)!r}, 'w')\nf.write('begin')\nf.close()\ndel f\n"
    assert "writes to" in refused(two, source)
    log.write_text("mine")
    assert two.try_to_move() is not None
    assert log.read_text() == "mine"


def test_a_call_leaves_no_trace_of_what_was_taken(two: TwoEngines) -> None:
    """What happens in the old engine while it is being carried away makes the rest of it useless, and says so."""
    engine = two.first
    engine.compile("x = ti.field(ti.f32, 3)\ndef go():\n    x.fill(2)\n", "sim")
    assert engine.step("give", {"number": 0})[0]["pieces"] == 1
    engine.ask(Run, target=Name(unit=None, name="go"))
    assert "in between" in engine.step("give", {"number": 1})[0]["refused"]


def test_an_object_that_no_name_leads_to(two: TwoEngines) -> None:
    """Somebody unseen holds it: here a list inside a library."""
    source = (
        ALIVE + "import logging\nclass C: pass\ndef go():\n    logging.held = C()\ndef end():\n    del logging.held\n"
    )
    assert "no name leads to" in refused(two, source, "go")
    two.first.run("end")
    two.move()


def test_what_was_compiled_is_compiled(two: TwoEngines) -> None:
    """Kernels that ran, for what they ran with: of arrays, of fields as templates, of an object, called from Python."""
    source = """
x = ti.field(ti.f32, 4)

@ti.kernel
def fill(y: ti.template(), k: ti.f32):
    for i in y:
        y[i] = k

@ti.kernel
def add(a: ti.types.ndarray()) -> ti.f32:
    return a[0]

@ti.data_oriented
class S:
    @ti.kernel
    def go(self):
        pass

s = S()

def go():
    fill(x, 2)
    s.go()

def look():
    return [len(getattr(kernel._primal, INSTANCES)) for kernel in (fill, add, S.go)]
""".replace("INSTANCES", repr(RUNTIMES[RUNTIME].layout.instances[0]))
    engine = two.first
    engine.compile(source, "sim")
    array = engine.put(np.ones(3, np.float64))
    engine.run("go")
    engine.run("add", array)
    assert engine.run("look") == [1, 1, 1]
    moved = two.move()
    assert moved.run("look") == [1, 1, 1]
    moved.run("go")
    moved.run("add", array)
    assert moved.run("look") == [1, 1, 1]


def test_a_module_of_the_machine_is_not_known(two: TwoEngines, tmp_path: Path) -> None:
    """A file beside the worker may hold anything."""
    (tmp_path / "neighbour_of_mine.py").write_text("state = 0\n")
    source = f"""
import sys
sys.path.insert(0, {str(tmp_path)!r})
import neighbour_of_mine
sys.path.pop(0)
"""
    assert "neighbour_of_mine" in refused(two, ALIVE + source)


@pytest.mark.parametrize("is_installed", [True, False])
def test_what_is_installed_is_a_library_wherever_it_lies(two: TwoEngines, tmp_path: Path, is_installed: bool) -> None:
    """A package of a distribution is in nobody's way; a module of somebody's own may hold what is not seen."""
    name = f"brought_{is_installed}".lower()
    (tmp_path / f"{name}.py").write_text("state = []\n")
    if is_installed:
        (tmp_path / f"{name}-1.0.dist-info").mkdir()
        (tmp_path / f"{name}-1.0.dist-info" / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"
        )
        (tmp_path / f"{name}-1.0.dist-info" / "top_level.txt").write_text(name)
    two.first.compile(
        f"import sys\ndef go():\n    sys.path.insert(0, {str(tmp_path)!r})\n    import {name}\n"
        "def end():\n    del sys.path[0]\n"
    )
    two.first.run("go")
    why = two.refusal()
    two.first.run("end")
    assert why == (
        None if is_installed else f"{name} is a module of this machine's own, and what it holds is not known"
    )
