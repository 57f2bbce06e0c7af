"""Arrays as arguments: of every rank, dtype and layout, written back where they came from, checked before a launch."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

from features.refusals import refused
from features.rows import feature
from features.tensors import KINDS, Tensors, inside, needs_torch
from tiremote.client import In, Session
from tiremote.protocol.dtypes import DTYPES
from tiremote.protocol.errors import CompileError, KernelArgumentError, StaleHandle, UnsupportedType

ADD_ONE = """
@ti.kernel
def add_one(x: ti.types.ndarray()):
    for i in ti.grouped(x):
        x[i] += 1
"""

COPY = """
@ti.kernel
def copy(src: ti.types.ndarray(), dst: ti.types.ndarray()):
    for i in ti.grouped(src):
        dst[i] = src[i]
"""

READ = """
@ti.kernel
def total(x: ti.types.ndarray()) -> ti.f64:
    s = ti.f64(0.0)
    for i in ti.grouped(x):
        s += ti.cast(x[i], ti.f64)
    return s

@ti.kernel
def maybe(x: ti.types.ndarray(), write: ti.i32):
    for i in ti.grouped(x):
        if write:
            x[i] += 1
"""

ELEMENTS = """
mat23 = ti.types.matrix(2, 3, ti.f64)

@ti.kernel
def shift(points: ti.types.ndarray(dtype=tm.vec3, ndim=1)):
    for i in points:
        points[i] += tm.vec3(1, 2, 3)

@ti.kernel
def scale(m: ti.types.ndarray(dtype=mat23)):
    for i in ti.grouped(m):
        m[i] *= 2
"""

WIDE = """
@ti.kernel
def count(x: ti.types.ndarray(dtype=tm.ivec2)):
    for i in x:
        x[i] += 1
"""

#: Values that are no array of any kind.
NO_ARRAYS: tuple[Any, ...] = (1, 2.5, "x", None, [1.0, 2.0], {"a": 1}, (1,))


# ---------------------------------------------------------------- rank, dtype, layout


@feature("ndarrays", "0-d to 8-d")
def test_arrays_of_every_rank(gpu: Session) -> None:
    """Each number of axes, from an array without any; NumPy's and remote ones."""
    unit = gpu[gpu.compile_and_load(ADD_ONE).unit]
    for rank in range(9):
        shape = (2, 1, 3, 1, 2, 1, 2, 1)[:rank]
        local = np.arange(np.prod(shape, dtype=int), dtype=np.float32).reshape(shape)
        expected = local + 1
        if rank in (0, 8):
            remote = gpu.array(local)
            unit.add_one(remote)
            np.testing.assert_array_equal(remote.to_numpy(), expected)
        unit.add_one(local)
        np.testing.assert_array_equal(local, expected)


@feature("ndarrays", "0-d to 8-d", wrong=True)
def test_more_axes_than_the_runtime_has_are_refused(gpu: Session) -> None:
    """With the parameter and both numbers; and what is no array at all."""
    unit = gpu[gpu.compile_and_load(ADD_ONE).unit]
    assert "13" in refused(unit.add_one, np.zeros((1,) * 13, np.float32), parameter="x")
    assert "at most" in refused(unit.add_one, np.zeros((1,) * 64, np.float32), parameter="x")
    for wrong in NO_ARRAYS:
        assert "ndarray" in refused(unit.add_one, wrong, parameter="x")
    assert "a field of f32" in refused(unit.add_one, gpu.ti.field(gpu.ti.f32, 3), parameter="x")


def extremes(dtype: np.dtype) -> np.ndarray:
    """Both ends of a dtype, and what is special in it."""
    if dtype.kind == "b":
        return np.array([True, False])
    if dtype.kind == "f":
        info = np.finfo(dtype)
        return np.array([info.min, -0.0, 0.0, info.tiny, info.max, np.inf, -np.inf, np.nan], dtype)
    return np.array([np.iinfo(dtype).min, 0, 1, np.iinfo(dtype).max], dtype)


@feature("ndarrays", "every dtype")
def test_arrays_of_every_dtype_are_exact(gpu: Session) -> None:
    """A kernel copies both ends of each dtype bit by bit, from a remote array to a NumPy one, big-endian too."""
    unit = gpu[gpu.compile_and_load(COPY).unit]
    for dtype in DTYPES.values():
        local = extremes(dtype)
        remote = gpu.array(local)
        for order in "<>":
            out = np.zeros(local.shape, dtype.newbyteorder(order))
            unit.copy(remote, out)
            assert out.astype(dtype).tobytes() == local.tobytes(), dtype


