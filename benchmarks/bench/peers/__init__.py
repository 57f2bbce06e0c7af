"""Other ways to call the same kernel in another process, each set up as somebody who knows it would.

A module each, with ``start(arch, large)``: a block for as long as a `Peer` and its server are there. ``large`` is the
size of the array of `Peer.put` and `Peer.fetch`, in f32.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

import numpy as np

#: Bytes of a piece, for those who are faster with pieces.
PIECE = 4 << 20


class Peer(Protocol):
    """A client of the same small kernel and the same large array."""

    def call(self) -> None:
        """One launch, and the wait for it."""

    def put(self, values: np.ndarray) -> None:
        """f32 of shape (large,), until they are in the remote ndarray."""

    def fetch(self) -> np.ndarray:
        """The remote ndarray's content, of shape (large,)."""
        ...


@dataclass(frozen=True, kw_only=True)
class Kind:
    """``module`` of this package serves it; ``needs`` is what has to be installed, by its import name."""

    name: str
    module: str
    needs: str
    #: Whether it has a way for arrays that is worth a comparison.
    moves_arrays: bool = True

    @property
    def installed(self) -> bool:
        """Whether it can be tried here."""
        return importlib.util.find_spec(self.needs) is not None

    def start(self, arch: str, large: int) -> AbstractContextManager[Peer]:
        """Its server and a client."""
        start: Callable[[str, int], AbstractContextManager[Peer]]
        start = importlib.import_module(f"bench.peers.{self.module}").start
        return start(arch, large)


KINDS = (
    Kind(name="raw pyzmq + launch in one process", module="raw_zmq", needs="zmq"),
    Kind(name="Pyro5 (msgpack)", module="pyro", needs="Pyro5"),
    Kind(name="RPyC (tuned)", module="rpyc_tuned", needs="rpyc"),
    Kind(name="Arrow Flight", module="flight", needs="pyarrow"),
    Kind(name="Ray actor", module="ray_actor", needs="ray"),
    Kind(name="Dask actor", module="dask_actor", needs="distributed"),
    Kind(name="ipyparallel", module="ipyparallel_engine", needs="ipyparallel"),
    Kind(name="Jupyter kernel", module="jupyter_kernel", needs="jupyter_client", moves_arrays=False),
)


def pieces(nbytes: int, size: int = PIECE) -> list[tuple[int, int]]:
    """Where each begins and ends."""
    return [(start, min(start + size, nbytes)) for start in range(0, nbytes, size)]
