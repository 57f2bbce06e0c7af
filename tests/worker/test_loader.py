"""`KernelLoader`: everything that taichi-meta's loader does, and what goes wrong with it."""

from __future__ import annotations

import gc
import importlib.util
import linecache
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tiremote.protocol.errors import CompileError, ProtocolError, Refused, UnknownName
from tiremote.protocol.packing import pack
from tiremote.worker.engine.frames import run_error
from tiremote.worker.engine.loader import KernelLoader
from tiremote.worker.engine.runtime import TaichiRuntime
from tiremote.worker.engine.signature import ParameterType
from tiremote.worker.unit_files import FILE_PREFIX

from .texts import ODD, Odd

ADD = """@ti.kernel
def add_base(x: ti.types.ndarray(), base: ti.f32):
    for i in range(x.shape[0]):
        x[i] += base
"""


@pytest.fixture
def loader(runtime: TaichiRuntime) -> Iterator[KernelLoader]:
    loader = KernelLoader(runtime)
    yield loader
    loader.cleanup_all()


def kinds(kernel: Any, runtime: TaichiRuntime) -> list[ParameterType]:
    """What the kernel's caller gives to it."""
    return [kind for _, kind in runtime.called_with(kernel)]


def array(runtime: TaichiRuntime, *values: float) -> Any:
    made = runtime.ti.ndarray(runtime.ti.f32, len(values))
    made.from_numpy(np.array(values, np.float32))
    return made


def kept_texts() -> set[str]:
    return {file for file in linecache.cache if file.startswith(FILE_PREFIX)}


def kept_modules() -> set[str]:
    return {name for name in sys.modules if name.startswith("tiremote unit")}


# What taichi-meta's page shows --------------------------------------------------------------------------------


def test_quick_start(loader: KernelLoader, runtime: TaichiRuntime) -> None:
    """A kernel without an id adds 5 to each of 0..9."""
    x = array(runtime, *range(10))
    receipt = loader.compile_and_load(ADD)
    loader[None].add_base(x, 5.0)
    assert receipt.unit == "kernel_0"
    assert x.to_numpy().tolist() == list(range(5, 15))


def test_hot_reload_of_a_kernel_without_an_id(loader: KernelLoader, runtime: TaichiRuntime) -> None:
    """The newest one is called: 0..9 plus twice 5 is 10..19."""
    loader.compile_and_load(ADD)
    loader.compile_and_load(ADD.replace("+= base", "+= 2 * base"))
    x = array(runtime, *range(10))
    loader[None].add_base(x, 5.0)
    assert list(loader) == ["kernel_0", "kernel_1"]
    assert x.to_numpy().tolist() == list(range(10, 20))


def test_two_ids_and_one_replaced(loader: KernelLoader, runtime: TaichiRuntime) -> None:
    """Each is reached by its id; a new doubler that triples leaves the squarer alone."""
    double = "@ti.kernel\ndef kernel_a(x: ti.types.ndarray()):\n    for i in x:\n        x[i] = i * 2\n"
    square = "@ti.kernel\ndef kernel_b(x: ti.types.ndarray()):\n    for i in x:\n        x[i] = i ** 2\n"
    loader.compile_and_load(double, "doubler")
    loader.compile_and_load(square, "squarer")
    x = array(runtime, *[0] * 4)
    results = []
    for _ in range(2):
        loader["doubler"].kernel_a(x)
        results.append(x.to_numpy().tolist())
        loader["squarer"].kernel_b(x)
        results.append(x.to_numpy().tolist())
        loader.compile_and_load(double.replace("* 2", "* 3"), "doubler")
    assert results == [[0, 2, 4, 6], [0, 1, 4, 9], [0, 3, 6, 9], [0, 1, 4, 9]]


