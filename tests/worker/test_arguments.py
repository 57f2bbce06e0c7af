"""Arguments: converted exactly or refused with the parameter named, and only what changed comes back."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

from tiremote.protocol.dtypes import DTYPES
from tiremote.protocol.errors import KernelArgumentError, ProtocolError
from tiremote.protocol.values import ArrayDescriptor, WireArray, wire_array
from tiremote.worker.engine.arguments import bind, bind_function
from tiremote.worker.engine.lending import same_bytes
from tiremote.worker.engine.runtime import TaichiRuntime
from tiremote.worker.engine.scalars import scalar_taker

from .kernels import Kernels, define
from .zoo import EXACT_DTYPES, LAYOUTS, extremes


@pytest.fixture(scope="module")
def kernels(runtime: TaichiRuntime) -> Kernels:
    return define(runtime.ti, runtime.max_arguments)


def received(array: np.ndarray, access: Any = "inout", writeable: bool = True) -> WireArray:
    """The array as the codec hands it over, in memory that must not change."""
    sent = wire_array(array, access=access)
    d = sent.descriptor
    descriptor = ArrayDescriptor(
        dtype=d.dtype,
        shape=d.shape,
        order=d.order,
        buffer=None if sent.data is None else 0,
        access=access,
        writeable=writeable,
    )
    return WireArray(descriptor, None if sent.data is None else bytes(sent.data))


def run(runtime: TaichiRuntime, kernel: Any, *args: Any, **kwargs: Any) -> tuple[Any, dict[int | str, np.ndarray]]:
    call = bind(runtime, kernel, args, kwargs)
    result = call.launch()
    runtime.sync()
    return result, call.written()


def refused(runtime: TaichiRuntime, kernel: Any, *args: Any, **kwargs: Any) -> KernelArgumentError:
    with pytest.raises(KernelArgumentError) as caught:
        bind(runtime, kernel, args, kwargs)
    assert "\n" not in caught.value.message
    return caught.value


# Scalars ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [n for n in EXACT_DTYPES if not n.startswith("f")])
def test_integers_at_their_ends_are_exact(runtime: TaichiRuntime, kernels: Kernels, name: str) -> None:
    """Every integer type takes its smallest and largest value and gives it back."""
    for value in extremes(DTYPES[name]):
        kernel = kernels.same[name]
        assert run(runtime, kernel, value)[0] == value
        assert run(runtime, kernel, int(value))[0] == value


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("i32", 2**40),
        ("u8", 300),
        ("u8", -1),
        ("i8", np.int16(128)),
        ("u64", 2**64),
        ("i64", 2**63),
        ("bool", 2),
        ("f32", 1e40),
        ("f32", -1e40),
        ("f16", 65520.0),
        ("f64", 10**400),
        ("i32", float("nan")),
        ("i32", float("inf")),
        ("i32", 1.0),
        ("i32", np.float32(2)),
        ("i32", "1"),
        ("i32", None),
        ("f32", "1"),
        ("f32", 1j),
        ("f32", [1.0]),
    ],
)
def test_values_that_do_not_fit_are_refused(runtime: TaichiRuntime, kernels: Kernels, name: str, value: Any) -> None:
    """What a type cannot hold is refused with the parameter, its type and the value's type."""
    error = refused(runtime, kernels.same[name], value)
    assert error.parameter == "x"
    assert name in error.message
    assert type(value).__name__ in error.message


@pytest.mark.parametrize("value", [1, True, 2.5, np.float16(2.5), np.float64(1e-50), np.int8(-3), np.uint64(2**60)])
def test_reals_take_every_number(runtime: TaichiRuntime, kernels: Kernels, value: Any) -> None:
    """Real parameters take Python and NumPy integers and reals, rounded to the parameter's type."""
    assert run(runtime, kernels.same["f32"], value)[0] == np.float32(value)


def test_infinities_and_nan_pass_as_they_are(runtime: TaichiRuntime, kernels: Kernels) -> None:
    """Infinities and NaN are legal reals of any width."""
    for name in ("f16", "f32", "f64"):
        assert run(runtime, kernels.same[name], float("inf"))[0] == float("inf")
        assert run(runtime, kernels.same[name], -np.float64("inf"))[0] == -float("inf")
        assert np.isnan(run(runtime, kernels.same[name], float("nan"))[0])


