"""Two versions launched side by side: what is told of them, and that nothing of the session is another afterwards."""

from __future__ import annotations

import gc
import itertools
import linecache
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from tiremote.protocol.comparison import Comparison
from tiremote.protocol.errors import CompileError, KernelArgumentError, KernelRuntimeError, Refused, UnknownName
from tiremote.protocol.messages import Alloc, Cleanup, Compare, Compile, Fetch, Put, Run, Side
from tiremote.protocol.results import Limits
from tiremote.protocol.values import Handle, Name, wire_array
from tiremote.worker.engine.places import arrays_in
from tiremote.worker.engine.runtime import TaichiRuntime
from tiremote.worker.engine.service import Service
from tiremote.worker.unit_files import FILE_PREFIX

LIB = """
hits = ti.field(ti.i32, 2)
log = []

@ti.func
def half(n):
    return n * 0.5

def note(n):
    log.append(n)
    hits[0] += 1
"""
SIM = """
from lib import half, note

x = ti.field(ti.f32, 4)
count = 0
seen = [0]

@ti.data_oriented
class Sim:
    def __init__(self):
        self.y = ti.Vector.field(2, ti.f32, 3)
        self.steps = 0
        self.past = []

    @ti.kernel
    def add(self, n: ti.f32):
        for i in self.y:
            self.y[i] += half(n)

    def step(self, n):
        self.add(n)
        self.steps += 1
        self.past.append(self.steps)
        note(n)
        return self.steps

sim = Sim()

@ti.kernel
def scale(a: ti.types.ndarray(), n: ti.f32) -> ti.f32:
    for i in x:
        x[i] += n
        a[i] *= 1 * n
    return x[0]

def drive(n):
    global count
    count += 1
    seen[0] += 1
    for _ in range(3):
        sim.step(n)
    return count, seen[0], sim.steps, len(sim.past)
"""


class Bench:
    """A service with `LIB` and `SIM` loaded and run, and all that its session holds."""

    def __init__(self, runtime: TaichiRuntime) -> None:
        self.runtime = runtime
        self.service = Service(runtime, "s", 1, Limits())
        self.load(LIB, "lib")
        self.load(SIM, "sim")
        self.run("drive", 2.0)
        self.array = self.put(np.arange(4, dtype="f4"))
        self.run("scale", self.array, 1.0)

    def load(self, source: str, unit: str) -> Any:
        return self.service.serve(Compile(id=1, source=source, unit=unit))

    def run(self, name: str, *args: Any, unit: str = "sim") -> Any:
        return self.service.serve(Run(id=1, target=Name(unit=unit, name=name), args=args))

    def put(self, array: np.ndarray) -> Handle:
        holding = self.service.serve(Put(id=1, array=wire_array(array))).holding
        return Handle(kind=holding.handle.kind, id=holding.handle.id)

    def alloc(self, **fields: Any) -> Handle:
        holding = self.service.serve(Alloc(id=1, **fields)).holding
        return Handle(kind=holding.handle.kind, id=holding.handle.id)

    def fetch(self, target: Handle | Name) -> Any:
        value = self.service.serve(Fetch(id=1, target=target)).value
        return value.copy() if hasattr(value, "copy") else value

    def compare(self, name: str, *args: Any, unit: str = "sim", **fields: Any) -> Comparison:
        fields.setdefault("repeats", 2)
        request = Compare(id=1, target=Name(unit=unit, name=name), args=args, **fields)
        told = self.service.serve(request)
        assert isinstance(told, Comparison)
        return told

    def against(self, text: str, name: str, *args: Any, **fields: Any) -> dict[str, Any]:
        """What is loaded against a text: the differences by name."""
        told = self.compare(name, *args, after=Side(source=text), **fields)
        return {each.name: each for each in told.differences}

    def everything(self) -> Any:
        """All that a comparison must leave alone."""
        loader, arrays = self.service._loader, self.service._arrays
        units = {}
        for unit in loader:
            loaded = loader.loaded(unit)
            names = sorted(name for name in loaded.own if name in loaded.namespace)
            contents = {
                path: arrays.read(each).tolist() for path, each in arrays_in(loaded.namespace, names, self.runtime)
            }
            plain = {
                name: repr(loaded.namespace[name]) for name in names if type(loaded.namespace[name]) in (int, list)
            }
            units[unit] = (id(loaded), loaded.version, contents, plain, {n: id(v) for n, v in loaded.namespace.items()})
        sim, holdings = loader["sim"].sim, self.service._holdings
        arrays_held = [each for each in holdings.all() if each.kind != "object"]
        held = {each.id: arrays.read(holdings.value(each)).tolist() for each in arrays_held}
        gc.collect()
        return (
            units,
            (id(sim), id(type(sim)), sim.steps, list(sim.past)),
            held,
            {name for name in sys.modules if name.startswith("tiremote unit")},
            {name for name in linecache.cache if name.startswith(FILE_PREFIX)},
            self.runtime.snode_tree_count(),
            len(self.runtime.state.kernels),
            self.runtime.impl.get_runtime().inside_kernel,
        )


