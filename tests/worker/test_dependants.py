"""Units that use one another: what follows a reload, what does not, and that a failure takes all of it back."""

from __future__ import annotations

import gc
import linecache
import sys
from collections.abc import Iterator
from typing import Any

import psutil
import pytest

from tiremote.protocol.errors import CompileError, UnknownName
from tiremote.worker.engine.loader import KernelLoader
from tiremote.worker.engine.runtime import TaichiRuntime
from tiremote.worker.unit_files import FILE_PREFIX

LIB = "FACTOR = 2\n@ti.func\ndef scale(x):\n    return x * FACTOR\ndef unused():\n    return 1\n"
USER = "y = ti.field(ti.i32, 2)\n@ti.kernel\ndef f() -> ti.i32:\n    y[1] += scale(1)\n    return y[1]\n"


@pytest.fixture
def loader(runtime: TaichiRuntime) -> Iterator[KernelLoader]:
    loader = KernelLoader(runtime)
    yield loader
    loader.cleanup_all()


def told(receipt: Any) -> dict[str, tuple[str, tuple[str, ...]]]:
    return {f"{each.unit}.{each.name}": (each.status, each.because) for each in receipt.changes}


def test_a_func_redefined_in_another_unit(loader: KernelLoader) -> None:
    """Its callers are rebuilt, keep their state and their version, and the receipt names them."""
    loader.compile_and_load(LIB, "lib")
    loader.compile_and_load(USER, "user")
    assert loader["user"].f() == 2
    receipt = loader.compile_and_load(LIB.replace("x * FACTOR", "x * FACTOR * 10"), "lib")
    assert loader["user"].f() == 22
    assert told(receipt) == {
        "lib.scale": ("changed", ()),
        "lib.unused": ("unchanged", ()),
        "user.f": ("rebuilt", ("scale",)),
    }
    assert receipt.kept == ("user.y",)
    assert loader.loaded("user").version == 1
    assert [each.unit for each in loader.rebuilt(receipt)] == ["user"]
    assert list(loader) == ["user", "lib"]


def test_a_constant_behind_a_func_of_another_unit(loader: KernelLoader) -> None:
    """The change goes through the func, and through a third unit."""
    loader.compile_and_load("FACTOR = 2\n", "config")
    loader.compile_and_load("@ti.func\ndef scale(x):\n    return x * FACTOR\n", "lib")
    loader.compile_and_load(USER, "user")
    assert loader["user"].f() == 2
    receipt = loader.compile_and_load("FACTOR = 3\n", "config")
    assert loader["user"].f() == 5
    assert told(receipt)["user.f"] == ("rebuilt", ("scale",))
    assert told(receipt)["lib.scale"] == ("rebuilt", ("FACTOR",))


def test_what_is_not_used_rebuilds_nobody(loader: KernelLoader) -> None:
    """A change beside what a unit took leaves that unit as it is, and its own text stays unchanged when sent again."""
    loader.compile_and_load(LIB, "lib")
    loader.compile_and_load(USER, "user")
    loader["user"].f()
    kernel = loader["user"].f
    receipt = loader.compile_and_load(LIB.replace("return 1", "return 2") + "NEW = 1\n", "lib")
    assert loader["user"].f is kernel
    assert "user.f" not in told(receipt)
    assert loader.compile_and_load(USER, "user").unchanged


def test_a_kept_field_of_another_unit(loader: KernelLoader) -> None:
    """Who uses a field follows only when it is declared anew."""
    loader.compile_and_load("x = ti.field(ti.i32, 3)\nN = 1\n", "data")
    loader.compile_and_load("@ti.kernel\ndef f() -> ti.i32:\n    x[2] += 1\n    return x[2]\n", "user")
    assert loader["user"].f() == 1
    loader.compile_and_load("x = ti.field(ti.i32, 3)\nN = 2\n", "data")
    assert loader["user"].f() == 2
    receipt = loader.compile_and_load("x = ti.field(ti.i32, 4)\nN = 2\n", "data")
    assert loader["user"].f() == 1
    assert loader["data"].x.to_numpy().tolist() == [0, 0, 1, 0]
    assert told(receipt)["user.f"] == ("rebuilt", ("x",))


