"""Arrays over a slow link: ``python benchmarks/slow_link.py [--mbit 100] [--mib 32] [--repeats 3]``, as root on Linux.

Makes a network namespace whose loopback carries so many Mbit/s (``tbf``), runs itself in there with a worker, and
removes it. Client and worker share the link, so that both directions together have that rate. Every figure is the
median of ``--repeats``, with the least and the most, and is told as a ratio to the same bytes sent plainly in the same
run. Prints a table for docs/performance.md.
"""

from __future__ import annotations

import argparse
import functools
import os
import shlex
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from tiremote.client import connect
from tiremote.client.session import Session

#: More than a frame has to pass at once, and little against what is measured.
_BURST = "64kb"
_LATENCY = "50ms"


@dataclass(frozen=True, kw_only=True)
class Figure:
    """Seconds that something took, each time."""

    what: str
    seconds: list[float]
    plain: list[float]
    nbytes: int

    def __str__(self) -> str:
        median, floor = statistics.median(self.seconds), statistics.median(self.plain)
        return (
            f"| {self.what} | {median:.3f} ({min(self.seconds):.3f} to {max(self.seconds):.3f}) "
            f"| {self.nbytes / median / 1e6:.1f} | {floor / median:.1f} |"
        )


def contents(count: int) -> Iterator[tuple[str, np.ndarray]]:
    """What there is in arrays: a name, and ``count`` numbers."""
    side = int(count**0.5)
    y, x = np.mgrid[0:side, 0:side].astype(np.float32) / side
    flat = np.zeros(count, np.float32)

    def padded(values: np.ndarray) -> np.ndarray:
        made = flat.astype(values.dtype)
        made[: values.size] = values.reshape(-1)
        return made

    yield "random f32", np.random.default_rng(1).random(count, dtype=np.float32)
    yield "smooth f32, sines", padded(np.sin(6 * x) * np.cos(6 * y))
    yield "smooth f32, a Gaussian", padded(np.exp(-((x - 0.5) ** 2 + (y - 0.5) ** 2) * 50).astype(np.float32))
    yield "mask i32", padded((np.hypot(x - 0.5, y - 0.5) < 0.3).astype(np.int32))
    yield "zeros f32", flat


def timed(do: Callable[[], object]) -> float:
    """Its seconds."""
    started = time.perf_counter()
    do()
    return time.perf_counter() - started


def measure(address: str, mib: int, repeats: int) -> Iterator[Figure]:
    """Everything, on a worker at that address."""
    with connect(address, compress=False, reuse=False) as plain, connect(address, reuse=False) as coding:
        for name, values in contents((mib << 20) // 4):
            yield from whole(plain, coding, name, values, repeats)
    with connect(address, compress=False, reuse=False) as plain, connect(address) as gpu:
        yield from again(plain, gpu, next(contents((mib << 20) // 4))[1], repeats)


def whole(plain: Session, gpu: Session, name: str, values: np.ndarray, repeats: int) -> Iterator[Figure]:
    """An array put and fetched as a whole, plainly and not, in turns."""
    seconds: dict[str, list[float]] = {}
    for _ in range(repeats):
        for way, session in (("plain", plain), ("coded", gpu)):
            array = session.ti.ndarray(values.dtype, values.shape)
            seconds.setdefault(f"{way} put", []).append(timed(functools.partial(array.from_numpy, values)))
            seconds.setdefault(f"{way} fetch", []).append(timed(array.to_numpy))
            array.free()
    for what in ("put", "fetch"):
        floor = seconds[f"plain {what}"]
        yield Figure(what=f"{what} {name}, plain", seconds=floor, plain=floor, nbytes=values.nbytes)
        yield Figure(what=f"{what} {name}", seconds=seconds[f"coded {what}"], plain=floor, nbytes=values.nbytes)


def changed(values: np.ndarray, how: str, round_: int) -> np.ndarray:
    """The same with other numbers in 1 % of it."""
    made, count = values.copy(), values.size // 100
    random = np.random.default_rng([round_, len(how)])
    if how == "in one place":
        start = int(random.integers(0, values.size - count))
        made[start : start + count] = random.random(count, dtype=np.float32)
    else:
        made[random.integers(0, values.size, count)] = random.random(count, dtype=np.float32)
    return made


def again(plain: Session, gpu: Session, values: np.ndarray, repeats: int) -> Iterator[Figure]:
    """An array put again where it is, or into a new one, with 1 % of it changed; and with nothing of it known."""
    with_plain = plain.ti.ndarray(values.dtype, values.shape)
    with_reuse = gpu.ti.ndarray(values.dtype, values.shape)
    with_plain.from_numpy(values)
    with_reuse.from_numpy(values)
    for how in ("in one place", "all over"):
        floor, reused, anew = [], [], []
        for number in range(repeats):
            values = changed(values, how, number)
            floor.append(timed(lambda: with_plain.from_numpy(values)))  # noqa: B023
            reused.append(timed(lambda: with_reuse.from_numpy(values)))  # noqa: B023
            assert np.array_equal(with_reuse.to_numpy(), values)
            values = changed(values, how, number + repeats)
            other = gpu.ti.ndarray(values.dtype, values.shape)
            anew.append(timed(lambda: other.from_numpy(values)))  # noqa: B023
            other.free()
        for what, seconds in ((", plain", floor), ("", reused), (", into a new array", anew)):
            yield Figure(what=f"put again, 1 % changed {how}{what}", seconds=seconds, plain=floor, nbytes=values.nbytes)


def inside(mib: int, repeats: int) -> None:
    """In the namespace: starts a worker there, and prints what is measured."""
    command = [sys.executable, "-m", "tiremote.worker", "--bind", "tcp://127.0.0.1:0", "--arch", "cpu", "--until-eof"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdout is not None
        assert worker.stdin is not None
        address = shlex.split(worker.stdout.readline())[2]
        print("| what | seconds (least to most) | MB/s | times as fast as plain |\n|---|---|---|---|", flush=True)
        try:
            for figure in measure(address, mib, repeats):
                print(figure, flush=True)
        finally:
            worker.stdin.close()


@contextmanager
def namespace(mbit: int) -> Iterator[str]:
    """A network namespace with such a loopback, for as long as the block lasts."""
    name = f"tiremote-{os.getpid()}"
    run("ip", "netns", "add", name)
    try:
        run("ip", "-n", name, "link", "set", "lo", "mtu", "1500", "up")
        rate = ["rate", f"{mbit}mbit", "burst", _BURST, "latency", _LATENCY]
        run("ip", "netns", "exec", name, "tc", "qdisc", "add", "dev", "lo", "root", "tbf", *rate)
        yield name
    finally:
        run("ip", "netns", "del", name)


def run(*command: str) -> None:
    """Raises `CalledProcessError`."""
    subprocess.run(command, check=True)


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs itself again in a slow namespace."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mbit", type=int, default=100, help="what the link carries")
    parser.add_argument("--mib", type=int, default=32, help="the size of an array")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.inside:
        inside(given.mib, given.repeats)
        return
    with namespace(given.mbit) as name:
        print(f"{given.mib} MiB, a link of {given.mbit} Mbit/s both ways together\n", flush=True)
        again = ["--inside", "--mib", str(given.mib), "--repeats", str(given.repeats)]
        run("ip", "netns", "exec", name, sys.executable, __file__, *again)


if __name__ == "__main__":
    main()
