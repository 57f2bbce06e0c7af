"""Arrays over 100 Mbit/s."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack

from bench.figures import Figure, at_least, compared
from bench.groups import Run, Skipped
from bench.processes import Child
from bench.samples import speed_of
from bench.slow import SlowLink
from slow_link import namespace

TITLE = "A link of 100 Mbit/s, made with `tc tbf` in a network namespace"

MBIT, NBYTES = 100, 32 << 20


def measure(run: Run) -> Iterator[Figure]:
    """Beside the same bytes sent plainly. Raises `Skipped` where no such link can be made."""
    if shutil.which("tc") is None or shutil.which("ip") is None or not hasattr(os, "geteuid") or os.geteuid() != 0:
        raise Skipped("it needs root, `ip` and `tc`")
    speed = speed_of(NBYTES)
    with ExitStack() as stack:
        try:
            name = stack.enter_context(namespace(MBIT))
        except subprocess.CalledProcessError as error:
            raise Skipped(f"no slow link can be made here: {error}") from None
        inside = stack.enter_context(Child(SlowLink, name, run.arch, NBYTES // 4, patience=900.0))
        taken = inside.call("whole", run.rounds)
        for way in ("put", "fetch"):
            yield compared(
                f"{way} of 32 MiB that compress",
                taken[f"{way} tiremote"],
                taken[f"{way} plain"],
                against="plain bytes",
                measure=speed,
                reach=at_least(3.0),
            )
        taken = inside.call("again", run.rounds)
        yield compared(
            "put again, 1 % changed in one place",
            taken["tiremote"],
            taken["plain"],
            against="plain bytes",
            measure=speed,
            reach=at_least(30.0),
        )
