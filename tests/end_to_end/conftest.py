"""Fixtures of the tests that go through a real worker process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from real_worker import RawSession, RealWorker


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
