"""Strangers, keys, malformed messages and limits, through real sockets and a real worker."""

from __future__ import annotations

import os
import resource
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgpack
import numpy as np
import psutil
import pytest
import zmq
import zmq.auth

from real_worker import RawSession, RealWorker
from tiremote.protocol.codec import encode
from tiremote.protocol.errors import (
    EngineCrashed,
    KernelRuntimeError,
    OutOfMemory,
    PayloadTooLarge,
    ProtocolError,
    StaleHandle,
    TiremoteError,
    UnknownName,
)
from tiremote.protocol.messages import Bye, Cleanup, Fetch, Hello, Put, Run
from tiremote.protocol.packing import pack
from tiremote.protocol.values import ArrayDescriptor, Handle, WireArray, wire_array

pytestmark = pytest.mark.usefixtures("worker")


@pytest.fixture(scope="module")
def session(worker: RealWorker) -> Iterator[RawSession]:
    """One session for all of this file: what any test does to it must not spoil the next."""
    with RawSession(worker.address) as session:
        yield session


def still_works(session: RawSession) -> None:
    """A session does what it could before."""
    session.compile("def answer():\n    return 42\n", "after")
    assert session.run("answer", unit="after") == 42


# ---------------------------------------------------------------- where it listens


@pytest.mark.parametrize("address", ["tcp://0.0.0.0:0", "tcp://*:0", "tcp://192.0.2.1:5555", "tcp://[::]:0"])
def test_without_keys_a_worker_listens_on_loopback_only(address: str) -> None:
    """An address that others could reach is refused with what to do instead, before anything is started."""
    with pytest.raises(RuntimeError, match=r"will not listen .* without keys") as caught:
        RealWorker(address=address)
    assert "tiremote keygen" in str(caught.value)


@pytest.mark.parametrize(
    "address", ["udp://127.0.0.1:1", "127.0.0.1:5555", "tcp://127.0.0.1", "ipc://", "tcp://127.0.0.1:99999"]
)
def test_an_address_that_is_none_is_explained(address: str) -> None:
    """A mistyped address ends with one line that says how one looks."""
    with pytest.raises(RuntimeError, match="cannot listen on"):
        RealWorker(address=address)


def test_an_ipc_socket_is_for_its_user_alone_and_goes_with_the_worker(tmp_path: Path) -> None:
    """Nobody else may connect to a worker's ipc socket, and its file does not stay."""
    path = tmp_path / "w.sock"
    with RealWorker(address=f"ipc://{path}") as worker:
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0
        with RawSession(worker.address) as session:
            still_works(session)
    assert not path.exists()


def test_a_worker_takes_no_address_from_another(tmp_path: Path) -> None:
    """A second one at the same file is refused, and the first goes on there; so it is where the second has bad keys."""
    address = f"ipc://{tmp_path}/w.sock"
    with RealWorker(address=address) as worker:
        with pytest.raises(RuntimeError, match="another worker"):
            RealWorker(address=address)
        with pytest.raises(RuntimeError, match="no key in"):
            RealWorker(f"--keys={tmp_path}/none", f"--authorized={tmp_path}", address=address)
        with RawSession(worker.address) as session:
            still_works(session)


# ---------------------------------------------------------------- CURVE


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Certificates: of the worker, of an admitted client and of a stranger."""
    folder = tmp_path_factory.mktemp("keys")
    (folder / "admitted").mkdir()
    for name in ("worker", "laptop", "stranger"):
        _, secret = zmq.auth.create_certificates(folder, name)
        os.chmod(secret, 0o600)
    os.link(folder / "laptop.key", folder / "admitted" / "laptop.key")
    return folder


@pytest.fixture(scope="module")
def curve_worker(keys: Path, arch: str) -> Iterator[RealWorker]:
    """A worker that admits only the laptop's key."""
    with RealWorker(
        "--keys", str(keys / "worker.key_secret"), "--authorized", str(keys / "admitted"), arch=arch
    ) as worker:
        yield worker


class CurveSession(RawSession):
    """A client with a key of its own."""

    def __init__(self, worker: RealWorker, keys: Path, name: str | None, server: str = "worker") -> None:
        super().__init__("inproc://nowhere", hello=False)
        self.socket.disconnect("inproc://nowhere")
        if name is not None:
            public, secret = zmq.auth.load_certificate(keys / f"{name}.key_secret")
            assert secret is not None
            self.socket.curve_publickey, self.socket.curve_secretkey = public, secret
            self.socket.curve_serverkey = zmq.auth.load_certificate(keys / f"{server}.key")[0]
        self.socket.connect(worker.address)


