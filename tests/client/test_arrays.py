"""Remote arrays against the NumPy array that the played worker keeps."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from array_zoo import REFUSED, ZOO
from tiremote.client import RemoteField, Session, connect
from tiremote.protocol.dtypes import DTYPES, name_of
from tiremote.protocol.errors import KernelArgumentError, Refused, StaleHandle, UnknownName, UnsupportedType
from tiremote.protocol.messages import Cleanup, Fetch, Put
from tiremote.protocol.results import Limits, RunResult

from .fake_worker import FakeWorker, fake_worker

INDICES: list[Any] = [
    0, -1, slice(1, 3), (1, 2), (slice(None), -1), (..., 0), slice(None, None, -2),
    (slice(None, None, -1), slice(1, 2)), slice(3, 1), ..., slice(None), (2, ...),
]  # fmt: skip


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces of 16 scalars, or 64 bytes."""
    monkeypatch.setattr("tiremote.client.transfer.PIECE", 64)
    monkeypatch.setattr("tiremote.client.transfer.ALIGNED", 16)


@pytest.mark.parametrize("make", ZOO.values(), ids=ZOO)
def test_every_array_goes_there_and_comes_back(gpu: Session, make: Callable[[], np.ndarray]) -> None:
    """Of every dtype and layout, bit for bit; what comes back is the caller's own."""
    array = np.asarray(make())
    x = gpu.array(array)
    assert (x.shape, name_of(x.dtype), x.nbytes) == (array.shape, name_of(array.dtype), array.nbytes)
    came = x.to_numpy()
    assert came.tobytes() == array.astype(array.dtype.newbyteorder("<")).tobytes()
    assert came.shape == array.shape
    assert came.flags.writeable


@pytest.mark.parametrize("make", REFUSED.values(), ids=REFUSED)
def test_arrays_that_cannot_travel_are_refused(worker: FakeWorker, gpu: Session, make: Callable[[], Any]) -> None:
    """Before anything is sent."""
    x = gpu.ti.ndarray("f32", 2)
    with pytest.raises((UnsupportedType, KernelArgumentError)):
        x.from_numpy(make())
    assert not worker.of(Put)


@pytest.mark.parametrize("index", INDICES, ids=repr)
@pytest.mark.parametrize("element", [(), (3,), (2, 2)])
def test_indexing_gives_what_numpy_gives(gpu: Session, index: Any, element: tuple[int, ...]) -> None:
    """Of the array's own dimensions; elements come whole."""
    values = np.arange(20 * max(np.prod(element, dtype=int), 1), dtype=np.float32).reshape(4, 5, *element)
    x = made(gpu, element, (4, 5))
    x.from_numpy(values)
    expected = values[index]
    if element and index is not Ellipsis and isinstance(index, tuple) and Ellipsis in index:
        expected = values[tuple(slice(None) if part is Ellipsis else part for part in index)]
    np.testing.assert_array_equal(x[index], expected)


@pytest.mark.parametrize("index", INDICES, ids=repr)
def test_assigning_changes_what_numpy_would_change(worker: FakeWorker, gpu: Session, index: Any) -> None:
    """And sends only that part."""
    values = np.arange(20, dtype=np.float32).reshape(4, 5)
    x = gpu.array(values)
    before = len(worker.of(Put))
    values[index] = 7.5
    x[index] = 7.5
    np.testing.assert_array_equal(x.to_numpy(), values)
    assert sum(put.array.descriptor.nbytes for put in worker.of(Put)[before:]) == np.asarray(values[index]).nbytes


