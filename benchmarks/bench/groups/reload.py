"""A text that is loaded again."""

from __future__ import annotations

import linecache
import random
import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from bench.figures import Figure, at_most, compared, told
from bench.groups import Run
from bench.processes import Child
from bench.programs import text_of
from bench.samples import time_in
from bench.served import Served
from bench.turns import TURN, in_turns, timed
from bench.workers import session

TITLE = "Reloading a kernel, with its first call where the text is another"

SIDE = 64


def changed_text() -> str:
    """The stencil with a rate that nobody has compiled before, so that no cache on disk has it."""
    rate = random.SystemRandom().random()
    return re.sub(r"^RATE = .*$", f"RATE = {rate!r}", text_of("stencil"), flags=re.MULTILINE)


class LocalCode:
    """A local program that does the same with its own text."""

    def __init__(self, arch: str) -> None:
        Served(arch).begin()
        self._count = 0
        self._x, self._y = np.ones((SIDE, SIDE), np.float32), np.zeros((SIDE, SIDE), np.float32)

    def reload(self) -> None:
        """Runs the changed text, and calls the kernel."""
        text, self._count = changed_text(), self._count + 1
        # Taichi reads a kernel's source by the name of its file.
        name = f"<stencil {self._count}>"
        linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
        namespace: dict[str, Any] = {"__name__": name}
        exec(compile(text, name, "exec", dont_inherit=True), namespace)
        namespace["diffuse"](self._x, self._y, 1)


def measure(run: Run) -> Iterator[Figure]:
    """Over tcp loopback."""
    with session(run.arch) as bench, Child(LocalCode, run.arch) as local:
        gpu = bench.gpu
        x, y = gpu.array(np.ones((SIDE, SIDE), np.float32)), gpu.array(np.zeros((SIDE, SIDE), np.float32))

        def reload() -> None:
            gpu.compile_and_load(changed_text(), "stencil")
            gpu["stencil"].diffuse(x, y, 1)

        reload()
        same = text_of("stencil")
        gpu.compile_and_load(same, "same")
        taken = in_turns(
            {
                "unchanged": timed(lambda: gpu.compile_and_load(same, "same"), seconds=TURN),
                "changed": timed(reload, seconds=2 * TURN),
                "local": local.turn("reload", seconds=2 * TURN),
            },
            run.rounds,
        )
    ms = time_in("ms")
    yield told("reload of unchanged text", taken["unchanged"], measure=ms, reach=at_most(2.0))
    yield compared(
        "reload of changed text, and a call",
        taken["changed"],
        taken["local"],
        against="the same in a local program",
        measure=ms,
        reach=at_most(1.1),
    )