def test_an_admitted_key_works(curve_worker: RealWorker, keys: Path) -> None:
    """A client whose public key lies in the folder is served."""
    with CurveSession(curve_worker, keys, "laptop") as session:
        session.token = session.ask(Hello)["token"]
        still_works(session)


@pytest.mark.parametrize(("name", "server"), [("stranger", "worker"), (None, "worker"), ("laptop", "stranger")])
def test_others_get_nothing(curve_worker: RealWorker, keys: Path, name: str | None, server: str) -> None:
    """An unknown key, no key, or a client that expects another worker: not one byte of an answer."""
    with CurveSession(curve_worker, keys, name, server) as session:
        session.send(Hello)
        with pytest.raises(TimeoutError):
            session.receive(1.0)
    with CurveSession(curve_worker, keys, "laptop") as session:
        session.token = session.ask(Hello)["token"]
        still_works(session)


def test_a_key_that_is_added_later_is_admitted_even_after_a_refusal(curve_worker: RealWorker, keys: Path) -> None:
    """A worker need not be restarted for a new client, nor for one that is no longer welcome."""
    zmq.auth.create_certificates(keys, "late")
    admitted = keys / "admitted" / "late.key"
    with CurveSession(curve_worker, keys, "late") as session:
        session.send(Hello)
        with pytest.raises(TimeoutError):
            session.receive(0.5)
    os.link(keys / "late.key", admitted)
    with CurveSession(curve_worker, keys, "late") as session:
        session.token = session.ask(Hello)["token"]
        still_works(session)
    admitted.unlink()
    with CurveSession(curve_worker, keys, "late") as session:
        session.send(Hello)
        with pytest.raises(TimeoutError):
            session.receive(0.5)


def test_keys_that_others_can_read_are_refused(keys: Path, tmp_path: Path) -> None:
    """A secret key with open permissions does not start a worker."""
    copy = tmp_path / "open.key_secret"
    copy.write_bytes((keys / "worker.key_secret").read_bytes())
    copy.chmod(0o644)
    with pytest.raises(RuntimeError, match="chmod 600"):
        RealWorker("--keys", str(copy), "--authorized", str(keys / "admitted"))


def test_a_public_key_in_place_of_the_secret_is_explained(keys: Path) -> None:
    """Giving the wrong one of the two files is a common slip and gets a plain line."""
    os.chmod(keys / "worker.key", 0o600)
    with pytest.raises(RuntimeError, match=r"give the \.key_secret file"):
        RealWorker("--keys", str(keys / "worker.key"), "--authorized", str(keys / "admitted"))


# ---------------------------------------------------------------- messages


@pytest.mark.parametrize(
    "frames",
    [
        [b"\xc1"],
        [b"\x85\xa1v\x01"],
        [b"\x91" * 100_000],
        [b"\xdd\xff\xff\xff\xff"],
        [b"\xdf\xff\xff\xff\xff"],
        [b"\xc6\xff\xff\xff\xff"],
        [pack("hello", [])],
        [pack({"v": 1, "op": "run", "id": "odd", "target": "add"}, [])],
        [pack({"v": 1, "op": "hello", "id": [1]}, [])],
        [msgpack.packb({"v": 1, "op": "ping", "id": "odd", "x": msgpack.ExtType(99, b"")})],
        [msgpack.packb({"v": 1, "op": "ping", "id": "odd", "x": msgpack.ExtType(1, b"\xc1")})],
        [pack({"v": 1, "op": "ping", "id": 1}, [])[:-1] + b"\xff\xff"],
        [b""],
        [b"", b""],
        [os.urandom(1000)],
    ],
)
def test_a_malformed_message_changes_nothing_for_others(
    worker: RealWorker, session: RawSession, frames: list[bytes]
) -> None:
    """Whatever a stranger sends, a session beside it goes on, on the same engine."""
    pid = session.status()["session"]["engine_pid"]
    with RawSession(worker.address, hello=False) as stranger:
        stranger.socket.send_multipart(frames)
        stranger.ping()
    still_works(session)
    assert session.status()["session"]["engine_pid"] == pid


def test_a_frame_over_the_limit_ends_the_connection_and_nothing_else(worker: RealWorker, session: RawSession) -> None:
    """ZeroMQ itself drops a frame that is too large before it is in memory."""
    before = psutil.Process(worker.process.pid).memory_info().rss
    with RawSession(worker.address, hello=False) as stranger:
        stranger.socket.send_multipart([pack({"v": 1, "op": "ping", "id": 1}, []), bytes(65 << 20)])
        with pytest.raises(TimeoutError):
            stranger.receive(0.5)
    still_works(session)
    assert psutil.Process(worker.process.pid).memory_info().rss < before + (64 << 20)


