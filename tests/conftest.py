"""What every test stands on: which backend to use, a home of its own, and a run that leaves nothing behind."""

from __future__ import annotations

import multiprocessing.resource_tracker
import os
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

MARKER = "TIREMOTE_TEST_RUN"
"""An environment variable that every process started by this run inherits, however far it is detached."""

PATIENCE = 5.0
"""Seconds that a process may take to end after the last test."""

SHARED_MEMORY = Path("/dev/shm")


@pytest.fixture(scope="session")
def arch() -> str:
    """The Taichi backend that the tests run on: ``cpu`` unless TIREMOTE_TEST_ARCH names another."""
    return os.environ.get("TIREMOTE_TEST_ARCH") or "cpu"


@pytest.fixture(scope="session", autouse=True)
def nothing_left_behind(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Gives the run its own home and temporary folder, and fails it if a process, a shared memory or a socket stays."""
    base = tmp_path_factory.getbasetemp()
    home = tmp_path_factory.mktemp("home")
    run = uuid.uuid4().hex
    memories = shared_memories()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(MARKER, run)
        for variable, name in [
            ("TMPDIR", "tmp"),
            ("XDG_CACHE_HOME", "cache"),
            ("XDG_CONFIG_HOME", "config"),
            ("XDG_DATA_HOME", "data"),
            ("XDG_RUNTIME_DIR", "run"),
            ("XDG_STATE_HOME", "state"),
        ]:
            (home / name).mkdir(mode=0o700)
            patch.setenv(variable, str(home / name))
        patch.setattr(tempfile, "tempdir", None)  # so that it looks at TMPDIR again
        yield

    _, alive = psutil.wait_procs(processes_of(run), timeout=PATIENCE)
    left = [f"process {described(process)}" for process in alive]
    left += [f"shared memory {path}" for path in sorted(shared_memories() - memories - mapped_by_others(run))]
    left += [f"socket {path}" for path in sorted(base.rglob("*")) if path.is_socket()]
    for process in alive:
        process.kill()
    if left:
        pytest.fail("the tests left behind:\n  " + "\n  ".join(left), pytrace=False)


def processes_of(run: str) -> list[psutil.Process]:
    """Descendants of this process and whatever else carries the run's marker, without the tracker that ends with us."""
    found = set(psutil.Process().children(recursive=True))
    found |= {process for process in psutil.process_iter() if marker_of(process) == run}
    return [process for process in found if process.pid != os.getpid() and not is_resource_tracker(process)]


def marker_of(process: psutil.Process) -> str | None:
    try:
        return process.environ().get(MARKER)
    except (psutil.Error, OSError):  # gone meanwhile, or another user's
        return None


def is_resource_tracker(process: psutil.Process) -> bool:
    """Whether multiprocessing keeps it for this very process, until this process ends."""
    return process.pid == getattr(multiprocessing.resource_tracker._resource_tracker, "_pid", None)


def described(process: psutil.Process) -> str:
    try:
        return f"{process.pid}: {' '.join(process.cmdline())}"
    except psutil.Error:
        return f"{process.pid}"


def shared_memories() -> set[Path]:
    return set(SHARED_MEMORY.iterdir()) if SHARED_MEMORY.is_dir() else set()


def mapped_by_others(run: str) -> set[Path]:
    """Shared memories in use by processes of no business of ours, on a machine that does other work as well."""
    found: set[Path] = set()
    for process in psutil.process_iter():
        if process.pid == os.getpid() or marker_of(process) == run:
            continue
        try:
            found |= {Path(part.path) for part in process.memory_maps() if part.path.startswith(f"{SHARED_MEMORY}/")}
        except (psutil.Error, OSError):
            continue
    return found