def test_notebook_flow(loader: KernelLoader, runtime: TaichiRuntime) -> None:
    """A kernel is redefined between two calls on the same array."""
    process = "@ti.kernel\ndef process(x: ti.types.ndarray()):\n    for i in x:\n        x[i] = i * 10\n"
    x = array(runtime, *[0] * 5)
    loader.compile_and_load(process, "cell")
    loader["cell"].process(x)
    assert x.to_numpy().tolist() == [0, 10, 20, 30, 40]
    loader.compile_and_load(process.replace("i * 10", "ti.sin(i * 0.5)"), "cell")
    loader["cell"].process(x)
    np.testing.assert_allclose(x.to_numpy(), np.sin(np.arange(5) * 0.5), atol=1e-6)


# Ids ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel_id", ["numpy", "json", "../x", "__class__", "a b", "é", "'\"", "x" * 200, "%s{}"])
def test_any_printable_id_is_harmless(loader: KernelLoader, kernel_id: str) -> None:
    """No id replaces a module, leaves a file, or is mistaken for something else."""
    before = {name: module for name, module in sys.modules.items() if not name.startswith("tiremote unit")}
    loader.compile_and_load("@ti.kernel\ndef f() -> ti.i32:\n    return 7\n", kernel_id)
    assert loader[kernel_id].f() == 7
    assert kernel_id in loader
    assert {name: sys.modules.get(name) for name in before} == before


@pytest.mark.parametrize("kernel_id", ["", "x" * 201, "a\nb", "\x00", 3, b"x"])
def test_other_ids_are_refused(loader: KernelLoader, kernel_id: Any) -> None:
    """One line, and nothing is loaded."""
    with pytest.raises(ProtocolError, match="kernel id"):
        loader.compile_and_load("x = 1", kernel_id)
    assert len(loader) == 0


def test_an_unknown_id_names_the_known(loader: KernelLoader) -> None:
    """With a suggestion where one is near."""
    loader.compile_and_load("x = 1", "doubler")
    with pytest.raises(UnknownName, match="did you mean 'doubler'") as caught:
        loader["dubler"]
    assert caught.value.known == ("doubler",)


def test_an_unknown_attribute_names_the_known(loader: KernelLoader) -> None:
    """And hasattr works."""
    loader.compile_and_load(ADD, "a")
    with pytest.raises(UnknownName, match="did you mean 'add_base'"):
        _ = loader["a"].ad_base
    assert not hasattr(loader["a"], "ad_base")


def test_the_newest_of_nothing(loader: KernelLoader) -> None:
    """``loader[None]`` before the first load says so."""
    with pytest.raises(UnknownName, match="nothing is loaded"):
        loader[None]


def test_a_made_up_id_is_free(loader: KernelLoader) -> None:
    """An id that the user took is not taken again."""
    loader.compile_and_load("x = 1", "kernel_0")
    assert loader.compile_and_load("x = 1").unit == "kernel_1"


# Versions -----------------------------------------------------------------------------------------------------


def test_an_old_version_keeps_its_text(loader: KernelLoader) -> None:
    """A kernel of version 1 answers as version 1 even when it is first called after version 2 was loaded."""
    text = "@ti.kernel\ndef f(x: ti.template()) -> ti.i32:\n    return 1\n"
    loader.compile_and_load(text, "a")
    old = loader["a"]
    kernel = old.f
    loader.compile_and_load(text.replace("return 1", "return 2"), "a")
    assert (old.f(0), kernel(0), loader["a"].f(0)) == (1, 1, 2)


def test_the_same_text_does_nothing(loader: KernelLoader) -> None:
    """Nothing is executed, and the receipt says so; the unit becomes the newest."""
    text = "import sys\nsys.modules['numpy'].tiremote_runs = getattr(sys.modules['numpy'], 'tiremote_runs', 0) + 1\n"
    try:
        loader.compile_and_load(text, "a")
        loader.compile_and_load("x = 1", "b")
        receipt = loader.compile_and_load(text.replace("\n", "\r\n"), "a")
        assert receipt.unchanged
        assert receipt.version == 1
        assert np.tiremote_runs == 1  # type: ignore[attr-defined]
        assert loader.loaded(None).unit == "a"
    finally:
        del np.tiremote_runs  # type: ignore[attr-defined]


