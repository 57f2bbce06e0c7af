"""What goes to the worker, in which units and in which order, and what runs here."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from recording_session import RecordingSession, compile_error
from tiremote.client import RemoteArray
from tiremote.client.releases import Releases
from tiremote.protocol.errors import CompileError, Refused
from tiremote.protocol.values import Handle
from tiremote.repl.cells import Cell
from tiremote.repl.evaluate import Evaluator
from tiremote.repl.laptop_taichi import OF_A_SESSION
from tiremote.worker.engine.options import SESSION_OPTIONS

KERNEL = "@ti.kernel\ndef k(x: ti.types.ndarray()):\n    x[0] = 1\n"


class FakeExchange:
    """Nothing is asked of it."""

    def __init__(self) -> None:
        self.releases = Releases()


class Prompt:
    """An evaluator over a recording session, fed cell by cell."""

    def __init__(self) -> None:
        self.gpu = RecordingSession()
        self.notes: list[str] = []
        self.shown: list[Any] = []
        self.evaluator = Evaluator(self.gpu, show=self.notes.append, display=self.shown.append)  # type: ignore[arg-type]
        self.values = self.evaluator.names.values

    def type(self, text: str) -> None:
        self.evaluator.run(Cell(text))


@pytest.fixture
def prompt() -> Prompt:
    return Prompt()


# Here


def test_python_runs_on_the_laptop_and_its_last_value_is_shown(prompt: Prompt) -> None:
    """Plain Python sends nothing to the worker, and the last value is also there as an underscore."""
    prompt.type("a = 2\na + 1")
    assert prompt.shown == [3]
    prompt.type("_ * 2")
    assert prompt.shown == [3, 6]
    prompt.type("_, __")
    assert prompt.shown[-1] == (6, 3)
    assert prompt.gpu.loads == []


def test_await_works_outside_functions_and_tasks_go_on_between_cells(prompt: Prompt) -> None:
    """Statements and expressions may await, and all of them share one event loop."""
    prompt.type("import asyncio\nasync def f(n):\n    await asyncio.sleep(0)\n    return n")
    prompt.type("await f(3)")
    prompt.type("async def start(): return asyncio.ensure_future(f(4))\ntask = await start()")
    prompt.type("await task")
    assert prompt.shown == [3, 4]
    prompt.type("async with asyncio.timeout(5):\n    a = [await f(i) for i in range(2)]\na")
    assert prompt.shown[-1] == [0, 1]


def test_a_worker_cell_is_loaded_as_it_is_and_its_names_are_there(prompt: Prompt) -> None:
    """Nothing of it runs here; its last value is loaded apart, at its own line."""
    prompt.type("%%worker\nx = 1\n\nx + 1")
    assert prompt.gpu.loads == [
        ("worker_cell_1", "x = 1"),
        ("worker_cell_value", "def _shown(): return (\nx + 1\n)"),
    ]
    assert prompt.gpu.calls == [("worker_cell_value", "_shown", ())]
    assert prompt.evaluator.names.remote_unit("x") == "worker_cell_1"


def test_a_worker_cell_that_changes_an_earlier_name_begins_with_it(prompt: Prompt) -> None:
    """As the next cell of a notebook would; the lines keep their numbers."""
    prompt.type("%%worker\nx = 1")
    prompt.type("%%worker\nx += 1")
    assert prompt.gpu.loads[-1] == ("worker_cell_2", "from worker_cell_1 import x\nx += 1")


def test_another_kind_of_cell_is_refused(prompt: Prompt) -> None:
    """A mistyped first line is told, with what there is."""
    with pytest.raises(Refused, match="%%worker runs"):
        prompt.type("%%wroker\nx = 1")
    assert prompt.gpu.loads == []


def test_none_is_not_shown_and_leaves_the_last_value(prompt: Prompt) -> None:
    """As in Python's own prompt, None is silent and the underscore keeps the value before it."""
    prompt.type("5")
    prompt.type("None")
    prompt.type("_")
    assert prompt.shown == [5, 5]


def test_numpy_the_session_and_taichi_are_there(prompt: Prompt) -> None:
    """np, gpu and ti can be used at once, without an import."""
    prompt.type("(np, gpu, ti.f32.name)")
    assert prompt.shown == [(np, prompt.gpu, "f32")]


