"""Cases 17 to 25: data that goes in and comes out, exact or refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from array_zoo import REFUSED, ZOO
from real_worker import RealWorker
from tiremote.client import In, InOut, Out, Session, connect
from tiremote.protocol.dtypes import DTYPES, name_of
from tiremote.protocol.errors import KernelArgumentError, UnsupportedType

Check = Callable[[], None]

KERNELS = """
@ti.kernel
def add_one(x: ti.types.ndarray()):
    for i in ti.grouped(x):
        x[i] += 1

@ti.kernel
def add_to(src: ti.types.ndarray(), dst: ti.types.ndarray()):
    for i in ti.grouped(src):
        dst[i] += src[i]

@ti.kernel
def total(x: ti.types.ndarray()) -> ti.f64:
    s = ti.f64(0.0)
    for i in ti.grouped(x):
        s += ti.cast(x[i], ti.f64)
    return s
"""


# ---------------------------------------------------------------- 17: dtypes of arrays


@pytest.mark.parametrize(
    ("have", "came"),
    [
        ("f32", np.float64),
        ("f32", np.int32),
        ("f32", np.float16),
        ("f32", np.bool_),
        ("i32", np.int64),
        ("i32", np.uint32),
        ("i32", np.float32),
        ("u8", np.int8),
        ("f64", np.float32),
        ("i64", np.uint64),
    ],
)
def test_case_17_another_dtype_is_refused_or_converted_when_asked(
    gpu: Session, unharmed: Check, have: str, came: type[np.generic]
) -> None:
    """float64 into f32, int64 into i32 and their kin: refused with both dtypes, converted with ``cast=True``."""
    values = np.array([0, 1, 1], came)
    for array in (gpu.ti.ndarray(have, 3), gpu.ti.field(have, 3)):
        array.fill(1)
        for write in (lambda: array.from_numpy(values), lambda: array.__setitem__(slice(0, 2), values[:2])):  # noqa: B023 - called at once
            with pytest.raises(KernelArgumentError, match=f"{name_of(np.dtype(came))}.*{have}"):
                write()
        assert array.to_numpy().tolist() == [1, 1, 1]
        array.from_numpy(values, cast=True)
        assert array.to_numpy().tolist() == [0, 1, 1]
        assert array.to_numpy().dtype == DTYPES[have]
    unharmed()


@pytest.mark.parametrize(
    ("have", "values"),
    [
        ("f32", np.array([1.0, 1e300])),
        ("i32", np.array([1, 2**40])),
        ("u8", np.array([1, -1], np.int32)),
        ("u8", np.array([1, 256], np.int32)),
        ("i32", np.array([1.0, np.nan])),
        ("i32", np.array([1.0, np.inf], np.float32)),
        ("i64", np.array([1.0, 2.0**63])),
        ("u64", np.array([1, -1])),
        ("f16", np.array([1.0, 70000.0], np.float32)),
    ],
)
def test_case_17_a_conversion_that_would_change_a_value_is_refused(
    gpu: Session, unharmed: Check, have: str, values: np.ndarray
) -> None:
    """``cast=True`` cuts fractions off, as NumPy does; what is out of range is refused, and nothing is written."""
    array = gpu.ti.ndarray(have, 2)
    array.fill(3)
    with pytest.raises(KernelArgumentError):
        array.from_numpy(values, cast=True)
    assert array.to_numpy().tolist() == [3, 3]
    array.from_numpy(np.array([1.75, 1.0]), cast=True)
    assert array[0] == (1.75 if have.startswith("f") else 1)
    unharmed()


# ---------------------------------------------------------------- 18: numbers out of range; arguments: tests/features


def test_case_18_fills_and_elements_that_do_not_fit_are_refused(gpu: Session, unharmed: Check) -> None:
    """The same for ``fill``, for an element and for a slice, of ndarrays and of fields."""
    for make in (gpu.ti.ndarray, gpu.ti.field):
        x = make(gpu.ti.u8, 4)
        f = make(gpu.ti.f32, 4)
        for write in (
            lambda x=x: x.fill(300),
            lambda x=x: x.fill(-1),
            lambda x=x: x.fill(1.5),
            lambda x=x: x.__setitem__(0, 256),
            lambda x=x: x.__setitem__(0, 0.5),
            lambda x=x: x.__setitem__(slice(0, 2), [1, 256]),
            lambda f=f: f.fill(1e39),
            lambda f=f: f.__setitem__(1, 1e39),
        ):
            with pytest.raises(KernelArgumentError):
                write()
        assert x.to_numpy().tolist() == [0, 0, 0, 0]
        assert f.to_numpy().tolist() == [0, 0, 0, 0]
    unharmed()


# ---------------------------------------------------------------- 19: layouts


def test_case_19_in_out_and_inout(gpu: Session, unharmed: Check) -> None:
    """`In` is never written back, `Out` starts from zeros there, `InOut` is what a bare array means."""
    gpu.compile_and_load(KERNELS)
    unit = gpu[None]
    x = np.full(3, 5, np.float32)
    unit.add_one(In(x))
    assert x.tolist() == [5, 5, 5]
    unit.add_one(InOut(x))
    assert x.tolist() == [6, 6, 6]
    unit.add_one(Out(x))
    assert x.tolist() == [1, 1, 1]
    unit.add_to(In(x), dst=Out(y := np.full(3, 9, np.float32)))
    assert y.tolist() == [1, 1, 1]
    unharmed()


def test_case_19_one_array_for_two_parameters(gpu: Session, unharmed: Check) -> None:
    """The same array passed twice is the same memory there too, as in Taichi."""
    gpu.compile_and_load(KERNELS)
    x = np.arange(4, dtype=np.float32)
    gpu[None].add_to(x, x)
    assert x.tolist() == [0, 2, 4, 6]
    table = np.arange(6, dtype=np.float32).reshape(2, 3)
    gpu[None].add_to(table.T, table.T)
    assert table.tolist() == [[0, 2, 4], [6, 8, 10]]
    unharmed()


# ---------------------------------------------------------------- 20: payloads are never written


def test_case_20_what_is_sent_is_never_what_a_kernel_writes(gpu: Session, unharmed: Check) -> None:
    """Arrays over immutable bytes stay as they are, and so does an array that was sent and then written there."""
    gpu.compile_and_load(KERNELS + "\ndef write(x):\n    x += 100\n    return x\n")
    payload = np.arange(4, dtype=np.float32).tobytes()
    gpu[None].add_one(In(np.frombuffer(payload, np.float32)))
    assert np.frombuffer(payload, np.float32).tolist() == [0, 1, 2, 3]
    source = np.arange(4, dtype=np.float32)
    remote = gpu.array(source)
    gpu[None].add_one(remote)
    assert source.tolist() == [0, 1, 2, 3]
    fetched = remote.to_numpy()
    fetched += 50
    gpu[None].add_one(remote)
    assert remote.to_numpy().tolist() == [2, 3, 4, 5]
    assert fetched.tolist() == [51, 52, 53, 54]
    assert gpu[None].write(source).tolist() == [100, 101, 102, 103]
    assert source.tolist() == [100, 101, 102, 103]
    unharmed()


def test_case_20_a_submitted_array_is_read_when_it_is_submitted(gpu: Session) -> None:
    """What the caller writes after ``submit`` does not reach the kernel."""
    gpu.compile_and_load(KERNELS)
    x = np.ones(1000, np.float64)
    futures = []
    for n in range(10):
        x.fill(n)
        futures.append(gpu[None].total.submit(In(x)))
    x.fill(-1)
    assert [future.result() for future in futures] == [n * 1000 for n in range(10)]


# ---------------------------------------------------------------- 21: dtypes


@pytest.mark.parametrize("name", ZOO)
def test_case_21_arrays_round_trip_exact(gpu: Session, name: str) -> None:
    """Into a function and back, and, where Taichi has such an array, into an ndarray and back: the same bits."""
    array = ZOO[name]()
    if "same" not in gpu:
        gpu.compile_and_load(
            ("def same(x):\n    return x\ndef describe(x):\n    return str(x.dtype), list(x.shape)\n"), "same"
        )
    native = array.astype(array.dtype.newbyteorder("="))
    came = gpu["same"].same(In(array))
    assert came.dtype == native.dtype
    np.testing.assert_array_equal(came, native)
    assert came.tobytes() == native.tobytes()
    assert gpu["same"].describe(In(array)) == (str(native.dtype), list(array.shape))
    if array.ndim <= 8 and array.size:
        remote = gpu.array(array)
        assert remote.to_numpy().tobytes() == native.tobytes()
        assert remote.to_numpy().dtype == native.dtype


@pytest.mark.parametrize("name", REFUSED)
def test_case_21_dtypes_that_do_not_travel_are_refused(gpu: Session, unharmed: Check, name: str) -> None:
    """object, complex, datetime, structured, longdouble: `UnsupportedType` on this side, naming the argument."""
    gpu.compile_and_load(KERNELS + "\ndef same(x):\n    return x\n")
    array = REFUSED[name]()
    for call in (gpu[None].same, gpu[None].add_one):
        with pytest.raises(UnsupportedType, match="argument 0"):
            call(array)
        with pytest.raises(UnsupportedType, match="'x'"):
            call(x=array)
    with pytest.raises(UnsupportedType):
        gpu[None].same([1, {"inside": array}])
    with pytest.raises(UnsupportedType):
        gpu.array(array)
    remote = gpu.ti.ndarray(gpu.ti.f32, array.shape)
    with pytest.raises(UnsupportedType):
        remote.from_numpy(array)
    with pytest.raises(UnsupportedType):
        remote[...] = array
    assert remote.to_numpy().tolist() == [0] * len(array)
    unharmed()


def test_case_21_empty_and_0_d_arrays(gpu: Session) -> None:
    """Arrays without an element, and with one but no axis, as ndarrays, fields and arguments."""
    gpu.compile_and_load(
        KERNELS + "\n@ti.kernel\ndef set_scalar(x: ti.types.ndarray()):\n    x[None] += 3\n"
        "@ti.kernel\ndef size(x: ti.types.ndarray(ndim=2)) -> ti.i32:\n    return x.shape[0] * 100 + x.shape[1]\n"
    )
    scalar = np.array(4, np.float32)
    gpu[None].set_scalar(scalar)
    assert scalar == 7
    remote = gpu.array(scalar)
    gpu[None].set_scalar(remote)
    assert remote.to_numpy() == 10
    assert remote[()] == 10
    remote[()] = 2
    assert remote[...] == 2
    assert gpu[None].size(np.zeros((0, 7), np.float32)) == 7
    assert gpu[None].total(np.zeros((3, 0), np.float32)) == 0
    field = gpu.ti.field(gpu.ti.i32)
    field[None] = 5
    assert field[None] == 5


# ---------------------------------------------------------------- 22: values


def test_case_22_plain_values_both_ways(gpu: Session, unharmed: Check) -> None:
    """What a driver function takes and returns: numbers, texts, bytes, lists, dicts, tuples, exact and in kind."""
    gpu.compile_and_load("def same(x):\n    return x\n")
    for value in [
        None, True, False, 0, -1, 2**63 - 1, -(2**63), 2**64 - 1, 0.1, float("inf"), "", "é\n\0", b"", b"\0\xff",
        [], [1, [2, [3]]], (), (1, (2, "x")), {}, {"a": {"b": [1, None]}, 3: 4.5}, np.float32(0.1), np.int8(-3),
        np.uint64(2**64 - 1), np.bool_(True), [np.zeros(2, np.int16).tolist(), "x"],
    ]:  # fmt: skip
        came = gpu[None].same(value)
        assert came == value
        assert type(came) is type(value)
    assert np.isnan(gpu[None].same(float("nan")))
    inside = gpu[None].same({"x": np.arange(3), "y": [np.float16(2)]})
    assert inside["x"].tolist() == [0, 1, 2]
    assert inside["y"] == [2]
    for value in (2**64, -(2**63) - 1, 1j, {1, 2}, object(), len, range(3)):
        with pytest.raises(UnsupportedType):
            gpu[None].same(value)
    unharmed()


# ---------------------------------------------------------------- 23: how arguments are passed


def test_case_23_arguments_of_functions(gpu: Session, unharmed: Check) -> None:
    """They are matched as Python does, whatever their names; those of kernels are in tests/features."""
    gpu.compile_and_load(
        "def g(a, b=2, *rest, c=3, **more):\n    return [a, b, list(rest), c, more]\n"
        "def h(self, args, kwargs, name, target, method, deadline, id):\n"
        "    return [self, args, kwargs, name, target, method, deadline, id]\n"
    )
    unit = gpu[None]
    assert unit.g(1) == [1, 2, [], 3, {}]
    assert unit.g(1, 5, 6, c=7, d=8) == [1, 5, [6], 7, {"d": 8}]
    with pytest.raises(KernelArgumentError, match="'a'"):
        unit.g()
    assert unit.h(self=1, args=2, kwargs=3, name=4, target=5, method=6, deadline=7, id=8) == [1, 2, 3, 4, 5, 6, 7, 8]
    unharmed()


# ---------------------------------------------------------------- 24, small: parts


def indices(shape: tuple[int, ...]) -> Iterator[object]:
    """Every kind of NumPy's basic indexing."""
    if len(shape) == 1:
        yield from (
            0, -1, np.int64(2), slice(2, 4), slice(None), slice(None, None, 2), slice(None, None, -1), slice(-3, None),
            slice(5, 2), slice(5, 2, -2), slice(100), slice(-100, 100, 3), Ellipsis, (Ellipsis, 1), (2, Ellipsis), (),
        )  # fmt: skip
    else:
        yield from (
            0, -1, (1, 2), (-1, -1), (1, slice(None)), (slice(None), 2), slice(1, 3), (slice(None), slice(1, None, 2)),
            (slice(None, None, -1), slice(None, None, -2)), (Ellipsis, 0), (0, Ellipsis), Ellipsis, (slice(1, 1), 0),
            (), (slice(None, None, 2), slice(3, 0, -1)),
        )  # fmt: skip