def test_a_failing_dependant_takes_everything_back(loader: KernelLoader, runtime: TaichiRuntime) -> None:
    """Three units, the last does not compile with the new func: none is changed, none of the state is lost."""
    loader.compile_and_load(LIB, "lib")
    loader.compile_and_load(USER, "user")
    loader.compile_and_load("z = ti.field(ti.i32, 2)\n@ti.kernel\ndef g() -> ti.i32:\n    z[0] += scale(3)\n    return z[0]\n", "strict")  # fmt: skip  # noqa: E501
    assert (loader["user"].f(), loader["strict"].g()) == (2, 6)
    held = [(unit, id(loader.loaded(unit)), dict(loader.loaded(unit).namespace)) for unit in loader]
    gc.collect()
    before = (
        {name for name in linecache.cache if name.startswith(FILE_PREFIX)},
        {name for name in sys.modules if name.startswith("tiremote unit")},
        runtime.snode_tree_count(),
        len(runtime.state.kernels),
    )
    with pytest.raises(CompileError, match=r"in user, which uses scale of lib") as caught:
        loader.compile_and_load(LIB.replace("def scale(x)", "def scale(x, y)"), "lib")
    assert caught.value.frames[0].unit == "user"
    assert before == (
        {name for name in linecache.cache if name.startswith(FILE_PREFIX)},
        {name for name in sys.modules if name.startswith("tiremote unit")},
        runtime.snode_tree_count(),
        len(runtime.state.kernels),
    )
    for unit, loaded, namespace in held:
        assert id(loader.loaded(unit)) == loaded
        now = loader.loaded(unit).namespace
        assert now.keys() == namespace.keys()
        assert all(now[name] is namespace[name] for name in now)
    assert (loader["user"].f(), loader["strict"].g()) == (4, 12)
    assert loader.loaded("lib").version == 1


def test_a_func_that_others_use_cannot_be_removed(loader: KernelLoader) -> None:
    """The load is refused with the line that uses it."""
    loader.compile_and_load(LIB, "lib")
    loader.compile_and_load(USER, "user")
    with pytest.raises(CompileError, match='"scale" is not defined') as caught:
        loader.compile_and_load("FACTOR = 2\n", "lib")
    assert (caught.value.frames[0].unit, caught.value.line) == ("user", 4)
    assert loader["user"].f() == 2


def test_an_object_of_a_class_of_another_unit(loader: KernelLoader) -> None:
    """It gets the new class and keeps its attributes; the unit that holds it is rebuilt."""
    lib = "class Counter:\n    def __init__(self):\n        self.n = 0\n    def add(self):\n        self.n += {}\n        return self.n\n"  # fmt: skip  # noqa: E501
    loader.compile_and_load(lib.format(1), "lib")
    loader.compile_and_load("counter = Counter()\ndef f():\n    return counter.add()\n", "user")
    counter = loader["user"].counter
    loader["user"].f()
    receipt = loader.compile_and_load(lib.format(10), "lib")
    assert loader["user"].f() == 11
    assert loader["user"].counter is counter
    assert type(counter) is loader["lib"].Counter
    assert receipt.kept == ("user.counter",)


def test_a_failing_dependant_puts_objects_back(loader: KernelLoader) -> None:
    """An object of the first unit is as it was when the second fails."""
    lib = "N = {}\nclass A:\n    def __init__(self):\n        self.n = N\na = A()\n"
    loader.compile_and_load(lib.format(1), "lib")
    loader.compile_and_load("M = 1 // (N - 5)\n", "user")
    a = loader["lib"].a
    cls = type(a)
    with pytest.raises(CompileError, match="ZeroDivisionError"):
        loader.compile_and_load(lib.format(5), "lib")
    assert (a.n, type(a), loader["lib"].N) == (1, cls, 1)


# Newer units --------------------------------------------------------------------------------------------------


def test_a_newer_unit_has_the_name_now(loader: KernelLoader) -> None:
    """As cell after cell: a constant that a later unit defines again is taken from there."""
    loader.compile_and_load("N = 1\n")
    loader.compile_and_load("@ti.kernel\ndef f() -> ti.i32:\n    return N\n", "user")
    assert loader["user"].f() == 1
    receipt = loader.compile_and_load("N = 2\n")
    assert loader["user"].f() == 2
    assert told(receipt)["user.f"] == ("rebuilt", ("N",))
    assert loader.loaded("user").uses == {"N": ("kernel_1", 1)}


def test_a_newer_unit_whose_names_do_not_fit(loader: KernelLoader) -> None:
    """It is loaded all the same; the older unit stays with what it has, and the receipt warns."""
    loader.compile_and_load(LIB, "lib")
    loader.compile_and_load(USER, "user")
    receipt = loader.compile_and_load("@ti.func\ndef scale(a, b, c):\n    return a\n", "other")
    assert len(receipt.warnings) == 1
    assert "user goes on without scale of other" in receipt.warnings[0]
    assert loader["user"].f() == 2


def test_an_unchanged_unit_that_becomes_the_newest(loader: KernelLoader) -> None:
    """Sending it again moves it before others with the same names, and who uses these follows."""
    loader.compile_and_load("N = 1\n", "one")
    loader.compile_and_load("N = 2\n", "two")
    loader.compile_and_load("@ti.kernel\ndef f() -> ti.i32:\n    return N\n", "user")
    assert loader["user"].f() == 2
    receipt = loader.compile_and_load("N = 1\n", "one")
    assert receipt.unchanged
    assert loader["user"].f() == 1
    assert [each.unit for each in loader.rebuilt(receipt)] == ["user"]


