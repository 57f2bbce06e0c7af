"""Sessions on a worker that is played."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tiremote.client import Session, connect

from .fake_worker import FakeWorker, fake_worker


@pytest.fixture
def worker() -> Iterator[FakeWorker]:
    with fake_worker() as made:
        yield made


@pytest.fixture
def gpu(worker: FakeWorker) -> Iterator[Session]:
    with connect(worker.address, timeout=10) as session:
        yield session
