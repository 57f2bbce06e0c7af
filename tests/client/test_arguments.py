"""Every odd array goes there as it is and is written back as it lies; what cannot travel is refused by name."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from array_zoo import REFUSED, ZOO
from tiremote.client import In, InOut, Out, Session, connect
from tiremote.protocol.errors import KernelArgumentError, KernelRuntimeError, UnsupportedType
from tiremote.protocol.messages import Alloc, Cleanup, Fetch, Put, Run
from tiremote.protocol.results import Limits, RunResult
from tiremote.protocol.values import Handle, WireArray

from .fake_worker import FakeWorker, array_of, fake_worker


@pytest.fixture(autouse=True)
def unit(worker: FakeWorker) -> None:
    worker.define("u", k="kernel")


def flipped(array: np.ndarray) -> np.ndarray:
    """Every bit another."""
    return np.ascontiguousarray(array).view(np.uint8).__invert__().view(array.dtype).reshape(array.shape)


@pytest.mark.parametrize("make", ZOO.values(), ids=ZOO)
def test_an_array_arrives_as_it_is_and_is_written_back_as_it_lies(
    worker: FakeWorker, gpu: Session, make: Callable[[], np.ndarray]
) -> None:
    """Whatever its layout or byte order; one that is read-only says so, and is not written."""
    array = make()
    came = []
    answer = np.zeros(array.shape, array.dtype.newbyteorder("<"))

    def run(request: Run) -> RunResult:
        wire = request.args[0]
        came.append((array_of(wire), wire.descriptor))
        return RunResult(written=[(0, answer)] if wire.descriptor.writeable else [])  # type: ignore[arg-type, list-item]

    worker.on_run = run
    before = array.copy()
    gpu["u"].k(array)
    (got, descriptor) = came[0]
    assert got.shape == array.shape
    np.testing.assert_array_equal(got, np.asarray(before))
    assert descriptor.writeable == array.flags.writeable
    np.testing.assert_array_equal(np.asarray(array), answer if array.flags.writeable else np.asarray(before))


@pytest.mark.parametrize("make", REFUSED.values(), ids=REFUSED)
def test_an_array_that_cannot_travel_is_refused_by_its_argument_before_anything_is_sent(
    worker: FakeWorker, gpu: Session, make: Callable[[], np.ndarray]
) -> None:
    """By position, by name, and inside a list."""
    array = make()
    kernel = gpu["u"].k
    with pytest.raises(UnsupportedType, match="argument 1"):
        kernel(1, array)
    with pytest.raises(UnsupportedType, match="argument 'x'"):
        kernel(x=array)
    with pytest.raises(UnsupportedType, match=r"argument 0\[1\]\['a'\]"):
        kernel([1, {"a": array}])
    assert not worker.of(Run)


def test_a_sequence_goes_as_a_list_for_a_vector_alone(worker: FakeWorker, gpu: Session) -> None:
    """Elsewhere, and where a range is too long for any vector, the error says what to do."""
    for sequence in (range(3), range(10**9)):
        with pytest.raises(UnsupportedType, match=r"argument 0 is of type range.*: pass list\(\.\.\.\) of it"):
            gpu["u"].k(sequence)
    assert not worker.of(Run)


def test_in_is_not_written_out_is_not_sent_inout_is_both(worker: FakeWorker, gpu: Session) -> None:
    """As in PyCUDA; positional and by name."""
    worker.on_run = lambda _: RunResult(written=[(1, np.ones(3, "f4")), ("c", np.full(3, 2, "f4"))])  # type: ignore[list-item, arg-type]
    a, b, c = (np.zeros(3, "f4") for _ in range(3))
    gpu["u"].k(In(a), Out(b), c=InOut(c))
    request = worker.ran[-1]
    assert isinstance(request, Run)
    assert [wire.descriptor.access for wire in (*request.args, request.kwargs["c"])] == ["in", "out", "inout"]
    assert request.args[1].data is None
    assert (a.tolist(), b.tolist(), c.tolist()) == ([0] * 3, [1] * 3, [2] * 3)


def test_what_failed_wrote_nothing(worker: FakeWorker, gpu: Session) -> None:
    """The caller's array is as it was."""
    worker.on_run = lambda _: KernelRuntimeError("no")
    array = np.arange(3, dtype="f4")
    with pytest.raises(KernelRuntimeError):
        gpu["u"].k(array)
    assert array.tolist() == [0, 1, 2]


