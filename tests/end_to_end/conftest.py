"""Fixtures of the tests that go through a real worker process."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from printed import Printed
from real_worker import RawSession, RealWorker, engines_lost
from tiremote.client import Session, connect

EARLIER = """
state = ti.field(ti.i32, 3)

@ti.kernel
def add(x: ti.types.ndarray(), n: ti.f32):
    for i in range(x.shape[0]):
        x[i] += n

@ti.kernel
def count():
    for i in state:
        state[i] += 1
"""


@pytest.fixture(scope="module")
def worker(arch: str) -> Iterator[RealWorker]:
    """A worker that the tests of one file share, and must not end."""
    with RealWorker(arch=arch) as worker:
        yield worker


@pytest.fixture
def session(worker: RealWorker) -> Iterator[RawSession]:
    """A new session on the shared worker, ended afterwards."""
    from tiremote.protocol.messages import Bye

    with RawSession(worker.address) as session:
        yield session
        session.ask(Bye, end=True)


@pytest.fixture(scope="module")
def printed() -> Printed:
    """What the remote code of `gpu` prints."""
    return Printed()


@pytest.fixture(scope="module")
def one_session(worker: RealWorker, arch: str, printed: Printed) -> Iterator[Session]:
    """A Python client with one session for all tests of a file: what one of them breaks, the others find."""
    with connect(worker.address, arch=arch, on_output=printed) as gpu:
        yield gpu


@pytest.fixture
def gpu(one_session: Session, printed: Printed) -> Iterator[Session]:
    """The file's session, emptied after each test."""
    printed.clear()
    yield one_session
    one_session.cleanup_all()


@pytest.fixture
def unharmed(gpu: Session) -> Callable[[], None]:
    """Loads a kernel, a field and an array first; calling it checks that they work and hold what they held."""
    gpu.compile_and_load(EARLIER, "earlier")
    array = gpu.array(np.arange(4, dtype=np.float32))
    gpu["earlier"].count()
    lost = engines_lost(gpu)
    calls = 1

    def check() -> None:
        nonlocal calls
        gpu["earlier"].add(array, 1.0)
        gpu["earlier"].count()
        assert array.to_numpy().tolist() == [n + calls for n in range(4)]
        calls += 1
        assert gpu["earlier"].state.to_numpy().tolist() == [calls] * 3
        assert engines_lost(gpu) == lost, "the engine was replaced"

    check()
    return check


@pytest.fixture(scope="module")
def gpu_without_display(arch: str) -> Iterator[Session]:
    """A worker of its own that has no display, wherever the tests run."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("DISPLAY", "WAYLAND_DISPLAY"):
            patch.delenv(name, raising=False)
        worker = RealWorker(arch=arch)
    with worker, connect(worker.address, arch=arch, on_output=None) as gpu:
        yield gpu