@pytest.fixture(scope="module")
def one_bench(runtime: TaichiRuntime) -> Iterator[Bench]:
    bench = Bench(runtime)
    yield bench
    bench.service.serve(Cleanup(id=1, everything=True))


@pytest.fixture
def bench(one_bench: Bench) -> Iterator[Bench]:
    """The one of all tests, with LIB and SIM as they are; what a test loads beside them goes with it."""
    yield one_bench
    made = tuple(each for each in one_bench.service._holdings.all() if each.id != one_bench.array.id)
    one_bench.service.serve(Cleanup(id=1, targets=made))
    for unit in list(one_bench.service._loader):
        if unit not in ("lib", "sim"):
            one_bench.service.serve(Cleanup(id=1, unit=unit))


Unchanged = Callable[[], None]
RUNS: list[tuple[str, Callable[[Bench], Any]]] = [
    ("scale", lambda bench: (bench.array, 1.0)),
    ("drive", lambda _: (2.0,)),
]


@pytest.fixture
def unchanged(bench: Bench) -> Unchanged:
    """Asserts that everything is as it was, and that kernels that were compiled are not compiled again."""
    for name, args in RUNS:
        bench.run(name, *args(bench))
    before = bench.everything()

    def check() -> None:
        assert bench.everything() == before
        assert bench.service.changes() is None
        for name, args in RUNS:
            bench.run(name, *args(bench))
            assert bench.service.compile_seconds == 0.0

    return check


# What is told -------------------------------------------------------------------------------------------------


def test_a_kernel_on_copies_of_field_and_argument(bench: Bench, unchanged: Unchanged) -> None:
    """Each launch begins from the session's contents: the difference is that of one, however often it is repeated."""
    told = bench.against(SIM.replace("x[i] += n", "x[i] += n + i"), "scale", bench.array, 2.0, repeats=5)
    assert list(told) == ["argument a", "x", "returned value"]
    assert told["argument a"].same_bits
    start = bench.fetch(Name(unit="sim", name="x"))[3]
    assert (told["x"].max_abs, told["x"].at, told["x"].before, told["x"].after) == (3.0, (3,), start + 2, start + 5)
    assert told["returned value"].same_bits
    unchanged()


def test_a_driver_with_objects_globals_and_other_units(bench: Bench, unchanged: Unchanged) -> None:
    """Counters, lists and attributes go back between launches too; what another unit holds is compared as well."""
    told = bench.against(SIM.replace("self.add(n)", "self.add(n * 3)"), "drive", 2.0, repeats=3)
    assert told["sim.y"].max_abs == 3 * (3 - 1)
    # A plain global begins as the text says, an attribute as it is: the rule of a reload.
    assert [told[f"returned value[{n}]"].same_bits for n in range(4)] == [True] * 4
    assert told["lib.hits"].same_bits
    unchanged()


@pytest.mark.parametrize("name", ["sim.step", "sim.add"])
def test_a_method_of_an_object(bench: Bench, unchanged: Unchanged, name: str) -> None:
    """Each side calls it on an object of its own, whose fields hold what the session's does."""
    told = bench.against(SIM.replace("half(n)", "half(n) * 4"), name, 1.0)
    assert told["sim.y"].max_abs == 1.5
    unchanged()


def test_both_begin_with_the_same_random_numbers(bench: Bench) -> None:
    """NumPy's and Python's own generators stand where they stood, and go on from there afterwards."""
    text = "import random\ngenerator = np.random.default_rng(1)\ndef draw():\n    return np.random.rand(), random.random(), generator.random()\n"  # fmt: skip  # noqa: E501
    bench.load(text, "random")
    np.random.seed(7)
    told = bench.against(text + "N = 1\n", "draw", unit="random")
    assert [each.same_bits for each in told.values()] == [True] * 3
    after = np.random.rand()
    np.random.seed(7)
    assert after == np.random.rand()


