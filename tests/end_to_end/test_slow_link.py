"""Arrays that are made smaller on their way, through a real worker and over a link that is slow."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pytest

from cut_network import CutNetwork
from real_worker import RawSession, RealWorker
from tiremote.client import In, Out, Session, connect
from tiremote.protocol.coding import encoded, known_codings
from tiremote.protocol.dtypes import dtype_of
from tiremote.protocol.errors import EngineCrashed, PayloadTooLarge, ProtocolError
from tiremote.protocol.messages import Fetch, Put
from tiremote.protocol.values import ArrayDescriptor, WireArray

SOURCE = """
held = ti.field(ti.f32, (100, 200))

@ti.kernel
def add(x: ti.types.ndarray(), n: ti.f32):
    for i in ti.grouped(x):
        x[i] += n

@ti.kernel
def copy(x: ti.types.ndarray(), y: ti.types.ndarray()):
    for i in ti.grouped(x):
        y[i] = x[i]

def twice(x):
    return {"result": [x * 2, 1]}

def die():
    import os, signal
    os.kill(os.getpid(), signal.SIGSEGV)
"""

#: Of 8 MiB.
STEPS = np.arange(2 << 20, dtype=np.float32) // 1000


@pytest.fixture(scope="module")
def coding(worker: RealWorker, arch: str) -> Iterator[Session]:
    """A session that codes whatever it can."""
    with connect(worker.address, arch=arch, compress=True) as gpu:
        gpu.compile_and_load(SOURCE, "unit")
        yield gpu


@pytest.fixture
def slow(worker: RealWorker) -> Iterator[CutNetwork]:
    """A network of 8 MB/s."""
    with CutNetwork(worker.address) as network:
        network.rate = 8e6
        yield network


@pytest.mark.parametrize("dtype", ["i8", "u16", "i32", "f32", "i64", "f64"])
def test_coded_arrays_are_what_they_were(coding: Session, dtype: str) -> None:
    """Put and fetched, whole and in part, with small and large elements."""
    values = (np.arange(60_000) // 500).astype(dtype_of(dtype))
    array = coding.ti.ndarray(dtype, values.shape)
    array.from_numpy(values)
    np.testing.assert_array_equal(array.to_numpy(), values)
    array[10_000:50_000] = values[::-1][10_000:50_000]
    values[10_000:50_000] = values[::-1][10_000:50_000].copy()
    np.testing.assert_array_equal(array[1:59_999], values[1:59_999])


@pytest.mark.parametrize("order", ["C", "F"])
def test_coded_arguments_come_back_as_the_call_left_them(coding: Session, order: str) -> None:
    """In their order, and strided ones too; what a function returns, inside of a value, as well."""
    values = np.asarray(np.arange(40_000).reshape(200, 200) // 100, dtype=np.float32, order=order)  # type: ignore[call-overload]
    wide = np.zeros((200, 400), np.float32)
    wide[:, ::2] = values
    expected = values + 1
    coding["unit"].add(values, 1.0)
    coding["unit"].add(wide[:, ::2], 1.0)
    np.testing.assert_array_equal(values, expected)
    np.testing.assert_array_equal(wide[:, ::2], expected)
    np.testing.assert_array_equal(wide[:, 1::2], 0)
    out = np.zeros_like(values)
    coding["unit"].copy(In(values), Out(out))
    np.testing.assert_array_equal(out, expected)
    np.testing.assert_array_equal(coding["unit"].twice(values)["result"][0], expected * 2)
    np.testing.assert_array_equal(coding["unit"].twice.submit(values).result(30)["result"][0], expected * 2)


def test_what_came_or_went_coded_is_put_back_after_a_crash(worker: RealWorker, arch: str) -> None:
    """The copies outside of the engine hold what the arrays held: put as a whole, in pieces, in part, and fetched."""
    values = np.asfortranarray(np.arange(20_000, dtype=np.float32).reshape(100, 200))
    with connect(worker.address, arch=arch, compress=True) as gpu:
        gpu.compile_and_load(SOURCE, "unit")
        gpu["unit"].held.from_numpy(values)
        large, fetched, made = gpu.ti.ndarray("f32", STEPS.size), gpu.ti.ndarray("f32", 50_000), gpu.array(STEPS[:9000])
        large.from_numpy(STEPS)
        large[100_000:200_000] = 7.0
        gpu["unit"].add(fetched, 3.0)
        fetched.to_numpy()
        with pytest.raises(EngineCrashed) as crash:
            gpu["unit"].die()
        assert not crash.value.lost
        expected = STEPS.copy()
        expected[100_000:200_000] = 7.0
        np.testing.assert_array_equal(gpu["unit"].held.to_numpy(), values)
        np.testing.assert_array_equal(large.to_numpy(), expected)
        np.testing.assert_array_equal(fetched.to_numpy(), 3.0)
        np.testing.assert_array_equal(made.to_numpy(), STEPS[:9000])


def test_over_a_slow_link_the_client_codes_by_itself(slow: CutNetwork, arch: str) -> None:
    """Of what goes there and back twice, 32 MiB, less than a tenth is carried, and it is what it was."""
    with connect(slow.address, arch=arch) as gpu:
        array = gpu.ti.ndarray("f32", STEPS.size)
        for _ in range(2):
            array.from_numpy(STEPS)
            np.testing.assert_array_equal(array.to_numpy(), STEPS)
    assert slow.carried < 3.2 * (1 << 20)


def test_what_is_told_not_to_be_coded_is_carried_whole(slow: CutNetwork, arch: str) -> None:
    """``compress=False``."""
    slow.rate = None
    with connect(slow.address, arch=arch, compress=False) as gpu:
        gpu.array(STEPS)
    assert slow.carried >= STEPS.nbytes


def test_a_cut_in_the_middle_costs_what_was_on_its_way(slow: CutNetwork, arch: str) -> None:
    """The pieces that had come are not sent again, and progress tells of each once, to the end."""
    values = np.random.default_rng(0).integers(0, 1 << 32, 6 << 20, dtype="u4")
    slow.rate = 64e6
    told: list[int] = []

    def tell(done: int, total: int) -> None:
        assert total == values.nbytes
        told.append(done)
        if len(told) == 3:
            slow.cut()

    with connect(slow.address, arch=arch, compress=False, liveness=30) as gpu:
        array = gpu.ti.ndarray("u32", values.size)
        array.from_numpy(values, progress=tell)
        carried = slow.carried
        np.testing.assert_array_equal(array.to_numpy(), values)
    assert all(one < other for one, other in itertools.pairwise(told))
    assert told[-1] == values.nbytes
    # What lay in buffers of the system when it was cut is lost: at most that, and the piece that was half through.
    assert carried < values.nbytes + (12 << 20)


@pytest.mark.parametrize("claimed", [40_000, 10_000])
def test_a_coded_array_that_is_not_what_it_says_is_refused_and_nothing_is_lost(
    session: RawSession, claimed: int
) -> None:
    """A frame of other sizes, a frame that is broken or cut: `protocol`, and the array holds what it held."""
    values = np.arange(10_000, dtype="f4")
    target = session.put(values)
    frame = encoded(bytes(80_000), 4, "shuffle-zstd")
    for count, data in ((claimed, frame), (20_000, frame[:-3]), (claimed, b"nothing of that kind"), (claimed, b"")):
        array = WireArray(ArrayDescriptor(dtype="f32", shape=(count,), coding="shuffle-zstd"), data)
        with pytest.raises(ProtocolError):
            session.ask(Put, target=target, array=array)
    large = ArrayDescriptor(dtype="f32", shape=(1 << 30,), coding="shuffle-zstd")
    with pytest.raises(PayloadTooLarge):
        session.ask(Put, target=target, array=WireArray(large, frame))
    fetched = session.ask(Fetch, target=target)["value"]
    assert fetched.descriptor.coding is None
    np.testing.assert_array_equal(fetched.view(), values)


def test_a_client_that_asks_for_it_gets_an_array_coded_and_others_do_not(session: RawSession) -> None:
    """By one of the codings that it names, where the contents shrink."""
    target = session.alloc(kind="array", shape=(20_000,), fill="arange")
    for codings in ((), ("of-next-year",), known_codings()[:1], known_codings()):
        value = session.ask(Fetch, target=target, codings=codings)["value"]
        assert value.descriptor.coding in (codings if set(codings) & set(known_codings()) else (None,))
        np.testing.assert_array_equal(value.view(), np.arange(20_000))