@feature("ndarrays", "every dtype", wrong=True)
def test_dtypes_that_no_runtime_has_are_refused(gpu: Session) -> None:
    """Complex numbers, objects, dates, structures, text: by the argument's name, before anything is sent."""
    unit = gpu[gpu.compile_and_load(ADD_ONE).unit]
    for wrong in (
        *(np.zeros(2, "c8"), np.array([None, {}]), np.zeros(2, "M8[s]"), np.zeros(2, [("a", "i4")]), np.array(["a"])),
        *(np.zeros(2, np.longdouble), np.ma.masked_array([1.0], [True])),
    ):
        with pytest.raises(UnsupportedType, match="argument 'x'"):
            unit.add_one(x=wrong)


def layouts(dtype: type[np.generic]) -> dict[str, np.ndarray]:
    """The same twelve numbers, or some of them, in every layout that NumPy users have; each writeable."""
    base = np.arange(12).astype(dtype)
    table = base.reshape(3, 4)
    return {
        "strided": np.repeat(base, 2)[::2],
        "strided inside": np.repeat(table, 2, axis=1)[:, ::2],
        "reversed": base.copy()[::-1],
        "reversed both": table.copy()[::-1, ::-1],
        "a column": table.copy()[:, 1],
        "a window": np.zeros((5, 6), dtype)[1:4, 1:5],
        "3-d, axes moved": np.moveaxis(np.arange(24).astype(dtype).reshape(2, 3, 4), 0, 1),
        "big-endian": table.astype(np.dtype(dtype).newbyteorder(">")),
    }


def check_layouts(gpu: Session, arrays: dict[str, np.ndarray]) -> None:
    """Each array holds afterwards what the kernel wrote."""
    unit = gpu[gpu.compile_and_load(ADD_ONE + COPY).unit]
    for name, array in arrays.items():
        expected = array + np.ones((), array.dtype)
        unit.add_one(array)
        np.testing.assert_array_equal(array, expected, err_msg=name)
        other = np.zeros_like(array)
        unit.copy(dst=other, src=array)
        np.testing.assert_array_equal(other, expected, err_msg=name)


@feature("ndarrays", "strided")
def test_case_19_every_layout_is_written_back(gpu: Session) -> None:
    """A NumPy array of any layout holds afterwards what the kernel wrote, and nothing around it changes."""
    for dtype in (np.float32, np.int64):
        arrays = layouts(dtype)
        around = arrays["a window"].base
        assert around is not None
        check_layouts(gpu, arrays)
        around[1:4, 1:5] = 0
        assert not around.any()


@feature("ndarrays", "F-ordered")
def test_fortran_ordered_arrays_are_written_back(gpu: Session) -> None:
    """In their own order; a transposed one is the same memory."""
    table = np.arange(12, dtype=np.float32).reshape(3, 4)
    owner = np.arange(24, dtype=np.int16).reshape(2, 3, 4)
    check_layouts(gpu, {"Fortran": np.asfortranarray(table), "transposed": table.copy().T, "3-d": owner.T})
    assert owner.reshape(-1).tolist() == list(range(1, 25))


@feature("ndarrays", "F-ordered", wrong=True)
@pytest.mark.parametrize("order", ["F", "C"])
def test_the_order_does_not_change_what_is_checked(gpu: Session, order: Any) -> None:
    """Shapes are those that NumPy shows."""
    unit = gpu[gpu.compile_and_load(ELEMENTS).unit]
    assert "element shape" in refused(unit.shift, np.zeros((3, 2), np.float32, order), parameter="points")
    assert "i64" in refused(unit.shift, np.zeros((2, 3), np.int64, order), parameter="points")


@feature("ndarrays", "strided", wrong=True)
def test_the_layout_does_not_change_what_is_checked(gpu: Session) -> None:
    """A part of an array is refused for its own shape and dtype."""
    unit = gpu[gpu.compile_and_load(ELEMENTS).unit]
    assert "element shape" in refused(unit.shift, np.zeros((2, 6), np.float32)[:, ::3], parameter="points")
    assert "i32" in refused(unit.shift, np.zeros((2, 6), np.int32)[:, ::2], parameter="points")
    assert "1 axes" not in refused(unit.shift, np.zeros((2, 2, 6), np.float32)[:, :, ::2], parameter="points")


