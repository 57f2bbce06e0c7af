"""The malformed messages of ``protocol/vectors``, against a real worker that has to outlive them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgpack
import pytest
import zmq

VECTORS = Path(__file__).parents[2] / "protocol/vectors/malformed.json"
MALFORMED = json.loads(VECTORS.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def client(arch: str) -> Iterator[zmq.Socket[bytes]]:
    """A DEALER at a worker of this module's own."""
    command = [sys.executable, "-m", "tiremote.worker", "--bind", "tcp://127.0.0.1:0", "--arch", arch]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdout is not None
        try:
            address = worker.stdout.readline().split()[2]
            with zmq.Context() as context, context.socket(zmq.DEALER) as socket:
                socket.linger = 0
                socket.rcvtimeo = 10_000
                socket.connect(address)
                yield socket
        finally:
            worker.terminate()
            worker.wait(timeout=60)


def answer(client: zmq.Socket[bytes], frames: list[bytes]) -> dict[str, Any]:
    client.send_multipart(frames)
    header = msgpack.unpackb(client.recv_multipart()[0])
    assert isinstance(header, dict)
    return header


def ask(client: zmq.Socket[bytes], op: str) -> Any:
    return answer(client, [msgpack.packb({"v": 1, "op": op, "id": op})])["result"]


@pytest.mark.parametrize("entry", MALFORMED, ids=lambda entry: entry["description"])
def test_a_malformed_message_is_answered_with_its_code(client: zmq.Socket[bytes], entry: dict[str, Any]) -> None:
    """The error has the code of the vector and one line of text, and the worker goes on."""
    reply = answer(client, [bytes.fromhex(frame) for frame in entry["frames"]])
    assert reply["op"] == "error"
    assert reply["code"] == entry["error"]["code"]
    assert reply["id"] == entry["error"]["id"]
    assert "\n" not in reply["message"]
    assert ask(client, "ping") == {"missing": []}


@pytest.mark.parametrize("frames", [[b""]])
def test_what_cannot_be_answered_is_dropped_and_counted(client: zmq.Socket[bytes], frames: list[bytes]) -> None:
    """A message without a header gets no reply; ``status`` counts it, and the worker goes on."""
    before = ask(client, "status")["dropped"]
    client.send_multipart(frames)
    assert ask(client, "status")["dropped"] == before + 1