@pytest.mark.parametrize("name", ["f16", "f32", "f64"])
def test_the_largest_finite_number_passes(name: str) -> None:
    """The largest finite value is in range, and so is all that rounds to it."""
    largest = np.finfo(DTYPES[name]).max
    assert scalar_taker(name)(largest) == float(largest)
    assert np.isfinite(DTYPES[name].type(scalar_taker(name)(float(largest) * (1 + 1e-9 * (name != "f64")))))


def test_python_types_as_annotations_mean_the_defaults(runtime: TaichiRuntime, kernels: Kernels) -> None:
    """``int``, ``float`` and ``bool`` stand for the session's default types."""
    assert run(runtime, kernels.python_types, 3, 2.5, True)[0] == 6.5
    assert refused(runtime, kernels.python_types, 2**31, 0.0, False).parameter == "i"


# Calls ------------------------------------------------------------------------------------------------------


def test_keywords_are_taken_in_any_order(runtime: TaichiRuntime, kernels: Kernels) -> None:
    """Positional and named arguments mix as in Python."""
    assert run(runtime, kernels.minus, b=1.0, a=3.0)[0] == 2.0
    assert run(runtime, kernels.minus, 3.0, b=1.0)[0] == 2.0


@pytest.mark.parametrize(
    ("args", "kwargs", "parameter", "said"),
    [
        ((1, 2, 3), {}, None, "takes 2 arguments (a: f32, b: f32), but 3 came"),
        ((1,), {}, "b", "needs parameter 'b' (f32)"),
        ((), {"b": 1}, "a", "needs parameter 'a' (f32)"),
        ((1, 2), {"b": 2}, "b", "twice"),
        ((1,), {"b": 2, "c": 3}, "c", "no parameter 'c'"),
    ],
)
def test_each_wrong_call_has_its_own_sentence(
    runtime: TaichiRuntime, kernels: Kernels, args: Any, kwargs: Any, parameter: str | None, said: str
) -> None:
    """Too many, missing, doubled and unknown arguments are told apart before the launch."""
    error = refused(runtime, kernels.minus, *args, **kwargs)
    assert error.parameter == parameter
    assert said in error.message


def test_more_arguments_than_a_launch_takes_are_refused(runtime: TaichiRuntime, kernels: Kernels) -> None:
    """A kernel with more parameters than the runtime can pass is refused with both numbers."""
    most = runtime.max_arguments
    message = refused(runtime, kernels.too_many, *range(most + 1)).message
    assert f"{most + 1} parameters" in message
    assert f"{most} at most" in message


def test_a_bound_kernel_skips_self(runtime: TaichiRuntime, kernels: Kernels) -> None:
    """A kernel got from an instance takes its own parameters, by position and by name."""
    scaler = kernels.scaler(3.0)
    x = runtime.ti.ndarray(runtime.ti.f32, 4)
    x.fill(1.0)
    run(runtime, scaler.scale, x, by=2.0)
    assert x.to_numpy().tolist() == [6.0] * 4
    assert "takes 2 arguments (x:" in refused(runtime, scaler.scale, x, 1.0, 2.0).message


def test_a_gradient_takes_what_its_kernel_takes(runtime: TaichiRuntime, kernels: Kernels) -> None:
    """``kernel.grad`` is bound like the kernel, also where it is got from an instance."""
    ti = runtime.ti
    x, y = ti.ndarray(ti.f32, 3, needs_grad=True), ti.ndarray(ti.f32, (), needs_grad=True)
    x.fill(3.0)
    y.grad.fill(1.0)
    run(runtime, kernels.square_sum.grad, x, y=y)
    assert x.grad.to_numpy().tolist() == [6.0] * 3
    assert refused(runtime, kernels.square_sum.grad, x, 1).parameter == "y"
    scaler = kernels.scaler(3.0)
    assert refused(runtime, scaler.scale.grad, x, "2").parameter == "by"


