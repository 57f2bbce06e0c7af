"""Arrays of which the session has most already, through a real worker: only the rest is carried."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pytest

from cut_network import CutNetwork, Cutter
from real_worker import RawSession, RealWorker
from tiremote.client import Session, connect
from tiremote.protocol.chunks import FindChunks, cut, digest_of, in_chunks
from tiremote.protocol.errors import EngineCrashed, MissingChunks
from tiremote.protocol.messages import Put
from tiremote.protocol.values import wire_array

MIB = 1 << 20
SOURCE = """
held = ti.field(ti.u32, 2 << 20)
held_vectors = ti.Vector.field(2, ti.u32, 1 << 20)

@ti.kernel
def add(x: ti.types.ndarray()):
    for i in x:
        x[i] += ti.cast(1, ti.u32)

def die():
    import os, signal
    os.kill(os.getpid(), signal.SIGSEGV)
"""


def noise(seed: int, count: int = 2 * MIB) -> np.ndarray:
    """8 MiB that no coding makes smaller."""
    return np.random.default_rng(seed).integers(0, 1 << 32, count, dtype="u4")


def changed(values: np.ndarray) -> np.ndarray:
    """With 1 % of it another, in one place."""
    made = values.copy()
    made[1_000_000:1_020_000] ^= 0xFFFF
    return made


@pytest.fixture(scope="module")
def network(worker: RealWorker) -> Iterator[CutNetwork]:
    with CutNetwork(worker.address) as network:
        yield network


@pytest.fixture(scope="module")
def gpu(network: CutNetwork, arch: str) -> Iterator[Session]:
    """A session whose client reuses what it can on any link, which need not be slow to be measured by its bytes."""
    with connect(network.address, arch=arch, compress=False, reuse=True) as gpu:
        gpu.compile_and_load(SOURCE, "unit")
        yield gpu


def test_of_an_array_that_is_put_again_what_changed_is_carried(gpu: Session, network: CutNetwork) -> None:
    """Where it is and into a new one; progress tells of all its bytes."""
    values = noise(1)
    array = gpu.array(values)
    told: list[int] = []
    network.carried = 0
    array.from_numpy(changed(values), progress=lambda done, _: told.append(done))
    assert network.carried < MIB
    assert told[-1] == values.nbytes
    assert all(one < other for one, other in itertools.pairwise([0, *told]))
    other = gpu.array(values)
    assert network.carried < MIB
    assert gpu.status().session.chunk_bytes > 0
    np.testing.assert_array_equal(other.to_numpy(), values)
    np.testing.assert_array_equal(array.to_numpy(), changed(values))


def test_what_the_target_holds_is_not_sent_again_though_nobody_sent_it(gpu: Session, network: CutNetwork) -> None:
    """It was made there, by a kernel."""
    values = noise(2)
    array = gpu.array(values)
    gpu["unit"].add(array)
    network.carried = 0
    array.from_numpy(changed(values + np.uint32(1)))
    assert network.carried < MIB
    np.testing.assert_array_equal(array.to_numpy(), changed(values + np.uint32(1)))


@pytest.mark.parametrize("name", ["held", "held_vectors"])
def test_fields_and_parts_are_put_in_chunks_too(gpu: Session, network: CutNetwork, name: str) -> None:
    """A field goes as one message, a part by its region."""
    field = getattr(gpu["unit"], name)
    values = noise(3).reshape(field.to_numpy().shape)
    field.from_numpy(values)
    network.carried = 0
    field.from_numpy(changed(values.reshape(-1)).reshape(values.shape))
    field[100_000:900_000] = values[100_000:900_000]
    assert network.carried < 2 * MIB
    expected = changed(values.reshape(-1)).reshape(values.shape)
    expected[100_000:900_000] = values[100_000:900_000]
    np.testing.assert_array_equal(field.to_numpy(), expected)


def test_arrays_of_another_layout_or_dtype_are_right(gpu: Session) -> None:
    """Fortran order, strides, and a conversion on the worker."""
    values = noise(4).reshape(2048, 1024)
    array = gpu.ti.ndarray("u32", values.shape)
    for made in (values, np.asfortranarray(values), values[::-1, ::-1], np.repeat(values, 2, axis=1)[:, ::2]):
        array.from_numpy(made)
        np.testing.assert_array_equal(array.to_numpy(), made)
    small = (values % 1000).astype("i2")
    array.from_numpy(small, cast=True)
    np.testing.assert_array_equal(array.to_numpy(), small)


def test_what_was_put_in_chunks_is_put_back_after_a_crash_and_sent_again(worker: RealWorker, arch: str) -> None:
    """The copies have what no message had; the new engine has no chunks, and says so."""
    values = noise(6)
    with connect(worker.address, arch=arch, reuse=True) as gpu:
        gpu.compile_and_load(SOURCE, "unit")
        array = gpu.array(values)
        array.from_numpy(changed(values))
        with pytest.raises(EngineCrashed) as crash:
            gpu["unit"].die()
        assert crash.value.lost == ("unit.held", "unit.held_vectors")
        np.testing.assert_array_equal(array.to_numpy(), changed(values))
        other = gpu.array(values)
        np.testing.assert_array_equal(other.to_numpy(), values)


def test_chunks_that_had_to_make_room_are_sent_again(arch: str) -> None:
    """A cache that is smaller than a piece makes every array come whole, and right, after a crash as well."""
    with (
        RealWorker("--chunk-cache", str(MIB + MIB // 2), arch=arch) as worker,
        connect(worker.address, arch=arch, compress=False, reuse=True) as gpu,
    ):
        assert gpu.info.chunk_cache == MIB + MIB // 2
        values = noise(7, 3 * MIB // 2)
        first, second = gpu.array(values), gpu.array(values)
        first.from_numpy(changed(values))
        gpu.compile_and_load("def die():\n    import os\n    os.abort()\n", "unit")
        with pytest.raises(EngineCrashed) as crash:
            gpu["unit"].die()
        assert not crash.value.lost
        np.testing.assert_array_equal(first.to_numpy(), changed(values))
        np.testing.assert_array_equal(second.to_numpy(), values)


def test_arrays_are_whole_over_cuts(network: CutNetwork, arch: str) -> None:
    """Coded and in chunks: what was under way is asked, told or sent again, whichever it was."""
    values = noise(10)
    values[MIB:] //= 1 << 16
    with connect(network.address, arch=arch, compress=True, reuse=True, liveness=10) as gpu:
        array = gpu.ti.ndarray("u32", values.size)
        with Cutter(network) as cutter:
            while cutter.cuts < 3:
                array.from_numpy(values)
                values = changed(values)
                array.from_numpy(values)
                np.testing.assert_array_equal(array.to_numpy(), values)


def test_it_can_be_turned_off(network: CutNetwork, arch: str) -> None:
    """Everything is carried then, each time."""
    values = noise(8, MIB)
    network.carried = 0
    with connect(network.address, arch=arch, compress=False, reuse=False) as gpu:
        gpu.array(values).from_numpy(values)
    assert network.carried > 2 * values.nbytes


def test_a_session_has_nothing_of_another(worker: RealWorker) -> None:
    """Neither by its own digests nor by the other's, whose key is known to whoever sees a handle."""
    values = noise(9, 4096)
    with RawSession(worker.address) as mine, RawSession(worker.address) as theirs:
        keys = [session.hello["chunk_key"].encode() for session in (mine, theirs)]
        assert keys[0] != keys[1]
        made = [b"".join(digest_of(chunk, key) for chunk in cut(values.data, 4096)) for key in keys]
        array = in_chunks(wire_array(values), 4096, made[0], range(4))
        mine.ask(Put, array=array)
        assert mine.ask(FindChunks, digests=made[0], size=4096)["missing"] == []
        for digests in made:
            assert theirs.ask(FindChunks, digests=digests, size=4096)["missing"] == [0, 1, 2, 3]
            with pytest.raises(MissingChunks) as caught:
                theirs.ask(Put, array=in_chunks(wire_array(values), 4096, digests, []))
            assert caught.value.chunks == (0, 1, 2, 3)
