"""What a runtime gets wrong on a backend is refused there or done otherwise; the backend is told.

So no driver is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from tested_runtime import RUNTIME
from tiremote.protocol.errors import Refused
from tiremote.worker.engine import backend_faults
from tiremote.worker.engine.backend_faults import BackendGuard
from tiremote.worker.engine.loader import KernelLoader
from tiremote.worker.engine.runtime import TaichiRuntime
from tiremote.worker.runtimes import GRAPHICS

SOURCE = """
loss = ti.field(ti.f32, (), needs_grad=True, needs_dual=True)
x = ti.field(ti.f32, 3, needs_grad=True, needs_dual=True)
pair = ti.types.vector(2, ti.u1)

@ti.kernel
def squares(a: ti.types.ndarray()):
    for i in a:
        loss[None] += a[i] ** 2

@ti.kernel
def of_field():
    for i in x:
        loss[None] += x[i] ** 2

@ti.kernel
def scaled(a: ti.types.ndarray()):
    for i in x:
        loss[None] += a[i] * x[i]

@ti.kernel
def one_bool(b: ti.u1) -> ti.u1:
    return b

@ti.kernel
def both(v: pair) -> ti.i32:
    return ti.i32(v[0])

@ti.kernel
def first_two(a: ti.types.ndarray(), b: ti.types.ndarray(ti.types.vector(2, ti.i32))):
    for i in range(2):
        a[i] = 7
        b[i][1] = 7

@ti.ad.grad_replaced
def replaced(a):
    squares(a)

@ti.ad.grad_for(replaced)
def gradient_of_it(a):
    a.grad.fill(5.0)

def taped(function, *args):
    with ti.ad.Tape(loss):
        function(*args)

def forward(function, *args):
    with ti.ad.FwdMode(loss=loss, param=x, seed=[1.0, 0.0, 0.0]):
        function(*args)
"""

DATACLASSES = """
import dataclasses

@dataclasses.dataclass(frozen=True)
class Inner:
    x: ti.types.ndarray()

@dataclasses.dataclass(frozen=True)
class Outer:
    inner: Inner
    by: ti.i32

@ti.kernel
def f(o: Outer):
    o.inner.x[0] += o.by
"""

needs_faults = pytest.mark.skipif(
    RUNTIME == "quadrants", reason="quadrants gets right on graphics backends what is refused here"
)


@pytest.fixture
def loader(runtime: TaichiRuntime) -> Iterator[KernelLoader]:
    made = KernelLoader(runtime)
    yield made
    made.cleanup_all()


@pytest.fixture
def on(
    loader: KernelLoader, runtime: TaichiRuntime, arch: str, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], Any]:
    """Has the runtime of this process guarded as on a backend until the test ends; gives the source's module."""
    if arch in GRAPHICS:
        pytest.skip("this process is guarded for its own backend already: tests/features meets that")
    for owner, name in (
        (runtime.kernel_class, "ensure_compiled"),
        (runtime.kernel_class, "launch_kernel"),
        (runtime.impl, "create_field_member"),
        (runtime.lang("_ndarray").Ndarray, "_pad_key"),
        (runtime.lang("_ndarray").ScalarNdarray, "__init__"),
        (runtime.lang("matrix").VectorNdarray, "__init__"),
        (runtime.lang("matrix").MatrixNdarray, "__init__"),
    ):
        monkeypatch.setattr(owner, name, getattr(owner, name))

    def guarded(backend: str) -> Any:
        unit = loader.compile_and_load(SOURCE).unit
        backend_faults.install(runtime, backend)
        return loader[unit]

    return guarded


@needs_faults
@pytest.mark.parametrize("backend", ["vulkan", "metal", "amdgpu"])
@pytest.mark.parametrize("way", ["grad", "taped", "forward"])
def test_a_gradient_of_an_ndarray_is_refused(
    runtime: TaichiRuntime, on: Callable[[str], Any], backend: str, way: str
) -> None:
    """By ``kernel.grad``, on a tape and in forward mode: the kernel, the parameter and what to do are told."""
    unit, a = on(backend), runtime.ti.ndarray(runtime.ti.f32, 3, needs_grad=True)
    with pytest.raises(Refused, match=rf"squares\(\).*'a': on {backend} .* zero; use fields .*cpu or cuda"):
        unit.squares.grad(a) if way == "grad" else unit[way](unit.squares, a)
    runtime.leave_kernel()


