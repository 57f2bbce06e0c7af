"""A Ray actor: arrays go through its object store, in shared memory."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import ray

from bench.peers import Peer
from bench.served import Served


class Client:
    """An actor's handle."""

    def __init__(self, actor: Any) -> None:
        self._actor = actor

    def call(self) -> None:
        """One method call."""
        ray.get(self._actor.call.remote())

    def put(self, values: np.ndarray) -> None:
        """Into the object store, from where the actor reads it."""
        ray.get(self._actor.put.remote(values))

    def fetch(self) -> np.ndarray:
        """A view into the object store."""
        return np.asarray(ray.get(self._actor.fetch.remote()))


@contextmanager
def start(arch: str, large: int) -> Iterator[Peer]:
    """On a cluster of one, without its dashboard."""
    store = max(16 * large, 256 << 20)
    ray.init(
        num_cpus=1,
        include_dashboard=False,
        object_store_memory=store,
        log_to_driver=False,
        logging_level=logging.ERROR,
        runtime_env={"env_vars": {"PYTHONPATH": os.environ.get("PYTHONPATH", "")}},
    )
    try:
        actor = ray.remote(Served).remote(arch, large)
        ray.get(actor.begin.remote())
        yield Client(actor)
    finally:
        ray.shutdown()
