"""A Jupyter kernel, as a remote notebook has it: a cell for each call."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from jupyter_client.manager import start_new_kernel

from bench.peers import Peer

_BEGIN = "from bench.served import Served; served = Served({arch!r}, {large}); served.begin()"


class Client:
    """A kernel's blocking client."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def run(self, cell: str) -> None:
        """Runs a cell, and waits for its reply. Raises `RuntimeError` where it failed."""
        reply = self._client.execute_interactive(cell, store_history=False, output_hook=_ignore)["content"]
        if reply["status"] != "ok":
            raise RuntimeError(f"a cell failed: {reply.get('evalue')}")

    def call(self) -> None:
        """One cell."""
        self.run("served.call()")

    def put(self, _values: np.ndarray) -> None:
        """A cell is text."""
        raise NotImplementedError

    def fetch(self) -> np.ndarray:
        """Likewise."""
        raise NotImplementedError


def _ignore(_message: Any) -> None:
    """What a cell prints."""


@contextmanager
def start(arch: str, large: int) -> Iterator[Peer]:
    """A kernel of this Python."""
    manager, client = start_new_kernel(kernel_name="python3", stderr=subprocess.DEVNULL)
    try:
        started = Client(client)
        started.run(_BEGIN.format(arch=arch, large=large))
        yield started
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