@pytest.mark.parametrize(
    "text",
    [
        "import taichi as ti\nti.f32.name",
        "import taichi\ntaichi.f32.name",
        "from taichi import f32\nf32.name",
        "import math, taichi as tt\nmath.pi and tt.f32.name",
        "def f():\n    import taichi.math, taichi as t\n    from taichi import f32\n    return t.f32.name\nf()",
    ],
)
def test_importing_taichi_on_a_laptop_gives_the_remote_names(prompt: Prompt, text: str) -> None:
    """Programs keep their imports of Taichi, in any form, though the laptop need not have it."""
    prompt.type(text)
    assert prompt.shown == ["f32"]


def test_init_asks_the_worker_and_tells_what_the_session_runs_on(prompt: Prompt) -> None:
    """ti.init is checked on the worker, leaves no unit behind and answers with device and version."""
    prompt.type("ti.init(arch=ti.gpu, default_fp=ti.f32, debug=False)")
    assert prompt.gpu.loads == [("ti.init", "ti.init(arch=ti.gpu, default_fp=ti.f32, debug=False)")]
    assert prompt.gpu.sources == {}
    assert prompt.notes == ["ti.init: this session runs on cpu (a device), taichi 1.7.4"]


def test_taichi_that_only_the_worker_has_is_refused_here_with_advice(prompt: Prompt) -> None:
    """Using Taichi's functions outside kernels, or kernels inside blocks, says where they have to stand instead."""
    with pytest.raises(Refused, match=r"ti\.sin exists on the worker only: call it in a kernel or in a function"):
        prompt.type("print(ti.sin(1.0))")
    with pytest.raises(Refused, match="at the left margin"):
        prompt.type("if True:\n    @ti.kernel\n    def k(): pass")


def test_a_star_import_of_taichi_is_refused_with_advice(prompt: Prompt) -> None:
    """The laptop cannot know the names behind a star, so the error asks for them one by one."""
    with pytest.raises(Refused, match=r"one by one: from taichi.math import"):
        prompt.type("from taichi.math import *")


def test_a_future_import_holds_for_what_follows(prompt: Prompt) -> None:
    """Statements run one by one, yet a future import counts for those after it, as in a file."""
    prompt.type("from __future__ import annotations\ndef f(a: nowhere): pass\nf.__annotations__")
    assert prompt.shown == [{"a": "nowhere"}]


# Units


@pytest.mark.parametrize(
    "text",
    [
        KERNEL,
        "import taichi as tt\n@tt.kernel\ndef k(): pass",
        "from taichi import kernel\n@kernel\ndef k(): pass",
        "import taichi\n@taichi.kernel\ndef k(): pass",
        "@ti.func\ndef k(): pass",
        "def k():\n    with ti.ad.Tape(loss=1): pass",
        "@ti.data_oriented\nclass k: pass",
        "@ti.dataclass\nclass k:\n    a: ti.f32",
        "class k:\n    @ti.kernel\n    def run(self): pass",
        "class k:\n    a: ti.types.ndarray()\n    n: int",
        "k = ti.field(ti.f32, 8)",
        "k: object = ti.Vector.field(3, float, shape=8)",
        "k = ti.Vector([0.0, 1.0])",
        "k = ti.types.struct(a=ti.f32)",
        "vec = ti.types.vector(3, ti.f32)\nk = vec.field(shape=3)",
    ],
)
def test_definitions_and_declarations_of_taichi_go_to_the_worker(prompt: Prompt, text: str) -> None:
    """Kernels, classes, fields, vectors and structs are loaded under their own name, however Taichi is called."""
    prompt.type(text)
    assert prompt.gpu.loaded()[-1] == "k"
    assert prompt.notes[-1].startswith("k version 1: k")
    assert "k" in prompt.values


@pytest.mark.parametrize(
    "text",
    [
        "def k(): pass",
        "def k(): return ti.ndarray(ti.f32, 8)",
        "vec = ti.types.vector(3, ti.f32)\ndef k(n): return ti.ndarray(vec, n)",
        "class k: pass",
        "class k:\n    a: int = 3",
        "k = np.arange(3)",
        "k = ti.types.vector(3, ti.f32)",
    ],
)
def test_plain_python_stays_on_the_laptop(prompt: Prompt, text: str) -> None:
    """Functions, classes and values that no kernel uses are not sent, even where they make arrays or types."""
    prompt.type(text)
    assert prompt.gpu.loads == []
    assert "k" in prompt.values