@feature("ndarrays", "empty")
def test_arrays_without_an_element(gpu: Session) -> None:
    """The kernel sees their shape, and runs no iteration."""
    unit = gpu[
        gpu.compile_and_load(
            READ + "\n@ti.kernel\ndef size(x: ti.types.ndarray(ndim=2)) -> ti.i32:\n"
            "    return x.shape[0] * 100 + x.shape[1]\n"
        ).unit
    ]
    assert unit.size(np.zeros((0, 7), np.float32)) == 7
    assert unit.size(np.zeros((3, 0), np.int64)) == 300
    for shape in ((0,), (3, 0), (0, 0, 2)):
        assert unit.total(np.zeros(shape, np.float32)) == 0


@feature("ndarrays", "empty", wrong=True)
def test_an_empty_array_is_checked_like_a_full_one(gpu: Session) -> None:
    """Its dtype and its element's shape."""
    unit = gpu[gpu.compile_and_load(ELEMENTS).unit]
    refused(unit.shift, np.zeros((0, 2), np.float32), parameter="points")
    refused(unit.shift, np.zeros((0, 3), np.float16), parameter="points")


@feature("ndarrays", "read-only")
def test_read_only_arrays_may_be_read(gpu: Session) -> None:
    """Frozen ones, those over bytes, and broadcast ones; with `In` the kernel writes to a copy of its own."""
    unit = gpu[gpu.compile_and_load(READ + ADD_ONE).unit]
    frozen = np.arange(6, dtype=np.float32)
    frozen.flags.writeable = False
    over_bytes = np.frombuffer(np.arange(6, dtype=np.float32).tobytes(), np.float32)
    for array in (frozen, over_bytes, np.broadcast_to(np.float32(3), (2, 3))):
        before = array.copy()
        assert unit.total(array) == before.sum()
        unit.maybe(array, 0)
        unit.add_one(In(array))
        np.testing.assert_array_equal(array, before)


@feature("ndarrays", "read-only", wrong=True)
def test_a_read_only_array_that_is_written_is_refused(gpu: Session) -> None:
    """Before the launch where that is certain, else after it; the caller's array keeps its contents."""
    unit = gpu[gpu.compile_and_load(READ + ADD_ONE + COPY).unit]
    array = np.broadcast_to(np.float32(3), (2, 3))
    assert "read-only" in refused(unit.add_one, array, parameter="x")
    assert "read-only" in refused(unit.copy, np.zeros((2, 3), np.float32), array, parameter="dst")
    assert "read-only" in refused(unit.maybe, array, 1, parameter="x")
    assert array.tolist() == [[3, 3, 3]] * 2


# ---------------------------------------------------------------- elements and annotations


@feature("ndarrays", "vector elements")
def test_the_last_axis_is_a_vector(gpu: Session) -> None:
    """Of NumPy arrays; remote arrays of vectors have it in their type."""
    unit = gpu[gpu.compile_and_load(ELEMENTS).unit]
    points = np.zeros((2, 3), np.float32)
    unit.shift(points)
    assert points.tolist() == [[1, 2, 3]] * 2
    remote = gpu.ti.Vector.ndarray(3, gpu.ti.f32, 2)
    unit.shift(remote)
    assert remote.to_numpy().tolist() == [[1, 2, 3]] * 2


@feature("ndarrays", "vector elements")
def test_a_wider_array_of_vectors_keeps_every_digit(gpu: Session) -> None:
    """NumPy makes f64 where nothing is said: as locally the kernel computes in what the array holds."""
    unit = gpu[gpu.compile_and_load(ELEMENTS + WIDE).unit]
    points = np.full((2, 3), 0.1)
    unit.shift(points)
    assert points.tolist() == [[0.1 + 1, 0.1 + 2, 0.1 + 3]] * 2
    pairs = np.full((2, 2), 2**40)
    unit.count(pairs)
    assert pairs.tolist() == [[2**40 + 1] * 2] * 2