# Arrays -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LAYOUTS)
def test_every_layout_is_written_back(runtime: TaichiRuntime, kernels: Kernels, name: str) -> None:
    """A kernel that adds one gives the caller's values plus one, whatever the layout was."""
    array = LAYOUTS[name]
    _, written = run(runtime, kernels.add_one, received(array))
    if array.size == 0:
        assert written == {}
        return
    assert written[0].shape == array.shape
    np.testing.assert_array_equal(written[0], np.asarray(array) + np.asarray(1, array.dtype))


@pytest.mark.parametrize("name", EXACT_DTYPES)
def test_every_dtype_is_copied_exactly(runtime: TaichiRuntime, kernels: Kernels, name: str) -> None:
    """The ends of every dtype pass through a kernel bit by bit."""
    array = extremes(DTYPES[name])
    _, written = run(runtime, kernels.copy, received(array, "in"), received(np.zeros_like(array), "out"))
    assert list(written) == [1]
    assert written[1].dtype == array.dtype
    assert same_bytes(written[1], array)


def test_the_message_is_never_written(runtime: TaichiRuntime, kernels: Kernels) -> None:
    """The bytes that came are the same after the kernel wrote its array."""
    sent = received(np.arange(8, dtype=np.float32))
    before = bytes(sent.data)
    assert 0 in run(runtime, kernels.add_one, sent)[1]
    assert sent.data == before


def test_only_what_changed_comes_back(runtime: TaichiRuntime, kernels: Kernels) -> None:
    """Arrays that were only read, or are 'in', are not returned; 'out' always is; names are kept."""
    a = np.arange(4, dtype=np.float32)
    assert run(runtime, kernels.copy, received(a), dst=received(a))[1] == {}
    _, written = run(runtime, kernels.copy, received(a), dst=received(a + 1))
    assert list(written) == ["dst"]
    assert run(runtime, kernels.add_one, received(a, "in"))[1] == {}
    _, written = run(runtime, kernels.total, received(a, "out"))
    assert written[0].tolist() == [0.0] * 4


def test_nan_that_stays_is_no_change(runtime: TaichiRuntime, kernels: Kernels) -> None:
    """Bits are compared, not values: NaN equals itself and -0.0 differs from 0.0."""
    a = np.array([np.nan, 1.0], np.float32)
    assert run(runtime, kernels.copy, received(a), received(a))[1] == {}
    zeros, negative = np.zeros(2, np.float32), np.full(2, -0.0, np.float32)
    assert list(run(runtime, kernels.copy, received(negative), received(zeros))[1]) == [1]
    assert not same_bytes(np.asfortranarray(np.ones((2, 3))), np.zeros((2, 3)))


def test_a_read_only_array_is_refused_where_the_kernel_writes(runtime: TaichiRuntime, kernels: Kernels) -> None:
    """A certain write is refused before the launch, an uncertain one after it, and reading is fine."""
    a = np.arange(4, dtype=np.float32)
    error = refused(runtime, kernels.add_one, received(a, writeable=False))
    assert error.parameter == "x"
    assert "read-only" in error.message
    with pytest.raises(KernelArgumentError, match="read-only") as caught:
        run(runtime, kernels.add_one_if, received(a, writeable=False), 1)
    assert caught.value.parameter == "x"
    assert run(runtime, kernels.add_one_if, received(a, writeable=False), 0)[1] == {}
    assert run(runtime, kernels.total, received(a, writeable=False)) == (6.0, {})
    assert run(runtime, kernels.add_one, received(a, "in", writeable=False))[1] == {}


def test_an_array_without_bytes_must_be_out(runtime: TaichiRuntime, kernels: Kernels) -> None:
    """An array that should have come with bytes and did not is a fault of the message."""
    with pytest.raises(ProtocolError):
        bind(runtime, kernels.total, [WireArray(ArrayDescriptor(dtype="f32", shape=(3,)), None)], {})


