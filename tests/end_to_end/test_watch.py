"""`tiremote watch` and `Session.watch` with real files, through a real worker."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from real_worker import PATIENCE, RealWorker
from tiremote.client import Reload, Session, connect
from tiremote.protocol.errors import CompileError

HELPERS = """\
import taichi as ti

@ti.func
def f(n):
    return n + 1
"""
SIM = """\
import taichi as ti
from helpers import f

state = ti.field(ti.i32, 4)

@ti.kernel
def step(n: ti.i32) -> ti.i32:
    for i in state:
        state[i] += f(n)
    return state[0]
"""


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A folder with ``sim.py``, which imports ``helpers.py``."""
    (tmp_path / "helpers.py").write_text(HELPERS)
    (tmp_path / "sim.py").write_text(SIM)
    return tmp_path


class Watching:
    """A `tiremote watch` under way, and the lines that it wrote."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        code = "from tiremote.repl.command import main; main(prog_name='tiremote')"
        self.process = subprocess.Popen(
            [sys.executable, "-c", code, "watch", *arguments],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put(None)

    def until(self, words: str) -> str:
        """What it writes up to the line with ``words`` in it."""
        text = ""
        while True:
            try:
                line = self._lines.get(timeout=PATIENCE)
            except queue.Empty:
                raise AssertionError(f"no {words!r} came after:\n{text}") from None
            assert line is not None, f"it ended without {words!r}:\n{text}"
            text += line
            if words in line:
                return text

    def ctrl_c(self) -> None:
        self.process.send_signal(signal.SIGINT)

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        assert self.process.stdout is not None
        self.process.stdout.close()


@contextmanager
def watching(folder: Path, *arguments: str) -> Iterator[Watching]:
    made = Watching(folder, *arguments)
    try:
        yield made
    finally:
        made.end()


def replace(file: Path, text: str) -> None:
    """As vim and most editors save: a new file is renamed over the old one."""
    new = file.with_name(f".{file.name}.new")
    new.write_text(text)
    os.replace(new, file)


def test_each_way_to_save_reaches_the_worker_and_is_called(worker: RealWorker, arch: str, files: Path) -> None:
    """Renaming, truncating or deleting and writing anew all reload and call again; fields keep their contents."""
    sim = files / "sim.py"
    with watching(files, worker.address, "sim.py", "helpers.py", "--arch", arch, "--call", "step(10)") as watch:
        started = watch.until("watching sim.py, helpers.py")
        assert started.index("helpers version 1") < started.index("sim version 1")
        assert "\n11\n" in started

        replace(sim, SIM.replace("return state[0]", "return 1000 + state[0]"))
        assert "\n1022\n" in watch.until("took")

        sim.write_text(SIM.replace("return state[0]", "return 2000 + state[0]"))  # truncates, then writes
        assert "\n2033\n" in watch.until("took")

        sim.unlink()
        sim.write_text(SIM)
        assert "\n44\n" in watch.until("took")

        replace(files / "helpers.py", HELPERS.replace("n + 1", "n + 90"))
        assert "\n144\n" in watch.until("took")

        watch.ctrl_c()
        watch.until("the watch has ended")
        assert watch.process.wait(PATIENCE) == 0


def test_a_broken_save_is_shown_and_the_old_code_runs_on(worker: RealWorker, arch: str, files: Path) -> None:
    """An error is shown at its place in the file while other clients of the session still call the last version."""
    sim = files / "sim.py"
    with watching(files, "sim.py", worker.address, "helpers.py", "--arch", arch, "--session", "broken-save") as watch:
        watch.until("watching")
        replace(sim, SIM.replace("f(n)", "f(n) + nothing"))
        assert "sim.py:9:28, in step\n    state[i] += f(n) + nothing\n                       ^^^^^^^" in watch.until(
            "^"
        )
        sim.write_text("def step(:\n")
        assert "sim.py:1:10\n    def step(:\n             ^" in watch.until("^")
        with connect(worker.address, session="broken-save") as old:
            assert old["sim"].step(10) == 11
            sim.write_text(SIM.replace("return state[0]", "return -state[0]"))
            watch.until("sim version 2")
            assert old["sim"].step(10) == -22


def test_a_reload_waits_for_the_call_that_runs_and_ctrl_c_ends_that_first(
    worker: RealWorker, arch: str, files: Path
) -> None:
    """A save during an endless call tells what it waits for, and is loaded once Ctrl-C has ended that call."""
    sim = files / "sim.py"
    endless = "import time\ndef step(n):\n    print('running', flush=True)\n    while n:\n        time.sleep(0.01)\n"
    sim.write_text(endless)
    with watching(files, worker.address, "sim.py", "--arch", arch, "--call", "step(1)") as watch:
        watch.until("running")
        replace(sim, endless.replace("while n", "while n > 1"))
        watch.until("sim.py waits its turn behind run sim.step")
        watch.ctrl_c()
        text = watch.until("sim version 2")
        text += watch.until("took") if text.count("took") < 1 else ""
        assert "(again to end the watch)" in text
        text = watch.until("took")
        assert "running" in text
        watch.ctrl_c()
        watch.until("the watch has ended")


@pytest.mark.parametrize(("call", "status", "shown"), [("step(10)", 0, "11\n"), ("step(10, 2)", 1, "")])
def test_once_ends_with_the_status_of_load_and_call(
    worker: RealWorker, arch: str, files: Path, call: str, status: int, shown: str
) -> None:
    """For use in scripts, --once prints the value alone on stdout and exits with 1 if the call fails."""
    code = "from tiremote.repl.command import main; main(prog_name='tiremote')"
    arguments = ["watch", worker.address, "sim.py", "helpers.py", "--arch", arch, "--call", call, "--once"]
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=files, capture_output=True, text=True, timeout=100, check=False
    )
    assert (done.returncode, done.stdout) == (status, shown), done.stderr
    assert "Traceback" not in done.stderr


def test_the_same_from_python(gpu: Session, files: Path) -> None:
    """Session.watch hands each reload or error to its handler, and calls use the last version that was loaded."""
    saves: queue.SimpleQueue[tuple[Reload, ...]] = queue.SimpleQueue()
    with gpu.watch(files / "sim.py", files / "helpers.py", on_reload=saves.put):
        assert [each.file.unit for each in saves.get(timeout=PATIENCE)] == ["helpers", "sim"]
        assert gpu["sim"].step(10) == 11
        replace(files / "helpers.py", HELPERS.replace("n + 1", "nothing"))
        (broken,) = saves.get(timeout=PATIENCE)
        assert isinstance(broken.error, CompileError)
        assert f"{files}/helpers.py:5:12, in f\n    return nothing\n" in str(broken)
        assert gpu["sim"].step(10) == 22
        replace(files / "helpers.py", HELPERS.replace("n + 1", "n + 2"))
        (mended,) = saves.get(timeout=PATIENCE)
        assert mended.ok
        assert gpu["sim"].step(10) == 34


def test_a_name_may_move_in_a_helper_and_its_user_at_once(gpu: Session, files: Path) -> None:
    """Saving a helper and its user together under a new name for a function loads both."""
    saves: queue.SimpleQueue[tuple[Reload, ...]] = queue.SimpleQueue()
    with gpu.watch(files / "sim.py", files / "helpers.py", on_reload=saves.put):
        saves.get(timeout=PATIENCE)
        (files / "helpers.py").write_text(HELPERS.replace("def f", "def g"))
        (files / "sim.py").write_text(SIM.replace("import f", "import g").replace("f(n)", "g(n)"))
        renamed = saves.get(timeout=PATIENCE)
        assert [each.ok for each in renamed] == [True, True], "\n".join(map(str, renamed))
        assert gpu["sim"].step(10) == 11


def test_a_helper_beside_a_local_worker_is_the_one_that_is_loaded(arch: str, files: Path) -> None:
    """A local worker runs in the same folder, yet it imports the helper as last saved and not as first read."""
    with watching(files, "sim.py", "helpers.py", "--arch", arch, "--call", "step(10)") as watch:
        watch.until("watching")
        replace(files / "helpers.py", HELPERS.replace("n + 1", "n + 90"))
        assert "\n111\n" in watch.until("took")
