"""A Dask actor on a worker process of its own."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from distributed import Client as DaskClient
from distributed import LocalCluster

from bench.peers import Peer
from bench.served import Served


class Client:
    """An actor's proxy."""

    def __init__(self, actor: Any) -> None:
        self._actor = actor

    def call(self) -> None:
        """One method call."""
        self._actor.call().result()

    def put(self, values: np.ndarray) -> None:
        """As an argument."""
        self._actor.put(values).result()

    def fetch(self) -> np.ndarray:
        """As a result."""
        return np.asarray(self._actor.fetch().result())


@contextmanager
def start(arch: str, large: int) -> Iterator[Peer]:
    """Over tcp loopback, without its dashboard."""
    with (
        LocalCluster(
            n_workers=1, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=logging.CRITICAL
        ) as cluster,
        DaskClient(cluster) as client,
    ):
        actor = client.submit(Served, arch, large, actor=True).result()
        actor.begin().result()
        yield Client(actor)
