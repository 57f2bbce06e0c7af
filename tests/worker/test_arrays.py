"""Arrays on the worker: made, filled, read and written in part, summed up, given back."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import psutil
import pytest

from tiremote.protocol.dtypes import DTYPES
from tiremote.protocol.errors import KernelArgumentError, OutOfMemory, Refused, UnsupportedType
from tiremote.worker.engine import arrays as arrays_module
from tiremote.worker.engine import fills
from tiremote.worker.engine.arrays import Arrays
from tiremote.worker.engine.cuda_driver import CudaDriver
from tiremote.worker.engine.fills import PIECE
from tiremote.worker.engine.runtime import TaichiRuntime

from .fake_cuda import FakeCuda
from .zoo import EXACT_DTYPES, LAYOUTS, extremes

FORMS = ("ndarray", "field", "host", "gpu", "gpu field", "kernel", "kernel field")
"""``gpu`` goes through a driver (a false one, over host memory), ``kernel`` through kernels alone, as on Vulkan."""


class Room:
    """One form of storage, and what makes an array of it."""

    def __init__(self, runtime: TaichiRuntime, form: str) -> None:
        self.cuda = FakeCuda()
        self.arrays = Arrays(runtime, driver=CudaDriver(self.cuda) if form.startswith("gpu") else None)
        self.form = form
        if form.startswith(("gpu", "kernel")):
            self.arrays._on_cpu = False
        if form.startswith("kernel"):
            self.arrays._addressed = False
            self.arrays._runtime = WithoutPointers(runtime)  # type: ignore[assignment]

    def make(self, dtype: str, shape: tuple[int, ...], element_shape: tuple[int, ...] = ()) -> Any:
        if self.form == "host":
            return np.zeros(shape + element_shape, DTYPES[dtype])
        if "field" in self.form:
            return self.arrays.create_field(dtype, shape, element_shape)
        return self.arrays.create_ndarray(dtype, shape, element_shape)


class WithoutPointers:
    """A runtime whose ndarrays have no address."""

    def __init__(self, runtime: TaichiRuntime) -> None:
        self._runtime = runtime

    def __getattr__(self, name: str) -> Any:
        return getattr(self._runtime, name)

    def data_pointer(self, _ndarray: Any) -> int:
        return 0


@pytest.fixture(params=FORMS)
def room(runtime: TaichiRuntime, request: pytest.FixtureRequest) -> Room:
    if runtime.arch() != "cpu" and request.param not in ("ndarray", "field", "host"):
        pytest.skip("a stand-in for this very backend")
    return Room(runtime, request.param)


@pytest.fixture(scope="module")
def arrays(runtime: TaichiRuntime) -> Arrays:
    return Arrays(runtime)


def count_up(dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    return np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(DTYPES[dtype])


# Whole arrays -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", EXACT_DTYPES)
def test_every_dtype_round_trips_exactly(room: Room, name: str) -> None:
    """The ends of every dtype come back bit by bit."""
    values = extremes(DTYPES[name])
    made = room.make(name, (5,))
    room.arrays.write(made, values)
    back = room.arrays.read(made)
    assert back.dtype == values.dtype
    assert back.tobytes() == values.tobytes()


@pytest.mark.parametrize(
    ("shape", "element"),
    [((), ()), ((1,), ()), ((3, 4, 5), ()), ((4,), (3,)), ((2, 3), (2, 4)), ((), (3,)), ((), (2, 2))],
)
def test_every_shape_round_trips(room: Room, shape: tuple[int, ...], element: tuple[int, ...]) -> None:
    """Scalars, vectors and matrices of any number of axes are one NumPy array of the full shape."""
    made = room.make("f32", shape, element)
    assert room.arrays.meta(made).full_shape == shape + element
    assert not room.arrays.read(made).any()
    values = count_up("f32", shape + element) + 1
    room.arrays.write(made, values)
    np.testing.assert_array_equal(room.arrays.read(made), values)


@pytest.mark.parametrize("name", [n for n in LAYOUTS if LAYOUTS[n].size])
def test_every_layout_can_be_written(arrays: Arrays, name: str) -> None:
    """Whatever the layout of the array that is written, what is read is its values."""
    values = LAYOUTS[name]
    for make in (arrays.create_ndarray, arrays.create_field):
        made = make(arrays.meta(values).dtype, values.shape)
        arrays.write(made, values)
        np.testing.assert_array_equal(arrays.read(made), values)


def test_what_taichi_wrote_is_read_and_the_other_way_round(room: Room) -> None:
    """Reads and writes agree with Taichi's own to_numpy, elements included."""
    if room.form == "host":
        return
    for dtype in ("bool", "f16"):
        ends = extremes(DTYPES[dtype])
        small = room.make(dtype, (5,))
        room.arrays.write(small, ends)
        assert small.to_numpy().tobytes() == ends.tobytes()
        small.from_numpy(ends[::-1].copy())
        assert room.arrays.read(small).tobytes() == ends[::-1].tobytes()
    made = room.make("f32", (4, 3), (2, 3))
    values = count_up("f32", (4, 3, 2, 3))
    made.from_numpy(values)
    np.testing.assert_array_equal(room.arrays.read(made), values)
    room.arrays.write(made, values + 1)
    np.testing.assert_array_equal(made.to_numpy(), values + 1)


