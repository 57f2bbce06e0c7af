"""What kernels return: exact, as plain Python and NumPy values, as many as the annotation says."""

from __future__ import annotations

import numpy as np
import pytest

from features.refusals import does_not_load
from features.rows import feature
from tiremote.client import Session
from tiremote.protocol.dtypes import DTYPES

SIGNED = ("i8", "i16", "i32", "i64")
UNSIGNED = ("u8", "u16", "u32", "u64")

REALS = """
@ti.kernel
def f16() -> ti.f16:
    return 0.1

@ti.kernel
def f32() -> ti.f32:
    return 0.1

@ti.kernel
def f64() -> ti.f64:
    return ti.cast(1, ti.f64) / 10

@ti.kernel
def infinite(x: ti.f32) -> ti.f32:
    return 1 / x
"""

VECTORS = """
@ti.kernel
def ends() -> ti.types.vector(2, ti.u64):
    return ti.Vector([ti.u64(1), ti.u64(18446744073709551615)])

@ti.kernel
def small() -> ti.types.vector(3, ti.i8):
    return ti.Vector([-128, 0, 127], dt=ti.i8)

@ti.kernel
def real() -> tm.vec3:
    return tm.vec3(1, 2.5, -3)
"""

MATRICES = """
@ti.kernel
def real() -> ti.types.matrix(2, 3, ti.f64):
    return ti.Matrix([[1, 2, 3], [4, 5, 6.5]], dt=ti.f64)

@ti.kernel
def whole() -> ti.types.matrix(2, 2, ti.i64):
    return ti.Matrix([[1, -2], [3, 4]], dt=ti.i64)
"""

STRUCTS = """
Ball = ti.types.struct(centre=tm.vec3, radius=ti.f32, id=ti.i64)
Inner = ti.types.struct(count=ti.u64, axes=ti.types.matrix(2, 2, ti.f32))
Outer = ti.types.struct(ball=Ball, inner=Inner, last=ti.u8)

@ti.kernel
def ball() -> Ball:
    return Ball(tm.vec3(1, 2, 3), 0.5, -7)

@ti.kernel
def outer() -> Outer:
    inner = Inner(ti.u64(9223372036854775808), ti.Matrix([[1.0, 2.0], [3.0, 4.0]]))
    return Outer(Ball(tm.vec3(1, 2, 3), 0.5, 7), inner, 255)
"""

SEVERAL = """
Pair = ti.types.struct(a=ti.i32, b=ti.f32)

@ti.kernel
def several(n: ti.i32) -> {annotation}:
    return n + 1, ti.u64(18446744073709551615), tm.vec2(n, -n), Pair(n, 0.5)
"""


@feature("returns", "signed integers")
def test_signed_integers_are_exact(gpu: Session) -> None:
    """Both ends of every width."""
    source = "".join(
        f"@ti.kernel\ndef {name}(x: ti.{name}, one: ti.{name}) -> ti.{name}:\n    return x - one\n" for name in SIGNED
    )
    unit = gpu[gpu.compile_and_load(source).unit]
    for name in SIGNED:
        ends = np.iinfo(DTYPES[name])
        assert unit[name](ends.min + 1, 1) == ends.min
        assert unit[name](ends.max, 0) == ends.max


@feature("returns", "unsigned integers")
def test_unsigned_integers_are_exact(gpu: Session) -> None:
    """None of them comes back negative."""
    source = "".join(
        f"@ti.kernel\ndef {name}(x: ti.{name}, one: ti.{name}) -> ti.{name}:\n    return x + one\n" for name in UNSIGNED
    )
    unit = gpu[gpu.compile_and_load(source).unit]
    for name in UNSIGNED:
        largest = 2 ** int(name[1:]) - 1
        assert unit[name](largest - 1, 1) == largest


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        pytest.param("i32", "i32", marks=feature("returns", "signed integers", wrong=True)),
        pytest.param("u64", "u64", marks=feature("returns", "unsigned integers", wrong=True)),
        pytest.param("f64", "f64", marks=feature("returns", "reals", wrong=True)),
        pytest.param("bool", "u1", marks=feature("returns", "bool", wrong=True)),
    ],
)
def test_a_return_that_is_no_such_number_does_not_load(gpu: Session, name: str, dtype: str) -> None:
    """A vector for a number; no statement, or a number without an annotation; an annotation that is no type."""
    del name
    head = f"@ti.kernel\ndef f() -> ti.{dtype}:\n"
    assert dtype in does_not_load(gpu, head + "    return tm.vec3(1, 2, 3)\n", line=3)
    assert "does not have a return statement" in does_not_load(gpu, head + "    pass\n", line=2)
    assert "must be annotated" in does_not_load(gpu, "@ti.kernel\ndef f():\n    return 1\n", line=3)
    assert "list" in does_not_load(gpu, "@ti.kernel\ndef f() -> list:\n    return 1\n", line=2)


@feature("returns", "reals")
def test_reals_are_as_wide_as_their_type(gpu: Session) -> None:
    """Each rounded to its own width, infinities as they are."""
    unit = gpu[gpu.compile_and_load(REALS).unit]
    assert unit.f16() == np.float16(0.1)
    assert unit.f32() == np.float32(0.1)
    assert unit.f64() == 0.1
    assert unit.infinite(0.0) == np.inf
    assert unit.infinite(-0.0) == -np.inf


