"""From an address to a session, and the errors of both."""

from __future__ import annotations

import socket

import pytest

from tiremote.client import connect
from tiremote.client.connect import check_address
from tiremote.protocol.errors import Refused, WorkerUnreachable
from tiremote.protocol.messages import Bye, Hello

from .fake_worker import FakeWorker


@pytest.mark.parametrize(
    "address",
    ["tcp://gpu-box:5555", "tcp://10.0.0.1:1", "tcp://[::1]:65535", "tcp://a.b-c.example:80", "ipc:///tmp/a b.ipc"],
)
def test_addresses_of_workers_are_taken(address: str) -> None:
    """Hosts, IPv4, IPv6 in brackets, paths."""
    check_address(address)


@pytest.mark.parametrize(
    "address",
    ["", "gpu-box", "gpu-box:5555", "http://gpu-box:5555", "tcp://gpu-box", "tcp://:5555", "tcp://gpu-box:0",
     "tcp://gpu-box:65536", "tcp://gpu-box:port", "tcp://::1:5555", "tcp://a b:1", "tcp://gpu-box:5555/", "ipc://",
     "inproc://x", "tcp://user@host:1"],
)  # fmt: skip
def test_what_is_no_address_is_refused_with_what_one_looks_like(address: str) -> None:
    """A ValueError of one line, before anything is tried."""
    with pytest.raises(ValueError, match=r"tcp://|ipc://") as caught:
        connect(address)
    assert "\n" not in str(caught.value)


def test_nothing_that_listens_is_unreachable_within_the_timeout() -> None:
    """One line, with the address and what to check."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: nobody else gets the port
        with pytest.raises(WorkerUnreachable) as caught:
            connect(f"tcp://127.0.0.1:{taken.getsockname()[1]}", timeout=0.3)
    assert "nothing answers at tcp://127.0.0.1:" in str(caught.value)
    assert "tiremote-worker" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_host_that_does_not_exist_is_named() -> None:
    """The name is looked up once, and not for ever."""
    with pytest.raises(WorkerUnreachable, match=r"no-such-host\.invalid"):
        connect("tcp://no-such-host.invalid:5555", timeout=5)


def test_hello_carries_the_options(worker: FakeWorker) -> None:
    """Taichi's options by their names, and only those that were given."""
    with connect(worker.address, arch="cuda", default_fp="f64", debug=True, options={"fast_math": False}, lease=60):
        (hello,) = worker.of(Hello)
    assert hello.options == {"arch": "cuda", "default_fp": "f64", "debug": True, "fast_math": False}
    assert (hello.session, hello.lease, hello.token) == (None, 60, None)


def test_an_option_that_is_no_name_is_refused(worker: FakeWorker) -> None:
    """An arch object of Taichi's cannot travel."""
    with pytest.raises(Refused, match="by its name"):
        connect(worker.address, arch=3)  # type: ignore[arg-type]


def test_leaving_ends_a_private_session_and_detaches_from_a_named_one(worker: FakeWorker) -> None:
    """`bye` says which."""
    with connect(worker.address):
        pass
    with connect(worker.address, session="shared") as gpu:
        assert gpu.name == "shared"
    connect(worker.address).detach()
    assert [bye.end for bye in worker.of(Bye)] == [True, False, False]


def test_a_session_is_rejoined_by_the_token_that_detach_returned(worker: FakeWorker) -> None:
    """It goes into hello."""
    token = connect(worker.address).detach()
    connect(worker.address, token=token).detach()
    assert worker.of(Hello)[-1].token == token


def test_keys_need_an_address() -> None:
    """What cannot have an effect is refused."""
    with pytest.raises(ValueError, match="server_key="):
        connect("tcp://127.0.0.1:1", key="client.key_secret")


def test_a_runtime_is_asked_for_by_name(worker: FakeWorker) -> None:
    """As an option of the session, on any worker."""
    with connect(worker.address, runtime="quadrants"):
        assert worker.of(Hello)[0].options["runtime"] == "quadrants"
    with pytest.raises(Refused, match="by its name"):
        connect(worker.address, runtime=3)  # type: ignore[arg-type]


def test_the_repr_tells_where_and_what(worker: FakeWorker) -> None:
    """Session name, address, arch and device."""
    with connect(worker.address) as gpu:
        assert repr(gpu) == f"<Session 's1' on {worker.address}, cpu (a desk)>"
    assert "closed" in repr(gpu)