@needs_faults
def test_a_tensor_that_requires_a_gradient_is_refused_as_well(runtime: TaichiRuntime, on: Callable[[str], Any]) -> None:
    """Source may give one to a kernel, which would find no gradient in it."""

    class Tensor:
        requires_grad = True

    unit = on("vulkan")
    with pytest.raises(Refused, match="cannot be differentiated for 'a'"):
        BackendGuard(runtime, "vulkan").check(runtime.primal(unit.squares).grad, (Tensor(),))


def test_what_is_right_on_such_a_backend_goes_on(runtime: TaichiRuntime, on: Callable[[str], Any]) -> None:
    """A kernel that is not differentiated, ndarrays without a gradient, fields, and gradients that a source writes."""
    unit, ti = on("vulkan"), runtime.ti
    unit.x.fill(2.0)
    plain, with_gradient = ti.ndarray(ti.f32, 3), ti.ndarray(ti.f32, 3, needs_grad=True)
    plain.fill(3.0)
    with_gradient.fill(4.0)
    unit.loss[None] = 0
    unit.squares(with_gradient)
    assert unit.loss[None] == 48
    unit.taped(unit.scaled, plain)
    assert (unit.loss[None], unit.x.grad.to_numpy().tolist()) == (18, [3, 3, 3])
    unit.taped(unit.replaced, with_gradient)
    assert with_gradient.grad.to_numpy().tolist() == [5, 5, 5]
    unit.forward(unit.of_field)
    assert unit.loss.dual[None] == 4


def test_every_gradient_is_computed_where_the_runtime_does(runtime: TaichiRuntime, on: Callable[[str], Any]) -> None:
    """On CPU and CUDA nothing is in the way of a launch."""
    unit, ti = on("cpu"), runtime.ti
    assert not BackendGuard(runtime, "cuda").refuses()
    a = ti.ndarray(ti.f32, 3, needs_grad=True)
    a.fill(4.0)
    unit.taped(unit.squares, a)
    assert a.grad.to_numpy().tolist() == [8, 8, 8]


@needs_faults
def test_bools_in_memory_are_refused_on_graphics_backends(runtime: TaichiRuntime, on: Callable[[str], Any]) -> None:
    """In fields, ndarrays, NumPy arrays and vectors, by what they are in; one that goes as a number is right."""
    unit, ti = on("vulkan"), runtime.ti
    bools = ti.types.vector(2, ti.u1)
    for make, what in (
        (lambda: ti.field(ti.u1, 3), "a field holds bools, and on vulkan .* use u8 or i32"),
        (lambda: ti.Vector.field(2, bool, 3), "a field"),
        (lambda: ti.ndarray(ti.u1, 3).fill(True), "an array holds bools"),
        (lambda: unit.scaled(ti.Vector.ndarray(2, ti.u1, 2)), r"parameter 'a' of scaled\(\)"),
        (lambda: unit.scaled(np.zeros(3, np.bool_)), r"parameter 'a' of scaled\(\)"),
        (lambda: unit.both(bools(1, 0)), r"parameter 'v' of both\(\)"),
    ):
        with pytest.raises(Refused, match=what):
            make()
        runtime.leave_kernel()
    assert unit.one_bool(True) == 1


@needs_faults
def test_an_argument_pack_is_refused_on_graphics_backends(
    runtime: TaichiRuntime, loader: KernelLoader, on: Callable[[str], Any]
) -> None:
    """What is in one would be another's value."""
    on("vulkan")
    if not hasattr(runtime.ti.types, "argpack"):
        pytest.skip(f"{runtime.name} has no argument packs")
    unit = loader[
        loader.compile_and_load(
            "Pack = ti.types.argpack(a=ti.f32)\n@ti.kernel\ndef f(p: Pack) -> ti.f32:\n    return p.a\n"
        ).unit
    ]
    with pytest.raises(Refused, match=r"'p' of f\(\) is an argument pack.* separate parameters"):
        unit.f(unit.Pack(a=1.0))


def test_a_numpy_array_keeps_what_a_kernel_leaves_alone(on: Callable[[str], Any]) -> None:
    """Elements and members of vectors that a launch does not write are as before, strided arrays among them."""
    unit = on("vulkan")
    a, b = np.arange(4, dtype=np.float32), np.arange(6, dtype=np.int32).reshape(3, 2)
    unit.first_two(a, b)
    assert (a.tolist(), b.tolist()) == ([7, 7, 2, 3], [[0, 7], [2, 7], [4, 5]])