def test_submit_reads_its_arrays_at_once(worker: FakeWorker, gpu: Session) -> None:
    """The caller may change an array as soon as submit has returned; what was written is there with the result."""
    worker.on_run = lambda request: RunResult(value=array_of(request.args[0]).tolist(), written=[(0, np.ones(2, "f4"))])  # type: ignore[list-item, arg-type]
    array = np.array([3, 4], "f4")
    worker_lost = [True]
    worker.lose = lambda request: isinstance(request, Run) and worker_lost.pop() if worker_lost else False
    future = gpu["u"].k.submit(array)
    array[:] = 9
    assert future.result(10) == [3, 4]
    assert array.tolist() == [1, 1]


def test_plain_values_keep_their_types(worker: FakeWorker, gpu: Session) -> None:
    """There and back: tuples, exact integers, scalars of a width, None, bytes, nested."""
    worker.on_run = lambda request: RunResult(value=request.args)
    values = (None, True, 2**64 - 1, -(2**63), 1.5, "é", b"\0", (1, (2,)), [3, [4]], {"a": {1: 2}}, np.float32(0.1))
    result = gpu["u"].k(*values)
    assert list(result) == list(values)
    assert type(result[-1]) is np.float32
    assert type(result[7]) is tuple


def test_arrays_inside_values_travel_there_and_back(worker: FakeWorker, gpu: Session) -> None:
    """They are not written to, and come back writeable."""
    worker.on_run = lambda request: RunResult(value=request.args[0])
    result = gpu["u"].k({"a": [np.arange(3)], "b": (np.float64(2),)})
    np.testing.assert_array_equal(result["a"][0], [0, 1, 2])
    result["a"][0][0] = 5


def test_remote_things_go_as_their_handles(worker: FakeWorker, gpu: Session) -> None:
    """Also inside lists, and never their bytes."""
    x = gpu.ti.ndarray("f32", 3)
    gpu["u"].k(x, [x], f=In(x))
    request = worker.ran[-1]
    assert isinstance(request, Run)
    assert request.args == (x.handle, [x.handle])
    assert request.kwargs == {"f": x.handle}


def test_a_remote_array_of_another_session_is_refused(worker: FakeWorker, gpu: Session) -> None:
    """Its handle would mean something else there, or nothing."""
    with connect(worker.address) as other, pytest.raises(KernelArgumentError, match="another session"):
        gpu["u"].k(other.ti.ndarray("f32", 3))


@pytest.mark.parametrize("value", [object(), {1, 2}, 1j, range(3), In(np.zeros(2)), lambda: 0], ids=repr)
def test_values_that_do_not_travel_are_refused_by_name(worker: FakeWorker, gpu: Session, value: Any) -> None:
    """One line, with the type that came."""
    with pytest.raises(UnsupportedType, match=r"argument 0\[0\]") as caught:
        gpu["u"].k([value])
    assert "\n" not in str(caught.value)
    assert not worker.of(Run)


def test_a_dataclass_goes_as_its_fields(worker: FakeWorker, gpu: Session) -> None:
    """All of them, also those at their default."""

    @dataclass
    class Ball:
        mass: float = 1.0
        where: tuple[int, int] = (0, 0)

    gpu["u"].k(Ball())
    request = worker.ran[-1]
    assert isinstance(request, Run)
    assert request.args[0] == {"mass": 1.0, "where": (0, 0)}


class Tensor:
    """As much of a tensor of torch as counts."""

    def __init__(self, array: np.ndarray, device: str = "cpu", *, bfloat16: bool = False) -> None:
        self.array = array
        self.bfloat16 = bfloat16
        self.device = SimpleNamespace(type=device)

    def detach(self) -> Tensor:
        return self

    def numpy(self) -> np.ndarray:
        if self.bfloat16:
            raise TypeError("Got unsupported ScalarType BFloat16")
        return self.array


Tensor.__module__ = "torch"


def test_a_tensor_on_the_cpu_is_the_array_over_its_memory(worker: FakeWorker, gpu: Session) -> None:
    """What the kernel wrote is in the tensor; torch itself is never imported."""
    worker.on_run = lambda _: RunResult(written=[(0, np.ones(2, "f4"))])  # type: ignore[list-item, arg-type]
    memory = np.zeros(2, "f4")
    gpu["u"].k(Tensor(memory))
    assert memory.tolist() == [1, 1]
    assert not isinstance(sys.modules.get("torch"), ModuleType)


def test_a_tensor_elsewhere_or_of_an_odd_dtype_is_refused(gpu: Session) -> None:
    """With what to do about it."""
    with pytest.raises(UnsupportedType, match=r"argument 0 is a tensor on .*: pass \.cpu\(\)"):
        gpu["u"].k(Tensor(np.zeros(2, "f4"), "cuda"))
    with pytest.raises(UnsupportedType, match="BFloat16"):
        gpu["u"].k(Tensor(np.zeros(2, "f2"), bfloat16=True))