def test_the_same_text_is_executed_when_what_it_uses_is_new(loader: KernelLoader) -> None:
    """A unit that took a func from another, dropped since, is executed again, and when that comes back."""
    text = "@ti.kernel\ndef f() -> ti.i32:\n    return g()\n"
    loader.compile_and_load("@ti.func\ndef g():\n    return 1\n", "lib")
    loader.compile_and_load(text, "a")
    loader.cleanup("lib")
    with pytest.raises(CompileError, match='"g" is not defined'):
        loader.compile_and_load(text, "a")
    assert loader["a"].f() == 1
    loader.compile_and_load("@ti.func\ndef g():\n    return 2\n", "lib")
    assert loader["a"].f() == 2


def test_versions_count_and_can_be_given(loader: KernelLoader) -> None:
    """The front numbers versions itself; frames carry that number."""
    assert [loader.compile_and_load(f"x = {n}", "a").version for n in range(3)] == [1, 2, 3]
    assert loader.compile_and_load("x = 9", "a", version=17).version == 17
    with pytest.raises(CompileError) as caught:
        loader.compile_and_load("1 / 0", "a", version=18)
    assert caught.value.frames[0].version == 18
    assert loader.compile_and_load("x = 10", "a").version == 18


def test_what_is_gone_is_told(loader: KernelLoader) -> None:
    """The receipt names what the replaced version had and this one has not."""
    loader.compile_and_load("a = 1\nb = 2\n", "u")
    assert loader.compile_and_load("b = 2\n", "u").removed == ("a",)


# Names from earlier units ----------------------------------------------------------------------------------------


def test_a_func_of_an_earlier_unit(loader: KernelLoader) -> None:
    """A kernel uses a func, a constant, a class and a field that were sent before, from the newest that has them."""
    loader.compile_and_load("@ti.func\ndef scale(x):\n    return x * FACTOR\nFACTOR = 2\n", "lib")
    loader.compile_and_load("FACTOR = 5\nclass A:\n    n = 3\nfld = ti.field(ti.i32, 3)\n", "lib2")
    loader.compile_and_load(
        "@ti.kernel\ndef f() -> ti.i32:\n    for i in fld:\n        fld[i] = scale(i)\n    return FACTOR * A.n\n", "a"
    )
    assert loader["a"].f() == 15
    assert loader["lib2"].fld.to_numpy().tolist() == [0, 2, 4]
    assert loader.loaded("a").uses == {
        "scale": ("lib", 1),
        "FACTOR": ("lib2", 1),
        "A": ("lib2", 1),
        "fld": ("lib2", 1),
    }


def test_both_texts_keep_their_lines(loader: KernelLoader) -> None:
    """The chain kernel to func across two units has the lines and columns of both."""
    loader.compile_and_load("\n\n@ti.func\ndef g(x):\n    return x.nothing\n", "lib")
    with pytest.raises(CompileError) as caught:
        loader.compile_and_load("@ti.kernel\ndef f():\n    y = 1 + g(3)\n", "a")
    assert [(f.unit, f.function, f.line, f.column, f.end_column) for f in caught.value.frames] == [
        ("a", "f", 3, 13, 17),
        ("lib", "g", 5, 12, 21),
    ]


def test_a_unit_does_not_inherit_from_the_version_it_replaces(loader: KernelLoader) -> None:
    """A func that was taken out of the text is gone."""
    loader.compile_and_load("@ti.func\ndef g():\n    return 1\n@ti.kernel\ndef f() -> ti.i32:\n    return g()\n", "a")
    with pytest.raises(CompileError, match='"g" is not defined'):
        loader.compile_and_load("@ti.kernel\ndef f() -> ti.i32:\n    return g()\n", "a")
    assert loader["a"].f() == 1


# Failures leave everything as it was -------------------------------------------------------------------------------

