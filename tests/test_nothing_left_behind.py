"""The check in conftest.py is itself checked: on a run that leaves one of everything."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

LITTERING = """
import pathlib, socket, subprocess, sys, uuid

DETACH = '''
import subprocess, sys
sleeper = [sys.executable, "-c", "import time; time.sleep(100)"]
print(subprocess.Popen(sleeper, stdout=subprocess.DEVNULL, start_new_session=True).pid)
'''

def test_litters(tmp_path):
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    detached = subprocess.run([sys.executable, "-c", DETACH], stdout=subprocess.PIPE, text=True, check=True)
    socket.socket(socket.AF_UNIX).bind(str(tmp_path / "front.ipc"))
    memory = pathlib.Path("/dev/shm") / f"tiremote-litter-{uuid.uuid4().hex}"
    memory.write_bytes(b"litter")
    pathlib.Path("litter.txt").write_text(f"{child.pid} {detached.stdout.strip()} {memory}")
"""

TIDY = """
import subprocess, sys

def test_ends_what_it_starts():
    subprocess.run([sys.executable, "-c", ""], check=True)
"""


def run_pytest(folder: Path, test: str) -> subprocess.CompletedProcess[str]:
    shutil.copy(Path(__file__).parent / "conftest.py", folder)
    (folder / "test_of_somebody.py").write_text(test)
    command = [sys.executable, "-m", "pytest", "-c", "/dev/null", "--rootdir", ".", "--basetemp", "base"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)


def test_a_run_that_ends_what_it_starts_passes(tmp_path: Path) -> None:
    """The check finds no fault with a test whose child process has ended."""
    done = run_pytest(tmp_path, TIDY)
    assert done.returncode == 0, done.stdout


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="shared memory has no folder here")
def test_a_run_that_leaves_processes_memory_or_sockets_fails_and_names_them(tmp_path: Path) -> None:
    """Passing tests do not hide what they leave behind: a run with leftovers fails, and a detached process is ended."""
    done = run_pytest(tmp_path, LITTERING)
    child, detached, memory = (tmp_path / "litter.txt").read_text().split()
    Path(memory).unlink()
    for left in tmp_path.rglob("front.ipc"):
        left.unlink()

    assert done.returncode == 1, done.stdout
    assert "1 passed, 1 error" in done.stdout
    assert f"process {child}: " in done.stdout
    assert f"process {detached}: " in done.stdout
    assert f"shared memory {memory}" in done.stdout
    assert "front.ipc" in done.stdout
    assert not psutil.pid_exists(int(detached)) or psutil.Process(int(detached)).status() == psutil.STATUS_ZOMBIE