def test_a_kernel_is_callable_by_its_name(prompt: Prompt) -> None:
    """A kernel is called like a function, right after its definition in the same cell."""
    prompt.type(KERNEL + "k(3)")
    assert prompt.gpu.calls == [("k", "k", (3,))]


def test_a_pasted_program_runs_from_top_to_bottom(prompt: Prompt) -> None:
    """A whole program with imports, ti.init and a main guard runs at the prompt as it would as a file."""
    prompt.type(
        "import taichi as ti\nimport numpy as np\nti.init(arch=ti.gpu)\n"
        + KERNEL
        + "a = np.zeros(3)\ndef main():\n    k(a)\n\nif __name__ == '__main__':\n    main()\n"
    )
    assert prompt.gpu.loaded() == ["ti.init", "k"]
    assert len(prompt.gpu.calls) == 1


def test_lines_of_a_unit_are_those_of_the_cell(prompt: Prompt) -> None:
    """Sources are padded, so that errors of the worker name the lines that the user sees."""
    prompt.type("a = 1\n\n" + KERNEL)
    assert prompt.gpu.sources["k"].splitlines()[:3] == ["", "", "@ti.kernel"]


def test_a_kernel_may_stand_before_the_function_it_calls(prompt: Prompt) -> None:
    """Within a cell, what a kernel needs is loaded before it, whatever the order of the text."""
    prompt.type("@ti.kernel\ndef k(): f()\n\n@ti.func\ndef f(): pass\n")
    assert prompt.gpu.loaded() == ["f", "k"]


def test_functions_in_a_circle_go_in_the_order_of_the_text(prompt: Prompt) -> None:
    """Where no order serves all, units are sent as written, for the worker to judge."""
    prompt.type("@ti.func\ndef a(): b()\n\n@ti.func\ndef b(): a()\n")
    assert prompt.gpu.loaded()[:2] == ["a", "b"]


def test_a_kernel_typed_again_replaces_itself_and_nothing_else(prompt: Prompt) -> None:
    """Its own unit gets a new version, and kernels of the same cell stay as they are."""
    prompt.type("@ti.kernel\ndef a(): pass\n\n@ti.kernel\ndef b(): pass\n")
    prompt.type("@ti.kernel\ndef a(): a = 1\n")
    prompt.type("b()")
    assert prompt.gpu.loaded() == ["a", "b", "a"]
    assert prompt.gpu.calls == [("b", "b", ())]


def test_both_versions_of_a_kernel_in_one_cell_run_in_turn(prompt: Prompt) -> None:
    """Each call runs the definition above it, so a version that a later one replaces is loaded too."""
    prompt.type("@ti.kernel\ndef a(): pass\na()\n@ti.kernel\ndef a(): return\na()")
    assert prompt.gpu.loads == [("a", "@ti.kernel\ndef a(): pass"), ("a", "@ti.kernel\ndef a(): return")]


def test_fields_that_are_placed_together_are_one_unit(prompt: Prompt) -> None:
    """Fields of one block have to be loaded with their placement; a field beside them is its own unit."""
    prompt.type(
        "f = ti.field(ti.f32)\ng = ti.field(ti.f32)\nb = ti.root.dense(ti.i, 8)\nb.place(f, g)\nh = ti.field(int, 3)"
    )
    assert prompt.gpu.loaded() == ["f", "h"]
    assert prompt.gpu.sources["f"].count("\n") == 4


def test_a_field_waits_for_the_cell_that_places_it(prompt: Prompt) -> None:
    """A field without a place is held back, also across a failed cell, and sent once with its placement."""
    prompt.type("f = ti.field(ti.f32)")
    assert prompt.gpu.loads == []
    assert prompt.notes == ["f waits for its place: ti.root.dense(ti.i, n).place(f)"]
    with pytest.raises(ZeroDivisionError):
        prompt.type("1 / 0")
    prompt.type("ti.root.dense(ti.i, 8).place(f)")
    assert prompt.gpu.loads == [("f", "f = ti.field(ti.f32)\nti.root.dense(ti.i, 8).place(f)")]
    prompt.type("1")
    assert len(prompt.gpu.loads) == 1


