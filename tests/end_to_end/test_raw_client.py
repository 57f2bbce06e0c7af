"""A client that somebody else could have written, against a real worker."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

CLIENT = Path(__file__).with_name("raw_client.py")


@pytest.fixture(scope="module")
def address(arch: str) -> Iterator[str]:
    """Where a worker of this module's own listens."""
    command = [sys.executable, "-m", "tiremote.worker", "--bind", "tcp://127.0.0.1:0", "--arch", arch]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdout is not None
        try:
            ready = worker.stdout.readline().split()
            assert ready[:2] == ["tiremote-worker", "ready"]
            yield ready[2]
        finally:
            worker.terminate()
            worker.wait(timeout=60)


@pytest.mark.parametrize("kind", ["DEALER", "REQ"])
def test_a_client_of_zmq_and_msgpack_alone_does_the_quick_start(address: str, kind: str) -> None:
    """The kernel adds 5, then after its hot reload twice 5, to 0..9: 5..14 and 10..19.

    taichi-meta's page prints 5, 7, 9, ... for the second. Its kernel adds ``2 * base``, which is 10, to each of 0..9.
    """
    done = subprocess.run(
        [sys.executable, str(CLIENT), address, kind], capture_output=True, text=True, timeout=90, check=False
    )
    assert done.returncode == 0, done.stderr
    first, second = ([float(word) for word in line.split()] for line in done.stdout.splitlines())
    assert first == [5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0, 13.0, 14.0]
    assert second == [10.0, 11.0, 12.0, 13.0, 14.0, 15.0, 16.0, 17.0, 18.0, 19.0]


def test_the_client_is_short_and_stands_alone() -> None:
    """Under 60 lines, and of installed packages only zmq and msgpack."""
    text = CLIENT.read_text(encoding="utf-8")
    imported = {name.name for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Import) for name in node.names}
    assert len(text.splitlines()) < 60
    assert imported - set(sys.stdlib_module_names) == {"zmq", "msgpack"}
    assert "from " not in text.split('"""', 2)[2]
