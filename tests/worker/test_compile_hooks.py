"""Where Taichi compiles: each step of it is counted, and no later launch meets the clock."""
# A kernel's annotations are values, so no ``from __future__ import annotations`` here.

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tiremote.worker.engine.compile_hooks import CompileHooks
from tiremote.worker.engine.runtime import TaichiRuntime
from tiremote.worker.runtimes import RUNTIMES

Told = list[dict[str, Any]]


@pytest.fixture
def told(runtime: TaichiRuntime) -> Iterator[Told]:
    """What the runtime's clock tells in a request that begins now."""
    heard: Told = []
    runtime.compile_clock.restart()
    runtime.compile_clock.tell = lambda **state: heard.append(state)
    yield heard
    runtime.compile_clock.tell = None


def kernel(runtime: TaichiRuntime) -> Any:
    """One that was never compiled."""
    ti = runtime.ti

    @ti.kernel
    def add(y: ti.types.ndarray(ndim=1), n: ti.i32):  # type: ignore[no-untyped-def,valid-type]
        y[0] += n

    return add


@pytest.fixture
def launching(arch: str) -> str:
    """What a first launch with nothing but ndarrays counts as: a GPU does not wait in it."""
    return "first launch" if arch == "cpu" else "compile"


def phases(told: Told) -> list[str]:
    """The phases that were told."""
    names = {(False, True): "end", (True, True): "compile", (True, False): "first launch"}
    return [names[state["since"] is not None, state["spare"] is None] for state in told]


def test_a_first_call_tells_its_compile_and_later_ones_nothing(
    runtime: TaichiRuntime, told: Told, launching: str
) -> None:
    """Front end, back end, first launch; afterwards nothing of ours is in the way of a launch."""
    ti, add = runtime.ti, kernel(runtime)
    x = ti.ndarray(ti.i32, 1)
    add(x, 1)
    assert phases(told) == ["compile", "end", "compile", "end", launching, "end"]
    assert runtime.compile_clock.compiled > 0
    assert "launch_kernel" not in vars(runtime.primal(add))
    told.clear()
    add(x, 1)
    assert told == []
    assert x.to_numpy().tolist() == [2]


def test_new_types_of_arguments_are_a_compile_of_their_own(runtime: TaichiRuntime, told: Told, launching: str) -> None:
    """Wherever in a call they come."""
    ti, add = runtime.ti, kernel(runtime)
    add(ti.ndarray(ti.i32, 1), 1)
    before = runtime.compile_clock.compiled
    told.clear()
    y = ti.ndarray(ti.f32, 1)
    add(y, 1)
    assert phases(told) == ["compile", "end", "compile", "end", launching, "end"]
    assert runtime.compile_clock.compiled > before
    assert y.to_numpy().tolist() == [1]


def test_a_kernel_that_was_only_checked_has_its_back_end_made_at_its_launch(
    runtime: TaichiRuntime, told: Told, launching: str
) -> None:
    """A load makes front ends; the rest counts for the request that launches first, and another instance waits."""
    ti, add = runtime.ti, kernel(runtime)
    x, y = ti.ndarray(ti.i32, 1), ti.ndarray(ti.f32, 1)
    runtime.ensure_compiled(add, x, 1)
    runtime.ensure_compiled(add, y, 1)
    assert phases(told) == ["compile", "end"] * 2
    told.clear()
    add(x, 1)
    assert phases(told) == ["compile", "end", launching, "end"]
    add(x, 1)
    assert len(told) == 4
    add(y, 1)
    assert len(told) == 8
    assert (x.to_numpy().tolist(), y.to_numpy().tolist()) == ([2], [1])


def test_a_compile_that_fails_ends_the_count(runtime: TaichiRuntime, told: Told) -> None:
    """The clock stands again, and the error is Taichi's own."""
    ti = runtime.ti

    @ti.kernel
    def broken():  # type: ignore[no-untyped-def]
        nobody.knows()  # type: ignore[name-defined] # noqa: F821

    with pytest.raises(runtime.compile_errors()):
        broken()
    assert phases(told) == ["compile", "end"]


def test_gradients_are_counted_too(runtime: TaichiRuntime, told: Told, launching: str) -> None:
    """A kernel's gradient is a kernel of its own."""
    ti = runtime.ti
    x, y = (ti.ndarray(ti.f32, 1, needs_grad=True) for _ in range(2))

    @ti.kernel
    def square(a: ti.types.ndarray(), b: ti.types.ndarray()):  # type: ignore[no-untyped-def,valid-type]
        for i in a:
            b[i] += a[i] * a[i]

    x.fill(3)
    y.grad.fill(1)
    told.clear()
    square.grad(x, y)
    assert phases(told) == ["compile", "end", "compile", "end", launching, "end"]
    assert x.grad.to_numpy().tolist() == [6]


