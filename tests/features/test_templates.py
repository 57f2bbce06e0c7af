"""Template arguments: values that a kernel is compiled with, and fields by handle."""

from __future__ import annotations

import numpy as np
import pytest

from features.refusals import does_not_load, refused
from features.rows import feature
from printed import Printed
from tiremote.client import Session
from tiremote.protocol.errors import CompileError, StaleHandle, UnsupportedType

NUMBERS = """
@ti.kernel
def same(n: ti.template()) -> ti.f64:
    return n

@ti.kernel
def bigger(n: ti.template()) -> ti.f32:
    x = n
    x += 0.5
    return x

@ti.kernel
def is_float(n: ti.template()) -> ti.i32:
    r = 0
    if ti.static(isinstance(n, float)):
        r = 1
    return r
"""

TUPLES = """
@ti.kernel
def total(t: ti.template()) -> ti.f32:
    s = 0.0
    for i in ti.static(range(len(t))):
        s += t[i]
    return s

@ti.kernel
def nested(t: ti.template()) -> ti.i32:
    return t[0] * 100 + t[1][0] * 10 + t[1][1]
"""

CONSTANT_VECTORS = """
@ti.kernel
def dot(v: ti.template(), w: tm.vec2) -> ti.f32:
    return v.dot(w)

@ti.kernel
def determinant(m: ti.template()) -> ti.f32:
    return m.determinant()

def here():
    return dot(tm.vec2(1, 2), tm.vec2(3, 4))
"""

FIELDS = """
@ti.kernel
def fill(f: ti.template(), n: ti.f32):
    for i in ti.grouped(f):
        f[i] = n

@ti.kernel
def copy(a: ti.template(), b: ti.template()):
    for i in ti.grouped(a):
        b[i] = a[i]

def shapes(f):
    return f.shape, f.dtype == ti.f32
"""

STRUCT_FIELDS = """
Cell = ti.types.struct(n=ti.i32, v=tm.vec2)
cells = Cell.field(shape=3)

@ti.dataclass
class Bead:
    n: ti.i32
    v: tm.vec2

beads = Bead.field(shape=(2,))

@ti.kernel
def number(c: ti.template(), start: ti.i32):
    for i in c:
        c[i].n = start + i
        c[i].v = tm.vec2(start, i)

@ti.kernel
def total(c: ti.template()) -> ti.i32:
    s = 0
    for i in c:
        s += c[i].n
    return s

def more():
    return Cell.field(shape=4)
"""

UNROLLED = """
@ti.kernel
def power(x: ti.f32, n: ti.template()) -> ti.f32:
    y = 1.0
    for _ in ti.static(range(n)):
        y *= x
    return y

@ti.kernel
def choose(x: ti.types.ndarray(), up: ti.template()):
    for i in x:
        if ti.static(up):
            x[i] += 1
        else:
            x[i] -= 1
"""


@feature("templates", "numbers")
def test_a_number_is_compiled_in_as_what_it_is(gpu: Session) -> None:
    """Again for each value, whichever came before; 1, 1.0 and True are three, as are 0.0 and -0.0."""
    unit = gpu[gpu.compile_and_load(NUMBERS).unit]
    for value in (1.5, 300, 2.5, 301, 1.5, 300, -0.0, 0.0, np.float32(0.1)):
        came = unit.same(value)
        assert came == value
        assert np.signbit(came) == np.signbit(value)
    assert [unit.bigger(value) for value in (1, 1.0, 1)] == [1, 1.5, 1]
    assert [unit.is_float(value) for value in (1, 1.0, True)] == [0, 1, 0]


@feature("templates", "numbers", wrong=True)
def test_a_value_that_cannot_be_computed_with_is_refused(gpu: Session) -> None:
    """Text and nothing where they are used, with the line; arrays, dicts and what does not travel before that."""
    unit = gpu[gpu.compile_and_load(NUMBERS).unit]
    for wrong in ("text", None):
        with pytest.raises(CompileError) as caught:
            unit.bigger(wrong)
        assert caught.value.frames[-1].function == "bigger"
    assert "ti.types.ndarray()" in refused(unit.same, np.zeros(100, np.float32), parameter="n")
    assert "ti.types.ndarray()" in refused(unit.same, gpu.ti.ndarray(gpu.ti.f32, 3), parameter="n")
    assert "a template is" in refused(unit.same, {"a": 1}, parameter="n")
    with pytest.raises(UnsupportedType, match="argument 0"):
        unit.same(object())
    assert unit.same(2) == 2


