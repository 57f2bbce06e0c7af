"""Random clients, reloads, transfers, deaths, interrupts and cut connections, against a model of every array.

``make soak`` runs it for three minutes; ``make soak SECONDS=1800`` for half an hour, ``SEED=...`` the same again.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import psutil
import pytest

from cut_network import CutNetwork
from real_worker import PATIENCE, RestartableWorker
from soak_player import Player, Tally
from tiremote.client import Session, connect
from tiremote.protocol.errors import EngineCrashed

SECONDS = float(os.environ.get("TIREMOTE_SOAK_SECONDS") or 180)
PLAYERS = 3
#: Engines live for seconds here: those that do not die are to be replaced all the same.
RECYCLE_BYTES = 1 << 18


@pytest.mark.soak
@pytest.mark.timeout(SECONDS + 300)
def test_nothing_differs_from_the_model_whatever_happens(arch: str, tmp_path: Path) -> None:
    """Every array holds what it must, every loss is told, and the front has no descriptor or engine left over."""
    seed = int(os.environ.get("TIREMOTE_SOAK_SEED") or random.SystemRandom().randrange(1 << 32))
    print(f"\nsoak: seed {seed}, {SECONDS:g} s", file=sys.stderr)
    tally = Tally()
    print(f"soak: the worker logs to {tmp_path}/worker.log", file=sys.stderr)
    with (tmp_path / "worker.log").open("w") as log:
        options = ("--log-level", "info", "--recycle", str(RECYCLE_BYTES))
        worker = RestartableWorker(tmp_path / "state", arch, *options, log=log)
        try:
            before = settled(worker, arch)
            storm(worker, arch, seed, tally)
            after = settled(worker, arch)
        finally:
            worker.worker.stop()
    tally.done["engine replaced"] = (tmp_path / "worker.log").read_text().count("is replaced by engine")
    print(f"soak: {dict(tally.done)}\nsoak: losses {dict(tally.losses)}", file=sys.stderr)
    assert sum(tally.losses.values()) > 0
    assert after == before


def storm(worker: RestartableWorker, arch: str, seed: int, tally: Tally) -> None:
    """Players, each behind a network that is cut, and somebody who kills engines and now and then the worker itself.

    Raises what any of them found.
    """
    end = time.monotonic() + SECONDS
    ended = threading.Event()
    found: list[BaseException] = []

    def watched(work: Callable[[], None]) -> threading.Thread:
        def run() -> None:
            try:
                work()
            except BaseException as error:
                found.append(error)
                ended.set()

        thread = threading.Thread(target=run)
        thread.start()
        return thread

    def play(number: int) -> None:
        chance = random.Random(seed + number)
        with CutNetwork(worker.address) as network, opened(network.address, arch, tally) as gpu:
            player = Player(gpu, seed + 1000 * number, tally)
            while time.monotonic() < end and not ended.is_set():
                player.play()
                if chance.random() < 0.02:
                    network.cut()
            player.finish()

    def kill() -> None:
        chance = random.Random(seed - 1)
        while time.monotonic() < end and not ended.wait(chance.uniform(0.5, 3.0)):
            if chance.random() < 0.05:
                number = chance.choice([signal.SIGKILL, signal.SIGTERM])
                tally.done[f"worker {number.name}"] += 1
                tally.restarts += 1
                worker.restart(number)
                continue
            engines = worker.worker.engines()
            if engines:
                # It may be a spare, may start just now, may be gone already.
                with contextlib.suppress(psutil.NoSuchProcess):
                    chance.choice(engines).kill()
                tally.done["kill"] += 1

    threads = [watched(lambda number=number: play(number)) for number in range(PLAYERS)] + [watched(kill)]
    for thread in threads:
        thread.join()
    if found:
        raise found[0]


def opened(address: str, arch: str, tally: Tally) -> Session:
    """A session, asked for again where what kills engines killed the one that was to be its first."""
    while True:
        try:
            return connect(address, arch=arch, on_output=None, liveness=60)
        except EngineCrashed:
            tally.losses["no engine at first"] += 1


def settled(worker: RestartableWorker, arch: str) -> dict[str, int]:
    """Descriptors and engines of a front without sessions, when both have stopped changing."""
    with connect(worker.address, arch=arch, on_output=None) as gpu:
        # pyzmq starts a thread of its own, with sockets, at the first large message.
        gpu.array(np.zeros(1 << 20)).to_numpy()
    front = psutil.Process(worker.worker.process.pid)
    deadline = time.monotonic() + PATIENCE
    seen: list[dict[str, int]] = []
    while time.monotonic() < deadline:
        seen.append({"descriptors": front.num_fds(), "engines": len(front.children())})
        if len(seen) > 10 and all(one == seen[-1] for one in seen[-10:]) and seen[-1]["engines"] == 1:
            break
        threading.Event().wait(0.1)  # what is waited for is that nothing happens
    return seen[-1]