def test_a_name_taken_from_a_unit_of_several_leaves_the_others_callable(prompt: Prompt) -> None:
    """Declaring one of two fields anew makes a unit of another id, so that the other field is not replaced."""
    prompt.type("a, b = ti.field(ti.f32, 1), ti.field(ti.f32, 2)")
    prompt.type("a = ti.field(ti.f32, 3)")
    assert prompt.gpu.loaded() == ["a", "a_2"]
    assert prompt.evaluator.names.remote_unit("b") == "a"
    assert prompt.evaluator.names.remote_unit("a") == "a_2"


# Functions that drive kernels


def test_a_loop_of_launches_is_one_request(prompt: Prompt) -> None:
    """The function goes to the worker with the constants it uses, and its receipt says so."""
    prompt.type(KERNEL + "n = 1000\n")
    prompt.type("def drive(steps):\n    for i in range(steps):\n        k(n)\n")
    assert prompt.gpu.loaded() == ["k", "n", "drive"]
    assert prompt.notes[-1].endswith("runs on the worker")
    prompt.type("drive(n)")
    assert prompt.gpu.calls == [("drive", "drive", (1000,))]


def test_a_function_that_needs_the_laptop_runs_here(prompt: Prompt) -> None:
    """Nothing is said of it, as of any other Python."""
    prompt.type(KERNEL + "a = np.zeros(3)\ndef drive(): k(a)\n")
    notes = list(prompt.notes)
    prompt.type("drive()")
    assert prompt.gpu.loaded() == ["k"]
    assert prompt.notes == notes
    assert len(prompt.gpu.calls) == 1


def test_functions_may_stand_before_what_they_call(prompt: Prompt) -> None:
    """In the order of a program: main first."""
    prompt.type("def main(): step()\n\ndef step(): k()\n\n@ti.kernel\ndef k(): pass\n")
    assert prompt.gpu.loaded() == ["k", "step", "main"]


def test_a_function_that_becomes_the_laptops_takes_its_callers_along(prompt: Prompt) -> None:
    """Those of the same cell; an earlier one keeps what it had, which is said."""
    prompt.type("@ti.kernel\ndef k(): pass\n\ndef step(): k()\n\ndef main(): step()\n")
    prompt.gpu.loads.clear()
    prompt.type("def step(): open('x')\n\ndef other(): step()\n")
    assert prompt.gpu.loads == []
    assert prompt.notes[-1] == "main is on the worker and keeps the earlier step: type it again"


# What goes along


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("n = 8", "n = 8"),
        ("n = 2 ** 3", "n = 8"),
        ("n = np.float32(0.5)", "n = 0.5"),
        ("n = float('inf')", 'n = float("inf")'),
        ("n = (1, 2.5, 'a')", "n = (1, 2.5, 'a')"),
        ("n = [1, [2]]", "n = [1, [2]]"),
        ("import math as n", "import math as n"),
        ("from math import pi as n", "n = 3.141592653589793"),
        ("from math import sin as n", "from math import sin as n"),
        ("import taichi as n", "n = ti"),
        ("import taichi.math as n", "n = ti.math"),
        ("from taichi.math import vec3 as n", "n = ti.math.vec3"),
        ("n = ti.f32", "n = ti.f32"),
        ("n = ti.types.vector(3, ti.f32)", "n = ti.types.vector(3, ti.f32)"),
        ("def n(a): return a", "def n(a): return a"),
    ],
)
def test_what_a_kernel_uses_of_the_laptop_goes_along(prompt: Prompt, line: str, text: str) -> None:
    """Constants, modules, types and functions are written out as source and loaded before the kernel."""
    prompt.type(line)
    prompt.type("@ti.kernel\ndef k():\n    a = n\n")
    assert prompt.gpu.loads[0] == ("n", text)
    assert prompt.gpu.loaded() == ["n", "k"]


def test_what_goes_along_brings_what_it_needs(prompt: Prompt) -> None:
    """A function that a kernel calls takes its own constants to the worker before it."""
    prompt.type("m = 3\ndef n(a): return a * m\n@ti.kernel\ndef k():\n    a = n(1)\n")
    assert prompt.gpu.loaded() == ["m", "n", "k"]


def test_an_unchanged_constant_goes_once(prompt: Prompt) -> None:
    """A second kernel with the same constant does not send it again."""
    prompt.type("n = 8")
    prompt.type("@ti.kernel\ndef a():\n    b = n\n")
    prompt.type("@ti.kernel\ndef b():\n    b = n\n")
    assert prompt.gpu.loaded() == ["n", "a", "b"]