def test_what_is_read_is_a_copy(room: Room) -> None:
    """Writing to the array afterwards does not change what was read, nor the other way round."""
    made = room.make("f32", (4,))
    back = room.arrays.read(made)
    room.arrays.write(made, np.ones(4, np.float32))
    assert not back.any()
    back[...] = 5
    assert room.arrays.read(made).tolist() == [1.0] * 4


def test_a_read_can_fill_memory_that_is_there(room: Room) -> None:
    """``out`` is filled in place, whole or by region and range."""
    made = room.make("i32", (4, 3))
    room.arrays.write(made, count_up("i32", (4, 3)))
    out = np.zeros((2, 3), np.int32)
    room.arrays.read(made, region=[(1, 3, None)], out=out)
    assert out.tolist() == [[3, 4, 5], [6, 7, 8]]
    room.arrays.read(made, flat=(0, 6), out=out)
    assert out.tolist() == [[0, 1, 2], [3, 4, 5]]


# Parts ------------------------------------------------------------------------------------------------------

REGIONS: dict[str, tuple[Any, ...]] = {
    "nothing given": (),
    "an index": (2,),
    "a negative index": (-1,),
    "a range": ((1, 3, None),),
    "the end": ((-2, None, None),),
    "a step": ((None, None, 2),),
    "reversed": ((None, None, -1),),
    "reversed with a step": ((4, 0, -2), (None, None, -1)),
    "a column": ((None, None, None), 1),
    "a block": ((1, 4, 1), (1, 3, 1)),
    "one element": (2, -2, 1),
    "one element as ranges": ((2, 3, 1), (1, 2, 1), (0, 1, 1)),
    "of the elements": ((None, None, None), (None, None, None), 1),
    "elements reversed": ((None, None, 2), 0, (None, None, -1)),
    "beyond the end": ((3, 100, 1),),
    "empty": ((3, 1, 1),),
    "empty beyond": ((9, 12, 1), (None, None, -1)),
}


@pytest.mark.parametrize("element", [(), (3,)])
def test_regions_read_and_write_as_in_numpy(room: Room, element: tuple[int, ...]) -> None:
    """A region gives what NumPy's indexing gives, and writing it changes exactly that."""
    made = room.make("i32", (5, 4, 3)[: 3 - len(element)], element)
    for name, region in REGIONS.items():
        index = tuple(slice(*part) if isinstance(part, tuple) else part for part in region)
        values = count_up("i32", (5, 4, 3))
        room.arrays.write(made, values)
        part = room.arrays.read(made, region=region)
        assert part.shape == values[index].shape, name
        np.testing.assert_array_equal(part, values[index], name)
        room.arrays.write(made, part + np.int32(100), region=region)
        values[index] += 100
        np.testing.assert_array_equal(room.arrays.read(made), values, name)
        room.arrays.write(made, -7, region=region)
        values[index] = -7
        np.testing.assert_array_equal(room.arrays.read(made), values, name)


