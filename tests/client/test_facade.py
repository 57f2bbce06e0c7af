"""``gpu.ti``: Taichi's names for arrays, without Taichi."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tiremote.client import RemoteArray, RemoteField, Session, connect
from tiremote.protocol.errors import KernelArgumentError, UnsupportedType
from tiremote.protocol.messages import Alloc

from .fake_worker import FakeWorker


@pytest.mark.parametrize(
    ("dtype", "wire"),
    [("f32", "f32"), ("i64", "i64"), ("u1", "bool"), ("bool", "bool"), ("float64", "f64"), ("uint8", "u8"),
     (float, "f32"), (int, "i32"), (bool, "bool"), (np.float16, "f16"), (np.dtype(">i4"), "i32"), ("f16", "f16")],
)  # fmt: skip
def test_dtypes_are_taken_by_every_usual_name(worker: FakeWorker, gpu: Session, dtype: Any, wire: str) -> None:
    """Taichi's, NumPy's and Python's own; ``float`` and ``int`` are the session's defaults."""
    gpu.ti.ndarray(dtype, 3)
    assert worker.of(Alloc)[-1].dtype == wire
    if isinstance(dtype, str) and dtype != "bool":
        gpu.ti.ndarray(getattr(gpu.ti, dtype), shape=(3,))
        assert worker.of(Alloc)[-1].dtype == wire


def test_the_sessions_defaults_are_what_float_and_int_mean(worker: FakeWorker) -> None:
    """As in Taichi."""
    with connect(worker.address, default_fp="f64", default_ip="i64") as gpu:
        gpu.ti.ndarray(float, 3)
        gpu.ti.field(int, 3)
    assert [alloc.dtype for alloc in worker.of(Alloc)] == ["f64", "i64"]


@pytest.mark.parametrize("dtype", ["f31", complex, "object", object(), None, np.complex64, 3])
def test_what_is_no_dtype_is_refused(worker: FakeWorker, gpu: Session, dtype: Any) -> None:
    """With what there is."""
    with pytest.raises(UnsupportedType):
        gpu.ti.ndarray(dtype, 3)
    assert not worker.of(Alloc)


@pytest.mark.parametrize("shape", [-1, 1.5, "a", (3, -1), True, None])
def test_what_is_no_shape_is_refused(gpu: Session, shape: Any) -> None:
    """One line, before anything is sent."""
    with pytest.raises(KernelArgumentError, match="size"):
        gpu.ti.ndarray(gpu.ti.f32, shape)


def test_arrays_and_fields_are_made_as_in_taichi(worker: FakeWorker, gpu: Session) -> None:
    """Scalars, vectors and matrices; both ways to write an element type."""
    ti = gpu.ti
    made = [
        ti.ndarray(ti.f32, shape=10),
        ti.ndarray(dtype=ti.types.vector(3, ti.f32), shape=(2, 2)),
        ti.Vector.ndarray(3, ti.f32, (2, 2)),
        ti.Matrix.ndarray(2, 3, ti.f64, 4),
        ti.field(ti.i32, shape=(4, 4), needs_grad=True, label="mine"),
        ti.field(dtype=float, shape=()),
        ti.Vector.field(3, ti.f32, shape=5),
        ti.Matrix.field(2, 2, float, shape=[5]),
        ti.Vector.field(2, float, 3, name="velocity", needs_dual=True),
        ti.Matrix.field(2, 2, float, 3, name="stress", label="mine", needs_grad=True, needs_dual=True),
    ]
    assert [(x.shape, x.element_shape) for x in made] == [
        ((10,), ()), ((2, 2), (3,)), ((2, 2), (3,)), ((4,), (2, 3)), ((4, 4), ()), ((), ()),
        ((5,), (3,)), ((5,), (2, 2)), ((3,), (2,)), ((3,), (2, 2)),
    ]  # fmt: skip
    assert [type(x) for x in made] == [RemoteArray] * 4 + [RemoteField] * 6
    field = worker.of(Alloc)[4]
    assert (field.kind, field.needs_grad, field.label) == ("field", True, "mine")
    asked = [(each.label, each.needs_grad, each.needs_dual) for each in worker.of(Alloc)[5:]]
    assert asked == [(None, False, False)] * 3 + [("velocity", False, True), ("mine", True, True)]


def test_the_rest_of_taichi_is_not_here_and_says_where_it_is(gpu: Session) -> None:
    """An AttributeError with what there is."""
    with pytest.raises(AttributeError, match="compile_and_load"):
        _ = gpu.ti.kernel
    assert {"f32", "ndarray", "Vector"} <= set(dir(gpu.ti))
    assert repr(gpu.ti.f32) == "ti.f32"


def test_a_name_that_is_misspelt_suggests_the_nearest(gpu: Session) -> None:
    """Beside what there is."""
    with pytest.raises(AttributeError, match="did you mean 'ndarray'"):
        _ = gpu.ti.ndarry


def test_a_call_that_lacks_something_is_told_by_the_name_it_was_called_by(gpu: Session) -> None:
    """Not by that of the class behind it."""
    with pytest.raises(TypeError, match=r"^ti\.ndarray\(\) missing 1 .* 'shape'"):
        gpu.ti.ndarray(gpu.ti.f32)
    with pytest.raises(TypeError, match=r"^ti\.Vector\.field\(\) missing"):
        gpu.ti.Vector.field(3)


def test_vectors_and_matrices_of_numbers_are_numpy_arrays(worker: FakeWorker) -> None:
    """Of the session's default types, or the one that is given."""
    with connect(worker.address, default_fp="f64") as gpu:
        ti = gpu.ti
        for made, dtype, values in [
            (ti.Vector([1.0, 2.0]), np.float64, [1.0, 2.0]),
            (ti.Vector([1, 2]), np.int32, [1, 2]),
            (ti.Matrix([[1, 2], [3, 4]], ti.f32), np.float32, [[1, 2], [3, 4]]),
        ]:
            assert (made.dtype, made.tolist()) == (dtype, values)
        with pytest.raises(KernelArgumentError, match=r"ti\.Vector takes a list of numbers"):
            ti.Vector("ab")
