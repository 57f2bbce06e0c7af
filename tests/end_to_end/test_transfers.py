"""Large arrays through a real worker: whole whatever else happens, and without memory that stays."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psutil
import pytest

from real_worker import RealWorker
from tiremote.client import Session, connect
from tiremote.client.transfer import piece_of

SOURCE = """
@ti.kernel
def add(x: ti.types.ndarray(), n: ti.f32):
    for i in range(x.shape[0]):
        x[i] += n

def die():
    import os
    os._exit(1)
"""

PIECE = piece_of(np.dtype(np.float32))


@pytest.fixture(scope="module")
def gpu(worker: RealWorker, arch: str) -> Iterator[Session]:
    """A session with the unit loaded."""
    with connect(worker.address, arch=arch) as made:
        made.compile_and_load(SOURCE, "unit")
        yield made


def shared_memory(pid: int) -> int:
    """Bytes of the link's that are in memory in a process."""
    found = 0
    ours = False
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        word, *rest = line.split()
        if "-" in word:
            ours = "memfd:tiremote" in line
        elif ours and word == "Rss:":
            found += int(rest[0]) << 10
    return found


@pytest.mark.parametrize("size", [PIECE - 1, PIECE, PIECE + 1, 3 * PIECE + 7, 20 * PIECE - 1])
def test_arrays_around_the_edges_of_pieces_come_back_as_they_went(gpu: Session, size: int) -> None:
    """One scalar less or more than a piece, and more pieces than there are slots, by their contents; then a part."""
    values = np.random.default_rng(size).random(size, dtype=np.float32)
    array = gpu.ti.ndarray("f32", size)
    array.from_numpy(values)
    np.testing.assert_array_equal(array.to_numpy(), values)
    array[PIECE - 3 : PIECE + 2] = 0.5
    values[PIECE - 3 : PIECE + 2] = 0.5
    np.testing.assert_array_equal(array.to_numpy(), values)


def test_two_transfers_and_calls_at_a_time_do_not_mix(gpu: Session) -> None:
    """Two threads put and fetch arrays of their own while a third calls a kernel with another."""
    failed: list[BaseException] = []

    def move(seed: int) -> None:
        try:
            array = gpu.ti.ndarray("f32", 5 * PIECE + seed)
            for turn in range(3):
                values = np.random.default_rng(10 * seed + turn).random(5 * PIECE + seed, dtype=np.float32)
                array.from_numpy(values)
                np.testing.assert_array_equal(array.to_numpy(), values)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=move, args=(seed,)) for seed in (1, 2)]
    for thread in threads:
        thread.start()
    argument = np.zeros(PIECE // 2 + 5, np.float32)
    for _ in range(8):
        gpu["unit"].add(argument, 1.0)
    for thread in threads:
        thread.join()
    assert not failed
    assert (argument == 8).all()


def test_shared_memory_goes_when_a_session_rests_and_when_its_engine_dies(gpu: Session) -> None:
    """Some seconds after a transfer, and at once after a death, the front maps nothing that is in memory."""
    status = gpu.status()
    assert status.session is not None
    front, engine = status.pid, status.session.engine_pid
    assert engine is not None
    array = gpu.ti.ndarray("f32", 6 * PIECE)
    values = np.arange(6 * PIECE, dtype=np.float32)
    array.from_numpy(values)
    array.to_numpy()
    assert shared_memory(front) > 4 << 20

    # The last request that came to the engine stays with it, and so does the slot of its array, if it had one.
    patience = 200
    while max(shared_memory(front), shared_memory(engine)) > 1 << 20 and patience:
        patience -= 1
        threading.Event().wait(0.05)
    assert patience
    array.from_numpy(values)
    with pytest.raises(Exception, match="die"):
        gpu["unit"].die()
    psutil.wait_procs([psutil.Process(engine)] if psutil.pid_exists(engine) else [], timeout=10)
    np.testing.assert_array_equal(array.to_numpy(), values)