def without_ellipsis(index: object, axes: int) -> tuple[object, ...]:
    """The same index with an ellipsis written out: NumPy's would reach into the elements."""
    parts = list(index) if isinstance(index, tuple) else [index]
    if Ellipsis in parts:
        where = parts.index(Ellipsis)
        parts[where : where + 1] = [slice(None)] * (axes - len(parts) + 1)
    return tuple(parts)


@pytest.mark.parametrize("kind", ["ndarray", "field"])
@pytest.mark.parametrize("element", [(), (3,), (2, 2)])
@pytest.mark.parametrize("shape", [(7,), (4, 5)])
def test_case_24_parts_are_read_and_written_as_in_numpy(
    gpu: Session, kind: str, element: tuple[int, ...], shape: tuple[int, ...]
) -> None:
    """Indices and slices, negative and with steps, of ndarrays and fields of numbers, vectors and matrices."""
    ti = gpu.ti
    dtype = {0: ti.f32, 1: ti.types.vector(3, ti.f32), 2: ti.types.matrix(2, 2, ti.f32)}[len(element)]
    remote = getattr(ti, kind)(dtype, shape)
    local = np.arange(np.prod(shape + element), dtype=np.float32).reshape(shape + element)
    remote.from_numpy(local)
    for number, index in enumerate(indices(shape)):
        inside = without_ellipsis(index, len(shape))
        np.testing.assert_array_equal(remote[index], local[inside], err_msg=str(index))
        local[inside] = -number
        remote[index] = -number
        np.testing.assert_array_equal(remote.to_numpy(), local, err_msg=str(index))
        values = np.random.default_rng(number).random(local[inside].shape, np.float32)
        local[inside] = values
        remote[index] = values
        np.testing.assert_array_equal(remote.to_numpy(), local, err_msg=str(index))
    too_many = (0,) * (local.ndim + 1)
    for wrong in (7, -8, too_many, "a", 1.0, [0, 1], None, np.array([True])):
        with pytest.raises(IndexError):
            remote[wrong]
        with pytest.raises(IndexError):
            remote[wrong] = 1
    np.testing.assert_array_equal(remote.to_numpy(), local)


