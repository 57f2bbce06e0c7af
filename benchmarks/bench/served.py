"""The same kernel and arrays, in the process of whoever serves them: a peer's server, or a local program."""

from __future__ import annotations

import contextlib
import importlib
import io
import os
from typing import Any

import numpy as np

#: Numbers in the array of a small call.
SMALL = 64


class Served:
    """Taichi with a small array and a large one of ``large`` f32, used on the thread that first calls a method."""

    def __init__(self, arch: str, large: int = SMALL) -> None:
        self._arch = arch
        self._size = large
        self._ti: Any = None
        self._staged = np.empty(0, np.uint8)

    def begin(self) -> str:
        """Starts Taichi here and now; the arch that it really has."""
        if self._ti is None:
            os.environ["ENABLE_TAICHI_HEADER_PRINT"] = "0"
            self._ti = importlib.import_module("taichi")
            # It prints a line that nobody asked for.
            with contextlib.redirect_stdout(io.StringIO()):
                self._ti.init(arch=getattr(self._ti, self._arch), log_level="error")
            self._steps = importlib.import_module("bench.programs.steps")
            self._small = self._ti.ndarray(self._ti.f32, SMALL)
            self.large = self._ti.ndarray(self._ti.f32, self._size)
        return str(self._ti.lang.impl.current_cfg().arch).removeprefix("Arch.")

    def call(self) -> None:
        """One launch, and the wait for it."""
        self.begin()
        self._steps.step(self._small)
        self._ti.sync()

    def launches(self, count: int) -> None:
        """So many launches one after the other, and the wait for all."""
        self._steps.steps(self._small, count)

    def put(self, values: Any) -> None:
        """What came, as bytes or f32, into the large array, as Taichi does it."""
        self.begin()
        flat = values if isinstance(values, np.ndarray) else np.frombuffer(values, np.float32)
        self.large.from_numpy(flat)

    def fetch(self) -> np.ndarray:
        """The large array, as Taichi does it."""
        self.begin()
        return np.asarray(self.large.to_numpy())

    def put_own(self) -> None:
        """Its own bytes into the large array."""
        if not self._staged.size:
            self._staged = np.random.default_rng(1).random(self._size, dtype=np.float32).view(np.uint8)
        self.put_staged()

    # In pieces, for those who are faster with pieces

    def put_piece(self, start: int, data: Any) -> None:
        """Bytes from that place on, beside the array."""
        if not self._staged.size:
            self._staged = np.empty(4 * self._size, np.uint8)
        self._staged[start : start + len(data)] = np.frombuffer(data, np.uint8)

    def put_staged(self) -> None:
        """What came in pieces, into the array."""
        self.put(self._staged.view(np.float32))

    def fetch_staged(self) -> None:
        """The array, to be taken in pieces."""
        self._staged = self.fetch().view(np.uint8)

    def fetch_piece(self, start: int, stop: int) -> bytes:
        """Bytes of what `fetch_staged` laid out."""
        return self._staged[start:stop].tobytes()
