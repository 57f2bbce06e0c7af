"""An ipyparallel engine, by its direct view."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import ipyparallel
import numpy as np

from bench.peers import Peer
from bench.served import Served

#: What lives in the engine's process.
_here: dict[str, Served] = {}


def _begin(arch: str, large: int) -> None:
    _here["served"] = Served(arch, large)
    _here["served"].begin()


def _call() -> None:
    _here["served"].call()


def _put(values: np.ndarray) -> None:
    _here["served"].put(values)


def _fetch() -> np.ndarray:
    return _here["served"].fetch()


class Client:
    """The view of one engine."""

    def __init__(self, view: Any) -> None:
        self._view = view

    def call(self) -> None:
        """One function."""
        self._view.apply_sync(_call)

    def put(self, values: np.ndarray) -> None:
        """As an argument, which it sends as a buffer of its own."""
        self._view.apply_sync(_put, values)

    def fetch(self) -> np.ndarray:
        """As a result."""
        return np.asarray(self._view.apply_sync(_fetch))


@contextmanager
def start(arch: str, large: int) -> Iterator[Peer]:
    """A cluster of one engine."""
    with ipyparallel.Cluster(n=1, log_level=logging.CRITICAL) as client:
        view = client[0]
        view.apply_sync(_begin, arch, large)
        yield Client(view)
