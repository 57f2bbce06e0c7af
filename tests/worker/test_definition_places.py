"""A signature that is refused where it is defined points at what is wrong in it."""

from __future__ import annotations

import pytest

from tiremote.protocol.errors import CompileError
from tiremote.worker.engine.loader import KernelLoader
from tiremote.worker.engine.runtime import TaichiRuntime

#: Texts, the line with what is at fault, and that.
REFUSED = {
    "no annotation": ("@ti.kernel\ndef f(a: ti.f32, b):\n    pass\n", 2, "b"),
    "a wrong annotation": ("@ti.kernel\n# why\n@plain\ndef f(a: ti.f32, b: list, c: str):\n    pass\n", 4, "b: list"),
    "on a line of its own": ("@ti.kernel\ndef f(\n    a: ti.f32,\n\n    b: str,\n):\n    pass\n", 5, "b: str"),
    "over several lines": ("@ti.kernel\ndef f(a: dict[\n    str, int\n]):\n    pass\n", 2, "a: dict["),
    "a default": ("@ti.kernel\ndef f(a: ti.f32, b: ti.i32 = 3):\n    pass\n", 2, "b: ti.i32 = 3"),
    "a default on the next line": ("@ti.kernel\ndef f(a: ti.i32 =\n      3):\n    pass\n", 2, "a: ti.i32"),
    "more arguments": ("@ti.kernel\ndef f(a: ti.f32, *rest):\n    pass\n", 2, "rest"),
    "more keywords": ("@ti.kernel\ndef f(a: ti.f32, **rest):\n    pass\n", 2, "rest"),
    "a keyword alone": ("@ti.kernel\ndef f(a: ti.f32, *, b: ti.i32):\n    pass\n", 2, "b: ti.i32"),
    "a position alone": ("@ti.kernel\ndef f(a: ti.f32, /, b: ti.i32):\n    pass\n", 2, "a: ti.f32"),
    "behind wide characters": ("@ti.kernel\ndef f(äöü: ti.f32, b):\n    pass\n", 2, "b"),
    "what is returned": ("@ti.kernel\ndef f(a) -> ...:\n    pass\n", 2, "..."),
    "of a func": ("@ti.func\ndef f(a, b: str):\n    pass\n", 2, "b: str"),
    "of a real function": ("@ti.real_func\ndef f(a: ti.f32, b) -> ti.f32:\n    return a\n", 2, "b"),
    "of a method": ("@ti.data_oriented\nclass A:\n    @ti.kernel\n    def f(self, a):\n        pass\n", 4, "a"),
}


@pytest.fixture(scope="module")
def loader(runtime: TaichiRuntime) -> KernelLoader:
    return KernelLoader(runtime)


@pytest.mark.parametrize("name", REFUSED)
def test_a_refused_signature_points_at_what_is_wrong(loader: KernelLoader, name: str) -> None:
    """The line and the columns are those of the parameter, and no frame has the decorator instead."""
    text, line, wrong = REFUSED[name]
    with pytest.raises(CompileError) as caught:
        loader.compile_and_load(text.replace("@plain\n", "@(lambda f: f)\n"))
    frame = caught.value.frames[-1]
    assert (frame.line, frame.text[frame.column - 1 : frame.end_column - 1]) == (line, wrong)
    assert not [each for each in caught.value.frames if each.text.lstrip().startswith("@ti.")]


def test_the_way_to_the_definition_is_told_as_well(loader: KernelLoader) -> None:
    """A kernel that a function makes: the call, then the parameter, in the function that it stands in."""
    text = "def make():\n    @ti.kernel\n    def inner(a: list):\n        pass\n    return inner\n\nkernel = make()\n"
    with pytest.raises(CompileError) as caught:
        loader.compile_and_load(text)
    assert [(each.line, each.function) for each in caught.value.frames] == [(7, ""), (3, "make")]


def test_what_is_wrong_elsewhere_is_told_as_before(loader: KernelLoader) -> None:
    """A name in an annotation that is not there is Python's to tell."""
    with pytest.raises(CompileError, match="NameError") as caught:
        loader.compile_and_load("@ti.kernel\ndef f(a: nothing):\n    pass\n")
    assert caught.value.frames[-1].line == 2
