"""Dense fields, which only kernels can read."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from bench.figures import Figure, at_least, compared
from bench.groups import Run
from bench.processes import Child
from bench.programs import text_of
from bench.samples import speed_of
from bench.served import Served
from bench.turns import Turn, in_turns, timed
from bench.workers import session

TITLE = "Dense fields beside a local program's `to_numpy` and `from_numpy`"

NBYTES = {"scalar": 64 << 20, "vector": 48 << 20}


class LocalFields:
    """The same fields in a local program."""

    def __init__(self, arch: str) -> None:
        Served(arch).begin()
        self._fields: Any = importlib.import_module("bench.programs.fields")
        self._fields.number()
        self._contents = {name: self.fetch(name) for name in NBYTES}

    def fetch(self, name: str) -> np.ndarray:
        """A field's content."""
        return np.asarray(getattr(self._fields, name).to_numpy())

    def put_back(self, name: str) -> None:
        """Writes what was in it at first."""
        getattr(self._fields, name).from_numpy(self._contents[name])


def measure(run: Run) -> Iterator[Figure]:
    """On one machine, and over tcp loopback."""
    with session(run.arch, ipc=True) as near, session(run.arch) as far, Child(LocalFields, run.arch) as local:
        for bench in (near, far):
            bench.gpu.compile_and_load(text_of("fields"), "fields")
            bench.gpu["fields"].number()
        turns: dict[str, Turn] = {}
        for name in NBYTES:
            values = local.call("fetch", name)
            turns[f"fetch {name}"] = local.turn("fetch", name)
            turns[f"put {name}"] = local.turn("put_back", name)
            for where, bench in (("ipc", near), ("tcp loopback", far)):
                field = getattr(bench.gpu["fields"], name)
                if not np.array_equal(field.to_numpy(), values):
                    raise ValueError(f"the {name} field is not the local one")
                turns[f"fetch {name}, {where}"] = timed(field.to_numpy)
                turns[f"put {name}, {where}"] = timed(lambda field=field, values=values: field.from_numpy(values))  # type: ignore[misc]
        taken = in_turns(turns, run.rounds)
    for name, nbytes in NBYTES.items():
        for where in ("ipc", "tcp loopback"):
            for way, method in (("fetch", "to_numpy"), ("put", "from_numpy")):
                yield compared(
                    f"{way} of a {name} field, {where}",
                    taken[f"{way} {name}, {where}"],
                    taken[f"{way} {name}"],
                    against=f"local {method}",
                    measure=speed_of(nbytes),
                    reach=at_least(1.0) if way == "fetch" else None,
                )