@pytest.mark.parametrize("element", [(), (3,), (2, 3)])
def test_flat_ranges_are_scalars_in_c_order(room: Room, element: tuple[int, ...]) -> None:
    """Any range of scalars can be moved, also one that begins and ends within an element."""
    made = room.make("f32", (4, 2), element)
    size = room.arrays.meta(made).size
    values = np.zeros(size, np.float32)
    for start, stop in [(0, size), (1, size - 1), (2, 3), (5, 5), (size, size), (0, 0), (4, 8)]:
        data = np.arange(start, stop, dtype=np.float32) + 1
        room.arrays.write(made, data, flat=(start, stop))
        values[start:stop] = data
        np.testing.assert_array_equal(room.arrays.read(made).reshape(-1), values)
        np.testing.assert_array_equal(room.arrays.read(made, flat=(start, stop)), data)


@pytest.mark.parametrize(
    ("region", "said"),
    [
        ((5,), "index 5 is out of bounds for axis 0 of size 5"),
        ((-6,), "index -6 is out of bounds for axis 0 of size 5"),
        ((0, 4), "axis 1 of size 4"),
        ((0, 0, 0), "at most 2"),
        (((0, 5, 0),), "step of axis 0"),
        (((0, 5),), "(start, stop, step)"),
        ((True,), "(start, stop, step)"),
        ((1.0,), "(start, stop, step)"),
    ],
)
def test_regions_that_are_not_there_are_refused(arrays: Arrays, region: Any, said: str) -> None:
    """The axis and its bounds are named."""
    made = arrays.create_ndarray("f32", (5, 4))
    with pytest.raises(KernelArgumentError) as caught:
        arrays.read(made, region=region)
    assert said in caught.value.message
    assert caught.value.parameter == "region"


@pytest.mark.parametrize("flat", [(-1, 3), (0, 21), (3, 2), (0,), (0.0, 1), (True, 2)])
def test_flat_ranges_that_are_not_there_are_refused(arrays: Arrays, flat: Any) -> None:
    """A range lies within the array and does not go backwards."""
    made = arrays.create_ndarray("f32", (5, 4))
    with pytest.raises(KernelArgumentError, match="within 0 to 20"):
        arrays.read(made, flat=flat)
    with pytest.raises(KernelArgumentError, match="give one of them"):
        arrays.read(made, region=(0,), flat=(0, 1))


def test_a_slice_moves_no_more_than_it_must(runtime: TaichiRuntime) -> None:
    """On a GPU a contiguous part is one copy of its bytes; a sparse one never moves the whole array."""
    if runtime.arch() != "cpu":
        pytest.skip("the false driver copies host memory")
    room = Room(runtime, "gpu")
    made = room.make("f32", (2000, 2000))
    room.arrays.read(made, region=((10, 20, 1),))
    assert room.cuda.to_host == [10 * 2000 * 4]
    room.arrays.write(made, np.ones(2000, np.float32), region=(3,))
    assert room.cuda.to_device == [2000 * 4]
    room.cuda.to_host.clear()
    column = room.arrays.read(made, region=((None, None, None), 5))
    assert column.sum() == 1
    assert room.cuda.to_host == [2000 * 4]
    room.arrays.read(made, region=((0, 100, None), (0, 1000, None)))
    assert room.cuda.to_host[1] == (99 * 2000 + 1000) * 4
    room.arrays.read(made, flat=(5, 25))
    assert room.cuda.to_host[2] == 80


def test_copies_run_in_the_context_that_owns_the_memory() -> None:
    """The owner's context is current during a copy, the primary one where the memory has none."""
    for owner, expected in ((77, 77), (0, 55)):
        cuda = FakeCuda(owner=owner)
        driver = CudaDriver(cuda)
        memory, out = np.arange(4.0), np.zeros(4)
        driver.to_host(out, memory.ctypes.data)
        assert out.tolist() == memory.tolist()
        assert cuda.pushed == [expected]
        assert cuda.contexts == []