def test_a_changed_constant_goes_again_and_its_users_are_made_anew(prompt: Prompt) -> None:
    """Taichi compiles constants in, so a new value also reloads functions and kernels that use it."""
    prompt.type("n = 8\n@ti.func\ndef f(): return n\n@ti.kernel\ndef k(): f()\n")
    prompt.gpu.loads.clear()
    prompt.type("n = 9")
    assert prompt.gpu.loads[0] == ("n", "n = 9")
    assert prompt.gpu.loaded() == ["n", "f", "k"]


def test_a_changed_function_makes_its_users_anew_and_stays_the_newest(prompt: Prompt) -> None:
    """Kernels follow the new function, which is loaded last again because gpu[None] is what was typed."""
    prompt.type("@ti.func\ndef f(): return 1\n@ti.kernel\ndef k(): f()\n")
    prompt.gpu.loads.clear()
    prompt.type("@ti.func\ndef f(): return 2\n")
    assert prompt.gpu.loaded() == ["f", "k", "f"]


def test_a_field_is_not_declared_anew_when_its_size_changes(prompt: Prompt) -> None:
    """A new value of a constant leaves fields alone, as they would lose their contents."""
    prompt.type("n = 8\nx = ti.field(ti.f32, n)")
    prompt.type("n = 9")
    assert prompt.gpu.loaded() == ["n", "x", "n"]


def test_a_field_takes_the_constant_as_it_was_at_its_line(prompt: Prompt) -> None:
    """A name that changes within a cell is sent before each field with the value it has there."""
    prompt.type("n = 8\nx = ti.field(ti.f32, n)\nn = 9\ny = ti.field(ti.f32, n)")
    assert prompt.gpu.loads[:2] == [("n", "n = 8"), ("x", "x = ti.field(ti.f32, n)")]
    assert prompt.gpu.loads[2] == ("n", "n = 9")


def test_a_constant_is_sent_again_after_everything_was_dropped(prompt: Prompt) -> None:
    """The prompt does not rely on what the worker no longer has."""
    prompt.type("n = 8\n@ti.kernel\ndef k():\n    b = n\n")
    prompt.gpu.cleanup_all()
    prompt.gpu.loads.clear()
    prompt.type("@ti.kernel\ndef k():\n    b = n\n")
    assert prompt.gpu.loaded() == ["n", "k"]


def test_an_array_in_a_kernel_is_refused_with_its_place_and_advice(prompt: Prompt) -> None:
    """Laptop arrays never go along: the error has line and column, and nothing is sent."""
    prompt.type("a = np.zeros(3)")
    with pytest.raises(CompileError, match=r"a is a NumPy array on this laptop, .* pass it as an argument") as caught:
        prompt.type("\n@ti.kernel\ndef k():\n    for i in range(3):\n        a[i] = 1\n")
    assert (caught.value.line, caught.value.column) == (5, 9)
    assert prompt.gpu.loads == []


def test_a_parameter_or_local_of_the_same_name_is_no_use(prompt: Prompt) -> None:
    """A kernel's own names hide those of the laptop, so nothing of these is sent or refused."""
    prompt.type("x = np.zeros(3)\ni = np.zeros(3)")
    prompt.type("@ti.kernel\ndef k(x: ti.types.ndarray()):\n    for i in x:\n        x[i] = i\n")
    assert prompt.gpu.loaded() == ["k"]


# Failures


def test_statements_before_an_error_have_had_their_effect(prompt: Prompt) -> None:
    """A cell stops at its first error, and what ran before it stays."""
    with pytest.raises(ZeroDivisionError):
        prompt.type("a = 1\n1 / 0\na = 2")
    assert prompt.values["a"] == 1


def test_a_failed_load_leaves_the_earlier_kernel_callable(prompt: Prompt) -> None:
    """A mistake in a new version does not take the last good one away."""
    prompt.type(KERNEL)
    prompt.gpu.failures["wrong"] = compile_error("no")
    with pytest.raises(CompileError):
        prompt.type("@ti.kernel\ndef k(): wrong\n")
    prompt.type("k(1)")
    assert prompt.gpu.calls == [("k", "k", (1,))]


def test_what_waited_in_a_failed_cell_is_not_sent_with_the_next(prompt: Prompt) -> None:
    """A definition that was held back when its cell failed is forgotten, not loaded later by surprise."""
    with pytest.raises(NameError):
        prompt.type(KERNEL + "nothing")
    prompt.type("1")
    assert prompt.gpu.loads == []


