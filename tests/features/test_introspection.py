"""What is told of loaded source: its definitions, and the trees that kernels are made from."""

from __future__ import annotations

import ast

import pytest

from features.rows import feature
from tiremote.client import Session
from tiremote.protocol.errors import KernelArgumentError, UnknownName
from tiremote.protocol.receipts import Definition

SOURCE = '''
import math

vec3 = ti.types.vector(3, ti.f32)
dt = 0.5
gravity = ti.Vector([0.0, -9.8])
x = ti.field(ti.f32, (3, 4))

@ti.func
def half(a):
    return a / 2

@ti.kernel
def step(points: ti.types.ndarray(dtype=vec3, ndim=1), image: ti.types.ndarray(dtype=ti.u8, ndim=2),
         anything: ti.types.ndarray(), m: ti.types.matrix(2, 3, ti.f64), n: ti.i32, t: ti.template()) -> ti.f32:
    """Moves everything.

    By one step."""
    for i in points:
        points[i][0] += dt * half(gravity[1]) + x[0, 0]
    return dt

def drive(times: int, *more, scale=1.0) -> float:
    """Steps so often."""
    return times * scale * dt * math.pi

@ti.data_oriented
class Model:
    """Has a kernel."""

    @ti.kernel
    def move(self, by: ti.f32):
        x[0, 0] += by

    def run(self):
        return 1

model = Model()
'''


def define(gpu: Session) -> dict[str, Definition]:
    """Loads the source; its definitions by name, as the receipt and `describe` have them."""
    receipt = gpu.compile_and_load(SOURCE, "told")
    (unit,) = gpu.describe().units
    assert unit.definitions == receipt.definitions
    return {each.name: each for each in unit.definitions}


@feature("introspection", "kinds, parameters, returns, docstrings")
def test_definitions_tell_what_can_be_called_and_how(gpu: Session) -> None:
    """Kind, annotated parameters, what is returned, the docstring and the line of each name."""
    told = define(gpu)
    assert {name: each.kind for name, each in told.items()} == {
        "vec3": "value",
        "dt": "value",
        "gravity": "value",
        "x": "field",
        "half": "func",
        "step": "kernel",
        "drive": "function",
        "Model": "class",
        "model": "value",
    }
    takes = {each.name: each.takes for each in told["step"].parameters}
    assert takes == {
        "points": "ndarray(vector(3, f32), ndim=1)",
        "image": "ndarray(u8, ndim=2)",
        "anything": "ndarray",
        "m": "matrix(2, 3, f64)",
        "n": "i32",
        "t": "template",
    }
    assert (told["step"].returns, told["step"].doc) == ("f32", "Moves everything.\n\nBy one step.")
    assert [each.name for each in told["drive"].parameters] == ["times", "*more", "scale"]
    assert told["Model"].meta["methods"] == ["move", "run"]
    assert (told["x"].meta["dtype"], told["x"].meta["shape"]) == ("f32", [3, 4])
    assert SOURCE.splitlines()[told["drive"].line - 1].startswith("def drive")


@feature("introspection", "kinds, parameters, returns, docstrings", wrong=True)
def test_a_name_that_is_not_defined(gpu: Session) -> None:
    """What was probably meant is told."""
    define(gpu)
    with pytest.raises(UnknownName, match="did you mean 'step'"):
        gpu["told"].stpe  # noqa: B018 - asking is what is tested


@feature("introspection", "expected shapes")
def test_parameters_tell_the_shapes_they_take(gpu: Session) -> None:
    """As NumPy has them, elements last, with letters for sizes that are left open."""
    shapes = {each.name: each.shape for each in define(gpu)["step"].parameters}
    assert shapes == {
        "points": "(N, 3) f32",
        "image": "(N, M) u8",
        "anything": "(...) any dtype",
        "m": "(2, 3) f64",
        "n": "",
        "t": "",
    }


@feature("introspection", "expected shapes", wrong=True)
def test_another_shape_than_expected(gpu: Session) -> None:
    """It is refused by the parameter whose shape was told."""
    gpu.compile_and_load(SOURCE, "told")
    with pytest.raises(KernelArgumentError) as caught:
        gpu["told"].step([1, 2, 3], None, None, None, 1, 1)
    assert caught.value.parameter == "points"


@feature("introspection", "captured globals")
def test_definitions_tell_what_they_take_from_outside(gpu: Session) -> None:
    """Numbers with their value, arrays with dtype and shape, what is called by its kind; modules are left out."""
    told = define(gpu)
    captured = {each.name: each.what for each in told["step"].captures}
    assert captured.pop("gravity").startswith("[0.0, -9.8")
    assert captured == {"dt": "0.5", "half": "func", "x": "field of f32, shape (3, 4)"}
    assert [(each.name, each.what) for each in told["drive"].captures] == [("dt", "0.5")]


@feature("introspection", "captured globals", wrong=True)
def test_what_is_not_there_is_not_captured(gpu: Session) -> None:
    """A name that a function finds nowhere yet is left out, and one whose text is endless is cut."""
    text = f"long = {'x' * 500!r}\ndef f():\n    return long, not_there\n"
    (told,) = (each for each in gpu.compile_and_load(text, "told").definitions if each.name == "f")
    assert [each.name for each in told.captures] == ["long"]
    assert len(told.captures[0].what) <= 80


@feature("introspection", "AST dump")
def test_the_tree_of_a_kernel(gpu: Session) -> None:
    """As Python dumps it, and as JSON with the lines of the text; also of funcs, functions, classes and methods."""
    version = gpu.compile_and_load(SOURCE, "told").version
    tree = gpu.ast("told", "step")
    node = next(
        each for each in ast.walk(ast.parse(SOURCE)) if isinstance(each, ast.FunctionDef) and each.name == "step"
    )
    assert tree.text == ast.dump(ast.Module(body=[node], type_ignores=[]), indent=2)
    assert (tree.unit, tree.version, tree.name, tree.line) == ("told", version, "step", node.lineno)
    (root,) = tree.tree["fields"]["body"]
    assert (root["type"], root["fields"]["name"], root["lineno"]) == ("FunctionDef", "step", node.lineno)
    assert root["fields"]["body"][1]["type"] == "For"
    assert root["fields"]["returns"]["fields"]["attr"] == "f32"
    for name, kind in (("half", "FunctionDef"), ("drive", "FunctionDef"), ("Model", "ClassDef"), ("Model.move", None)):
        told = gpu.ast(None, name).tree["fields"]["body"][0]
        assert told["fields"]["name"] == name.rpartition(".")[2]
        assert kind in (None, told["type"])
    assert gpu.ast("told", "model.run").name == "run"
    assert gpu.ast("told", "step.grad").name == "step"


@feature("introspection", "AST dump", wrong=True)
def test_what_has_no_tree(gpu: Session) -> None:
    """A number, a field or a name that is not there: each says so."""
    gpu.compile_and_load(SOURCE, "told")
    for name, kind in (("dt", "float"), ("x", "ScalarField")):
        with pytest.raises(KernelArgumentError, match=f"told.{name} is a {kind}: kernels, functions and classes"):
            gpu.ast("told", name)
    with pytest.raises(UnknownName):
        gpu.ast("told", "nothing")
    with pytest.raises(UnknownName):
        gpu.ast("unloaded", "step")