def test_a_failed_copy_names_the_cuda_error() -> None:
    """A device error is a RuntimeError that reads like Taichi's, and the context is restored."""
    cuda = FakeCuda()
    driver = CudaDriver(cuda)
    cuda.error = 700
    with pytest.raises(RuntimeError, match="CUDA_ERROR_ILLEGAL_ADDRESS"):
        driver.to_host(np.zeros(4), 1)
    assert cuda.contexts == []


def test_a_field_with_an_offset_is_read_from_its_first_element(runtime: TaichiRuntime, arrays: Arrays) -> None:
    """Regions count from 0 although the field's own indices do not."""
    field = runtime.ti.field(runtime.ti.i32, shape=(4, 3), offset=(-2, 5))
    values = count_up("i32", (4, 3))
    arrays.write(field, values)
    assert field[-2, 5] == 0
    assert field[1, 7] == 11
    np.testing.assert_array_equal(arrays.read(field, region=((1, None, 2),)), values[1::2])


def test_a_field_in_blocks_or_in_parts_is_read_in_c_order(runtime: TaichiRuntime, arrays: Arrays) -> None:
    """Where the addresses of a field are not linear, or its members lie apart, kernels copy it."""
    ti = runtime.ti
    blocks, apart, sparse = ti.field(ti.i32), ti.Vector.field(2, ti.i32, shape=(4, 3), layout=ti.Layout.SOA), None
    ti.root.dense(ti.ij, (2, 3)).dense(ti.ij, (4, 2)).place(blocks)
    fields = [blocks, apart]
    if runtime.arch() in ("cpu", "cuda"):
        sparse = ti.field(ti.i32)
        ti.root.pointer(ti.ij, (2, 2)).dense(ti.ij, (2, 2)).place(sparse)
        fields.append(sparse)
    for field in fields:
        assert not arrays.read(field).any()
        values = count_up("i32", arrays.meta(field).full_shape)
        arrays.write(field, values)
        np.testing.assert_array_equal(field.to_numpy(), values)
        np.testing.assert_array_equal(arrays.read(field), values)
        arrays.write(field, -1, region=(1, (None, None, 2)))
        values[1, ::2] = -1
        np.testing.assert_array_equal(field.to_numpy(), values)


def test_a_field_of_any_order_is_read_in_c_order(runtime: TaichiRuntime, arrays: Arrays) -> None:
    """The layout of a field does not show."""
    field = runtime.ti.field(runtime.ti.i32, shape=(4, 3), order="ji")
    values = count_up("i32", (4, 3))
    field.from_numpy(values)
    np.testing.assert_array_equal(arrays.read(field), values)
    np.testing.assert_array_equal(arrays.read(field, flat=(2, 9)), values.reshape(-1)[2:9])


# Writing ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("came", "wanted"), [("f64", "f32"), ("i64", "i32"), ("i32", "f32"), ("f32", "i32"), ("bool", "u8")]
)
def test_another_dtype_is_refused_unless_asked_for(room: Room, came: str, wanted: str) -> None:
    """Without cast nothing is converted; with it values that fit are."""
    made = room.make(wanted, (3,))
    data = np.array([0, 1, 1]).astype(DTYPES[came])
    with pytest.raises(KernelArgumentError, match="astype"):
        room.arrays.write(made, data)
    assert not room.arrays.read(made).any()
    room.arrays.write(made, data, cast=True)
    assert room.arrays.read(made).tolist() == [0, 1, 1]