@pytest.mark.parametrize("dtype", [np.float64, np.int32, np.float16])
def test_another_dtype_is_refused_with_the_parameter(runtime: TaichiRuntime, kernels: Kernels, dtype: Any) -> None:
    """An array of another dtype than the annotation's is never converted silently, here or on the worker."""
    error = refused(runtime, kernels.f32_vector, received(np.zeros(3, dtype)))
    assert error.parameter == "x"
    assert ".astype(np.float32)" in error.message
    resident = runtime.ti.ndarray(runtime.ti.f64, 3)
    assert "an ndarray of f64" in refused(runtime, kernels.f32_vector, resident).message


def test_ndim_is_checked_for_numpy_arrays_too(runtime: TaichiRuntime, kernels: Kernels) -> None:
    """A wrong number of axes is refused, whoever made the array."""
    assert "2 axes, not 1" in refused(runtime, kernels.f32_vector, received(np.zeros((2, 2), np.float32))).message
    resident = runtime.ti.ndarray(runtime.ti.f32, (2, 2))
    assert "2 axes, not 1" in refused(runtime, kernels.f32_vector, resident).message


def test_a_field_for_an_ndarray_parameter_is_refused(runtime: TaichiRuntime, kernels: Kernels) -> None:
    """The error names the parameter, what it takes and what came."""
    field = runtime.ti.field(runtime.ti.f32, 5)
    error = refused(runtime, kernels.f32_vector, field)
    assert error.parameter == "x"
    assert "ndarray(f32, ndim=1)" in error.message
    assert "a field of f32, shape (5,)" in error.message


@pytest.mark.parametrize("value", [1.0, [1.0, 2.0], "x", None, {"a": 1}])
def test_what_is_no_array_is_refused(runtime: TaichiRuntime, kernels: Kernels, value: Any) -> None:
    """Lists, numbers and the rest are no arrays."""
    assert "pass an ndarray or a NumPy array" in refused(runtime, kernels.f32_vector, value).message


def test_vector_elements_are_the_last_axes(runtime: TaichiRuntime, kernels: Kernels) -> None:
    """A vec3 array is (..., 3) of its dtype or a wider one; others are refused, and on the worker it is its own."""
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(run(runtime, kernels.add_vec3, received(array))[1][0], array + 1)
    one = np.zeros(3, np.float32)
    np.testing.assert_array_equal(run(runtime, kernels.add_vec3, received(one))[1][0], one + 1)
    for wrong in (np.zeros((2, 4), np.float32), np.zeros((2, 3), "f2"), np.zeros((2, 3), np.int32), np.float32(1)):
        assert refused(runtime, kernels.add_vec3, received(np.asarray(wrong))).parameter == "x"
    ti = runtime.ti
    vectors = ti.Vector.ndarray(3, ti.f32, 4)
    run(runtime, kernels.add_vec3, vectors)
    assert vectors.to_numpy().tolist() == [[1.0] * 3] * 4
    assert "element shape" in refused(runtime, kernels.add_vec3, ti.Vector.ndarray(4, ti.f32, 4)).message
    assert "f64" in refused(runtime, kernels.add_vec3, ti.Vector.ndarray(3, ti.f64, 4)).message


def test_a_python_type_as_element_type_works_with_numpy(runtime: TaichiRuntime, kernels: Kernels) -> None:
    """``ti.types.ndarray(dtype=float)`` takes NumPy arrays of the default type."""
    _, written = run(runtime, kernels.python_element, received(np.zeros(3, np.float32)))
    assert written[0].tolist() == [1.0] * 3
    assert refused(runtime, kernels.python_element, received(np.zeros(3))).parameter == "x"


def test_a_gradient_that_is_needed_must_be_there(runtime: TaichiRuntime, kernels: Kernels) -> None:
    """needs_grad=True takes neither NumPy arrays nor ndarrays without a gradient."""
    ti = runtime.ti
    assert "gradient" in refused(runtime, kernels.needs_grad, received(np.zeros(3, np.float32))).message
    assert "needs_grad=True" in refused(runtime, kernels.needs_grad, ti.ndarray(ti.f32, 3)).message
    run(runtime, kernels.needs_grad, ti.ndarray(ti.f32, 3, needs_grad=True))