BROKEN = [
    ("@ti.kernel\ndef f() -> ti.i32\n    return 2\n", 2),
    ("@ti.kernel\ndef f() -> ti.i32:\n    return missing\n", 3),
    ("@ti.kernel\ndef f(x: ti.types.ndarray()):\n    x[0] = missing\n", 3),
    ("@ti.kernel\ndef f() -> ti.i32:\n    return ti.Vector([1, 2]) + ti.Vector([1, 2, 3])\n", 3),
    ("@ti.kernel\ndef f(x: ti.types.ndarray(dtype=ti.f32, ndim=1)):\n    x[0, 0] = 1\n", 3),
    ("x = 1\nimport not_a_module_anywhere\n", 2),
    ("y = ti.field(ti.f32)\nz = ti.field(ti.f32, 4)\nb = ti.root.dense(ti.i, 3)\n1 / 0\n", 4),
]


@pytest.mark.parametrize(("text", "line"), BROKEN)
def test_a_failed_load_changes_nothing(loader: KernelLoader, runtime: TaichiRuntime, text: str, line: int) -> None:
    """Syntax, names, types, imports, half-declared fields: the old version, its data and the registers stay."""
    good = "y = ti.field(ti.i32, 2)\n@ti.kernel\ndef f() -> ti.i32:\n    y[1] += 1\n    return y[1]\n"
    loader.compile_and_load(good, "a")
    assert loader["a"].f() == 1
    before = (kept_texts(), kept_modules(), runtime.snode_tree_count(), len(runtime.state.kernels))
    with pytest.raises(CompileError) as caught:
        loader.compile_and_load(text, "a")
    assert caught.value.line == line
    assert before == (kept_texts(), kept_modules(), runtime.snode_tree_count(), len(runtime.state.kernels))
    assert loader.loaded("a").version == 1
    assert loader["a"].f() == 2
    loader.compile_and_load("w = ti.field(ti.f32, 3)\n@ti.kernel\ndef g():\n    w[1] = 2\n", "b")
    loader["b"].g()
    assert loader["b"].w.to_numpy().tolist() == [0, 2, 0]


def test_fields_declared_in_pieces_survive_a_failure(loader: KernelLoader) -> None:
    """A field declared in one text, placed in a later one, with a failing text between them."""
    loader.compile_and_load("y = ti.field(ti.i32)\n", "one")
    with pytest.raises(CompileError):
        loader.compile_and_load("z = ti.field(ti.i32)\nw = ti.field(ti.i32, 2)\n1 / 0\n", "two")
    loader.compile_and_load("ti.root.dense(ti.i, 3).place(y)\n@ti.kernel\ndef f():\n    y[2] = 5\n", "three")
    loader["three"].f()
    assert loader["one"].y.to_numpy().tolist() == [0, 0, 5]


def test_a_load_inside_a_tape_or_a_broken_kernel(loader: KernelLoader, runtime: TaichiRuntime) -> None:
    """A compile that failed does not leave the runtime believing that it is inside a kernel."""
    loader.compile_and_load("@ti.kernel\ndef f(n: ti.template()) -> ti.i32:\n    return n.nothing\n", "a")
    with pytest.raises(Exception, match="nothing"):
        loader["a"].f(3)
    runtime.state.inside_kernel = True
    runtime.leave_kernel()
    loader.compile_and_load("@ti.kernel\ndef f() -> ti.i32:\n    return 3\n", "a")
    assert loader["a"].f() == 3


def test_a_node_without_a_field_does_not_end_the_process(loader: KernelLoader) -> None:
    """Taichi would free the node and go on; here the launch is refused until something is placed."""
    loader.compile_and_load("block = ti.root.dense(ti.i, 3)\n@ti.kernel\ndef f() -> ti.i32:\n    return 1\n", "a")
    with pytest.raises(Refused, match="nothing is placed"):
        loader["a"].f()
    loader.compile_and_load("y = ti.field(ti.i32)\nblock.place(y)\n", "b")
    assert loader["a"].f() == 1
    assert loader["b"].y.to_numpy().tolist() == [0, 0, 0]