@feature("ndarrays", "vector elements", wrong=True)
def test_vectors_of_another_length_or_dtype_are_refused(gpu: Session) -> None:
    """Also those whose numbers would be taken for others silently."""
    unit = gpu[gpu.compile_and_load(ELEMENTS).unit]
    ti = gpu.ti
    for wrong in (
        *(np.zeros((2, 2), np.float32), np.zeros(3, np.float32), np.zeros((2, 2)), np.zeros((2, 3), np.int32)),
        *(np.zeros((2, 3), np.float16), np.zeros((2, 3), np.int64), gpu.array(np.zeros((2, 3), np.int8))),
        *(ti.Vector.ndarray(2, ti.f32, 3), ti.Vector.ndarray(3, ti.f64, 3), ti.Matrix.ndarray(3, 1, ti.f32, 3)),
        *(ti.ndarray(ti.f32, (2, 3)), np.float32(1)),
    ):
        assert "ndarray(vector(3, f32), ndim=1)" in refused(unit.shift, wrong, parameter="points")


@feature("ndarrays", "matrix elements")
def test_the_last_two_axes_are_a_matrix(gpu: Session) -> None:
    """In front of them are as many as the array has."""
    unit = gpu[gpu.compile_and_load(ELEMENTS).unit]
    local = np.arange(12.0).reshape(2, 2, 3)
    remote = gpu.ti.Matrix.ndarray(2, 3, gpu.ti.f64, 2)
    remote.from_numpy(local)
    unit.scale(remote)
    expected = local * 2
    unit.scale(local)
    np.testing.assert_array_equal(local, expected)
    np.testing.assert_array_equal(remote.to_numpy(), expected)


@feature("ndarrays", "matrix elements", wrong=True)
def test_matrices_of_another_shape_are_refused(gpu: Session) -> None:
    """Transposed ones, and arrays of too few axes."""
    unit = gpu[gpu.compile_and_load(ELEMENTS).unit]
    ti = gpu.ti
    for wrong in (
        np.zeros((2, 3, 2)),
        np.zeros(3),
        ti.Matrix.ndarray(3, 2, ti.f64, 2),
        ti.Vector.ndarray(3, ti.f64, 2),
    ):
        assert "ndarray(matrix(2, 3, f64))" in refused(unit.scale, wrong, parameter="m")


@feature("ndarrays", "elements in SOA", lacking=True)
def test_elements_in_soa_do_not_load(gpu: Session) -> None:
    """The annotation has no such parameter, and the error says where."""
    source = "@ti.kernel\ndef f(x: ti.types.ndarray(dtype=tm.vec3, layout=ti.Layout.SOA)):\n    pass\n"
    with pytest.raises(CompileError, match="layout") as caught:
        gpu.compile_and_load(source, "soa")
    assert caught.value.frames[-1].line == 2


ANNOTATED = """
@ti.kernel
def f32s(x: ti.types.ndarray(dtype=ti.f32)):
    for i in ti.grouped(x):
        x[i] += 1

@ti.kernel
def i64s(n: ti.types.ndarray(ti.i64)):
    for i in ti.grouped(n):
        n[i] += 1

@ti.kernel
def python(x: ti.types.ndarray(dtype=float)):
    for i in ti.grouped(x):
        x[i] += 1

@ti.kernel
def planes(x: ti.types.ndarray(ndim=2)):
    for i, j in x:
        x[i, j] += 1
"""


@feature("ndarrays", "`dtype=`")
def test_an_annotated_dtype_takes_that_dtype(gpu: Session) -> None:
    """Taichi's names and Python's own, for NumPy arrays of any rank and for remote ones."""
    unit = gpu[gpu.compile_and_load(ANNOTATED).unit]
    for shape in ((), (3,), (2, 2)):
        for kernel, dtype in ((unit.f32s, np.float32), (unit.i64s, np.int64), (unit.python, np.float32)):
            array = np.zeros(shape, dtype)
            kernel(array)
            remote = gpu.array(array)
            kernel(remote)
            np.testing.assert_array_equal(array, np.ones(shape))
            np.testing.assert_array_equal(remote.to_numpy(), np.full(shape, 2))