def test_units_that_use_one_another(loader: KernelLoader) -> None:
    """A circle ends, and the receipt says what is behind."""
    loader.compile_and_load("A = 1\n", "a")
    loader.compile_and_load("B = A + 1\n", "b")
    receipt = loader.compile_and_load("A = 10\ndef f():\n    return B\n", "a")
    assert loader["b"].B == 11
    assert any("use names of one another" in text for text in receipt.warnings)


# Imports ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("imported", "used"),
    [
        ("from helpers import scale", "scale"),
        ("from helpers import scale as s", "s"),
        ("from helpers import *", "scale"),
        ("import helpers", "helpers.scale"),
        ("import helpers as h", "h.scale"),
        ('h = import_unit("helpers")', "h.scale"),
        ('scale = import_unit("helpers").scale', "scale"),
    ],
)
def test_importing_a_unit(loader: KernelLoader, imported: str, used: str) -> None:
    """By statement and by function; a change there rebuilds here, and nothing of that name is left in Python."""
    loader.compile_and_load(LIB, "helpers")
    text = f"{imported}\ny = ti.field(ti.i32, 1)\n@ti.kernel\ndef f() -> ti.i32:\n    y[0] += {used}(1)\n    return y[0]\n"  # fmt: skip  # noqa: E501
    loader.compile_and_load(text, "user")
    assert loader["user"].f() == 2
    receipt = loader.compile_and_load(LIB.replace("FACTOR = 2", "FACTOR = 5"), "helpers")
    assert loader["user"].f() == 7
    assert told(receipt)["user.f"][0] == "rebuilt"
    assert loader.compile_and_load(text, "user").unchanged
    assert "helpers" not in sys.modules


def test_an_import_of_one_name_follows_that_name(loader: KernelLoader) -> None:
    """``from helpers import scale`` does not care for the rest of helpers."""
    loader.compile_and_load(LIB, "helpers")
    loader.compile_and_load(f"from helpers import scale\n{USER}", "user")
    kernel = loader["user"].f
    loader.compile_and_load(LIB.replace("return 1", "return 2"), "helpers")
    assert loader["user"].f is kernel
    receipt = loader.compile_and_load(LIB.replace("FACTOR = 2", "FACTOR = 3"), "helpers")
    assert told(receipt)["user.f"] == ("rebuilt", ("scale",))


def test_an_import_inside_a_function(loader: KernelLoader) -> None:
    """It is found when the function is called, also after the unit was replaced."""
    loader.compile_and_load("def f():\n    from helpers import N\n    return N\n", "user")
    with pytest.raises(ModuleNotFoundError, match="helpers"):
        loader["user"].f()
    loader.compile_and_load("N = 1\n", "helpers")
    assert loader["user"].f() == 1
    loader.compile_and_load("N = 2\n", "helpers")
    assert loader["user"].f() == 2


def test_a_real_module_is_never_shadowed(loader: KernelLoader) -> None:
    """A unit called json is not what ``import json`` gives."""
    loader.compile_and_load("x = 1\n", "json")
    loader.compile_and_load("import json\ndef f():\n    return json.dumps([1])\n", "user")
    assert loader["user"].f() == "[1]"


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("import helpres", "helpres"),
        ("from helpers import missing", "missing"),
        ('import_unit("helpres")', "did you mean 'helpers'"),
        ("import user", "user"),
        ('import_unit("user")', "itself"),
    ],
)
def test_an_import_that_fails(loader: KernelLoader, text: str, error: str) -> None:
    """It tells the line, and nothing is loaded."""
    loader.compile_and_load(LIB, "helpers")
    with pytest.raises((CompileError, UnknownName), match=error):
        loader.compile_and_load(f"x = 1\n{text}\n", "user")
    assert "user" not in loader


# Memory -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("field", ["", "x = ti.field(ti.f32, 1000)\n", "x{n} = ti.field(ti.f32, 1000)\n"])
def test_many_versions_end_in_bounded_memory(loader: KernelLoader, runtime: TaichiRuntime, field: str) -> None:
    """Case 15: 100 versions that are called, without fields, with a kept one and with one of another name each: old
    namespaces, texts, kernels and trees are gone."""
    for n in range(100):
        text = f"{field.format(n=n)}@ti.kernel\ndef f(i: ti.i32) -> ti.i32:\n    return i + {n}\n"
        loader.compile_and_load(text, "u")
        assert loader["u"].f(1) == n + 1
    runtime.collect()
    assert sum(name.startswith("tiremote unit") for name in sys.modules) == 1
    assert sum(file.startswith(FILE_PREFIX) for file in linecache.cache) <= 2
    assert runtime.snode_tree_count() <= 3
    assert psutil.Process().memory_info().rss < 2 << 30
