"""`connect()` without an address: a worker of one's own, from start to end."""

from __future__ import annotations

import gc
import subprocess
import sys

import numpy as np
import psutil
import pytest

from tiremote.client import connect
from tiremote.protocol.errors import WorkerUnreachable

KERNEL = """
@ti.kernel
def add(x: ti.types.ndarray(), n: ti.i32):
    for i in x:
        x[i] += n
"""


def test_it_is_started_used_and_ended(arch: str) -> None:
    """With its engines, and the folder of its socket."""
    with connect(arch=arch) as gpu:
        worker = psutil.Process(gpu.status().pid)
        family = [worker, *worker.children(recursive=True)]
        gpu.compile_and_load(KERNEL)
        array = np.arange(3, dtype=np.int32)[::-1]
        gpu[None].add(array, 10)
        assert array.tolist() == [12, 11, 10]
    _, alive = psutil.wait_procs(family, timeout=20)
    assert not alive


def test_arrays_that_are_dropped_are_given_back(arch: str) -> None:
    """Garbage collection here frees memory there."""
    with connect(arch=arch) as gpu:
        kept = gpu.ti.ndarray("f32", 10)
        for _ in range(20):
            gpu.ti.ndarray("f32", 1000)
        gc.collect()
        left = [gpu.describe().arrays]
        while len(left[-1]) > 1:
            gpu.ping()
            left.append(gpu.describe().arrays)
        assert left[-1][0].handle == kept.handle


def test_its_death_is_known_at_once(arch: str) -> None:
    """Not after the silence that a remote one is given."""
    with connect(arch=arch, liveness=600) as gpu:
        psutil.Process(gpu.status().pid).kill()
        with pytest.raises(WorkerUnreachable, match="the local worker has ended"):
            gpu.ping()


@pytest.mark.parametrize("how", ["sys.exit(0)", "os.kill(os.getpid(), 9)", "raise SystemError"])
def test_a_program_that_ends_without_closing_leaves_none_behind(arch: str, how: str) -> None:
    """However it ends."""
    program = (
        "import os, sys\nfrom tiremote.client import connect\n"
        f"gpu = connect(arch={arch!r})\nprint(gpu.status().pid, flush=True)\n{how}\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100, check=False)
    try:
        worker = psutil.Process(int(done.stdout))
    except psutil.NoSuchProcess:
        return
    worker.wait(20)