@feature("ndarrays", "`dtype=`", wrong=True)
def test_case_17_another_dtype_is_refused(gpu: Session) -> None:
    """Never converted silently, here or there: the error names both and says how to convert."""
    unit = gpu[gpu.compile_and_load(ANNOTATED).unit]
    ti = gpu.ti
    for dtype in (np.float64, np.int32, np.float16, np.bool_):
        assert ".astype(np.float32)" in refused(unit.f32s, np.zeros(3, dtype), parameter="x")
        refused(unit.python, np.zeros(3, dtype), parameter="x")
    for wrong in (ti.ndarray(ti.f64, 3), ti.Vector.ndarray(3, ti.f32, 3)):
        assert "ndarray(f32)" in refused(unit.f32s, wrong, parameter="x")
    for dtype in (np.int32, np.uint64):
        refused(unit.i64s, np.zeros(3, dtype), parameter="n")


@feature("ndarrays", "`ndim=`")
def test_annotated_axes_take_so_many(gpu: Session) -> None:
    """Of any dtype; those of an element are not counted."""
    unit = gpu[gpu.compile_and_load(ANNOTATED).unit]
    for dtype in (np.float32, np.uint8):
        array = np.zeros((2, 3), dtype)
        unit.planes(array)
        assert array.tolist() == [[1] * 3] * 2
    vectors = gpu.ti.Vector.ndarray(3, gpu.ti.f32, (2, 2))
    unit.planes(vectors)
    assert vectors.to_numpy().sum() == 12


@feature("ndarrays", "`ndim=`", wrong=True)
def test_another_number_of_axes_is_refused(gpu: Session) -> None:
    """Of NumPy arrays, where Taichi looks at it only with a dtype, as of remote ones."""
    unit = gpu[gpu.compile_and_load(ANNOTATED).unit]
    ti = gpu.ti
    for wrong in (
        np.zeros(3, np.float32),
        np.zeros((), np.int32),
        ti.ndarray(ti.f32, 3),
        ti.Vector.ndarray(2, ti.f32, 3),
    ):
        assert "not 2" in refused(unit.planes, wrong, parameter="x")


ELEMENT_DIM = """
@ti.kernel
def vectors(x: ti.types.ndarray(element_dim=1)):
    for i in ti.grouped(x):
        x[i] += 1

@ti.kernel
def pairs(x: ti.types.ndarray(dtype=ti.f32, element_shape=(2,))):
    for i in ti.grouped(x):
        x[i] += tm.vec2(1, 2)
"""


@feature("ndarrays", "`element_dim=`")
def test_elements_by_their_number_of_axes(gpu: Session) -> None:
    """Vectors of any length and dtype, and, by their shape, of one length."""
    unit = gpu[gpu.compile_and_load(ELEMENT_DIM).unit]
    for array in (np.zeros((2, 4), np.float32), np.zeros((3, 2), np.int32)):
        unit.vectors(array)
        assert (array == 1).all()
    pairs = np.zeros((3, 2), np.float32)
    unit.pairs(pairs)
    assert pairs.tolist() == [[1, 2]] * 3
    remote = gpu.ti.Vector.ndarray(2, gpu.ti.f32, 3)
    unit.pairs(remote)
    unit.vectors(remote)
    assert remote.to_numpy().tolist() == [[2, 3]] * 3


@feature("ndarrays", "`element_dim=`", wrong=True)
def test_elements_of_another_shape_are_refused(gpu: Session) -> None:
    """A number is no vector, nor is a matrix."""
    unit = gpu[gpu.compile_and_load(ELEMENT_DIM).unit]
    ti = gpu.ti
    for wrong in (np.float32(1), np.zeros(()), ti.ndarray(ti.f32, 3), ti.Matrix.ndarray(2, 2, ti.f32, 3)):
        refused(unit.vectors, wrong, parameter="x")
    for wrong in (np.zeros((3, 3), np.float32), np.zeros((3, 2), np.int32), ti.Vector.ndarray(3, ti.f32, 3)):
        refused(unit.pairs, wrong, parameter="x")


@feature("ndarrays", "`ti.types.ndarray()`")
def test_an_annotation_without_anything_takes_every_array(gpu: Session) -> None:
    """One kernel for arrays of unlike rank and dtype, in one call too."""
    unit = gpu[gpu.compile_and_load(ADD_ONE + READ).unit]
    for array in (np.zeros(3, np.float32), np.zeros((2, 2), np.int8), np.zeros((), np.uint64), np.zeros((1, 2, 1))):
        unit.add_one(array)
        assert (array == 1).all()
        assert unit.total(array) == array.size