@pytest.mark.parametrize(
    ("data", "wanted"),
    [
        (np.array([0, 1e40]), "f32"),
        (np.array([0, -1e6], np.float32), "f16"),
        (np.array([0, 2**40]), "i32"),
        (np.array([0, -1], np.int8), "u64"),
        (np.array([0, 300]), "u8"),
        (np.array([0, np.nan]), "i32"),
        (np.array([0, np.inf]), "i64"),
        (np.array([0, 2.0**63]), "i64"),
        (np.array([0, 2.0**64]), "u64"),
        (np.array([0, -1.0]), "u8"),
        (np.array([0, 70000]), "f16"),
        (np.array([0, 2**63], np.uint64), "i64"),
    ],
)
def test_a_cast_that_loses_a_value_is_refused(arrays: Arrays, data: np.ndarray, wanted: str) -> None:
    """Overflow and NaN are refused with the place of the value, and nothing is written."""
    made = arrays.create_ndarray(wanted, (2,))
    arrays.write(made, 1)
    with pytest.raises(KernelArgumentError, match=r"at \(1,\) does not fit into"):
        arrays.write(made, data, cast=True)
    assert arrays.read(made).tolist() == [1, 1]


@pytest.mark.parametrize(
    ("data", "wanted", "expected"),
    [
        (np.array([1.9, -1.9]), "i32", [1, -1]),
        (np.array([np.nan, np.inf]), "f32", [np.nan, np.inf]),
        (np.array([255.9, -0.5]), "u8", [255, 0]),
        (np.array([-(2.0**63), 2.0**63 - 1024]), "i64", [-(2**63), 2**63 - 1024]),
        (np.array([0.5, 0]), "bool", [True, False]),
        (np.array([2**64 - 1, 1], np.uint64), "f64", [2.0**64, 1.0]),
    ],
)
def test_a_cast_that_fits_is_numpys(arrays: Arrays, data: np.ndarray, wanted: str, expected: list[Any]) -> None:
    """Fractions are cut off, infinities and NaN stay in reals."""
    made = arrays.create_ndarray(wanted, (2,))
    arrays.write(made, data, cast=True)
    np.testing.assert_array_equal(arrays.read(made), expected)


def test_another_shape_is_refused(room: Room) -> None:
    """Only one number is spread over an array; everything else has exactly its shape."""
    made = room.make("f32", (3, 4))
    for shape in ((4, 3), (12,), (1, 4), (4,), (3, 4, 1)):
        with pytest.raises(KernelArgumentError, match="came for one of"):
            room.arrays.write(made, np.zeros(shape, np.float32))
    room.arrays.write(made, np.array(2, np.float32))
    room.arrays.write(made, 5, region=(0,))
    assert room.arrays.read(made).tolist() == [[5.0] * 4, [2.0] * 4, [2.0] * 4]


@pytest.mark.parametrize("value", [300, -1, 1.5, "1", None, [1], float("nan")])
def test_a_number_that_does_not_fit_is_refused(arrays: Arrays, value: Any) -> None:
    """A single number is checked like an argument."""
    made = arrays.create_ndarray("u8", (3,))
    with pytest.raises(KernelArgumentError):
        arrays.write(made, value)
    with pytest.raises(KernelArgumentError):
        arrays.fill(made, "value", number=value)


def test_a_read_only_host_array_is_not_written(arrays: Arrays) -> None:
    """A kept array that is read-only stays as it is."""
    kept = np.zeros(3)
    kept.flags.writeable = False
    with pytest.raises(KernelArgumentError, match="read-only"):
        arrays.write(kept, 1)


def test_what_is_written_is_only_read(room: Room) -> None:
    """The source may be read-only memory, and keeps its bytes."""
    data = np.frombuffer(b"\0\0\x80?" * 4, np.float32)
    made = room.make("f32", (4,))
    room.arrays.write(made, data)
    assert room.arrays.read(made).tolist() == [1.0] * 4
    assert data.tolist() == [1.0] * 4


@pytest.mark.parametrize("name", ["host strided", "host Fortran"])
def test_kept_arrays_of_any_layout_are_moved(arrays: Arrays, name: str) -> None:
    """A host array that is not contiguous is read and written in C order all the same."""
    whole = np.zeros((6, 4), np.float32)
    kept = whole[::2] if name == "host strided" else np.asfortranarray(whole)
    arrays.fill(kept, "arange")
    assert arrays.read(kept, flat=(3, 6)).tolist() == [3.0, 4.0, 5.0]
    arrays.write(kept, np.array([9, 9], np.float32), flat=(0, 2))
    assert arrays.read(kept, region=(0,)).tolist() == [9.0, 9.0, 2.0, 3.0]