# ti.init ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("call", ["ti.init()", "ti.init(arch=ti.cpu)", "ti.init(ti.cpu, ti.f32, ti.i32)"])
def test_an_init_that_agrees_does_nothing(loader: KernelLoader, runtime: TaichiRuntime, call: str) -> None:
    """Nearly every program has one; fields of others keep their values."""
    if runtime.arch() != "cpu":
        pytest.skip("written for a session on the CPU")
    loader.compile_and_load("y = ti.field(ti.i32, 2)\ny[1] = 5\n", "data")
    receipt = loader.compile_and_load(f"import taichi as ti\n{call}\n", "program")
    assert receipt.warnings == ()
    assert loader["data"].y[1] == 5


def test_an_init_for_any_gpu_on_a_cpu_session_warns(loader: KernelLoader, runtime: TaichiRuntime) -> None:
    """Taichi itself would fall back."""
    if runtime.arch() != "cpu":
        pytest.skip("written for a session on the CPU")
    receipt = loader.compile_and_load("x = 1\nti.init(arch=ti.gpu)\n", "program")
    assert len(receipt.warnings) == 1
    assert "line 2" in receipt.warnings[0]
    assert "'cpu'" in receipt.warnings[0]


@pytest.mark.parametrize(
    ("call", "wanted"),
    [
        ("ti.init(arch=ti.metal)", "connect(..., arch='metal')"),
        ("ti.init(default_fp=ti.f64)", "connect(..., default_fp='f64')"),
        ("ti.init(debug=True, random_seed=3)", "connect(..., debug=True, random_seed=3)"),
        ("ti.init(nonsense=1)", "no option 'nonsense'"),
        ("ti.reset()", "destroy"),
        ("from taichi import reset\nreset()", "destroy"),
        ("ti.lang.impl.reset()", "destroy"),
        ("ti.lang.misc.init(default_ip=ti.i64)", "default_ip='i64'"),
    ],
)
def test_an_init_that_differs_is_refused(loader: KernelLoader, call: str, wanted: str) -> None:
    """In one line that says how to get such a session; nothing is lost, nothing half loaded."""
    loader.compile_and_load("y = ti.field(ti.i32, 2)\ny[1] = 5\n", "data")
    with pytest.raises(Refused) as caught:
        loader.compile_and_load(f"import taichi as ti\nw = ti.field(ti.i32, 2)\n{call}\n", "program")
    assert wanted in caught.value.message
    assert caught.value.message.startswith("line ")
    assert "\n" not in caught.value.message
    assert "program" not in loader
    assert loader["data"].y[1] == 5


# Compile check ----------------------------------------------------------------------------------------------------


def checked(loader: KernelLoader, text: str, kernel_id: str = "a") -> dict[str, bool]:
    return {each.name: each.checked for each in loader.compile_and_load(text, kernel_id).definitions}


def test_kernels_with_known_types_are_compiled_at_load(loader: KernelLoader) -> None:
    """No parameters, scalars, vectors, and ndarrays with dtype and ndim are known; others are not."""
    assert checked(
        loader,
        "vec = ti.types.vector(3, ti.f32)\n"
        "@ti.kernel\ndef a(): pass\n"
        "@ti.kernel\ndef b(x: ti.i32, y: vec, z: ti.types.matrix(2, 2, ti.f64)) -> ti.f32:\n    return y[0]\n"
        "@ti.kernel\ndef c(x: ti.types.ndarray(dtype=ti.f32, ndim=2)):\n    x[0, 0] = 1\n"
        "@ti.kernel\ndef d(x: ti.types.ndarray(dtype=vec, ndim=1)):\n    x[0] = vec(1)\n"
        "@ti.kernel\ndef e(x: ti.types.ndarray()):\n    x[0] = 1\n"
        "@ti.kernel\ndef g(x: ti.template()):\n    y = x\n",
    ) == {"vec": False, "a": True, "b": True, "c": True, "d": True, "e": False, "g": False}