def test_launches_come_in_turns(bench: Bench, capfd: pytest.CaptureFixture[str]) -> None:
    """One of each side in turn, first one each that is not counted."""
    text = "def say():\n    print(SIDE, end='')\n"
    bench.load(text + "SIDE = 'b'\n", "say")
    capfd.readouterr()
    told = bench.compare("say", unit="say", after=Side(source=text + "SIDE = 'a'\n"), repeats=3)
    assert capfd.readouterr().out == "ba" * 4
    assert [len(side.launches) for side in (told.before, told.after)] == [3, 3]


def test_times_tell_which_is_faster(bench: Bench) -> None:
    """A side with a hundred times the work takes longer, by every number."""
    text = "def work():\n    total = 0\n    for i in range(COUNT):\n        total += i\n"
    bench.load(text + "COUNT = 300000\n", "work")
    told = bench.compare("work", unit="work", after=Side(source=text + "COUNT = 3000\n"), repeats=5)
    assert told.after.median < told.before.median
    assert 0 < told.ratio_lower_quartile <= told.ratio <= told.ratio_upper_quartile < 1
    assert told.before.minimum <= told.before.lower_quartile <= told.before.median <= told.before.upper_quartile
    assert told.before.compile > 0
    assert bench.service.launch_seconds == sum((*told.before.launches, *told.after.launches))


# Arguments ----------------------------------------------------------------------------------------------------

ADDING = """
@ti.kernel
def add(a: {kind}, n: ti.f32):
    for i in a:
        a[i] += n
def add_host(a, n):
    a += n
def add_inside(given, n):
    given["a"][0][:] += n
    return given["a"][0]
"""


@pytest.mark.parametrize(
    ("made", "kind", "name"),
    [
        ({"kind": "ndarray"}, "ti.types.ndarray()", "add"),
        ({"kind": "field"}, "ti.template()", "add"),
        ({"kind": "array"}, "ti.types.ndarray()", "add"),
        ({"kind": "array"}, "ti.template()", "add_host"),
        (None, "ti.types.ndarray()", "add"),
        (None, "ti.template()", "add_host"),
    ],
)
def test_array_arguments_begin_alike_and_stay(bench: Bench, made: dict[str, str] | None, kind: str, name: str) -> None:
    """Of every kind, kept on the worker or sent along."""
    text = ADDING.format(kind=kind)
    bench.load(text, "adding")
    argument: Any = wire_array(np.full(3, 5, "f4"))
    if made is not None:
        argument = bench.alloc(**made, shape=(3,), fill="value", value=5)
    before = bench.everything() if made else None
    told = bench.against(text.replace("+= n", "+= n * 2"), name, argument, 1.0, unit="adding")
    assert (told["argument a"].before, told["argument a"].after) == (6.0, 7.0)
    if made is not None:
        assert bench.fetch(argument).tolist() == [5.0] * 3
        assert bench.everything() == before


def test_arrays_inside_arguments_are_new_for_each_launch(bench: Bench) -> None:
    """Also those that travel in a dict."""
    text = ADDING.format(kind="ti.template()")
    bench.load(text, "adding")
    given = {"a": [wire_array(np.zeros(2))]}
    told = bench.against(text + "N = 1\n", "add_inside", given, 1.0, unit="adding")
    assert told["returned value"].same_bits


def test_an_array_of_the_unit_is_each_sides_own(bench: Bench, unchanged: Unchanged) -> None:
    """A field that is passed by name is not the session's; it is listed though nothing else tells of it."""
    text = SIM + "@ti.kernel\ndef bump(f: ti.template()):\n    for i in f:\n        f[i] += 1\n"
    told = bench.compare("bump", Name(unit="sim", name="x"), before=Side(source=text),
                         after=Side(source=text.replace("f[i] += 1", "f[i] += 2")))  # fmt: skip
    (x,) = told.differences
    assert (x.name, x.max_abs) == ("x", 1.0)
    unchanged()