PARTLY = """
@ti.kernel
def partly(a: ti.types.ndarray(), b: ti.types.ndarray(dtype=ti.types.vector(2, ti.i32), ndim=1),
           c: ti.types.ndarray(), really: ti.i32):
    a[1] = 7
    b[1][0] = 7
    if really:
        c[None] = 7
"""


@feature("ndarrays", "`ti.types.ndarray()`")
def test_what_a_kernel_leaves_alone_comes_back_as_it_was(gpu: Session) -> None:
    """On graphics backends too, where plain Taichi gives back what lay in that memory before."""
    unit = gpu[gpu.compile_and_load(PARTLY).unit]
    for really in (0, 1):
        a, b, c = np.arange(4, dtype=np.float32), np.arange(6, dtype=np.int32).reshape(3, 2), np.array(5, np.int32)
        unit.partly(a, b, c, really)
        assert (a.tolist(), b.tolist()) == ([0, 7, 2, 3], [[0, 1], [7, 3], [4, 5]])
        assert c.item() == (7 if really else 5)


@feature("ndarrays", "`ti.types.ndarray()`", wrong=True)
def test_an_annotation_without_anything_takes_arrays_alone(gpu: Session) -> None:
    """No lists, numbers, fields or names of nothing."""
    unit = gpu[gpu.compile_and_load(ADD_ONE).unit]
    for wrong in NO_ARRAYS:
        assert "pass an ndarray or a NumPy array" in refused(unit.add_one, wrong, parameter="x")
    assert "ti.template()" in refused(unit.add_one, gpu.ti.field(gpu.ti.i32, 2), parameter="x")


OPTIONAL = """
import typing

@ti.kernel
def add(x: ti.types.ndarray(), y: typing.Optional[ti.types.ndarray(dtype=ti.f32)]):
    for i in x:
        if ti.static(y is not None):
            x[i] += y[i]
        else:
            x[i] += 1
"""


@feature("ndarrays", "`Optional[ti.types.ndarray()]`")
def test_an_optional_array_may_be_none(gpu: Session) -> None:
    """Each way is an instance of its own."""
    unit = gpu[gpu.compile_and_load(OPTIONAL).unit]
    x = np.zeros(3, np.float32)
    unit.add(x, None)
    unit.add(x, np.full(3, 5, np.float32))
    unit.add(x, y=None)
    assert x.tolist() == [7, 7, 7]


@feature("ndarrays", "`Optional[ti.types.ndarray()]`", wrong=True)
def test_an_optional_array_is_checked_where_it_is_one(gpu: Session) -> None:
    """Another dtype, or something else than an array; and it may not be left out."""
    unit = gpu[gpu.compile_and_load(OPTIONAL).unit]
    x = np.zeros(3, np.float32)
    for wrong in (np.zeros(3), 0, [1.0]):
        assert "ndarray(f32) or None" in refused(unit.add, x, wrong, parameter="y")
    refused(unit.add, x, parameter="y")
    refused(unit.add, None, None, parameter="x")


@feature("ndarrays", "`Optional[ti.types.ndarray()]`", lacking=True)
def test_an_optional_array_does_not_load(gpu: Session) -> None:
    """Where arrays are always there, the annotation is refused with its number."""
    with pytest.raises(CompileError, match=r"Invalid type annotation \(argument 1\)"):
        gpu.compile_and_load(OPTIONAL, "optional")


# ---------------------------------------------------------------- remote arrays, tensors


REMOTE = {
    "`ti.ndarray`": lambda ti: ti.ndarray(ti.f64, (2, 3)),
    "`Vector.ndarray`": lambda ti: ti.Vector.ndarray(3, ti.i64, 2),
    "`Matrix.ndarray`": lambda ti: ti.Matrix.ndarray(2, 3, ti.f32, (2, 2)),
}


@pytest.mark.parametrize("name", [pytest.param(name, marks=feature("ndarrays", name)) for name in REMOTE])
def test_remote_arrays_stay_where_they_are(gpu: Session, name: str) -> None:
    """They go by handle, by position or by keyword, and keep what a kernel wrote."""
    unit = gpu[gpu.compile_and_load(ADD_ONE).unit]
    array = REMOTE[name](gpu.ti)
    unit.add_one(array)
    unit.add_one(x=array)
    assert (array.to_numpy() == 2).all()
    assert array.to_numpy().shape == array.shape + array.element_shape