def test_a_call_of_the_replaced_version_tells_the_types(loader: KernelLoader, runtime: TaichiRuntime) -> None:
    """A type error in the new text is found for the arrays that the old kernel was called with, which are not kept."""
    loader.compile_and_load(ADD, "a")
    x = array(runtime, 1, 2)
    loader["a"].add_base(x, 1.0)
    loader.loaded("a").record_call("add_base", [x, 1.0], kinds(loader["a"].add_base, runtime), runtime)
    with pytest.raises(CompileError, match="dim 1") as caught:
        loader.compile_and_load(ADD.replace("x[i] +=", "x[i, i] +="), "a")
    assert caught.value.line == 4
    assert checked(loader, ADD.replace("+= base", "+= 2 * base"))["add_base"]
    assert checked(loader, ADD.replace("+= base", "+= 3 * base"))["add_base"]
    loader["a"].add_base(x, 1.0)
    assert x.to_numpy().tolist() == [5, 6]


def test_a_remembered_numpy_call_and_template(loader: KernelLoader, runtime: TaichiRuntime) -> None:
    """NumPy arrays and template values are remembered too; a field that died is not."""
    text = "@ti.kernel\ndef f(x: ti.types.ndarray(), n: ti.template(), y: ti.template()):\n    x[0] = n\n"
    loader.compile_and_load(text, "a")
    field = runtime.ti.field(runtime.ti.i32, 3)
    loader.loaded("a").record_call(
        "f", [np.zeros((2, 2), np.float64), 3, field], kinds(loader["a"].f, runtime), runtime
    )
    with pytest.raises(CompileError, match="dim 2"):
        loader.compile_and_load(text.replace("= n", "= 2 * n"), "a")
    del field
    gc.collect()
    assert not checked(loader, text.replace("= n", "= 3 * n"))["f"]


def test_a_kernel_whose_global_comes_later_is_not_compiled_at_load(loader: KernelLoader) -> None:
    """Programs make their fields in a function; the check does not refuse them."""
    text = "x = None\ndef init():\n    global x\n    x = ti.field(ti.i32, 2)\n@ti.kernel\ndef f():\n    x[1] = 3\n"
    assert not checked(loader, text)["f"]
    loader["a"].init()
    loader["a"].f()
    assert loader["a"].x[1] == 3


# Receipts ---------------------------------------------------------------------------------------------------------


def test_a_receipt_tells_what_there_is(loader: KernelLoader) -> None:
    """Kind, line, parameters, returns and text of each definition; imports and dunder names are left out."""
    receipt = loader.compile_and_load(
        "import math\nfrom math import pi\n__author__ = '_'\n"
        "x = ti.Vector.field(3, ti.f32, shape=(2, 4))\n"
        "y = ti.ndarray(ti.i32, 5)\n"
        "@ti.func\ndef g(a, b: ti.template()):\n    return a\n"
        "@ti.kernel\ndef k(a: ti.f32, b: ti.types.ndarray(dtype=ti.f64, ndim=2)) -> ti.i64:\n"
        '    """Adds up."""\n    return 1\n'
        "def drive(n, *rest: int, fast=True, **more):\n    pass\n"
        "class A:\n    pass\n"
        "N, M = 3, 4\n"
        "@ti.dataclass\nclass Particle:\n    m: ti.f32\n",
        "u",
    )
    shown = [(d.kind, d.line, str(d)) for d in receipt.definitions]
    assert shown == [
        ("field", 4, "x: f32 (2, 4)"),
        ("ndarray", 5, "y: i32 (5,)"),
        ("func", 7, "g(a, b: template)"),
        ("kernel", 10, "k(a: f32, b: ndarray(f64, ndim=2)) -> i64"),
        ("function", 13, "drive(n, *rest: int, fast, **more)"),
        ("class", 15, "A"),
        ("value", 17, "N"),
        ("value", 17, "M"),
        ("class", 19, "Particle"),
    ]
    assert receipt.definitions[0].meta == {"dtype": "f32", "shape": [2, 4], "element_shape": [3]}
    assert receipt.definitions[3].doc == "Adds up."