def test_a_sparse_argument_is_refused(bench: Bench) -> None:
    """What cannot be put back is not launched on; beside the arguments it is only told."""
    bench.load("s = ti.field(ti.f32)\nti.root.pointer(ti.i, 4).place(s)\n@ti.func\ndef third(n):\n    return n / 3\n", "sparse")  # fmt: skip  # noqa: E501
    text = "@ti.kernel\ndef f(s: ti.template()) -> ti.f32:\n    s[0] += 1\n    return third(s[0])\n"
    bench.load(text, "uses")
    given = bench.service.serve(Fetch(id=1, target=Name(unit="sparse", name="s"), form="handle")).handle
    with pytest.raises(Refused, match="argument s could not be put back after a launch: it is sparse"):
        bench.compare("f", given, unit="uses", before=Side())
    told = bench.compare("f", bench.alloc(kind="field", shape=(2,)), unit="uses", before=Side())
    assert told.warnings == ("sparse.s is not put back after a launch that writes to it: it is sparse",)


# What begins as declared --------------------------------------------------------------------------------------


def test_what_cannot_be_copied_is_named(bench: Bench, unchanged: Unchanged) -> None:
    """A field of another shape, one that is new, and a sparse one begin as the text declares them."""
    text = SIM.replace("x = ti.field(ti.f32, 4)", "x = ti.field(ti.f32, 5)\nz = ti.field(ti.i32, 2)\ns = ti.field(ti.f32)\nti.root.pointer(ti.i, 4).place(s)")  # fmt: skip  # noqa: E501
    told = bench.compare("scale", wire_array(np.ones(5, "f4")), 1.0, after=Side(source=text))
    assert set(told.warnings) == {
        "after (the text): x begins as declared: what is loaded declares it otherwise",
        "after (the text): z begins as declared: what is loaded has none like it",
        "after (the text): s begins as declared: it is sparse",
        "after (the text): s is not put back between launches: it is sparse",
    }
    by_name = {each.name: each for each in told.differences}
    assert by_name["x"].note == "f32 (4,) before, f32 (5,) after"
    unchanged()


LAYOUTS = """
both = ti.root.dense(ti.ij, (3, 5))
a, b = ti.field(ti.f32), ti.field(ti.i32)
both.place(a, b)
blocks = ti.field(ti.f32)
ti.root.dense(ti.i, 2).dense(ti.i, 3).place(blocks)
moved = ti.field(ti.f32)
ti.root.dense(ti.i, 4).place(moved, offset=-2)
grown = ti.field(ti.f64, (), needs_grad=True)
P = ti.types.struct(pos=ti.math.vec3, mass=ti.f32)
p = P.field(shape=6)
m = ti.Matrix.field(2, 2, ti.f32, (3,), layout=ti.Layout.SOA)
v = ti.Vector.ndarray(2, ti.f32, 4)
parts = [ti.field(ti.i32, 3), ti.field(ti.i32, 3)]

@ti.kernel
def weigh(v: ti.types.ndarray(), shift: ti.f64) -> ti.f64:
    total = shift
    for i, j in a:
        total += (a[i, j] + 3 * b[i, j]) * (i * 5 + j + 1)
    for i in blocks:
        total += blocks[i] * (i + 1)
    for i in moved:
        total += moved[i] * (i + 10)
    for i in p:
        total += (p[i].mass + p[i].pos[1] * 7) * (i + 1)
    for i in m:
        total += (m[i][0, 1] * 3 + m[i][1, 0]) * (i + 1)
    for i in v:
        total += v[i][1] * (i + 1)
    for i in parts[0]:
        total += (parts[0][i] * 2 + parts[1][i]) * (i + 1)
    return total + grown[None] + grown.grad[None] * 2

def look(shift):
    return weigh(v, shift)
"""


def test_every_layout_begins_with_the_sessions_contents(bench: Bench) -> None:
    """Neighbours in a cell, blocks in blocks, offsets, structs, matrices, gradients, ndarrays, lists of fields."""
    bench.load(LAYOUTS, "layouts")
    loaded, arrays = bench.service._loader.loaded("layouts"), bench.service._arrays
    for path, each in arrays_in(loaded.namespace, loaded.own, bench.runtime):
        arrays.fill(each, "random", seed=len(path))
    arrays.fill(loaded.namespace["grown"].grad, "value", number=5.0)
    here = bench.run("look", 0.0, unit="layouts").value
    # The new field moves all that come after it in the tree, and the shift shows what the sum was.
    text = "extra = ti.field(ti.f32, 7)\n" + LAYOUTS.replace("= shift", f"= shift - {here!r}")
    told = bench.compare("look", 0.0, unit="layouts", before=Side(), after=Side(source=text), repeats=1)
    assert told.warnings == ("after (the text): extra begins as declared: what is loaded has none like it",)
    (value,) = told.differences
    assert (value.before, value.after) == (here, pytest.approx(0, abs=abs(here) * 1e-6))
    assert bench.run("look", 0.0, unit="layouts").value == here