@pytest.mark.parametrize("dtype", [name for name in DTYPES if name != "bool"])
def test_case_24_parts_of_every_dtype(gpu: Session, dtype: str) -> None:
    """Slices keep their dtype and their bits, from one end of its range to the other."""
    ends = np.finfo(DTYPES[dtype]) if dtype.startswith("f") else np.iinfo(DTYPES[dtype])
    local = np.array([ends.min, 0, 1, 2, ends.max], DTYPES[dtype])
    for make in (gpu.ti.ndarray, gpu.ti.field):
        remote = make(dtype, 5)
        remote[1:4] = local[1:4]
        remote[0] = local[0]
        remote[-1] = local[-1]
        assert remote[::-1].dtype == local.dtype
        assert remote[::-2].tobytes() == local[::-2].tobytes()
        assert remote[4] == ends.max
        assert remote.to_numpy().tobytes() == local.tobytes()


def test_case_24_wrong_values_for_a_part_change_nothing(gpu: Session, unharmed: Check) -> None:
    """Too many or too few values, another dtype, no number: refused, and what was there stays."""
    x = gpu.array(np.arange(12, dtype=np.float32).reshape(3, 4))
    for index, values in [
        (slice(0, 2), np.zeros(3, np.float32)),
        ((0, slice(None)), np.zeros((2, 4), np.float32)),
        (0, np.zeros(4)),
        (0, np.zeros(4, np.int32)),
    ]:
        with pytest.raises(KernelArgumentError):
            x[index] = values
    for values in ("text", None, [1, "x"], {}, 1j):
        with pytest.raises(UnsupportedType):
            x[0] = values
    np.testing.assert_array_equal(x.to_numpy(), np.arange(12).reshape(3, 4))
    x[0] = [7, 8, 9, 10]
    x[1:] = np.float32(3)
    assert x.to_numpy().tolist() == [[7, 8, 9, 10], [3] * 4, [3] * 4]
    unharmed()


def test_arrays_of_another_session_are_refused(gpu: Session, worker: RealWorker, arch: str, unharmed: Check) -> None:
    """An array that belongs to one session cannot be passed in another, and the message says what to do."""
    gpu.compile_and_load(KERNELS)
    with connect(worker.address, arch=arch, on_output=None) as other:
        theirs = other.array(np.zeros(2, np.float32))
        with pytest.raises(KernelArgumentError, match="another session"):
            gpu[None].add_one(theirs)
    unharmed()