@feature("returns", "bool")
def test_booleans_are_true_or_false(gpu: Session) -> None:
    """Of `ti.u1` and of Python's bool."""
    source = "".join(
        f"@ti.kernel\ndef {name}(x: ti.i32) -> {dtype}:\n    return x > 2\n"
        for name, dtype in (("taichis", "ti.u1"), ("pythons", "bool"))
    )
    unit = gpu[gpu.compile_and_load(source).unit]
    for kernel in (unit.taichis, unit.pythons):
        assert [bool(kernel(x)) for x in (2, 3)] == [False, True]


@feature("returns", "vectors")
def test_vectors_are_arrays_of_their_dtype(gpu: Session) -> None:
    """With 64 bits exact, and 8 bits as 8."""
    unit = gpu[gpu.compile_and_load(VECTORS).unit]
    for name, dtype, values in (
        ("ends", np.uint64, [1, 2**64 - 1]),
        ("small", np.int8, [-128, 0, 127]),
        ("real", np.float32, [1, 2.5, -3]),
    ):
        came = unit[name]()
        assert came.dtype == dtype
        assert came.tolist() == values


@feature("returns", "vectors", wrong=True)
def test_another_vector_than_annotated_does_not_load(gpu: Session) -> None:
    """Shorter, or a number."""
    head = "@ti.kernel\ndef f() -> tm.vec3:\n"
    assert "shape mismatch" in does_not_load(gpu, head + "    return tm.vec2(1, 2)\n", line=3)
    assert "mismatch" in does_not_load(gpu, head + "    return 1.0\n", line=3)


@feature("returns", "matrices")
def test_matrices_are_arrays_of_two_axes(gpu: Session) -> None:
    """Row by row."""
    unit = gpu[gpu.compile_and_load(MATRICES).unit]
    real, whole = unit.real(), unit.whole()
    assert (real.dtype, real.tolist()) == (np.float64, [[1, 2, 3], [4, 5, 6.5]])
    assert (whole.dtype, whole.tolist()) == (np.int64, [[1, -2], [3, 4]])


@feature("returns", "matrices", wrong=True)
def test_another_matrix_than_annotated_does_not_load(gpu: Session) -> None:
    """Transposed, or a vector."""
    head = "@ti.kernel\ndef f() -> ti.types.matrix(2, 3, ti.f32):\n"
    wrong = ("ti.Matrix([[1., 2.], [3., 4.], [5., 6.]])", "tm.vec3(1, 2, 3)")
    for value in wrong:
        assert "mismatch" in does_not_load(gpu, f"{head}    return {value}\n", line=3)


@feature("returns", "structs")
def test_structs_are_dicts(gpu: Session) -> None:
    """By the names of their members, in order."""
    unit = gpu[gpu.compile_and_load(STRUCTS).unit]
    ball = unit.ball()
    assert list(ball) == ["centre", "radius", "id"]
    assert (ball["centre"].tolist(), ball["radius"], ball["id"]) == ([1, 2, 3], 0.5, -7)


@feature("returns", "nested structs")
def test_structs_in_structs_are_dicts_in_dicts(gpu: Session) -> None:
    """With 64 bits exact at any depth."""
    unit = gpu[gpu.compile_and_load(STRUCTS).unit]
    outer = unit.outer()
    assert outer["ball"]["centre"].tolist() == [1, 2, 3]
    assert outer["inner"]["count"] == 2**63
    assert outer["inner"]["axes"].tolist() == [[1, 2], [3, 4]]
    assert outer["last"] == 255


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        pytest.param("Ball", "Pair(1, 2.0)", marks=feature("returns", "structs", wrong=True)),
        pytest.param("Outer", "Ball(1.0)", marks=feature("returns", "nested structs", wrong=True)),
    ],
)
def test_another_struct_than_annotated_does_not_load(gpu: Session, annotation: str, value: str) -> None:
    """One with other members, or a number."""
    head = (
        "Pair = ti.types.struct(a=ti.i32, b=ti.f32)\nBall = ti.types.struct(radius=ti.f32)\n"
        f"Outer = ti.types.struct(ball=Ball)\n@ti.kernel\ndef f() -> {annotation}:\n"
    )
    for wrong in (value, "1"):
        assert "cannot be converted" in does_not_load(gpu, f"{head}    return {wrong}\n", line=6)


ANNOTATIONS = {"`-> (a, b)`": "({})", "`-> tuple[a, b]`": "tuple[{}]"}


@pytest.mark.parametrize("name", [pytest.param(name, marks=feature("returns", name)) for name in ANNOTATIONS])
def test_several_values_come_in_order(gpu: Session, name: str) -> None:
    """Numbers, vectors and structs among them."""
    annotation = ANNOTATIONS[name].format("ti.i32, ti.u64, tm.vec2, Pair")
    unit = gpu[gpu.compile_and_load(SEVERAL.format(annotation=annotation)).unit]
    n, largest, vector, pair = unit.several(5)
    assert (n, largest, vector.tolist(), pair) == (6, 2**64 - 1, [5, -5], {"a": 5, "b": 0.5})


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=feature("returns", name, wrong=True)) for name in ANNOTATIONS]
)
def test_another_number_of_values_does_not_load(gpu: Session, name: str) -> None:
    """More or fewer than the annotation says; and dots in it."""
    head = f"@ti.kernel\ndef f() -> {ANNOTATIONS[name].format('ti.i32, ti.f32')}:\n"
    assert "return 2 values, and this returns 1" in does_not_load(gpu, head + "    return 1\n", line=3)
    assert "return 2 values, and this returns 3" in does_not_load(gpu, head + "    return 1, 2.0, 3\n", line=3)
    dots = f"@ti.kernel\ndef f() -> {ANNOTATIONS[name].format('ti.i32, ...')}:\n    return 1\n"
    assert "Ellipsis is not supported" in does_not_load(gpu, dots, line=2)