@feature("templates", "tuples")
def test_a_tuple_or_a_list_of_numbers(gpu: Session) -> None:
    """Of any length, nested, each value compiled once."""
    unit = gpu[gpu.compile_and_load(TUPLES).unit]
    assert [unit.total(t) for t in ((1, 2), (1, 2, 3), [0.5, 0.25], (1, 2), ())] == [3, 6, 0.75, 3, 0]
    assert unit.nested((1, (2, 3))) == 123
    assert unit.nested([1, [2, 4]]) == 124


@feature("templates", "tuples", wrong=True)
def test_what_a_tuple_may_not_hold_is_refused(gpu: Session) -> None:
    """Arrays and dicts inside of it too."""
    unit = gpu[gpu.compile_and_load(TUPLES).unit]
    for wrong in ((1, gpu.ti.ndarray(gpu.ti.f32, 3)), [1, {"a": 2}], (1, np.zeros(1000))):
        refused(unit.total, wrong, parameter="t")


@feature("templates", "vectors and matrices")
def test_an_array_of_few_numbers_is_a_constant_vector(gpu: Session) -> None:
    """`ti.Vector` of the laptop and NumPy's arrays; equal ones are compiled once."""
    unit = gpu[gpu.compile_and_load(CONSTANT_VECTORS).unit]
    assert unit.dot(np.array([1.0, 2.0], np.float32), [3, 4]) == 11
    assert unit.dot(gpu.ti.Vector([2.0, 1.0]), [3, 4]) == 10
    assert unit.dot(np.array([1.0, 2.0], np.float32), [1, 1]) == 3
    assert unit.determinant(gpu.ti.Matrix([[1.0, 2.0], [3.0, 4.0]])) == pytest.approx(-2)
    assert unit.here() == 11


@feature("templates", "vectors and matrices", wrong=True)
def test_an_array_that_is_no_vector_is_refused(gpu: Session) -> None:
    """Too many numbers, no axis, three of them, an axis of nothing."""
    unit = gpu[gpu.compile_and_load(CONSTANT_VECTORS).unit]
    for wrong in (np.zeros(33), np.zeros(()), np.zeros((2, 2, 2)), np.zeros(0)):
        assert "ti.types.ndarray()" in refused(unit.dot, wrong, [0, 0], parameter="v")


@feature("templates", "fields by handle")
def test_fields_are_passed_to_templates_by_handle(gpu: Session) -> None:
    """Fields of a unit, of another unit and of the session itself, of numbers, vectors and matrices."""
    gpu.compile_and_load("mine = ti.field(ti.f32, 3)\npoints = ti.Vector.field(2, ti.f32, (2, 2))\n", "data")
    gpu.compile_and_load(FIELDS, "use")
    own = gpu.ti.field(gpu.ti.f32, 3)
    vectors = gpu.ti.Vector.field(2, gpu.ti.f32, (2, 2))
    matrices = gpu.ti.Matrix.field(2, 2, gpu.ti.f32, 2)
    gpu["use"].fill(gpu["data"].mine, 4.0)
    gpu["use"].copy(gpu["data"].mine, own)
    assert own.to_numpy().tolist() == [4, 4, 4]
    gpu["use"].fill(n=2, f=vectors)
    gpu["use"].copy(vectors, gpu["data"].points)
    assert gpu["data"].points.to_numpy().tolist() == np.full((2, 2, 2), 2).tolist()
    gpu["use"].fill(matrices, 3)
    assert (matrices.to_numpy() == 3).all()
    assert gpu["use"].shapes(own) == ((3,), True)


@feature("templates", "fields by handle", wrong=True)
def test_a_field_that_is_gone_or_no_field_is_refused(gpu: Session, another_session: Session) -> None:
    """One that was freed, one of another session; and what cannot be indexed, in the line that does."""
    unit = gpu[gpu.compile_and_load(FIELDS).unit]
    own = gpu.ti.field(gpu.ti.f32, 3)
    own.free()
    with pytest.raises(StaleHandle):
        unit.fill(own, 1.0)
    with pytest.raises(Exception, match="another session"):
        unit.fill(another_session.ti.field(gpu.ti.f32, 3), 1.0)
    assert "ti.types.ndarray()" in refused(unit.fill, gpu.ti.ndarray(gpu.ti.f32, 3), 1.0, parameter="f")
    with pytest.raises(CompileError) as caught:
        unit.fill(3, 1.0)
    assert caught.value.frames[-1].line == 4