# Arrays that go ahead of the call


def kernel_that_adds(worker: FakeWorker) -> Callable[[Run], RunResult]:
    def run(request: Run) -> RunResult:
        for arg in request.args:
            assert isinstance(arg, Handle)
            worker.arrays[arg.id] += 1
        return RunResult()

    return run


@pytest.mark.parametrize("size", [2049, 4096, 5000])
def test_an_array_above_the_limit_goes_ahead_in_pieces_and_comes_back(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a host array that is filled, passed by handle, fetched into the caller's array, and dropped."""
    monkeypatch.setattr("tiremote.client.transfer.PIECE", 4096)
    monkeypatch.setattr("tiremote.client.transfer.ALIGNED", 16)
    with fake_worker(limits=Limits(buffer_bytes=8192)) as worker, connect(worker.address) as gpu:
        worker.define("u", k="kernel")
        worker.on_run = kernel_that_adds(worker)
        array = np.arange(size, dtype=np.float32)
        gpu["u"].k(array)
        np.testing.assert_array_equal(array, np.arange(size) + 1)
        assert all(put.array.descriptor.nbytes <= 4096 for put in worker.of(Put))
        strided = np.zeros((size, 2), np.float32)[:, 1]
        assert gpu["u"].k.submit(strided).result(10) is None
        np.testing.assert_array_equal(strided, 1)
        gpu.ti.sync()
        assert not worker.arrays
        gpu["u"].k(In(array))
        np.testing.assert_array_equal(array, np.arange(size) + 1)
        puts = len(worker.of(Put))
        gpu["u"].k(Out(array))
        np.testing.assert_array_equal(array, 1)
        assert len(worker.of(Put)) == puts


def test_an_array_that_is_passed_twice_is_one_array_there(worker: FakeWorker, gpu: Session) -> None:
    """So that the kernel sees through one parameter what it wrote through the other, as with Taichi here."""
    worker.on_run = kernel_that_adds(worker)
    array = np.zeros(4, np.float32)
    gpu["u"].k(array, array)
    assert array.tolist() == [2] * 4
    assert len(worker.of(Alloc)) == 1
    gpu.ti.sync()
    assert not worker.arrays
    read_only = np.broadcast_to(np.float32(1), (4,))
    worker.on_run = lambda _: RunResult()
    gpu["u"].k(read_only, read_only)
    assert all(isinstance(arg, WireArray) for arg in worker.ran[-1].args)  # type: ignore[attr-defined]


def test_what_went_ahead_is_dropped_when_the_call_fails(worker: FakeWorker, gpu: Session) -> None:
    """No memory stays there."""
    worker.on_run = lambda _: KernelRuntimeError("no")
    array = np.zeros(4, np.float32)
    with pytest.raises(KernelRuntimeError):
        gpu["u"].k(array, array)
    with pytest.raises(KernelRuntimeError):
        gpu["u"].k.submit(array, array).result(10)
    gpu.ti.sync()
    assert not worker.arrays
    assert len(worker.of(Cleanup)) == 2
    assert not worker.of(Fetch)


def test_what_was_written_inside_of_an_argument_is_in_the_callers_array(worker: FakeWorker, gpu: Session) -> None:
    """Under the path that leads there: members of dicts and dataclasses, items of lists; others are only read."""

    @dataclass
    class State:
        x: np.ndarray
        layers: list[np.ndarray]

    def run(request: Run) -> RunResult:
        assert request.args[1]["a key"].descriptor.access == "in"
        return RunResult(written=[("0.x", np.ones(2, "f4")), ("k.0.y", np.full(2, 2, "f4"))])  # type: ignore[list-item, arg-type]

    worker.on_run = run
    x, y, layer, other = (np.zeros(2, "f4") for _ in range(4))
    gpu["u"].k(State(x, [layer]), {"a key": other}, k=({"y": y},))
    assert (x.tolist(), y.tolist(), layer.tolist(), other.tolist()) == ([1, 1], [2, 2], [0, 0], [0, 0])
    x.flags.writeable = False
    worker.on_run = lambda _: RunResult()
    gpu["u"].k({"x": x})
    assert not worker.ran[-1].args[0]["x"].descriptor.writeable  # type: ignore[attr-defined]


def test_an_array_inside_of_two_arguments_is_one_array_there(worker: FakeWorker, gpu: Session) -> None:
    """As one that is passed twice is."""
    array = np.zeros(4, np.float32)

    def run(request: Run) -> RunResult:
        assert request.args[0]["x"] == request.args[1]
        worker.arrays[request.args[1].id] += 1
        return RunResult()

    worker.on_run = run
    gpu["u"].k({"x": array}, array)
    assert array.tolist() == [1] * 4