def test_more_elements_than_an_index_counts_are_refused(runtime: TaichiRuntime, kernels: Kernels) -> None:
    """Over 2**31 - 1 elements are refused, without a copy being made first."""
    huge = WireArray(ArrayDescriptor(dtype="u8", shape=(2**16, 2**15), access="out"), None)
    assert str(2**31 - 1) in refused(runtime, kernels.add_one, huge).message


def test_a_kept_host_array_is_used_in_place(runtime: TaichiRuntime, kernels: Kernels) -> None:
    """A NumPy array that stays on the worker is written itself, in every layout, and nothing comes back."""
    for kept in (np.zeros(4, np.float32), np.zeros((2, 3), np.float32, order="F"), np.zeros(8, np.float32)[::2]):
        assert run(runtime, kernels.add_one, kept)[1] == {}
        np.testing.assert_array_equal(kept, np.ones_like(kept))
    locked = np.zeros(4, np.float32)
    locked.flags.writeable = False
    assert "read-only" in refused(runtime, kernels.add_one, locked).message
    assert refused(runtime, kernels.add_one, np.zeros(2, complex)).parameter == "x"


# Vectors, structs, templates ---------------------------------------------------------------------------------


def test_vectors_take_any_sequence_of_the_right_length(runtime: TaichiRuntime, kernels: Kernels) -> None:
    """Lists, tuples, arrays and vectors of exactly three numbers make a vec3."""
    ti = runtime.ti
    for value in ([1, 2.0, 3], (1, 2, np.float64(3)), received(np.array([1, 2, 3])), ti.Vector([1.0, 2.0, 3.0])):
        assert run(runtime, kernels.vec3_sum, value)[0] == 6.0


@pytest.mark.parametrize(
    "value", [[1, 2, 3, 4], [1, 2], 5.0, "abc", [1, 2, 1e40], [1, 2, "3"], {"x": 1}, [[1], [2], [3]]]
)
def test_vectors_of_another_shape_are_refused(runtime: TaichiRuntime, kernels: Kernels, value: Any) -> None:
    """No number is dropped, made up or changed."""
    assert refused(runtime, kernels.vec3_sum, value).parameter == "v"


def test_the_element_at_fault_is_named(runtime: TaichiRuntime, kernels: Kernels) -> None:
    """An error inside a compound value says where."""
    assert "at [1]" in refused(runtime, kernels.i8_sum, [1, 200]).message
    assert "at centre[2]" in refused(runtime, kernels.sphere_sum, {"centre": [0, 0, "x"], "radius": 1}).message


def test_matrices_are_taken_row_by_row(runtime: TaichiRuntime, kernels: Kernels) -> None:
    """Nested lists and 2-d arrays make a matrix; a wrong shape is refused."""
    expected = [[2.0, 4.0], [6.0, 8.0]]
    for value in ([[1, 2], [3, 4]], received(np.array([[1.0, 2], [3, 4]])), runtime.ti.Matrix([[1.0, 2], [3, 4]])):
        assert run(runtime, kernels.double_matrix, value)[0].to_numpy().tolist() == expected
    for wrong in ([1, 2, 3, 4], [[1, 2], [3]], [[1, 2], [3, 4], [5, 6]]):
        assert refused(runtime, kernels.double_matrix, wrong).parameter == "m"


def test_u64_vectors_are_exact(runtime: TaichiRuntime, kernels: Kernels) -> None:
    """The largest 64-bit integers survive in a vector."""
    assert run(runtime, kernels.u64_first, [2**64 - 1, 0])[0] == 2**64 - 1


def test_structs_take_dicts_and_sequences(runtime: TaichiRuntime, kernels: Kernels) -> None:
    """A struct is a dict with exactly its members, or their values in order; members are checked like arguments."""
    for value in ({"centre": [1, 2, 3], "radius": 4}, {"radius": 4, "centre": (1, 2, 3)}, ([1, 2, 3], 4)):
        assert run(runtime, kernels.sphere_sum, value)[0] == 10.0
    made = kernels.sphere(centre=[1, 2, 3], radius=4)
    assert run(runtime, kernels.sphere_sum, made)[0] == 10.0
    for wrong in (
        {"centre": [1, 2, 3]},
        {"centre": [1, 2, 3], "radius": 1, "mass": 2},
        [1],
        3,
        {"centre": [1], "radius": 1},
    ):
        assert refused(runtime, kernels.sphere_sum, wrong).parameter == "s"
    assert "no radius" in refused(runtime, kernels.sphere_sum, {"centre": [1, 2, 3]}).message