# Fills ------------------------------------------------------------------------------------------------------


def test_fills_are_made_on_the_worker(room: Room) -> None:
    """Values, counting and seeded random numbers need no bytes from the client."""
    made = room.make("f32", (3, 2))
    room.arrays.fill(made, "value", number=2.5)
    assert room.arrays.read(made).tolist() == [[2.5, 2.5]] * 3
    room.arrays.fill(made, "arange")
    assert room.arrays.read(made).tolist() == [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]
    room.arrays.fill(made, "random", seed=7)
    first = room.arrays.read(made)
    assert ((first >= 0) & (first < 1)).all()
    room.arrays.fill(made, "random", seed=8)
    assert not np.array_equal(first, room.arrays.read(made))
    room.arrays.fill(made, "random", seed=7)
    np.testing.assert_array_equal(first, room.arrays.read(made))
    room.arrays.fill(made, "empty")
    assert not room.arrays.read(made).any()


@pytest.mark.parametrize(("element", "one"), [((3,), [1, 2, 3]), ((2, 3), [[1, 2, 3], [4, 5, 6]])])
@pytest.mark.parametrize("make", ["create_ndarray", "create_field"])
def test_vectors_and_matrices_are_filled_with_one(
    arrays: Arrays, make: str, element: tuple[int, ...], one: list[Any]
) -> None:
    """Or with a number; one of another shape, or with what does not fit, is refused and nothing written."""
    made = getattr(arrays, make)("i32", (4,), element)
    arrays.fill(made, "value", number=one)
    assert arrays.read(made).tolist() == [one] * 4
    for wrong in (
        [1, 2],
        [1, 2, 3, 4],
        [[1, 2], [3, 4], [5, 6]],
        [[1, 2, 3]],
        [[1, 2, 3], 4],
        [],
        [2**31, 2, 3],
        "abc",
    ):
        with pytest.raises(KernelArgumentError, match="numbers of shape"):
            arrays.fill(made, "value", number=wrong)
    assert arrays.read(made).tolist() == [one] * 4
    arrays.fill(made, "value", number=7)
    assert (arrays.read(made) == 7).all()


def test_a_fill_with_vectors_goes_on_beyond_a_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    """A piece ends with a whole vector."""
    monkeypatch.setattr(fills, "PIECE", 8)
    made = list(fills.pieces("value", "i16", 15, value=[1, 2, 3], element_shape=(3,)))
    assert [start for start, _ in made] == [0, 6, 12]
    assert np.concatenate([piece for _, piece in made]).tolist() == [1, 2, 3] * 5


@pytest.mark.parametrize("name", EXACT_DTYPES)
def test_random_numbers_fill_the_range_of_their_type(arrays: Arrays, name: str) -> None:
    """Reals lie in [0, 1), integers between 0 and their largest value."""
    made = arrays.create_ndarray(name, (1000,))
    arrays.fill(made, "random", seed=1)
    values = arrays.read(made)
    assert values.min() >= 0
    assert len(np.unique(values)) > 1
    if name.startswith("f"):
        assert values.max() < 1


def test_a_fill_larger_than_a_piece_is_whole(arrays: Arrays) -> None:
    """Large arrays are filled piece by piece without a seam."""
    made = arrays.create_ndarray("i32", (PIECE + 10,))
    arrays.fill(made, "arange")
    np.testing.assert_array_equal(arrays.read(made), np.arange(PIECE + 10))
    arrays.fill(made, "value", number=3)
    assert (arrays.read(made, flat=(PIECE - 5, PIECE + 10)) == 3).all()