def test_a_name_with_an_underscore_is_a_definition(loader: KernelLoader) -> None:
    """Taichi programs call their buffers ``_x`` and swap them: they can be reached like all others."""
    receipt = loader.compile_and_load("_velocities = ti.Vector.field(2, ti.f32, 4)\n", "u")
    assert [each.name for each in receipt.definitions] == ["_velocities"]


def test_a_name_of_an_earlier_unit_comes_before_a_builtin(loader: KernelLoader) -> None:
    """A field called ``input`` is the field in a later unit's kernel, not Python's function."""
    loader.compile_and_load("input = ti.field(ti.i32, 3)\n", "fields")
    loader.compile_and_load("@ti.kernel\ndef f() -> ti.i32:\n    input[1] = 4\n    return input[1] + max(1, 2)\n", "u")
    assert loader["u"].f() == 6


def test_colours_of_a_warning_are_taken_out(loader: KernelLoader) -> None:
    """No terminal codes reach a client."""
    receipt = loader.compile_and_load("import warnings\nwarnings.warn('\\x1b[38;5;226mcare\\x1b[0m')\n", "u")
    assert receipt.warnings == ("line 2: care",)


def test_what_utf8_does_not_hold_is_told_with_escapes(loader: KernelLoader) -> None:
    """A receipt that does not travel would fail a load that has been done."""
    receipt = loader.compile_and_load(
        "import warnings\nwarnings.warn('\\ud800')\ndef f(a: '\\ud801'):\n    '\\ud802'\n", "u"
    )
    pack(receipt, [])
    assert receipt.warnings == ("line 2: \\ud800",)
    (definition,) = receipt.definitions
    assert definition.doc == "\\ud802"
    assert "\\ud801" in definition.parameters[0].takes


def test_warnings_of_the_text_are_in_the_receipt(loader: KernelLoader) -> None:
    """What it warns of while it is loaded, with the line."""
    receipt = loader.compile_and_load("import warnings\nwarnings.warn('take care')\n", "u")
    assert receipt.warnings == ("line 2: take care",)


# Cleanup ----------------------------------------------------------------------------------------------------------


def test_cleanup_gives_everything_back(loader: KernelLoader, runtime: TaichiRuntime) -> None:
    """Text, module, Taichi's register and SNode trees are as before, once nobody holds the unit."""
    gc.collect()
    runtime.collect()
    before = (kept_texts(), kept_modules(), runtime.snode_tree_count(), len(runtime.state.kernels))
    text = (
        "x = ti.field(ti.i32, 4)\n@ti.kernel\ndef f():\n    for i in x:\n        x[i] = {}\n"
        "@ti.data_oriented\nclass A:\n    @ti.kernel\n    def g(self):\n        x[0] = 9\n"
    )
    for n in range(5):
        loader.compile_and_load(text.format(n), "a")
        loader["a"].f()
        loader["a"].A().g()
    loader.cleanup("a")
    assert before == (kept_texts(), kept_modules(), runtime.snode_tree_count(), len(runtime.state.kernels))
    with pytest.raises(UnknownName):
        loader["a"]


def test_a_field_that_somebody_holds_outlives_its_unit(loader: KernelLoader, runtime: TaichiRuntime) -> None:
    """Reading a destroyed SNode tree ends the process, so a tree stays as long as a field in it."""
    loader.compile_and_load("x = ti.field(ti.i32, 2)\n@ti.kernel\ndef f():\n    x[1] = 4\n", "a")
    loader["a"].f()
    field, kernel = loader["a"].x, loader["a"].f
    loader.cleanup_all()
    assert field.to_numpy().tolist() == [0, 4]
    kernel()
    trees = runtime.snode_tree_count()
    del field, kernel
    runtime.collect()
    assert runtime.snode_tree_count() == trees - 1