def test_a_first_launch_with_an_array_of_numpys_is_spared(runtime: TaichiRuntime, told: Told) -> None:
    """Every backend waits in it, to bring the array back."""
    add, x = kernel(runtime), np.zeros(1, np.int32)
    add(x, 1)
    assert phases(told) == ["compile", "end", "compile", "end", "first launch", "end"]
    assert told[4]["spare"] > told[4]["compiled"]
    assert x.tolist() == [1]


# A GPU, played ----------------------------------------------------------------------------------------------


class Array:
    """Lies on the device."""


class PlayedGpu:
    """As much of Taichi as the hooks touch, on an arch where a launch does not wait. ``done`` is what it did."""

    def __init__(self, *, arch: str = "gpu", debug: bool = False, prints: bool = False, returns: Any = None) -> None:
        self.done: list[str] = []
        gpu = self

        class Kernel:
            def __init__(self) -> None:
                self.compiled_kernels: dict[str, Any] = {}
                self.arguments = [SimpleNamespace(annotation=object()), SimpleNamespace(annotation=Array())]
                self.runtime = SimpleNamespace(materialize=lambda: None)
                self.return_type = returns

            def materialize(self, key: str, **_: Any) -> None:
                if key not in self.compiled_kernels:
                    gpu.done.append("front end")
                    self.compiled_kernels[key] = key

            def launch_kernel(self, *_: Any) -> str:
                gpu.done.append("launch")
                if prints:
                    gpu.kernel_impl.runtime_ops.sync()
                return "returned"

            def __call__(self, *args: Any) -> Any:
                self.materialize(key="k", args=args, arg_features=None)
                return self.launch_kernel(self.compiled_kernels["k"], *args)

        program = SimpleNamespace(
            config=lambda: None, get_device_caps=lambda: None, compile_kernel=lambda *_: self.done.append("back end")
        )
        state = SimpleNamespace(prog=program, sync=lambda: self.done.append("sync"))
        config = SimpleNamespace(arch=arch, debug=debug, kernel_profiler=False)
        self.kernel_impl = SimpleNamespace(
            Kernel=Kernel,
            handle_exception_from_cpp=lambda error: error,
            runtime_ops=None,
        )
        types = SimpleNamespace(ndarray_type=SimpleNamespace(NdarrayType=Array))
        runtime: Any = SimpleNamespace(
            ti=SimpleNamespace(cpu="cpu", types=types),
            impl=SimpleNamespace(current_cfg=lambda: config, get_runtime=lambda: state),
            layout=RUNTIMES["taichi"].layout,
            module=lambda _: self.kernel_impl,
            kernel_class=Kernel,
            parameters=lambda kernel: kernel.arguments,
            is_ndarray=lambda value: isinstance(value, Array),
        )
        self.hooks = CompileHooks(runtime)
        self.hooks.clock.tell = lambda **state: self.done.append(*phases([state]))

    def call(self, *args: Any) -> Any:
        """A first call, and a second one that must not be told of."""
        kernel = self.kernel_impl.Kernel()
        value = kernel(*args)
        told = len(self.done)
        kernel(*args)
        assert "launch" in self.done[told:]
        assert not {"compile", "first launch", "end"} & set(self.done[told:])
        del self.done[told:]
        return value


BEFORE = ["compile", "front end", "end", "compile", "back end", "end"]


def test_a_launch_that_does_not_wait_is_compiling_as_a_whole() -> None:
    """What ran before is waited for first: the driver may do so too, and that is no compiling."""
    gpu = PlayedGpu()
    assert gpu.call(1, Array()) == "returned"
    assert gpu.done == [*BEFORE, "sync", "compile", "launch", "end"]


def test_a_launch_that_prints_is_compiling_until_it_waits_for_that() -> None:
    """Then it has been started, and runs."""
    gpu = PlayedGpu(prints=True)
    gpu.call(1, Array())
    assert gpu.done == [*BEFORE, "sync", "compile", "launch", "end", "sync"]


@pytest.mark.parametrize(
    ("options", "value"),
    [({"debug": True}, Array()), ({"returns": (int,)}, Array()), ({}, np.zeros(1)), ({"arch": "cpu"}, Array())],
)
def test_a_launch_that_waits_is_spared(options: dict[str, Any], value: Any) -> None:
    """For what it returns, for another's array to bring back, for errors in a debug session; a CPU runs at once."""
    gpu = PlayedGpu(**options)
    gpu.call(1, value)
    assert gpu.done == [*BEFORE, "first launch", "launch", "end"]


def test_a_gpus_driver_is_given_more_time_than_a_cpu() -> None:
    """Its machine code took twenty times as long as the steps before it."""
    assert PlayedGpu().hooks.spare(1.0) > 20 > PlayedGpu(arch="cpu").hooks.spare(1.0) > 1