@pytest.mark.parametrize(
    ("dtype", "fill", "options"),
    [
        ("u8", "arange", {}),
        ("f32", "ones", {}),
        ("f32", "random", {"seed": -1}),
        ("f32", "random", {"seed": "x"}),
        ("f32", "value", {"number": 1e40}),
    ],
)
def test_fills_that_make_no_sense_are_refused(arrays: Arrays, dtype: str, fill: str, options: dict[str, Any]) -> None:
    """Values out of range, unknown fills and bad seeds are refused before anything is written."""
    made = arrays.create_ndarray(dtype, (300,))
    with pytest.raises(KernelArgumentError):
        arrays.fill(made, fill, **options)
    assert not arrays.read(made).any()


# Making -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(0,), (3, 0), (-1,), (2.0,), (True,), ("3",), (1,) * 13])
def test_shapes_that_taichi_cannot_hold_are_refused(arrays: Arrays, shape: Any) -> None:
    """Empty, negative and odd shapes are refused before Taichi sees them, and it goes on working."""
    for make in (arrays.create_ndarray, arrays.create_field):
        with pytest.raises(KernelArgumentError) as caught:
            make("f32", shape)
        assert caught.value.parameter == "shape"
    arrays.read(arrays.create_field("f32", (2,)))


def test_sizes_beyond_an_index_or_the_memory_are_refused(runtime: TaichiRuntime, arrays: Arrays) -> None:
    """More elements than 32 bits count, or more bytes than are free, are refused before Taichi is touched."""
    with pytest.raises(KernelArgumentError, match="2147483647"):
        arrays.create_ndarray("u8", (2**16, 2**15))
    small = Arrays(runtime, available=lambda: 1000)
    # Where there is a device its memory counts, not the host's: see `tight`.
    for make in (small.create_ndarray, small.create_field) if runtime.arch() == "cpu" else ():
        with pytest.raises(OutOfMemory) as caught:
            make("f64", (126,))
        assert caught.value.requested == 1008
        assert caught.value.available == 1000
        with pytest.raises(OutOfMemory):
            make("f64", (100,), needs_grad=True)
    tight = Arrays(runtime, driver=CudaDriver(FakeCuda(free=10)))
    with pytest.raises(OutOfMemory, match="device"):
        tight.create_ndarray("f32", (3,))


def test_dtypes_and_gradients_are_checked(arrays: Arrays) -> None:
    """Unknown dtypes and gradients of integers are refused; a gradient is twice the bytes."""
    with pytest.raises(UnsupportedType):
        arrays.create_ndarray("c64", (3,))
    with pytest.raises(KernelArgumentError, match="gradients"):
        arrays.create_field("i32", (3,), needs_grad=True)
    made = arrays.create_ndarray("f32", (3,), (2,), needs_grad=True)
    assert arrays.nbytes(made) == 48
    assert arrays.read(made.grad).shape == (3, 2)
    field = arrays.create_field("f32", (3,), needs_grad=True)
    arrays.write(field.grad, 2)
    assert arrays.read(field.grad).tolist() == [2.0] * 3


def test_things_are_described(runtime: TaichiRuntime, arrays: Arrays) -> None:
    """The holder of a handle learns kind, dtype and shapes."""
    made = arrays.create_ndarray("bool", (3, 2))
    assert arrays.kind(made) == "ndarray"
    assert arrays.describe(made) == {"dtype": "bool", "shape": [3, 2], "element_shape": []}
    field = arrays.create_field("f32", (3,), (2, 2))
    assert arrays.kind(field) == "field"
    assert arrays.describe(field) == {"dtype": "f32", "shape": [3], "element_shape": [2, 2]}
    assert arrays.kind(np.zeros(3)) == "array"
    assert arrays.describe(object()) == {"type": "object"}
    assert arrays.nbytes(object()) == 0
    struct = runtime.ti.Struct.field({"a": runtime.ti.f32}, shape=2)
    for value, said in ((struct, "members"), (3, "no array"), (np.zeros(2, complex), "complex")):
        with pytest.raises(UnsupportedType, match=said):
            arrays.read(value)


# Summaries --------------------------------------------------------------------------------------------------