def test_templates_take_fields_numbers_and_tuples(runtime: TaichiRuntime, kernels: Kernels) -> None:
    """What Taichi takes as a template passes; arrays and dicts are refused with advice."""
    ti = runtime.ti
    field = ti.field(ti.f32, 3)
    run(runtime, kernels.fill_template, field, 2)
    assert field.to_numpy().tolist() == [2.0] * 3
    run(runtime, kernels.fill_template, field, np.float32(2.5))
    assert field.to_numpy().tolist() == [2.5] * 3
    assert run(runtime, kernels.tuple_sum, (1, 2))[0] == 3
    assert run(runtime, kernels.tuple_sum, [1, 2])[0] == 3
    for wrong in (ti.ndarray(ti.f32, 3), received(np.zeros(33)), {"a": 1}):
        assert refused(runtime, kernels.fill_template, wrong, 1).parameter == "f"


def test_a_texture_that_is_none_is_refused(runtime: TaichiRuntime, kernels: Kernels) -> None:
    """A texture is made on the worker; anything else is refused in one line."""
    if runtime.kind.lacking("Texture"):
        pytest.skip(f"{runtime.name} has no textures")
    assert "texture" in refused(runtime, kernels.texture, 1).message


# Python functions -------------------------------------------------------------------------------------------


def test_functions_get_private_arrays_that_are_written_back() -> None:
    """A Python function may write its arrays; the caller gets what changed, the message stays as it was."""

    def driver(a: np.ndarray, *, b: np.ndarray, times: int = 1) -> float:
        a += times
        return float(b.sum())

    sent = received(np.zeros(3))
    call = bind_function(driver, [sent], {"b": received(np.ones(3))})
    assert call.launch() == 3.0
    written = call.written()
    assert list(written) == [0]
    assert written[0].tolist() == [1.0] * 3
    assert np.frombuffer(sent.data).tolist() == [0.0] * 3


def test_functions_see_read_only_arrays_as_such(kernels: Kernels) -> None:
    """NumPy itself refuses the write; a kernel that writes through is found afterwards."""

    def numpy_write(a: np.ndarray) -> None:
        a += 1

    call = bind_function(numpy_write, [received(np.zeros(3), writeable=False)], {})
    with pytest.raises(ValueError, match="read-only"):
        call.launch()

    call = bind_function(lambda a: kernels.add_one(a), [received(np.zeros(3, np.float32), writeable=False)], {})
    call.launch()
    with pytest.raises(KernelArgumentError, match="read-only"):
        call.written()


def test_functions_are_bound_by_their_signature() -> None:
    """A call that Python would refuse is refused before it starts, with the signature."""

    def driver(a: int, b: int = 2) -> int:
        return a + b

    assert bind_function(driver, [1], {"b": 5}).launch() == 6
    for args, kwargs in (([], {}), ([1, 2, 3], {}), ([1], {"c": 1}), ([1], {"a": 1})):
        with pytest.raises(KernelArgumentError, match="driver"):
            bind_function(driver, args, kwargs)
    assert bind_function(max, [1, 2], {}).launch() == 2


def test_binding_costs_few_microseconds(runtime: TaichiRuntime, kernels: Kernels) -> None:
    """A call with one resident ndarray and one f32 is bound in well under 20 us."""
    x = runtime.ti.ndarray(runtime.ti.f32, 10)
    bind(runtime, kernels.add_base, [x, 1.0], {})
    best = float("inf")
    for _ in range(20):
        start = time.perf_counter()
        for _ in range(50):
            bind(runtime, kernels.add_base, [x, 1.0], {})
        best = min(best, (time.perf_counter() - start) / 50)
    assert best < 20e-6
