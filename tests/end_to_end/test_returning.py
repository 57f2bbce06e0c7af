"""A client is killed, leaves, or loses its network: its work goes on, and what it missed is there when it is back."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from cut_network import CutNetwork, Cutter
from printed import Printed
from real_worker import PATIENCE, RealWorker
from tiremote.client import RemoteObject, connect
from tiremote.protocol.errors import KernelRuntimeError, Refused, UnknownName
from tiremote.protocol.messages import Compile, Fetch, Run
from tiremote.protocol.receipts import Receipt
from tiremote.protocol.results import FetchResult, RunResult
from tiremote.protocol.values import Name, wire_array

SOURCE = """
import os
import time

total = ti.field(ti.i32, ())

@ti.kernel
def add(n: ti.i32) -> ti.i32:
    total[None] += n
    return total[None]

@ti.kernel
def double(x: ti.types.ndarray()):
    for i in x:
        x[i] *= 2

def drive(steps, pause=0.0):
    for n in range(steps):
        print("step", n, add(n))
        time.sleep(pause)
    return total[None], np.arange(3.0)

def wait_for(path):
    print("waiting")
    while not os.path.exists(path):
        time.sleep(0.01)
    print("it is there")
    return "done"

def fail():
    print("before")
    raise ValueError("on purpose")

class Thing:
    pass
"""

KILLED = """
import sys
from tiremote.client import connect

gpu = connect(sys.argv[1], session=sys.argv[2], client="killed")
gpu["sim"].drive(150, 0.01)
"""


def steps(n: int) -> str:
    """What `drive` prints."""
    return "".join(f"step {k} {k * (k + 1) // 2}\n" for k in range(n))


@pytest.fixture
def session(worker: RealWorker, arch: str, request: pytest.FixtureRequest) -> Iterator[str]:
    """The name of a session of its own with the source loaded, ended afterwards."""
    name = request.node.name
    with connect(worker.address, session=name, arch=arch) as gpu:
        gpu.compile_and_load(SOURCE, "sim")
    yield name
    with connect(worker.address, session=name) as gpu:
        gpu._private = True


def test_every_line_comes_once_over_many_cuts(worker: RealWorker, session: str) -> None:
    """In order and before the result, of a function that prints while the network is cut."""
    printed = Printed()
    with CutNetwork(worker.address) as network, connect(network.address, session=session, on_output=printed) as gpu:
        with Cutter(network) as cutter:
            future = gpu["sim"].drive.submit(400, 0.01)
            total, values = future.result(60)
        assert printed.text() == steps(400)
        assert cutter.cuts >= 4
    assert total == 400 * 399 // 2
    np.testing.assert_array_equal(values, np.arange(3.0))
    assert {stream for _, stream, _ in printed.events} == {"stdout"}


def test_a_client_that_is_killed_is_followed_by_another(worker: RealWorker, session: str) -> None:
    """The same lines from the first and the same result, for the next process that uses the session's name."""
    killed = subprocess.Popen(
        [sys.executable, "-c", KILLED, worker.address, session], stdout=subprocess.PIPE, text=True
    )
    assert killed.stdout is not None
    seen = [killed.stdout.readline() for _ in range(10)]
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    printed = Printed()
    with connect(worker.address, session=session, on_output=printed) as gpu:
        (line,) = gpu.requests()
        assert (line.op, line.target, line.client, line.state) == ("run", "run sim.drive", "killed", "running")
        total, values = gpu.collect(line).result(PATIENCE)
        assert len(gpu.requests()) == 0
    assert printed.text() == steps(150)
    assert printed.text().startswith("".join(seen))
    assert total == 150 * 149 // 2
    np.testing.assert_array_equal(values, np.arange(3.0))
    with connect(worker.address, session=session) as gpu:
        assert len(gpu.requests()) == 0


@pytest.mark.parametrize("by", ["name", "token"])
def test_a_client_that_leaves_without_waiting_finds_its_work_again(
    worker: RealWorker, session: str, tmp_path: Path, by: str
) -> None:
    """Also where it ended in the meantime; rejoined by the session's name, or by its token."""
    go = tmp_path / "go"
    printed = Printed()
    gpu = connect(worker.address, session=session, on_output=printed)
    future = gpu["sim"].wait_for.submit(str(go))
    printed.wait_for("waiting")
    token = gpu.detach()
    with pytest.raises(Refused, match="closed before this was answered"):
        future.result()
    go.touch()
    again = Printed()
    back = {"session": session} if by == "name" else {"token": token}
    gpu = connect(worker.address, on_output=again, **back)  # type: ignore[arg-type]
    assert gpu.collect(future.request_id).result(PATIENCE) == "done"
    assert again.text() == "waiting\nit is there\n"
    gpu.detach()


def test_a_request_is_collected_with_the_type_that_it_has(worker: RealWorker, session: str, tmp_path: Path) -> None:
    """Receipts, proxies, NumPy arrays that a kernel wrote to, errors with their lines; and both clients get it."""
    values = np.arange(4, dtype=np.float32)
    go = tmp_path / "go"
    with (
        connect(worker.address, session=session, on_output=None) as first,
        connect(worker.address, session=session) as gpu,
    ):
        first["sim"].wait_for.submit(str(go))
        sent = [
            first._exchange.submit(
                Run(id="", target=Name(unit="sim", name="double"), args=(wire_array(values),)), RunResult, repr
            ),
            first["sim"].Thing.submit(),
            first["sim"].fail.submit(),
            first._exchange.submit(Fetch(id="", target=Name(unit="sim", name="total")), FetchResult, repr),
        ]
        # What it was sent before a ping is there when that is answered.
        first.ping()
        collected = [gpu.collect(future.request_id) for future in sent]
        gpu.ping()
        go.touch()
        assert collected[0].result(PATIENCE) is None
        np.testing.assert_array_equal(collected[0].written[0], values * 2)
        assert isinstance(collected[1].result(PATIENCE), RemoteObject)
        with pytest.raises(KernelRuntimeError, match="on purpose") as caught:
            collected[2].result(PATIENCE)
        assert caught.value.frames[-1].text.strip() == 'raise ValueError("on purpose")'
        assert collected[3].result(PATIENCE) == 0
        assert [type(future.exception(PATIENCE)) for future in sent] == [type(None), type(None), KernelRuntimeError,
                                                                         type(None)]  # fmt: skip


def test_what_is_not_there_is_said(worker: RealWorker, session: str) -> None:
    """An id that there is not, and a fetch, whose answer is not kept."""
    with connect(worker.address, session=session) as gpu:
        with pytest.raises(UnknownName, match="there is no request 'nobody-1' in this session"):
            gpu.collect("nobody-1").result(PATIENCE)
        fetched = gpu._exchange.submit(Fetch(id="", target=Name(unit="sim", name="total")), FetchResult, repr)
        fetched.result(PATIENCE)
        with pytest.raises(Refused, match="it was a fetch: what was read is not kept"):
            gpu.collect(fetched.request_id).result(PATIENCE)


def test_a_collected_load_gives_its_receipt(worker: RealWorker, arch: str) -> None:
    """In a private session that is left while it loads, and rejoined by its token."""
    gpu = connect(worker.address, arch=arch)
    loading = gpu._exchange.submit(Compile(id="", source=SOURCE, unit="sim"), Receipt, repr)
    with connect(worker.address, token=gpu.detach()) as gpu:
        receipt = gpu.collect(loading.request_id).result(PATIENCE)
        assert isinstance(receipt, Receipt)
        assert (receipt.unit, receipt.version) == ("sim", 1)
        assert gpu["sim"].add(3) == 3
