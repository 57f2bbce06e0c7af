"""Case 28 with two limits: what compiles for too long, what runs for too long, and what may do either."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import numpy as np
import pytest

from printed import Printed
from real_worker import PATIENCE, RealWorker
from tiremote.client import RequestFuture, Session, connect
from tiremote.protocol.errors import DeadlineExceeded
from tiremote.protocol.results import Running

#: More seconds than anything here takes.
LONG = 600.0

#: ``unrolled(600)`` compiles for more than a second and runs in microseconds.
TEXT = """
@ti.kernel
def unrolled(x: ti.types.ndarray(), n: ti.template()):
    for i in ti.static(range(n)):
        x[0] += x[0] * (i + FRESH)

@ti.kernel
def spin() -> ti.i32:
    total = 0
    ti.loop_config(serialize=True)
    for i in range(2_000_000_000):
        for j in range(2_000_000_000):
            total += (i ^ j) % 7
    return total

def drive(x, *sizes):
    for n in sizes:
        unrolled(x, n)
    return len(sizes)

def drive_both(x, y):
    unrolled(x, 300)
    unrolled(y, 300)
    return "both"

def loop(x):
    unrolled(x, 1)
    while True:
        unrolled(x, 1)
"""


@pytest.fixture
def own(worker: RealWorker, arch: str) -> Iterator[Session]:
    """A session that its test may break, with a text that no cache has."""
    with connect(worker.address, arch=arch, on_output=Printed()) as gpu:
        gpu.compile_and_load(TEXT.replace("FRESH", str(uuid.uuid4().int % 1_000_003)), "k")
        yield gpu


def works(gpu: Session) -> None:
    """The unit is there, and short calls are what they were."""
    x = gpu.array(np.zeros(1, np.float32))
    assert gpu["k"].drive.with_options(deadline=LONG, compile_deadline=LONG)(x, 1, 1) == 2
    assert x.to_numpy().tolist() == [0]


def seen(gpu: Session, future: RequestFuture[object], *, compiling: bool) -> Running:
    """Waits until the front tells that the request compiles, or that it does not."""
    for _ in range(1_000_000):
        running = gpu.status().session.running
        if running is not None and running.request == future.request_id and running.compiling is compiling:
            return running
        if future.done():
            break
    raise AssertionError(f"it was not seen in a request that ended with {future.exception(0)!r}")


def test_a_huge_compile_is_stopped_by_its_own_limit(own: Session) -> None:
    """However long it may run; status tells meanwhile that it compiles."""
    x = own.array(np.zeros(1, np.float32))
    future = own["k"].unrolled.with_options(deadline=LONG, compile_deadline=0.4).submit(x, 20_000)
    seen(own, future, compiling=True)
    with pytest.raises(DeadlineExceeded, match=r"compiled longer than its compile_deadline of 0\.4 s") as caught:
        future.result(PATIENCE)
    assert (caught.value.deadline, caught.value.phase) == (0.4, "compile")
    assert caught.value.restored == ("k",)
    works(own)


def test_a_long_compile_is_no_harm_to_a_short_deadline(own: Session) -> None:
    """The run's own limit counts neither the compile nor the machine code that the first launch makes."""
    x = own.array(np.zeros(1, np.float32))
    generation = own.status().session.generation
    future = own["k"].unrolled.with_options(deadline=0.5, compile_deadline=LONG).submit(x, 600)
    future.result(LONG)
    assert future.timing is not None
    assert future.timing.compile > 0.5
    assert future.timing.launch < future.timing.compile
    assert own.status().session.generation == generation
    again = own["k"].unrolled.with_options(deadline=0.5, compile_deadline=LONG).submit(x, 600)
    again.result(LONG)
    assert again.timing is not None
    assert again.timing.compile == 0


def test_an_endless_kernel_is_stopped_by_the_deadline(own: Session) -> None:
    """However long it may compile; status tells meanwhile that it does not."""
    future = own["k"].spin.with_options(deadline=0.4, compile_deadline=LONG).submit()
    seen(own, future, compiling=False)
    with pytest.raises(DeadlineExceeded, match=r"ran longer than its deadline of 0\.4 s, compiling not") as caught:
        future.result(PATIENCE)
    assert (caught.value.deadline, caught.value.phase) == (0.4, "run")
    assert caught.value.restored == ("k",)
    works(own)


def test_a_function_that_compiles_in_the_middle_has_a_short_deadline(own: Session) -> None:
    """Each new kernel, and the same one for new types of arguments, counts as compiling."""
    x, y = own.array(np.zeros(1, np.float32)), own.array(np.zeros(1, np.int32))
    future = own["k"].drive_both.with_options(deadline=0.5, compile_deadline=LONG).submit(x, y)
    assert future.result(LONG) == "both"
    assert future.timing is not None
    assert future.timing.compile > future.timing.launch
    works(own)


def test_a_compile_in_the_middle_of_a_function_is_stopped(own: Session) -> None:
    """The first kernel is quick, the second takes what is left."""
    x = own.array(np.zeros(1, np.float32))
    with pytest.raises(DeadlineExceeded) as caught:
        own["k"].drive.with_options(deadline=LONG, compile_deadline=0.8)(x, 1, 20_000)
    assert caught.value.phase == "compile"
    works(own)


def test_an_endless_function_is_stopped_by_the_deadline_and_keeps_all(own: Session) -> None:
    """Python code stops between two steps, so the engine and its arrays stay."""
    x = own.array(np.zeros(1, np.float32))
    with pytest.raises(DeadlineExceeded) as caught:
        own["k"].loop.with_options(deadline=0.4, compile_deadline=LONG)(x)
    assert (caught.value.phase, caught.value.lost) == ("run", ())
    assert x.to_numpy().tolist() == [0]
    works(own)


def test_with_one_deadline_compiling_counts(own: Session) -> None:
    """Without a limit of its own, what compiles is held against the one for all."""
    x = own.array(np.zeros(1, np.float32))
    with pytest.raises(DeadlineExceeded) as caught:
        own["k"].unrolled.with_options(deadline=0.4)(x, 20_000)
    assert (caught.value.deadline, caught.value.phase) == (0.4, None)
    works(own)