def test_a_buffer_that_does_not_match_its_array_is_refused(session: RawSession) -> None:
    """Sizes that lie are told apart from those that do not, both numbers in the error."""
    header, _ = encode(Put(id="lie", token=session.token, array=wire_array(np.zeros(4, np.float32))))
    with pytest.raises(ProtocolError, match=r"16 bytes.* 12"):
        session.ask_raw("lie", [header, b"\0" * 12])
    still_works(session)


def test_a_huge_shape_without_bytes_is_refused(session: RawSession) -> None:
    """An out argument that claims more memory than there is costs an error, not the engine."""
    session.compile("@ti.kernel\ndef f(x: ti.types.ndarray()):\n    x[0] = 1\n", "k")
    huge = WireArray(ArrayDescriptor(dtype="f32", shape=(1 << 31, 1 << 20), access="out"), None)
    with pytest.raises(TiremoteError) as caught:
        session.run("f", huge, unit="k")
    assert not isinstance(caught.value, EngineCrashed)
    still_works(session)


@pytest.mark.parametrize("name", ["__class__", "__dict__", "f.__globals__", "../x", "", ".", "f..g", "a b"])
def test_names_that_reach_behind_a_unit_are_refused(session: RawSession, name: str) -> None:
    """Only what the source defines can be called by name."""
    session.compile("def f():\n    return 1\n", "k")
    with pytest.raises(UnknownName):
        session.run(name, unit="k")
    assert session.run("f", unit="k") == 1


@pytest.mark.parametrize("unit", ["numpy", "json", "os", "../etc/passwd", "__main__", "tiremote.worker", "a.b", "é"])
def test_a_unit_may_have_any_name_and_replaces_no_module(session: RawSession, unit: str) -> None:
    """A unit called numpy is a unit, and numpy stays numpy."""
    session.compile("import json\nimport os\ndef f():\n    return float(np.sqrt(4.0)), json.dumps(1), os.sep\n", unit)
    assert session.run("f", unit=unit) == (2.0, "1", "/")
    session.compile("import numpy, json\ndef g():\n    return numpy.zeros(1).tolist(), json.loads('2')\n", "after")
    assert session.run("g", unit="after") == ([0.0], 2)


@pytest.mark.parametrize("everything", [False, True])
def test_a_handle_that_is_named_twice_is_dropped_once(session: RawSession, everything: bool) -> None:
    """And the other array that the request names goes as well."""
    x, y = session.put(np.zeros(4, np.float32)), session.put(np.zeros(2, np.float32))
    gone = session.ask(Cleanup, targets=(x, x, y), everything=everything)
    assert (gone["handles"], gone["nbytes"]) == ([x.id, y.id], 24)
    for handle in (x, y):
        with pytest.raises(StaleHandle):
            session.fetch(handle)


def test_a_handle_of_another_session_is_unknown(worker: RealWorker, session: RawSession) -> None:
    """Handles that are guessed or copied open nothing in another session."""
    with RawSession(worker.address) as other:
        secret = other.put(np.arange(3, dtype=np.float32))
        for handle in (secret, Handle(kind="ndarray", id="s1.1.1"), Handle(kind="ndarray", id="..")):
            with pytest.raises(UnknownName):
                session.fetch(handle)
        with pytest.raises(UnknownName):
            session.ask(Run, target=secret, method="fill", args=(1,))


def test_an_answer_that_is_too_large_says_how_to_fetch_it(session: RawSession) -> None:
    """A whole array over the limit is refused with the advice to take ranges, and the ranges work."""
    big = session.alloc(dtype="u8", shape=(65 << 20,), fill="value", value=7)
    with pytest.raises(PayloadTooLarge, match="flat ranges"):
        session.fetch(big)
    assert session.ask(Fetch, target=big, flat=(1 << 20, (1 << 20) + 3))["value"].view().tolist() == [7, 7, 7]


def test_a_client_that_does_not_read_costs_bounded_memory(arch: str) -> None:
    """Answers that nobody takes stop their session's work, not the worker's memory; taken, they are all there."""
    budget, size, count = 64 << 20, 16 << 20, 30
    with (
        RealWorker("--session-bytes", str(budget), arch=arch) as worker,
        RawSession(worker.address, high_water=1) as session,
    ):
        array = session.alloc(dtype="u8", shape=(size,), fill="value", value=3)
        front = psutil.Process(worker.process.pid)
        before = front.memory_info().rss
        requests = [session.send(Fetch, target=array) for _ in range(count)]
        with RawSession(worker.address, hello=False) as other:
            peak = max(front.memory_info().rss for _ in range(400) if other.ping())
        # What is in shared memory of answers on their way counts as well: the window's.
        assert peak - before < budget + 10 * size < count * size
        for request in requests:
            assert session.result(request)["value"].view()[::4096].min() == 3