# Sessions


def test_init_opens_a_session_with_its_options_where_nothing_was_made(prompt: Prompt) -> None:
    """A program that begins with ``ti.init`` runs as it stands."""
    prompt.gpu.failures["random_seed=3"] = Refused("this session runs with random_seed=0")
    prompt.type("import taichi as ti\nti.init(arch=ti.cpu, default_fp=ti.f64, random_seed=3, log_level='warn')\n")
    assert prompt.gpu.closed
    now = prompt.evaluator.gpu
    assert now.reopenings == [{"arch": "cpu", "default_fp": "f64", "random_seed": 3}]  # type: ignore[attr-defined]
    assert prompt.values["gpu"] is now
    assert prompt.notes == ["ti.init: this session runs on cpu (a device), taichi 1.7.4"]


@pytest.mark.parametrize("why", ["loaded", "shared"])
def test_init_is_refused_where_another_session_would_lose_something(prompt: Prompt, why: str) -> None:
    """Kernels that were loaded, or a session that others use."""
    if why == "loaded":
        prompt.type(KERNEL)
    else:
        prompt.gpu.private = False
    prompt.gpu.failures["random_seed=3"] = Refused("this session runs with random_seed=0")
    with pytest.raises(Refused, match="random_seed=0"):
        prompt.type("ti.init(random_seed=3)")
    assert not prompt.gpu.closed


def test_options_that_open_a_session_are_those_that_a_worker_takes() -> None:
    """The laptop cannot ask for them."""
    assert set(OF_A_SESSION) <= set(SESSION_OPTIONS)


def test_a_new_session_gets_what_was_typed_here_in_the_order_of_its_needs(prompt: Prompt) -> None:
    """Constants as they are now, each unit in its last version; names of the laptop stay."""
    prompt.type("n = 8\nmine = [1]\n@ti.func\ndef f(): return n\n@ti.kernel\ndef k(): f()\n")
    prompt.type("@ti.kernel\ndef gone(): pass\n")
    prompt.type("n = 9")
    prompt.type("@ti.func\ndef f(): return 2 * n\n")
    prompt.gpu.cleanup("gone")
    prompt.evaluator.forget_unit("gone")
    prompt.evaluator.reconnect()
    now = prompt.evaluator.gpu
    assert now.loads == [  # type: ignore[attr-defined]
        ("n", "n = 9"),
        ("f", "@ti.func\ndef f(): return 2 * n"),
        ("k", "@ti.kernel\ndef k(): f()"),
    ]
    assert prompt.values["mine"] == [1]
    prompt.type("k()")
    assert now.calls == [("k", "k", ())]  # type: ignore[attr-defined]


def test_arrays_of_a_session_that_is_gone_are_named_as_lost(prompt: Prompt) -> None:
    """Their names go: what they stood for is nowhere."""
    handle = Handle(kind="ndarray", id="h1")
    prompt.values["x"] = RemoteArray(FakeExchange(), handle, "ndarray", {"dtype": "f32", "shape": (4,)})  # type: ignore[arg-type]
    prompt.evaluator.reconnect()
    assert prompt.notes[-1] == "lost, to be made anew: x"
    assert "x" not in prompt.values


# Names that Taichi has not


@pytest.mark.parametrize(
    "text", ["ti.ndarry(ti.f32, 3)", "x = ti.ndarry(ti.f32, 3)", "@ti.ndarry\ndef k(): pass", "ti.ndarry"]
)
def test_a_misspelt_name_of_taichi_is_told_here(prompt: Prompt, text: str) -> None:
    """Nothing is sent."""
    with pytest.raises(AttributeError, match="Taichi has no 'ndarry'; did you mean 'ndarray'"):
        prompt.type(text)
    assert prompt.gpu.loads == []


@pytest.mark.parametrize("text", ["from taichi import ndarry", "def f():\n    from taichi import ndarry\nf()"])
def test_a_misspelt_import_from_taichi_is_told_here(prompt: Prompt, text: str) -> None:
    """At any depth."""
    with pytest.raises(ImportError, match="did you mean 'ndarray'"):
        prompt.type(text)


def test_a_vector_of_numbers_is_an_expression_too(prompt: Prompt) -> None:
    """Not only what a name is given to."""
    prompt.type("ti.Vector([1.0, 2.0]).tolist()")
    assert prompt.shown == [[1.0, 2.0]]