@feature("templates", "struct fields by handle")
def test_struct_fields_are_passed_by_handle(gpu: Session) -> None:
    """Of `ti.types.struct` and of `ti.dataclass`, by the unit's name and as what a function made; fetched by member."""
    unit = gpu[gpu.compile_and_load(STRUCT_FIELDS).unit]
    for field, count in ((unit.cells, 3), (unit.beads, 2), (unit.more(), 4)):
        unit.number(field, 5)
        assert unit.total(field) == sum(range(5, 5 + count))
        members = field.to_numpy()
        assert members["n"].tolist() == list(range(5, 5 + count))
        assert members["v"].tolist() == [[5, i] for i in range(count)]


@feature("templates", "struct fields by handle", wrong=True)
def test_what_has_no_such_members_is_refused(gpu: Session) -> None:
    """A field of numbers fails in the line that asks for a member; a struct or an array does not get there."""
    unit = gpu[gpu.compile_and_load(STRUCT_FIELDS).unit]
    with pytest.raises(CompileError) as caught:
        unit.total(gpu.ti.field(gpu.ti.i32, 3))
    assert caught.value.frames[-1].line == 22
    refused(unit.total, {"n": 1, "v": [0, 0]}, parameter="c")
    refused(unit.total, gpu.ti.ndarray(gpu.ti.i32, 3), parameter="c")


@feature("templates", "compile-time constants")
def test_a_template_decides_what_is_compiled(gpu: Session) -> None:
    """In `ti.static`: the number of unrolled steps, and which branch there is."""
    unit = gpu[gpu.compile_and_load(UNROLLED).unit]
    assert [unit.power(2.0, n) for n in (0, 1, 5, 1)] == [1, 2, 32, 2]
    x = np.zeros(3, np.float32)
    unit.choose(x, True)
    unit.choose(x, up=True)
    unit.choose(x, False)
    assert x.tolist() == [1, 1, 1]


@feature("templates", "compile-time constants", wrong=True)
def test_a_constant_of_the_wrong_kind_is_told_with_its_line(gpu: Session) -> None:
    """Half a step cannot be unrolled."""
    unit = gpu[gpu.compile_and_load(UNROLLED).unit]
    with pytest.raises(CompileError, match="float") as caught:
        unit.power(2.0, 1.5)
    assert caught.value.frames[-1].line == 5
    assert unit.power(2.0, 2) == 4


@feature("templates", "`ti.template()`")
def test_each_value_is_compiled_once_and_many_are_told(gpu: Session, printed: Printed) -> None:
    """The eighth value of a parameter is a warning that counts them; the same eight again are not compiled anew."""
    unit = gpu[gpu.compile_and_load(NUMBERS).unit]
    for value in range(7):
        unit.same(value)
    assert not printed.text("warning")
    compiled = []
    for _ in range(2):
        future = unit.same.submit(7)
        assert future.result() == 7
        compiled.append(future.timing.compile)
    assert compiled[0] > 0
    assert compiled[1] == 0
    assert "'same' was compiled 8 times" in printed.text("warning")
    assert "'n'" in printed.text("warning")


@feature("templates", "`ti.template()`", wrong=True)
def test_a_template_needs_a_value(gpu: Session) -> None:
    """It is a parameter like others: not left out, not given twice."""
    unit = gpu[gpu.compile_and_load(NUMBERS).unit]
    refused(unit.same, parameter="n")
    refused(unit.same, 1, n=1, parameter="n")


BARE = "@ti.kernel\ndef same(n: ti.template) -> ti.f32:\n    return n\n"


@feature("templates", "`ti.template`")
def test_the_annotation_without_a_call(gpu: Session) -> None:
    """It means the same."""
    unit = gpu[gpu.compile_and_load(BARE).unit]
    assert [unit.same(n) for n in (1.5, 2, 1.5)] == [1.5, 2, 1.5]


@feature("templates", "`ti.template`", wrong=True)
def test_the_annotation_without_a_call_takes_no_arrays(gpu: Session) -> None:
    """As with the call."""
    unit = gpu[gpu.compile_and_load(BARE).unit]
    refused(unit.same, gpu.ti.ndarray(gpu.ti.f32, 3), parameter="n")
    refused(unit.same, {"a": 1}, parameter="n")


@feature("templates", "`ti.template`", lacking=True)
def test_the_annotation_without_a_call_does_not_load(gpu: Session) -> None:
    """With its place in the list."""
    assert "Invalid type annotation (argument 0)" in does_not_load(gpu, BARE, line=2)