def test_times_that_are_too_long_to_wait_for_end_nothing(worker: RealWorker) -> None:
    """A lease or a deadline of more milliseconds than there are numbers for is one that never comes."""
    with RawSession(worker.address, lease=1e300) as session:
        session.compile("import time\ndef nap():\n    time.sleep(0.1)\n", "u")
        session.run("nap", unit="u", deadline=1e300)
        still_works(session)
        session.ask(Bye, end=True)


# ---------------------------------------------------------------- nothing leaks


def test_bulk_bytes_leave_no_descriptor_and_no_memory_behind(worker: RealWorker, session: RawSession) -> None:
    """Shared memory is given back whether a request works, fails, or kills its engine."""
    session.compile("import os\ndef boom(x):\n    raise ValueError\ndef die(x):\n    os._exit(1)\n", "k")
    array = np.zeros(1 << 18, np.float32)
    handle = session.put(array)
    session.fetch(handle)
    front = psutil.Process(worker.process.pid)
    before = front.num_fds()

    def mapped() -> int:
        return sum("memfd:tiremote" in line for line in Path(f"/proc/{front.pid}/maps").read_text().splitlines())

    for _ in range(20):
        session.ask(Put, target=handle, array=wire_array(array))
        session.fetch(handle)
        with pytest.raises(KernelRuntimeError):
            session.run("boom", array, unit="k")
    for _ in range(2):
        with pytest.raises(EngineCrashed):
            session.run("die", array, unit="k")
    still_works(session)
    for _ in range(50):
        session.ping()
    # Two numbers for spares that are being started or ended meanwhile.
    assert front.num_fds() <= before + 8
    assert mapped() <= 2


def test_a_worker_takes_as_many_descriptors_as_it_may(arch: str) -> None:
    """A shell's usual limit is below what a few sessions with many arrays need: each of these is a descriptor."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
    try:
        worker = RealWorker(arch=arch)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    with worker, RawSession(worker.address) as session:
        session.compile("def many():\n    return [np.zeros(20_000) for _ in range(100)]\n", "u")
        assert len(session.run("many", unit="u")) == 100


def test_a_worker_without_a_descriptor_left_goes_on(arch: str) -> None:
    """What needs one fails, and says so; the sessions stay, and work again when there is room."""
    with RealWorker(arch=arch) as worker, RawSession(worker.address) as session:
        session.compile("def many(_):\n    return [np.zeros(20_000) for _ in range(100)]\n", "u")
        front = psutil.Process(worker.process.pid)
        most = front.rlimit(psutil.RLIMIT_NOFILE)
        front.rlimit(psutil.RLIMIT_NOFILE, (front.num_fds() + 4, most[1]))
        # More than fit into slots, so that each of the last needs a descriptor.
        array = wire_array(np.zeros(500_000))
        with pytest.raises(OutOfMemory):
            session.run("many", [array] * 20, unit="u")
        with pytest.raises(EngineCrashed):
            session.run("many", None, unit="u")
        session.status()
        front.rlimit(psutil.RLIMIT_NOFILE, most)
        still_works(session)
        assert len(session.run("many", None, unit="u")) == 100


def test_a_client_that_is_killed_leaves_no_local_worker() -> None:
    """SIGKILL to a program that started its own worker ends that worker and its engines."""
    script = (
        "import sys\nfrom tiremote.client import connect\ngpu = connect(arch='cpu')\n"
        "print(gpu.status().pid, flush=True)\nsys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as client:
        assert client.stdout is not None
        worker = psutil.Process(int(client.stdout.readline()))
        family = [worker, *worker.children(recursive=True)]
        client.kill()
        _, alive = psutil.wait_procs(family, timeout=10)
        assert alive == []


def test_the_target_of_a_run_may_be_nothing_but_a_name_or_a_handle(session: RawSession) -> None:
    """A value where a target belongs is a protocol error, and the next request works."""
    header = pack({"v": 1, "op": "run", "id": "t", "token": session.token, "target": 5}, [])
    with pytest.raises(ProtocolError, match="a handle or a name was expected"):
        session.ask_raw("t", [header])
    still_works(session)