@pytest.mark.parametrize("name", [pytest.param(name, marks=feature("ndarrays", name, wrong=True)) for name in REMOTE])
def test_remote_arrays_of_elsewhere_are_refused(gpu: Session, another_session: Session, name: str) -> None:
    """One of another session, and one that was freed."""
    unit = gpu[gpu.compile_and_load(ADD_ONE).unit]
    with pytest.raises(KernelArgumentError, match="another session"):
        unit.add_one(REMOTE[name](another_session.ti))
    array = REMOTE[name](gpu.ti)
    array.free()
    with pytest.raises(StaleHandle):
        unit.add_one(array)


@pytest.fixture(params=KINDS)
def tensors(request: pytest.FixtureRequest) -> Tensors:
    """Tensors of the stand-in, and of torch where it is."""
    return Tensors(request.param)


@feature("ndarrays", "torch CPU tensors")
def test_a_cpu_tensor_is_the_array_over_its_memory(gpu: Session, tensors: Tensors) -> None:
    """What the kernel wrote is in the tensor, contiguous or not, 0-d, empty, f16, or of a class of the user's."""
    unit = gpu[gpu.compile_and_load(ADD_ONE + READ).unit]
    memory = np.zeros((2, 3), np.float32)
    unit.add_one(tensors.of(memory))
    unit.add_one(x=tensors.of(memory.T))
    unit.add_one(tensors.of(memory[:, ::2]))
    unit.add_one(tensors.in_subclass(memory))
    assert memory.tolist() == [[4, 3, 4]] * 2
    assert unit.total(tensors.of(memory, requires_grad=True)) == 22
    for other in (np.zeros((), np.float64), np.zeros((0, 3), np.float32), np.zeros(2, np.float16)):
        unit.add_one(tensors.of(other))
        assert (other == 1).all()


@feature("ndarrays", "torch CPU tensors", wrong=True)
def test_a_tensor_elsewhere_or_of_an_odd_dtype_is_refused(gpu: Session, tensors: Tensors) -> None:
    """On another device, of a dtype that NumPy has not, or of one that the parameter does not take."""
    unit = gpu[gpu.compile_and_load(ANNOTATED).unit]
    with pytest.raises(UnsupportedType, match=r"argument 0 is a tensor on .*: pass \.cpu\(\)"):
        unit.f32s(tensors.elsewhere())
    with pytest.raises(UnsupportedType, match="BFloat16"):
        unit.f32s(tensors.of_bfloat16())
    refused(unit.f32s, tensors.of(np.zeros(2)), parameter="x")


SQUARES = """
@ti.kernel
def squares(x: ti.types.ndarray(), y: ti.types.ndarray()):
    for i in range(x.shape[0]):
        y[i] = x[i] * x[i]

@ti.kernel
def scaled(x: ti.types.ndarray(), by: tm.vec2):
    for i in range(x.shape[0]):
        x[i] *= by[1]

@ti.kernel
def lengths(v: ti.types.ndarray(dtype=tm.vec2, needs_grad=True), y: ti.types.ndarray(needs_grad=True)):
    for i in range(v.shape[0]):
        y[i] = v[i].dot(v[i])
"""


@feature("ndarrays", "torch CPU tensors with grad")
def test_the_gradient_of_a_tensor_is_accumulated_in_it(gpu: Session, tensors: Tensors) -> None:
    """`kernel.grad` reads and writes ``tensor.grad``, which is zeros where there was none; of vectors too."""
    unit = gpu[gpu.compile_and_load(SQUARES).unit]
    x = tensors.of(np.arange(3, dtype=np.float32), requires_grad=True)
    y = tensors.of(np.zeros((3, 2), np.float32)[:, 0], requires_grad=True)
    unit.squares(x, y)
    assert inside(y).tolist() == [0, 1, 4]
    inside(y.grad)[...] = [1, 1, 2]
    for times in (1, 2):
        unit.squares.grad(x, y=y)
        assert inside(x.grad).tolist() == [0, 2 * times, 8 * times]
        inside(y.grad)[...] = [1, 1, 2]
    v = tensors.of(np.array([[3, 4], [1, 0]], np.float32), requires_grad=True)
    lengths = tensors.of(np.zeros(2, np.float32), requires_grad=True)
    unit.lengths(v, lengths)
    assert inside(lengths).tolist() == [25, 1]
    inside(lengths.grad)[...] = 1
    unit.lengths.grad.submit(v, lengths).result()
    assert inside(v.grad).tolist() == [[6, 8], [2, 0]]