def test_more_fields_than_taichi_has_trees(loader: KernelLoader, runtime: TaichiRuntime) -> None:
    """100 reloads of a text with a field, while 450 trees are in use: the 513th would end the process."""
    held = []
    for _ in range(450 - runtime.snode_tree_count()):
        held.append(runtime.ti.field(runtime.ti.i32, 1))
        runtime.sync()
    for n in range(100):
        loader.compile_and_load(f"x = ti.field(ti.i32, 2)\nN = {n}\nti.sync()\n", "a")
    assert loader["a"].N == 99
    held.clear()
    runtime.collect()


def test_five_hundred_trees_in_use_are_the_most(loader: KernelLoader, runtime: TaichiRuntime) -> None:
    """The next is refused with the count, and the session goes on."""
    held = []
    for _ in range(512 - runtime.snode_tree_count()):
        held.append(runtime.ti.field(runtime.ti.i32, 1))
        runtime.sync()
    held.append(runtime.ti.field(runtime.ti.i32, 1))
    with pytest.raises(Refused, match="512"):
        runtime.sync()
    held.clear()
    runtime.collect()
    loader.compile_and_load("x = ti.field(ti.i32, 2)\n@ti.kernel\ndef f():\n    x[1] = 4\n", "a")
    loader["a"].f()
    assert loader["a"].x[1] == 4


# Whole programs and odd texts ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("odd", ODD, ids=lambda odd: odd.name)
def test_odd_texts(loader: KernelLoader, odd: Odd) -> None:
    """Each is loaded and answers, or is refused with its line; either way the next text loads."""
    if odd.error is None:
        loader.compile_and_load(odd.text, "odd")  # type: ignore[arg-type]
        assert loader["odd"].f() == odd.value
    else:
        with pytest.raises(CompileError) as caught:
            loader.compile_and_load(odd.text, "odd")  # type: ignore[arg-type]
        assert odd.error in caught.value.message
        assert "\n" not in caught.value.message
        assert caught.value.line == odd.line
        assert "odd" not in loader
    loader.compile_and_load("@ti.kernel\ndef f() -> ti.i32:\n    return 5\n", "next")
    assert loader["next"].f() == 5


@pytest.mark.parametrize(
    "path",
    ["simulation/nbody.py", "simulation/game_of_life.py", "simulation/odop_solar.py", "autodiff/minimization.py"],
)
def test_programs_that_come_with_taichi_load(loader: KernelLoader, runtime: TaichiRuntime, path: str) -> None:
    """They are loaded as they are, with their ti.init, unless that asks for another arch than the session's."""
    taichi = importlib.util.find_spec("taichi")
    assert taichi is not None
    assert taichi.origin is not None
    text = (Path(taichi.origin).parent / "examples" / path).read_text("utf-8")
    if "arch=ti.cpu" in text and runtime.arch() != "cpu":
        with pytest.raises(Refused, match="arch='cpu'"):
            loader.compile_and_load(text, path)
        return
    loader.compile_and_load(text, path)
    assert "main" in loader[path]


def test_an_error_in_a_driver_function(loader: KernelLoader, runtime: TaichiRuntime) -> None:
    """The frames go from the driver through the kernel to the func, all in the user's text."""
    loader.compile_and_load(
        "@ti.func\ndef g(n):\n    return n.nothing\n"
        "@ti.kernel\ndef k(n: ti.template()):\n    x = g(n)\n"
        "def drive():\n    for i in range(2):\n        k(i)\n",
        "a",
    )
    with pytest.raises(Exception, match="nothing") as caught:
        loader["a"].drive()
    error = run_error(caught.value, runtime)
    assert isinstance(error, CompileError)
    assert [(frame.function, frame.line) for frame in error.frames] == [("drive", 9), ("k", 6), ("g", 3)]
