"""CURVE keys from files, and what a client with wrong ones is told."""

from __future__ import annotations

from pathlib import Path

import pytest
import zmq
import zmq.auth
from zmq.auth.thread import ThreadAuthenticator

from tiremote.client import connect
from tiremote.client.keys import keys_folder, load_keys
from tiremote.protocol.errors import Unauthorized, WorkerUnreachable

from .fake_worker import FakeWorker


def test_keys_are_read_from_files_and_the_workers_from_its_text(tmp_path: Path) -> None:
    """The secret is in no repr."""
    client, client_secret = zmq.auth.create_certificates(tmp_path, "client")
    worker, _ = zmq.auth.create_certificates(tmp_path, "worker")
    keys = load_keys(client_secret, worker)
    assert keys is not None
    assert keys.public == zmq.auth.load_certificate(client)[0]
    assert load_keys(client_secret, keys.server.decode()) == keys
    assert keys.secret.decode() not in repr(keys)
    assert load_keys(None, None) is None


def test_what_is_no_key_is_refused_with_what_to_do(tmp_path: Path) -> None:
    """A file that is not there, a public key where the secret one is needed, some other file."""
    client, secret = zmq.auth.create_certificates(tmp_path, "client")
    (tmp_path / "other.key").write_text("hello")
    with pytest.raises(ValueError, match="tiremote keygen"):
        load_keys(tmp_path / "nope", client)
    with pytest.raises(ValueError, match=r"\.key_secret"):
        load_keys(client, client)
    with pytest.raises(ValueError, match="no certificate"):
        load_keys(tmp_path / "other.key", client)
    with pytest.raises(ValueError, match="server_key="):
        load_keys(secret, None)


def test_the_clients_key_is_looked_for_where_keygen_writes_it() -> None:
    """In the user's own folder for settings."""
    with pytest.raises(ValueError, match="client") as caught:
        load_keys(None, "x" * 40)
    assert str(keys_folder()) in str(caught.value)


def test_keys_that_are_not_admitted_are_told_so_at_once(tmp_path: Path) -> None:
    """Where the worker says so; a client without keys, or with the wrong key of the worker, is told about keys too."""
    _, client = zmq.auth.create_certificates(tmp_path, "client")
    public, secret = zmq.auth.create_certificates(tmp_path, "worker")
    with zmq.Context() as context:
        authenticator = ThreadAuthenticator(context)
        authenticator.start()
        (tmp_path / "admitted").mkdir()
        authenticator.configure_curve(domain="*", location=str(tmp_path / "admitted"))
        with context.socket(zmq.ROUTER) as router:
            router.linger = 0
            router.curve_publickey, router.curve_secretkey = zmq.auth.load_certificate(secret)
            router.curve_server = True
            router.bind("tcp://127.0.0.1:0")
            address = router.get(zmq.LAST_ENDPOINT).decode()
            with pytest.raises(Unauthorized, match="does not admit these keys"):
                connect(address, key=client, server_key=public, timeout=10)
            with pytest.raises((Unauthorized, WorkerUnreachable), match="keys"):
                connect(address, key=client, server_key=client.replace("_secret", ""), timeout=0.5)
            with pytest.raises((Unauthorized, WorkerUnreachable), match="keys"):
                connect(address, timeout=0.5)
        authenticator.stop()


def test_keys_for_a_worker_that_has_none_are_named_as_a_cause(worker: FakeWorker, tmp_path: Path) -> None:
    """It says no more than that it does not understand."""
    public, secret = zmq.auth.create_certificates(tmp_path, "client")
    with pytest.raises((Unauthorized, WorkerUnreachable), match=r"started without --keys.* leave them out"):
        connect(worker.address, key=secret, server_key=public, timeout=0.5)


def test_a_wrong_key_is_told_in_the_callers_words(tmp_path: Path) -> None:
    """Python's arguments by default, or the options of a command line."""
    _, secret = zmq.auth.create_certificates(tmp_path, "client")
    with pytest.raises(ValueError, match="with key= also give server_key="):
        load_keys(secret, None)
    with pytest.raises(ValueError, match="with --key also give --server-key"):
        load_keys(secret, None, words=("--key", "--server-key"))