@needs_faults
def test_a_numpy_array_goes_as_an_ndarray_where_only_that_is_right(
    runtime: TaichiRuntime, on: Callable[[str], Any]
) -> None:
    """A launcher is given arrays of the runtime's own alone, and what is in them afterwards comes back."""
    given: list[Any] = []

    def launch(_: Any, *args: Any) -> str:
        given.extend(args)
        args[-2].fill(9)
        return "done"

    unit = on("cpu")
    guard, kernel = BackendGuard(runtime, "metal"), runtime.primal(unit.first_two)
    leading = [None] * runtime.layout.launched[1]
    a, b = np.zeros(3, np.float32), np.zeros((3, 2), np.int32)
    assert guard.on_ndarrays(launch)(kernel, *leading, a, b) == "done"
    assert [tuple(each.element_shape) for each in given[-2:]] == [(), (2,)]
    assert (a.tolist(), b.any()) == ([9, 9, 9], False)


def test_an_array_without_axes_goes_as_an_ndarray_too(runtime: TaichiRuntime, on: Callable[[str], Any]) -> None:
    """A kernel may come not to write it; one without elements has nothing to lose, and goes as it is."""
    given: list[Any] = []
    unit = on("cpu")
    guard, kernel = BackendGuard(runtime, "vulkan"), runtime.primal(unit.first_two)
    launch = guard.on_ndarrays(lambda _, *args: given.extend(args[-2:]))
    a, b = np.array(5.0, np.float32), np.zeros((0, 2), np.int32)
    launch(kernel, *[None] * runtime.layout.launched[1], a, b)
    assert runtime.is_ndarray(given[0])
    assert given[1] is b
    assert a.item() == 5


@pytest.mark.skipif(RUNTIME != "gstaichi", reason="taichi has no dataclasses of arrays, and quadrants gets them right")
def test_arrays_in_a_dataclass_go_as_ndarrays(
    runtime: TaichiRuntime, loader: KernelLoader, on: Callable[[str], Any]
) -> None:
    """In a nested and frozen one too; the dataclass of the caller has its own arrays as before."""
    given: list[Any] = []

    def launch(_: Any, *args: Any) -> None:
        given.append(args[-1])
        args[-1].inner.x.fill(9)

    on("cpu")
    unit = loader[loader.compile_and_load(DATACLASSES).unit]
    guard, kernel = BackendGuard(runtime, "vulkan"), runtime.primal(unit.f)
    x = np.zeros(3, np.float32)
    whole = unit.Outer(unit.Inner(x), 2)
    guard.on_ndarrays(launch)(kernel, *[None] * runtime.layout.launched[1], whole)
    assert runtime.is_ndarray(given[0].inner.x)
    assert (given[0].by, whole.inner.x is x, x.tolist()) == (2, True, [9, 9, 9])
    with pytest.raises(Refused, match=r"'o' of f\(\) holds bools"):
        guard.check(kernel, [unit.Outer(unit.Inner(np.zeros(3, np.bool_)), 2)])


def test_an_element_is_set_after_what_runs(
    runtime: TaichiRuntime, on: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python waits for the device before it writes into an ndarray there, and on a CPU it does not."""
    waited: list[str] = []
    monkeypatch.setattr(runtime.ti, "sync", lambda: waited.append("sync"))
    array = runtime.ti.ndarray(runtime.ti.f32, 3)
    for backend, often in (("cpu", 0), ("vulkan", 1)):
        on(backend)
        waited.clear()
        array[1] = 2.0
        assert len(waited) == often


def test_a_new_ndarray_is_filled_to_its_last_byte(
    runtime: TaichiRuntime, on: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where its bytes are no whole words, also while a tape records, which learns nothing of it; others are not."""
    ti, filled = runtime.ti, list[tuple[int, ...]]()
    unit = on("vulkan")
    for cls in (runtime.lang("_ndarray").ScalarNdarray, runtime.lang("matrix").VectorNdarray):
        fill = cls.fill
        monkeypatch.setattr(
            cls, "fill", lambda array, value, fill=fill: (filled.append(array.shape), fill(array, value))
        )
    tape = ti.ad.Tape(unit.loss)
    with tape:
        ti.ndarray(ti.i8, 3)
        ti.ndarray(ti.f16, (1, 3))
        ti.Vector.ndarray(3, ti.u8, 5)
        ti.ndarray(ti.i8, 8)
        ti.ndarray(ti.f32, 5)
        assert not tape.calls
    assert filled == [(3,), (1, 3), (5,)]


@needs_faults
def test_a_field_that_is_refused_leaves_nothing_half_done(runtime: TaichiRuntime, on: Callable[[str], Any]) -> None:
    """Launches go on after a client has asked for a field of bools."""
    unit = on("vulkan")
    with pytest.raises(Refused, match="a field holds bools"):
        runtime.make_field("bool", (3,), (), False)
    assert unit.one_bool(True) == 1
