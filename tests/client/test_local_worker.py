"""A worker process of one's own: started, waited for, ended. A small script stands in for it."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest

from tiremote.client.local_worker import LocalWorker, _private_address
from tiremote.protocol.errors import WorkerUnreachable

READY = "print('tiremote-worker ready tcp://127.0.0.1:1 arch=x64 device=\"a desk\" runtime=fake 1 pid=1', flush=True)"


def started(script: str, timeout: float = 30.0) -> LocalWorker:
    return LocalWorker._started([sys.executable, "-c", textwrap.dedent(script)], None, timeout)


def test_it_is_ready_when_it_says_so_and_ends_with_its_input() -> None:
    """What else it prints does not matter, before or after."""
    worker = started(f"import sys; print('hello', flush=True); {READY}; print('more', flush=True); sys.stdin.read()")
    assert worker.address == "tcp://127.0.0.1:1"
    worker.stop()
    worker.stop()
    assert worker._process.returncode == 0


def test_one_that_does_not_end_is_told_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """First asked, then by force."""
    monkeypatch.setattr("tiremote.client.local_worker.STOP", 0.2)
    worker = started(f"""
        import signal, threading
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        {READY}
        threading.Event().wait()
    """)
    worker.stop()
    assert worker._process.returncode not in (None, 0)


def test_one_that_ends_at_once_says_why() -> None:
    """The last line of its standard error is in the message."""
    with pytest.raises(WorkerUnreachable, match="ended with 3: no driver") as caught:
        started("import sys; print('x\\nno driver', file=sys.stderr); sys.exit(3)")
    assert "\n" not in str(caught.value)


def test_one_without_taichi_says_what_to_install() -> None:
    """The laptop's installation has none."""
    with pytest.raises(WorkerUnreachable, match=r"pip install 'tiremote\[worker\]'"):
        started("raise ModuleNotFoundError(\"No module named 'psutil'\")")


def test_one_that_never_gets_ready_is_given_up() -> None:
    """And ended."""
    with pytest.raises(WorkerUnreachable, match="not ready after 0 s"):
        started("import sys; sys.stdin.read()", timeout=0.1)


def test_its_end_is_told() -> None:
    """To whoever would wait for it for ever."""
    worker = started(f"import sys; {READY}; sys.stdin.readline(); sys.exit('out of luck')")
    told: list[str] = []
    done = threading.Event()
    worker.when_it_ends(lambda why: (told.append(why), done.set()))  # type: ignore[arg-type, return-value, func-returns-value]
    assert worker.running
    assert worker._process.stdin is not None
    worker._process.stdin.write("\n")
    worker._process.stdin.flush()
    assert done.wait(30)
    assert not worker.running
    worker.stop()
    assert "has ended" in told[0]


def test_a_client_that_is_killed_leaves_none_behind() -> None:
    """The end of its input is the end of the worker."""
    client = textwrap.dedent(f"""
        import os, signal, sys
        from tiremote.client.local_worker import LocalWorker
        script = {f"import os, sys; print(os.getpid(), file=sys.stderr, flush=True); {READY}; sys.stdin.read()"!r}
        worker = LocalWorker._started([sys.executable, "-c", script], None, 30)
        print(worker.pid, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    """)
    done = subprocess.run([sys.executable, "-c", client], capture_output=True, text=True, timeout=60, check=False)
    pid = int(done.stdout)
    for _ in range(1000):
        status = Path(f"/proc/{pid}/stat")
        if not status.exists() or status.read_text().rpartition(")")[2].split()[0] == "Z":
            break
        threading.Event().wait(0.01)
    else:
        pytest.fail(f"worker {pid} is still there")


@pytest.mark.skipif(os.name != "posix", reason="sockets with a path")
def test_it_listens_where_only_this_user_reaches_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a folder of its own; where the path would be too long for a socket, on the loopback."""
    address, folder = _private_address()
    assert folder is not None
    assert address == f"ipc://{folder}/worker.ipc"
    assert Path(folder).stat().st_mode & 0o077 == 0
    Path(folder).rmdir()
    long = tmp_path / ("x" * 100)
    long.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(long))
    assert _private_address() == ("tcp://127.0.0.1:0", None)
    assert not list(long.iterdir())