OF_OBJECTS = """
class Base:
    @ti.kernel
    def squares(self, x: ti.types.ndarray(), y: ti.types.ndarray()):
        for i in range(x.shape[0]):
            y[i] = FACTOR * x[i] * x[i]

@ti.data_oriented
class Model(Base):
    pass

model = Model()
"""


@feature("ndarrays", "torch CPU tensors with grad")
def test_kernels_of_objects_take_the_gradient_of_a_tensor_too(gpu: Session, tensors: Tensors) -> None:
    """Inherited ones, sent without waiting, and after a reload."""
    unit = gpu[gpu.compile_and_load(OF_OBJECTS.replace("FACTOR", "1.0"), "models").unit]
    model = unit.model
    for factor in (1.0, 3.0):
        gpu.compile_and_load(OF_OBJECTS.replace("FACTOR", str(factor)), "models")
        x = tensors.of(np.arange(3, dtype=np.float32), requires_grad=True)
        y = tensors.of(np.zeros(3, np.float32), requires_grad=True)
        model.squares(x, y)
        assert inside(y).tolist() == [0, factor, 4 * factor]
        inside(y.grad)[...] = 1
        model.squares.grad.submit(x, y=y).result()
        assert inside(x.grad).tolist() == [0, 2 * factor, 4 * factor]


@feature("ndarrays", "torch CPU tensors with grad")
def test_odd_tensors_with_a_gradient(gpu: Session, tensors: Tensors) -> None:
    """One passed twice is one array, one without elements has an empty gradient, and one for a number is none."""
    unit = gpu[gpu.compile_and_load(SQUARES).unit]
    x = tensors.of(np.array([1, 2, 3], np.float32), requires_grad=True)
    unit.squares(x, x)
    assert inside(x).tolist() == [1, 4, 9]
    empty = tensors.of(np.zeros(0, np.float32), requires_grad=True)
    unit.squares(empty, x)
    assert inside(empty.grad).shape == (0,)
    unit.scaled(x, tensors.of(np.array([0, 2], np.float32), requires_grad=True))
    assert inside(x).tolist() == [2, 8, 18]


@feature("ndarrays", "torch CPU tensors with grad", wrong=True)
def test_a_gradient_that_is_needed_must_be_there(gpu: Session, tensors: Tensors) -> None:
    """Not with NumPy arrays, nor with tensors and remote arrays without one; the rest is checked as ever."""
    unit = gpu[gpu.compile_and_load(SQUARES).unit]
    y = tensors.of(np.zeros(2, np.float32), requires_grad=True)
    for wrong in (
        np.zeros((2, 2), np.float32),
        tensors.of(np.zeros((2, 2), np.float32)),
        gpu.ti.Vector.ndarray(2, "f32", 2),
    ):
        assert "needs_grad=True" in refused(unit.lengths, wrong, y, parameter="v")
    for memory in (np.zeros((2, 3), np.float32), np.zeros((2, 2))):
        refused(unit.lengths, tensors.of(memory, requires_grad=True), y, parameter="v")
    with pytest.raises(UnsupportedType, match="a tensor on"):
        unit.lengths(tensors.elsewhere(requires_grad=True), y)


@needs_torch
@feature("ndarrays", "torch CPU tensors with grad")
def test_a_kernel_is_a_function_of_torchs_own_autograd(gpu: Session) -> None:
    """A `torch.autograd.Function` of a kernel and its gradient; in it a tensor comes that is no leaf."""
    torch: Any = importlib.import_module("torch")
    unit = gpu[gpu.compile_and_load(SQUARES).unit]

    class Squares(torch.autograd.Function):  # type: ignore[misc, name-defined]
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            y = torch.zeros_like(x)
            unit.squares(x.detach(), y)
            return y

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            x = ctx.saved_tensors[0].detach().requires_grad_()
            y = torch.zeros_like(x).requires_grad_()
            y.grad = gradient.clone()
            unit.squares.grad(x, y)
            return x.grad

    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    Squares.apply(2 * x).sum().backward()
    assert x.grad.tolist() == [8, 16, 24]
    with pytest.warns(UserWarning, match="not a leaf"):
        unit.squares(2 * x, torch.zeros(3))