# What goes wrong ----------------------------------------------------------------------------------------------

SPOILS = "    sim.step(n)\n    x[0] = 99\n    log.append(1)\n"
FAILING = {
    "syntax": ("def drive(:\n", CompileError, "SyntaxError"),
    "loading": (SIM + "1 / 0\n", CompileError, "ZeroDivisionError"),
    "compiling": (SIM.replace("half(n)", "nothing(n)"), CompileError, '"nothing" is not defined'),
    "running": (SIM + f"from lib import log\ndef drive(n):\n{SPOILS}    return 1 / 0\n", KernelRuntimeError, "by zero"),
    "later": (
        SIM + f"from lib import log\ndef drive(n):\n{SPOILS}    return 1 / (len(log) - 8)\n",
        KernelRuntimeError,
        "by zero",
    ),
    "leaving": (
        SIM + f"from lib import log\nimport sys\ndef drive(n):\n{SPOILS}    sys.exit(3)\n",
        KernelRuntimeError,
        "SystemExit",
    ),
    "arguments": (SIM + "def drive():\n    pass\n", KernelArgumentError, "too many"),
    "missing": ("N = 1\n", UnknownName, "no 'drive'"),
    "no function": (SIM + "drive = 1\n", KernelArgumentError, "cannot be called"),
}


@pytest.mark.parametrize(("case", "side"), list(zip(FAILING, itertools.cycle(["before", "after"]), strict=False)))
def test_a_side_that_fails_is_named_and_changes_nothing(
    bench: Bench, unchanged: Unchanged, case: str, side: str
) -> None:
    """Whatever it did before it failed is taken back."""
    text, kind, words = FAILING[case]
    if case == "later":
        text = text.replace("8", str(len(bench.service._loader["lib"].log) + 2))
    with pytest.raises(kind) as caught:
        bench.compare("drive", 2.0, **{side: Side(source=text)})
    assert caught.value.message.startswith(f"{side} (the text): ")
    assert words in caught.value.message
    unchanged()


class Stop(BaseException):
    """What a stop from outside raises is no Exception."""


def test_a_stop_from_outside_changes_nothing(bench: Bench) -> None:
    """It goes through as it came, when all is put back."""
    text = SIM + f"from lib import log\ndef drive(n):\n{SPOILS}    raise stop\n"
    bench.service._loader["lib"].stop = Stop
    before = bench.everything()
    with pytest.raises(Stop):
        bench.compare("drive", 2.0, after=Side(source=text.replace("import log", "import log, stop")))
    assert bench.everything() == before


def test_a_text_that_spoils_the_session_as_it_is_loaded(bench: Bench, unchanged: Unchanged) -> None:
    """What its module level does to another unit is taken back too."""
    text = SIM + "from lib import hits, log\nhits.fill(9)\nlog.clear()\nnote(5)\n"
    told = bench.against(text, "scale", bench.array, 1.0)
    assert "lib.hits" not in told
    unchanged()


def test_a_field_that_waits_for_its_place_is_no_obstacle(bench: Bench) -> None:
    """What is loaded has a field without a place, so that no kernel of it runs; the text has none."""
    half = "w = ti.field(ti.f32)\ndef place():\n    ti.root.dense(ti.i, 2).place(w)\n@ti.kernel\ndef f() -> ti.i32:\n    return 1\n"  # fmt: skip  # noqa: E501
    bench.load(half, "half")
    whole = half.replace("w = ti.field(ti.f32)\n", "w = None\n")
    told = bench.compare(
        "f", unit="half", before=Side(source=whole), after=Side(source=whole.replace("return 1", "return 2"))
    )
    assert told.differences[0].max_abs == 1
    bench.run("place", unit="half")
    assert bench.run("f", unit="half").value == 1


def test_many_comparisons_leave_no_tree(bench: Bench, unchanged: Unchanged) -> None:
    """Nor a kernel, a module or a text, also where one side fails."""
    bad = SIM.replace("half(n)", "nothing(n)")
    for _ in range(3):
        bench.compare("drive", 1.0, after=Side(source=SIM + "N = 1\n"), repeats=1)
        with pytest.raises(CompileError):
            bench.compare("drive", 1.0, after=Side(source=bad), repeats=1)
    unchanged()
