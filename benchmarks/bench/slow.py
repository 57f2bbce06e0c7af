"""A process in a network namespace whose loopback is slow, with a worker there and two sessions on it."""

from __future__ import annotations

import ctypes
import functools
import os
from contextlib import ExitStack

import numpy as np

from bench.samples import Samples
from bench.turns import in_turns, timed
from bench.workers import worker
from slow_link import changed, contents
from tiremote.client import connect

#: sched.h: CLONE_NEWNET.
_NETWORK = 0x40000000


def enter(namespace: str) -> None:
    """This process, and all that it starts, has that network from now on. Raises `OSError`."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open(f"/run/netns/{namespace}", "rb") as opened:
        if libc.setns(opened.fileno(), _NETWORK):
            number = ctypes.get_errno()
            raise OSError(number, f"the namespace {namespace} was not entered: {os.strerror(number)}")


class SlowLink:
    """``plain`` sends bytes as they are, ``gpu`` as the session does by itself. Arrays have ``count`` f32."""

    def __init__(self, namespace: str, arch: str, count: int) -> None:
        enter(namespace)
        self._stack = ExitStack()
        started = self._stack.enter_context(worker(arch))
        plain = self._stack.enter_context(connect(started.address, compress=False, reuse=False))
        gpu = self._stack.enter_context(connect(started.address))
        self._arrays = {
            name: each.ti.ndarray(each.ti.f32, count) for name, each in (("plain", plain), ("tiremote", gpu))
        }
        self._values = dict(contents(count))["smooth f32, sines"]

    def close(self) -> None:
        """Ends the worker."""
        self._stack.close()

    def whole(self, rounds: int) -> dict[str, Samples]:
        """Put and fetch of a smooth field, by ``WAY NAME``. Each put is of new numbers, of which nothing is known."""
        rng = np.random.default_rng(2)

        def put(name: str) -> None:
            self._arrays[name].from_numpy(self._values * rng.uniform(0.5, 2.0, 1).astype(np.float32))

        turns = {f"put {name}": timed(functools.partial(put, name)) for name in self._arrays}
        turns |= {f"fetch {name}": timed(array.to_numpy) for name, array in self._arrays.items()}
        return in_turns(turns, rounds)

    def again(self, rounds: int) -> dict[str, Samples]:
        """A put of what is there already, but for 1 % of it in one place."""
        for array in self._arrays.values():
            array.from_numpy(self._values)
        numbers = iter(range(1 << 30))

        def put(name: str) -> None:
            self._arrays[name].from_numpy(changed(self._values, "in one place", next(numbers)))

        return in_turns({name: timed(functools.partial(put, name)) for name in self._arrays}, rounds)
