"""Several units loaded as one: all of them or none, in an order that suits them, and what depends on them once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tiremote.protocol.errors import CompileError, ProtocolError
from tiremote.worker.engine.build_order import build_order, dependencies_first
from tiremote.worker.engine.loader import KernelLoader
from tiremote.worker.engine.runtime import TaichiRuntime
from tiremote.worker.engine.source import read_source

LIB = "@ti.func\ndef scale(x):\n    return x * 2\n"
USER = "from lib import scale\ny = ti.field(ti.i32, 2)\n@ti.kernel\ndef f() -> ti.i32:\n    y[1] += scale(1)\n    return y[1]\n"  # fmt: skip  # noqa: E501
BOTH = {"user": USER, "lib": LIB}
RENAMED = {unit: text.replace("scale", "times") for unit, text in BOTH.items()}


@pytest.fixture
def loader(runtime: TaichiRuntime) -> Iterator[KernelLoader]:
    loader = KernelLoader(runtime)
    yield loader
    loader.cleanup_all()


def test_a_name_moves_in_two_units_at_once(loader: KernelLoader) -> None:
    """What neither could do alone: both have the new name, state stays, and receipts are in the order given."""
    assert [(unit, told.version) for unit, told in loader.compile_and_load_all(BOTH).items()] == [("user", 1), ("lib", 1)]  # fmt: skip  # noqa: E501
    assert loader["user"].f() == 2
    for unit, text in RENAMED.items():
        with pytest.raises(CompileError):
            loader.compile_and_load(text, unit)
    told = loader.compile_and_load_all(RENAMED)
    assert loader["user"].f() == 4
    assert (told["user"].version, told["user"].previous, told["user"].kept) == (2, 1, ("y",))
    assert {each.name: each.status for each in told["lib"].changes} == {"times": "added", "scale": "removed"}
    assert told["lib"].removed == ("scale",)
    assert list(loader) == ["lib", "user"]


def test_names_need_no_import_to_be_found(loader: KernelLoader) -> None:
    """A text that simply uses the names of another comes after it, and each is built once."""
    loader.compile_and_load_all({"user": USER.partition("\n")[2], "lib": LIB})
    assert loader["user"].f() == 2
    assert [loader.loaded(unit).source.build for unit in loader] == [0, 0]


def test_what_uses_two_of_them_is_built_again_once(loader: KernelLoader) -> None:
    """A unit that is not sent follows once, with the new names of both; the last receipt tells of it."""
    loader.compile_and_load_all({"a": "A = 1\n", "b": "B = 10\n"})
    loader.compile_and_load("def f():\n    return A + B\nSUM = f()\n", "user")
    told = loader.compile_and_load_all({"a": "A = 2\n", "b": "B = 20\n"})
    assert loader["user"].SUM == 22
    assert loader.loaded("user").source.build == 1
    assert [(each.unit, each.name, each.because) for each in told["b"].changes] == [("user", "f", ("A", "B"))]
    assert told["a"].changes == ()
    assert [each.unit for each in loader.rebuilt(*told.values())] == ["user"]


@pytest.mark.parametrize(
    ("broken", "unit", "line"),
    [
        ({"lib": "def scale(:\n", "user": USER}, "lib", 1),
        ({"lib": LIB, "user": USER.replace("scale(1)", "nothing(1)")}, "user", 5),
        ({"lib": LIB.replace("def scale(x)", "def scale(x, z)"), "user": USER + "N = 1\n"}, "user", 5),
        ({"lib": "", "user": USER}, "lib", None),
        ({"lib": LIB.replace("* 2", "* 3"), "more": "M = 1 // 0\n"}, "more", 1),
        ({"lib": LIB.replace("scale", "times"), "more": "M = 1\n"}, "user", 1),
    ],
    ids=["syntax", "own mistake", "wrong use", "empty", "unrelated", "not sent"],
)
def test_one_that_fails_keeps_all_as_they_were(
    loader: KernelLoader, runtime: TaichiRuntime, broken: dict[str, str], unit: str, line: int | None
) -> None:
    """The error names the unit at fault, and every unit, namespace, tree and kernel is what it was."""
    loader.compile_and_load_all(BOTH)
    assert loader["user"].f() == 2
    runtime.collect()
    before = [(each, loader.loaded(each), dict(loader.loaded(each).namespace)) for each in loader]
    counted = runtime.snode_tree_count(), len(runtime.state.kernels)
    with pytest.raises(CompileError) as caught:
        loader.compile_and_load_all(broken)
    assert (caught.value.unit, caught.value.line) == (unit, line)
    assert [each for each, _, _ in before] == list(loader)
    for each, loaded, namespace in before:
        assert loader.loaded(each) is loaded
        assert loaded.namespace.keys() == namespace.keys()
        assert all(loaded.namespace[name] is value for name, value in namespace.items())
    assert counted == (runtime.snode_tree_count(), len(runtime.state.kernels))
    assert loader["user"].f() == 4


def test_a_text_that_is_there_already_is_not_built(loader: KernelLoader) -> None:
    """Of those that are sent again only what changed is executed; with nothing new nothing is."""
    loader.compile_and_load_all({**BOTH, "more": "M = object()\n"})
    more, kernel = loader["more"].M, loader["user"].f
    assert all(told.unchanged for told in loader.compile_and_load_all(BOTH).values())
    assert loader["user"].f is kernel
    told = loader.compile_and_load_all({**BOTH, "lib": LIB.replace("2", "5"), "more": "M = object()\n"})
    assert loader["more"].M is more
    assert loader["user"].f() == 5
    assert {unit: each.unchanged for unit, each in told.items()} == {"user": True, "lib": False, "more": True}
    assert [(each.status, each.because) for each in told["user"].changes] == [("rebuilt", ("scale",))]


def test_a_clean_start_of_several(loader: KernelLoader) -> None:
    """With keep=False all of them are executed and begin anew."""
    loader.compile_and_load_all(BOTH)
    assert [loader["user"].f(), loader["user"].f()] == [2, 4]
    loader.compile_and_load_all(BOTH, keep=False)
    assert loader["user"].f() == 2


def test_an_import_that_no_text_shows_is_followed(loader: KernelLoader) -> None:
    """A unit that was built before another that it turns out to use is built once more."""
    loader.compile_and_load("N = 1\n", "lib")
    text = "name = ''.join(['l', 'ib'])\nN = import_unit(name).N + 0\n"
    loader.compile_and_load_all({"a": text, "lib": "N = 2\n"})
    assert loader["a"].N == 2


def test_a_circle_ends_and_the_receipt_warns(loader: KernelLoader) -> None:
    """Two that use one another are both loaded, and what is behind is told."""
    loader.compile_and_load("A = 1\n", "a")
    loader.compile_and_load("B = A + 1\n", "b")
    told = loader.compile_and_load_all({"a": "A = 10\nC = B\n", "b": "B = A + 5\n"})
    assert any("use names of one another" in text for text in told["b"].warnings)
    assert loader["a"].A == 10


def test_nothing_is_not_loaded(loader: KernelLoader) -> None:
    """A load of no text at all is a mistake."""
    with pytest.raises(ProtocolError, match="at least one"):
        loader.compile_and_load_all({})


def test_a_dependant_behind_another_dependant(loader: KernelLoader) -> None:
    """One that was loaded before the other that it uses is built after it all the same."""
    loader.compile_and_load("N = 1\n", "lib")
    loader.compile_and_load("G = N * 2\n", "middle")
    loader.compile_and_load("V = (N, G)\n", "top")
    loader.compile_and_load("G = N * 2\nMORE = 1\n", "middle")
    loader.compile_and_load("N = 10\n", "lib")
    assert loader["top"].V == (10, 20)


# The order alone ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "import b\n",
        "import math, b\n",
        "from b import x\n",
        "with open('f'):\n    import b\n",
        "h = import_unit('b')\n",
        "def f():\n    return y\n",
    ],
)
def test_each_way_to_use_another_text_counts(text: str) -> None:
    """Imports that run with the text, and names that the other binds."""
    sources = {unit: read_source(each, unit, 1) for unit, each in {"a": text, "b": "y = 1\n"}.items()}
    assert build_order(sources) == ("b", "a")


@pytest.mark.parametrize("text", ["def f():\n    import b\n", "from .b import x\n", "np.zeros(1)\n", "b = 1\n"])
def test_what_does_not_need_the_other_stays_in_place(text: str) -> None:
    """An import that runs later, and names that every text has, change nothing."""
    sources = {unit: read_source(each, unit, 1) for unit, each in {"a": text, "b": "import numpy as np\n"}.items()}
    assert build_order(sources) == ("a", "b")


def test_what_is_used_comes_first_also_through_others() -> None:
    """Those in between need not be among the units that are put in order, chains may be long, and circles end."""
    uses = {"top": {"between"}, "between": {"low"}, "low": set[str](), "x": {"y"}, "y": {"x"}}
    assert dependencies_first(["top", "low"], uses.__getitem__) == ("low", "top")
    assert set(dependencies_first(["x", "y"], uses.__getitem__)) == {"x", "y"}
    chain = {str(n): {str(n + 1)} if n < 5000 else set[str]() for n in range(5001)}
    assert dependencies_first(chain, chain.__getitem__)[0] == "5000"