def test_a_summary_leaves_nan_out(room: Room) -> None:
    """NaNs are counted; the rest gives minimum, maximum and mean."""
    made = room.make("f32", (5,))
    room.arrays.write(made, np.array([np.nan, 1, -2, 4, np.nan], np.float32))
    summary = room.arrays.summary(made)
    assert (summary.minimum, summary.maximum, summary.mean, summary.nan_count) == (-2.0, 4.0, 1.0, 2)
    assert (summary.dtype, summary.shape, summary.nbytes) == ("f32", (5,), 20)
    room.arrays.fill(made, "value", number=float("nan"))
    assert room.arrays.summary(made).minimum is None


def test_a_summary_of_integers_is_exact(arrays: Arrays) -> None:
    """Ends of 64-bit integers do not pass through a float."""
    made = arrays.create_ndarray("u64", (3,))
    arrays.write(made, np.array([2**64 - 1, 0, 1], np.uint64))
    assert arrays.summary(made).maximum == 2**64 - 1
    assert arrays.summary(np.zeros(0)).mean is None


def test_a_summary_shows_the_corners_as_numpy_does(room: Room) -> None:
    """The text is the one NumPy prints for a long array."""
    made = room.make("i32", (10, 8))
    values = count_up("i32", (10, 8))
    room.arrays.write(made, values)
    assert room.arrays.summary(made).corners == np.array2string(values, threshold=0, edgeitems=3)


@pytest.mark.parametrize("shape", [(), (1,), (6,), (7,), (100,), (3, 100), (2, 3, 4, 5)])
def test_corners_of_any_shape(arrays: Arrays, shape: tuple[int, ...]) -> None:
    """Short axes are shown whole, long ones by both ends."""
    made = arrays.create_ndarray("f32", shape)
    arrays.fill(made, "arange")
    edge = 3 if len(shape) <= 3 else 1
    assert arrays.summary(made).corners == np.array2string(arrays.read(made), threshold=0, edgeitems=edge)


def test_infinities_have_a_summary(arrays: Arrays) -> None:
    """Infinities of both signs have no mean, and no warning either."""
    made = arrays.create_ndarray("f32", (2,))
    arrays.write(made, np.array([np.inf, -np.inf], np.float32))
    summary = arrays.summary(made)
    assert (summary.minimum, summary.maximum) == (-np.inf, np.inf)
    assert np.isnan(summary.mean or 0)


# Giving back ------------------------------------------------------------------------------------------------


def resident() -> int:
    return int(psutil.Process().memory_info().rss)


@pytest.mark.parametrize("element", [(), (3,), (2, 2)])
@pytest.mark.parametrize("form", ["ndarray", "field"])
def test_memory_comes_back(runtime: TaichiRuntime, arrays: Arrays, form: str, element: tuple[int, ...]) -> None:
    """Arrays of 32 MB that are made, used and released 10 times leave less than one of them behind."""
    if runtime.arch() != "cpu":
        pytest.skip("the memory of a GPU does not show in this process")
    make: Callable[..., Any] = arrays.create_ndarray if form == "ndarray" else arrays.create_field
    count = 8_000_000 // int(np.prod(element, dtype=int))

    def once() -> None:
        made = make("f32", (count,), element)
        arrays.write(made, 1)
        assert arrays.read(made, flat=(0, 3)).tolist() == [1.0] * 3

    once()
    arrays.release()
    before, trees = resident(), runtime.snode_tree_count()
    for _ in range(10):
        once()
        arrays.release()
    assert resident() - before < 32e6
    assert runtime.snode_tree_count() == trees


def test_the_last_snode_tree_is_refused_in_time(
    runtime: TaichiRuntime, arrays: Arrays, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At Taichi's limit a field is refused with the count, and one that is released makes room again."""
    gc.collect()
    kept = [arrays.create_field("f32", (2,))]
    runtime.collect()
    monkeypatch.setattr(arrays_module, "MAX_SNODE_TREES", runtime.snode_tree_count())
    with pytest.raises(Refused, match=str(runtime.snode_tree_count())):
        arrays.create_field("f32", (2,))
    kept.clear()
    arrays.release()
    arrays.read(arrays.create_field("f32", (2,)))