def made(gpu: Session, element: tuple[int, ...], shape: tuple[int, ...]) -> Any:
    if len(element) == 1:
        return gpu.ti.Vector.ndarray(*element, gpu.ti.f32, shape)
    return gpu.ti.Matrix.ndarray(*element, gpu.ti.f32, shape) if element else gpu.ti.ndarray(gpu.ti.f32, shape)


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("size", [0, 1, 15, 16, 17, 31, 32, 33, 200])
@pytest.mark.parametrize("dtype", ["u8", "f32", "f64"])
@pytest.mark.parametrize("kind", ["ndarray", "field"])
def test_arrays_of_every_length_around_a_piece_are_whole(worker: FakeWorker, size: int, dtype: str, kind: str) -> None:
    """Nothing is lost or doubled where one piece ends and the next begins."""
    del worker
    with fake_worker(limits=Limits(buffer_bytes=128)) as strict, connect(strict.address) as gpu:
        values = (np.arange(size) % 251).astype(DTYPES[dtype])
        x = (gpu.ti.ndarray if kind == "ndarray" else gpu.ti.field)(dtype, size)
        told: list[tuple[int, int]] = []
        x.from_numpy(values, progress=lambda *each: told.append(each))
        np.testing.assert_array_equal(x.to_numpy(progress=lambda *each: told.append(each)), values)
        np.testing.assert_array_equal(x[:], values)
        np.testing.assert_array_equal(x[::-1], values[::-1])
        assert told[-1] == (values.nbytes, values.nbytes)
        assert sorted(done for done, _ in told[: len(told) // 2]) == [done for done, _ in told[: len(told) // 2]]
        gpu.ti.sync()
        assert len(strict.arrays) == 1


@pytest.mark.usefixtures("small_pieces")
def test_large_parts_go_in_pieces(worker: FakeWorker, gpu: Session) -> None:
    """Parts that are not contiguous too, and odd layouts of the values."""
    values = np.arange(900, dtype=np.float32).reshape(30, 30)
    x = gpu.array(np.asfortranarray(values))
    np.testing.assert_array_equal(x.to_numpy(), values)
    np.testing.assert_array_equal(x[1:29, ::-3], values[1:29, ::-3])
    x[1:29, ::-3] = np.asfortranarray(values[1:29, ::-3] * 2)
    values[1:29, ::-3] *= 2
    np.testing.assert_array_equal(x.to_numpy(), values)
    assert max(put.array.descriptor.nbytes for put in worker.of(Put)) <= 64


@pytest.mark.usefixtures("small_pieces")
def test_a_transfer_that_fails_in_the_middle_raises_and_the_session_goes_on(worker: FakeWorker, gpu: Session) -> None:
    """With the worker's own error."""
    x = gpu.ti.ndarray("f32", 1000)
    worker.arrays.clear()
    with pytest.raises(StaleHandle):
        x.from_numpy(np.zeros(1000, np.float32))
    with pytest.raises(StaleHandle):
        x.to_numpy()
    assert gpu.ping() >= 0


def test_other_dtypes_and_shapes_are_refused_naming_both(worker: FakeWorker, gpu: Session) -> None:
    """float64 into f32 above all; nothing is sent. With cast the worker converts it."""
    x = gpu.ti.ndarray("f32", 3)
    with pytest.raises(KernelArgumentError, match=r"an f64 array came for an f32 one"):
        x.from_numpy(np.zeros(3))
    with pytest.raises(KernelArgumentError, match=r"\(2,\).*\(3,\)"):
        x.from_numpy(np.zeros(2, np.float32))
    with pytest.raises(KernelArgumentError, match="f64"):
        x[0:2] = np.zeros(2)
    with pytest.raises(KernelArgumentError, match=r"\(4,\).*\(2,\)"):
        x[0:2] = np.zeros(4, np.float32)
    assert not worker.of(Put)
    x.from_numpy(np.array([1.0, 2.0, 3.0]), cast=True)
    assert worker.of(Put)[-1].cast
    assert x.to_numpy().tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("dtype", "value", "said"),
    [("i32", 2**40, "1099511627776"), ("u8", 300, "300"), ("u8", -1, "-1"), ("f32", 1e40, "1e\\+40"),
     ("i32", 1.5, "float"), ("i32", float("nan"), "float"), ("f16", 1e6, "1000000"),
     ("i64", 2**63, "9223372036854775808"), ("bool", 2, "2")],
)  # fmt: skip
def test_numbers_that_do_not_fit_are_refused(gpu: Session, dtype: str, value: Any, said: str) -> None:
    """Never changed silently: one number, a list, and fill."""
    x = gpu.ti.ndarray(dtype, 3)
    for assign in (lambda: x.fill(value), lambda: x.__setitem__(0, value), lambda: x.__setitem__(slice(1), [value])):
        with pytest.raises(KernelArgumentError, match=said):
            assign()
    assert not x.to_numpy().any()


def test_numbers_that_fit_are_taken(gpu: Session) -> None:
    """Python's have no dtype of their own; infinity and NaN are floats."""
    x = gpu.ti.ndarray("f32", 3)
    x[:] = [1, 2.5, float("inf")]
    x[1] = float("nan")
    assert np.isnan(x[1])
    x.fill(3)
    assert x[2] == 3
    assert isinstance(x[2], np.float32)
    y = gpu.ti.ndarray("u64", 2)
    y[0] = 2**64 - 1
    assert int(y[0]) == 2**64 - 1
    with pytest.raises(UnsupportedType):
        x[0] = "a"
    with pytest.raises(KernelArgumentError, match="one number"):
        x.fill([1, 2])
    with pytest.raises(KernelArgumentError, match=r"one number or numbers of shape \(2,\), not .* \(3,\)"):
        gpu.ti.Vector.ndarray(2, "f32", 3).fill([1, 2, 3])


def test_an_array_is_copied_from_one_of_its_shape_and_dtype(worker: FakeWorker, gpu: Session) -> None:
    """By the worker; anything else is refused here, with what to do."""
    x, y = gpu.ti.ndarray("f32", 3), gpu.ti.ndarray("f64", 3)
    x.copy_from(y, cast=True)
    put = worker.of(Put)[-1]
    assert (put.target, put.source, put.array, put.cast) == (x.handle, y.handle, None, True)
    with connect(worker.address) as other:
        wrong: Any
        for wrong, why in (
            (y, "an array of f64 came for one of f32: pass cast=True"),
            (gpu.ti.ndarray("f32", 4), r"shape \(4,\) came for one of \(3,\)"),
            (other.ti.ndarray("f32", 3), "another session"),
            (np.zeros(3, np.float32), "ndarray: use from_numpy"),
        ):
            with pytest.raises(KernelArgumentError, match=why):
                x.copy_from(wrong)
    y.free()
    with pytest.raises(StaleHandle):
        x.copy_from(y, cast=True)
    assert len(worker.of(Put)) == 1


def test_n_and_m_are_those_of_vectors_and_matrices(gpu: Session) -> None:
    """As in Taichi, where arrays of numbers have neither."""
    ti = gpu.ti
    vectors, matrices = ti.Vector.field(3, "f32", 4), ti.Matrix.ndarray(2, 3, "f32", 4)
    assert (vectors.n, vectors.m, matrices.n, matrices.m) == (3, 1, 2, 3)
    assert not hasattr(ti.field("f32", 4), "n")


def test_numpy_takes_a_remote_array_whole(worker: FakeWorker, gpu: Session) -> None:
    """In one fetch, never element by element; arithmetic on it is refused rather than slow."""
    x = gpu.array(np.arange(4, dtype=np.float32))
    np.testing.assert_array_equal(np.asarray(x), [0, 1, 2, 3])
    assert np.asarray(x, dtype=np.float64).dtype == np.float64
    assert [float(one) for one in x] == [0, 1, 2, 3]
    assert len(worker.of(Fetch)) == 3
    with pytest.raises(ValueError, match="copy"):
        np.asarray(x, copy=False)
    with pytest.raises(TypeError):
        np.ones(4, np.float32) + x
    with pytest.raises(TypeError, match="truth value"):
        bool(x)


def test_it_looks_like_what_it_is(gpu: Session) -> None:
    """Shape without the elements' dimensions, as in Taichi; length, repr, summary."""
    x = gpu.ti.Matrix.ndarray(2, 3, gpu.ti.f64, (4, 5))
    assert (x.shape, x.element_shape, x.ndim, len(x), x.nbytes) == ((4, 5), (2, 3), 2, 4, 4 * 5 * 6 * 8)
    assert repr(x) == "<RemoteArray f64, shape=(4, 5), element_shape=(2, 3)>"
    assert x.to_numpy().shape == (4, 5, 2, 3)
    assert x.summary().shape == (4, 5, 2, 3)
    with pytest.raises(TypeError, match="length"):
        len(gpu.ti.field("f32", ()))
    assert gpu.ti.field("f32", ())[...].shape == ()


def test_freed_is_freed(worker: FakeWorker, gpu: Session) -> None:
    """Any use afterwards says so; freeing twice is freeing once."""
    x = gpu.ti.ndarray("f32", 3)
    x.free()
    x.free()
    assert not worker.arrays
    assert "freed" in repr(x)
    for use in (x.to_numpy, lambda: x[0], lambda: x.fill(1), x.summary, lambda: x.handle):
        with pytest.raises(StaleHandle):
            use()


def test_an_array_that_nobody_holds_any_more_is_given_back(worker: FakeWorker, gpu: Session) -> None:
    """Some time after; those that are held stay, and so does one that came back under another name."""
    worker.define("u", same="function")
    worker.on_run = lambda request: RunResult(value=request.args[0])
    x, y = gpu.ti.ndarray("f32", 3), gpu.ti.ndarray("f32", 3)
    handle = y.handle
    y = gpu["u"].same(y)
    ids = [gpu.ti.ndarray("f32", 3).handle.id for _ in range(5)]
    gc.collect()
    worker.wait_for(lambda worker: not set(ids) & set(worker.arrays))
    assert set(worker.arrays) == {x.handle.id, handle.id}
    del y
    gc.collect()
    worker.wait_for(lambda worker: set(worker.arrays) == {x.handle.id})


def test_one_that_is_gone_already_does_not_keep_the_others(worker: FakeWorker, gpu: Session) -> None:
    """After a crash, say: the worker refuses the whole list, so each is dropped for itself."""
    arrays = [gpu.ti.ndarray("f32", 3) for _ in range(4)]
    del worker.arrays[arrays[1].handle.id]
    gpu._exchange.releases._dead.extend(array.handle for array in arrays)
    worker.wait_for(lambda worker: not worker.arrays)


def test_arrays_of_a_shared_session_stay(worker: FakeWorker) -> None:
    """Somebody else may use them."""
    with connect(worker.address, session="shared") as gpu:
        gpu.ti.ndarray("f32", 3)
        gc.collect()
        gpu.ti.ndarray("f32", 3)
        assert len(worker.arrays) == 2
        assert not worker.of(Cleanup)


def test_a_units_own_arrays_are_reached_by_name(worker: FakeWorker, gpu: Session) -> None:
    """They go with their unit, and the gradient of a field is the field's name and ``.grad``."""
    worker.define("u", temperature="field")
    field = gpu["u"].temperature
    assert isinstance(field, RemoteField)
    assert str(field.grad._target) == "u.temperature.grad"
    assert repr(field) == "<RemoteField u.temperature f32, shape=(4,)>"
    assert field.place == "u.temperature"
    assert not worker.of(Fetch)
    with pytest.raises(Refused, match="goes with it"):
        field.free()
    with pytest.raises(UnknownName, match="needs_grad"):
        _ = gpu.ti.field("f32", 3).grad


def test_another_dtype_is_made_on_the_worker(worker: FakeWorker, gpu: Session) -> None:
    """A new array, whose bytes never come here; the old one stays."""
    x = gpu.array(np.arange(6, dtype=np.float32).reshape(2, 3))
    before = len(worker.of(Fetch))
    y = x.astype(np.float64)
    put = worker.of(Put)[-1]
    assert (put.source, put.cast, len(worker.of(Fetch))) == (x.handle, True, before)
    assert (y.dtype, y.shape, x.dtype) == (np.float64, (2, 3), np.float32)
    assert y.to_numpy().tolist() == x.to_numpy().tolist()
    assert x.astype("i32").dtype == x.astype(int).dtype == np.int32
    with pytest.raises(UnsupportedType, match="no dtype"):
        x.astype("f31")


@pytest.mark.parametrize(
    "compute",
    [lambda x: x + 1, lambda x: 1 - x, lambda x: x < 1, np.sum, np.sqrt, lambda x: np.ones(4) * x],
)
def test_computing_with_a_remote_array_says_how_to(gpu: Session, compute: Callable[[Any], Any]) -> None:
    """Python's operators and NumPy's functions would fetch it unseen."""
    with pytest.raises(TypeError, match=r"\.to_numpy\(\), which fetches it"):
        compute(gpu.ti.ndarray("f32", 4))


@pytest.mark.parametrize("index", [(0, 1), (slice(1, 3), 0), (slice(None), -1), (slice(0, 2), slice(None, None, -1))])
def test_indices_after_the_arrays_own_are_the_elements(gpu: Session, index: Any) -> None:
    """As in the array that `to_numpy` gives."""
    values = np.arange(12, dtype=np.float32).reshape(4, 3)
    x = made(gpu, (3,), (4,))
    x.from_numpy(values)
    np.testing.assert_array_equal(x[index], values[index])


def test_too_many_indices_are_told_with_the_elements_dimensions(gpu: Session) -> None:
    """An element is read in parts, and set whole."""
    x = made(gpu, (3,), (4,))
    with pytest.raises(IndexError, match=r"3 indices for an array of shape \(4, 3\), the last 1 of them the elements'"):
        x[0, 1, 2]
    with pytest.raises(IndexError, match=r"shape \(4,\) with elements of shape \(3,\), which are set whole"):
        x[0, 1] = 2.0
