"""The prompt in a real terminal: keys through tmux, the screen read back."""

from __future__ import annotations

import itertools
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from real_worker import RawSession, RealWorker

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is the terminal of these tests")

#: Seconds that anything may take before a test fails; only that bounds how long a broken test waits.
PATIENCE = 60.0
COMMAND = [sys.executable, "-c", "from tiremote.repl.command import main; main(prog_name='tiremote')"]
_numbers = itertools.count(1)

ENDLESS = """
@ti.kernel
def spin(x: ti.types.ndarray()):
    while x[0] < 1.0:
        x[0] = 0.0
"""


class Terminal:
    """One pane of a tmux server of its own, with a shell-less program in it."""

    def __init__(self, folder: Path) -> None:
        self._server = f"tiremote-{os.getpid()}-{next(_numbers)}"
        self._folder = folder
        self._started = False

    def start(self, *arguments: str, width: int = 100, height: int = 50, **environment: str) -> None:
        """Runs ``tiremote``; its exit status is printed below what it leaves on the screen."""
        variables = [f"{name}={value}" for name, value in environment.items()]
        self._started = True
        program = f"{shlex.join(['env', *variables, *COMMAND, *arguments])}; echo status=$?; cat"
        size = ["-x", str(width), "-y", str(height)]
        self._tmux("-f", os.devnull, "new-session", "-d", *size, "-s", "main", "-c", str(self._folder), program)

    def type(self, *lines: str) -> None:
        """Each with Enter."""
        for line in lines:
            if line:
                self._tmux("send-keys", "-t", "main", "-l", line)
            self.press("Enter")

    def press(self, key: str) -> None:
        """``C-c``, ``Enter``, ..."""
        self._tmux("send-keys", "-t", "main", key)

    def paste(self, text: str) -> None:
        """As one bracketed paste, and Enter."""
        self._tmux("set-buffer", text)
        self._tmux("paste-buffer", "-p", "-r", "-t", "main")
        self.press("Enter")

    def screen(self) -> str:
        """What is seen, with what has scrolled away."""
        return self._tmux("capture-pane", "-p", "-J", "-S", "-", "-t", "main")

    def wait_for(self, text: str, times: int = 1) -> str:
        """The screen, as soon as it shows ``text`` that often."""
        deadline = time.monotonic() + PATIENCE
        while True:
            screen = self.screen()
            if screen.count(text) >= times:
                return screen
            if time.monotonic() > deadline:
                raise AssertionError(f"{text!r} did not appear {times} times:\n{screen}")
            time.sleep(0.02)

    def close(self) -> None:
        """Ends the server, which would leave its socket file."""
        if not self._started:
            return
        self._started = False
        socket = Path(self._tmux("display-message", "-p", "#{socket_path}").strip())
        self._tmux("kill-server")
        socket.unlink(missing_ok=True)

    def _tmux(self, *arguments: str) -> str:
        command = ["tmux", "-L", self._server, *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE).stdout


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    terminal = Terminal(tmp_path)
    yield terminal
    terminal.close()


def test_a_newcomer_types_the_quick_start(terminal: Terminal, arch: str) -> None:
    """Typed without indentation, the quick start shows each result, and Ctrl-D ends the local worker."""
    terminal.start("--arch", arch)
    terminal.wait_for("\n>>>")
    terminal.type("x = ti.ndarray(ti.f32, shape=10)", "x.from_numpy(np.arange(10, dtype=np.float32))")
    terminal.type("@ti.kernel", "def add_base(x: ti.types.ndarray(), base: ti.f32):")
    terminal.type("for i in range(x.shape[0]):", "x[i] += base", "")
    terminal.wait_for("add_base version 1: add_base(x: ndarray, base: f32)")
    terminal.type("add_base(x, 5.0)", "x.to_numpy()")
    terminal.wait_for("array([ 5.,  6.,  7.,  8.,  9., 10., 11., 12., 13., 14.], dtype=float32)")
    terminal.type("x")
    terminal.wait_for("ndarray f32 (10,), 40 bytes, min 5, mean 9.5, max 14\n[ 5.  6.  7.  8.  9. 10. 11. 12. 13. 14.]")
    terminal.press("C-d")
    terminal.wait_for("The session and its local worker have ended.")
    terminal.wait_for("status=0")


def test_an_error_in_a_kernel_has_a_caret_in_the_typed_text(terminal: Terminal, worker: RealWorker) -> None:
    """Mistakes in kernels and in Python are marked in what was typed, and a mistyped command gets a suggestion."""
    terminal.start(worker.address)
    terminal.wait_for("\n>>>")
    terminal.type("@ti.kernel", "def k():", "a = wrong + 1", "")
    terminal.wait_for("  line 3, in k\n    a = wrong + 1\n        ^^^^^\n")
    terminal.type("1 +* 2")
    terminal.wait_for("SyntaxError: invalid syntax (line 1)")
    assert "\x1b[4m" in terminal._tmux("capture-pane", "-e", "-p", "-t", "main"), "the place is not underlined"
    terminal.press("C-c")
    terminal.type(":kernals")
    terminal.wait_for("did you mean :kernels?")


def test_ctrl_c_stops_an_endless_kernel_and_work_goes_on(terminal: Terminal, worker: RealWorker) -> None:
    """Interrupting a running kernel tells which arrays are lost; the kernel itself can be called again."""
    terminal.start(worker.address)
    terminal.wait_for("\n>>>")
    terminal.paste(ENDLESS)
    terminal.wait_for("spin version 1")
    terminal.type("x = ti.ndarray(ti.f32, shape=1)", "spin(x)")
    terminal.wait_for(">>> spin(x)\n")
    wait_until_busy(worker)
    terminal.press("C-c")
    screen = terminal.wait_for("Interrupted: ")
    assert "lost: ndarray x" in " ".join(screen.split())
    terminal.type("x = ti.ndarray(ti.f32, shape=1)", "x[0] = 2", "spin(x)", "x[0] + 40")
    terminal.wait_for("42.0")


def wait_until_busy(worker: RealWorker) -> None:
    """Until an engine uses its processor: nothing on the screen tells when a kernel has begun to run."""
    deadline = time.monotonic() + PATIENCE
    while not any(engine.cpu_percent(0.05) > 50 for engine in worker.engines()):
        assert time.monotonic() < deadline, "no engine became busy"


def test_ctrl_c_on_a_local_worker_does_not_end_it(terminal: Terminal, arch: str) -> None:
    """Ctrl-C reaches the whole terminal, yet only the laptop's statement is interrupted and not the worker."""
    terminal.start("--arch", arch)
    terminal.wait_for("\n>>>")
    terminal.type("import time", "print('asleep'); time.sleep(60)")
    terminal.wait_for("\nasleep")
    terminal.press("C-c")
    terminal.wait_for("Interrupted\n")
    terminal.type("ti.ndarray(ti.f32, 2).to_numpy()")
    terminal.wait_for("array([0., 0.], dtype=float32)")


def test_ctrl_c_at_the_prompt_clears_what_was_typed(terminal: Terminal, worker: RealWorker) -> None:
    """A half-typed statement is dropped, and the next line is read on its own."""
    terminal.start(worker.address)
    terminal.wait_for("\n>>>")
    terminal.type("x = (1,")
    terminal.press("C-c")
    terminal.type("40 + 2")
    terminal.wait_for("\n42\n")


def test_what_a_kernel_prints_stands_above_the_next_prompt(terminal: Terminal, worker: RealWorker) -> None:
    """Output of a call comes before the next prompt, and output that comes later leaves the prompt usable."""
    terminal.start(worker.address)
    terminal.wait_for("\n>>>")
    terminal.paste('@ti.kernel\ndef k(i: ti.i32):\n    print("kernel", i)\n\nk(1)\nprint("laptop")\nk(2)')
    terminal.wait_for("kernel 1\nlaptop\nkernel 2\n>>>")
    terminal.type("f = k.submit(3)")
    terminal.wait_for("kernel 3\n")
    terminal.type("'still ' + 'here'")
    terminal.wait_for("'still here'")


def test_a_named_session_tells_how_to_return(terminal: Terminal, worker: RealWorker) -> None:
    """Leaving a named session prints the command that rejoins it, and its fields are there again."""
    terminal.start(worker.address, "--session", "terminal")
    terminal.wait_for("\n>>>")
    terminal.type("y = ti.field(ti.i32, 2)")
    terminal.wait_for("y version 1")
    terminal.press("C-d")
    terminal.wait_for(f"Detached. Return with: tiremote {worker.address} --session terminal")
    terminal.wait_for("status=0")
    terminal.close()
    terminal.start(worker.address, "--session", "terminal")
    assert "session terminal, rejoined" in " ".join(terminal.wait_for(" rejoined\n").split())
    terminal.type("y.to_numpy()")
    terminal.wait_for("array([0, 0], dtype=int32)")


def test_a_worker_killed_in_the_middle_leaves_the_prompt(terminal: Terminal, arch: str) -> None:
    """Losing the worker is an error of that call only: Python still runs, and leaving ends with status 0."""
    with RealWorker(arch=arch) as worker:
        terminal.start("--liveness", "3", worker.address)
        terminal.wait_for("\n>>>")
        terminal.paste("@ti.kernel\ndef k(): pass")
        terminal.wait_for("k version 1")
        worker.process.kill()
        worker.process.wait()
        terminal.type("k()")
        terminal.wait_for("WorkerUnreachable: ")
        terminal.wait_for("The prompt stays")
        terminal.type("40 + 2")
        terminal.wait_for("\n42\n")
        terminal.press("C-d")
        terminal.wait_for("status=0")


def test_no_colour_means_none_and_history_is_kept(terminal: Terminal, worker: RealWorker) -> None:
    """NO_COLOR keeps colours off the screen, and lines of an earlier run come back with the arrow keys."""
    terminal.start(worker.address, NO_COLOR="1")
    terminal.wait_for("\n>>>")
    terminal.type("6 * 7", "wrong")
    terminal.wait_for("NameError: name 'wrong' is not defined")
    assert "\x1b[3" not in terminal._tmux("capture-pane", "-e", "-p", "-t", "main")
    terminal.press("C-d")
    terminal.wait_for("status=0")
    terminal.close()
    terminal.start(worker.address)
    terminal.wait_for("\n>>>")
    terminal.press("Up")
    terminal.wait_for(">>> wrong")
    terminal.press("Up")
    terminal.wait_for(">>> 6 * 7")
    terminal.press("Enter")
    terminal.wait_for("\n42\n")


def test_whoever_joins_a_session_is_told_what_was_left_behind(terminal: Terminal, worker: RealWorker) -> None:
    """In a line above the prompt; what was printed and what it gave is there from the start."""
    with RawSession(worker.address, session="left") as session:
        session.compile("def f():\n    print('said before')\n    return 6 * 7\n", "u")
        request = session.start("f", id="long-1", events=True)
        session.answer(request)
    terminal.start(worker.address, "--session", "left")
    terminal.wait_for("2 answers wait to be collected: see :requests and :collect")
    terminal.type(":collect long-1")
    screen = terminal.wait_for("\n42")
    assert "said before" in screen
    terminal.type(":requests")
    listed = terminal.wait_for("compile u").split(":requests")[-1]
    assert "long-1" not in listed


def test_the_toolbar_and_completion_are_live_while_the_gpu_is_busy(terminal: Terminal, worker: RealWorker) -> None:
    """While an endless kernel runs, the line at the bottom counts, and a kernel is completed with its signature."""
    terminal.start(worker.address, width=150)
    terminal.wait_for("\n>>>")
    terminal.paste(ENDLESS)
    terminal.wait_for("spin version 1")
    terminal.type("x = ti.ndarray(ti.f32, shape=1)", "f = spin.submit(x)")
    terminal.wait_for("run spin.spin for 1.")
    terminal.wait_for("run spin.spin for 2.")
    terminal._tmux("send-keys", "-t", "main", "-l", "spi")
    terminal.press("Tab")
    terminal.wait_for(">>> spin")
    terminal._tmux("send-keys", "-t", "main", "-l", "(")
    terminal.wait_for("spin(x: ndarray")
    terminal.press("C-c")
    terminal.type("gpu.interrupt()")
    terminal.wait_for("| idle |")


def test_the_line_below_a_running_cell_tells_what_runs(terminal: Terminal, worker: RealWorker) -> None:
    """It counts while the call is waited for, and Ctrl-C clears it away with the kernel."""
    terminal.start(worker.address)
    terminal.wait_for("\n>>>")
    terminal.paste(ENDLESS)
    terminal.wait_for("spin version 1")
    terminal.type("x = ti.ndarray(ti.f32, shape=1)", "spin(x)")
    terminal.wait_for("run spin.spin for 1.")
    terminal.press("C-c")
    terminal.wait_for("Interrupted: ")
    terminal.wait_for("| idle |")
    assert "run spin.spin for" not in terminal.screen()


def test_a_large_put_shows_its_progress(terminal: Terminal, worker: RealWorker) -> None:
    """Bar, share, rate and time left, until it is there."""
    terminal.start(worker.address)
    terminal.wait_for("\n>>>")
    # Another put behind the first, until the line was seen: how fast this machine is does not matter.
    terminal.type("a = np.random.default_rng(1).random(1 << 25, dtype=np.float32)", "x = ti.ndarray(ti.f32, a.shape)")
    terminal.type("for i in range(100): x.from_numpy(a + i)", "")
    screen = terminal.wait_for("of 128.0 MiB, ")
    assert "/s, " in screen
    terminal.press("C-c")
    terminal.wait_for("Interrupted")
    terminal.type("6 * 7")
    terminal.wait_for("\n42\n")


def test_a_crash_is_told_and_work_goes_on(terminal: Terminal, worker: RealWorker) -> None:
    """A far index ends the engine; kernels are there again, and :explain names the line."""
    terminal.start(worker.address)
    terminal.wait_for("\n>>>")
    terminal.paste("@ti.kernel\ndef far(x: ti.types.ndarray(), i: ti.i32):\n    x[i] = 1.0\n")
    terminal.wait_for("far version 1")
    terminal.type("x = ti.ndarray(ti.f32, 10)", "x.fill(2)", "far(x, 500_000_000)")
    terminal.wait_for("EngineCrashed")
    terminal.type(":explain")
    terminal.wait_for("out of bounds")
    terminal.type("x = ti.ndarray(ti.f32, 10)", "far(x, 3)", "x[3] + 41")
    terminal.wait_for("42.0")


def test_ctrl_r_finds_a_line_of_an_earlier_start(terminal: Terminal, worker: RealWorker) -> None:
    """By a part of it; Enter takes it, and Enter runs it."""
    terminal.start(worker.address)
    terminal.wait_for("\n>>>")
    terminal.type("answer = 6 * 7", "'other'")
    terminal.wait_for("\n'other'")
    terminal.press("C-d")
    terminal.wait_for("status=0")
    terminal.close()
    terminal.start(worker.address)
    terminal.wait_for("\n>>>")
    terminal.press("C-r")
    terminal._tmux("send-keys", "-t", "main", "-l", "ANSWER")
    terminal.wait_for("answer = 6 * 7")
    terminal.press("Enter")
    terminal.press("Enter")
    terminal.type("answer")
    terminal.wait_for("\n42\n")


@pytest.mark.parametrize(("width", "height"), [(80, 24), (200, 50)])
def test_the_window_may_be_narrow_or_wide(terminal: Terminal, worker: RealWorker, width: int, height: int) -> None:
    """The toolbar is one line of what fits, and what is printed is not cut."""
    terminal.start(worker.address, width=width, height=height)
    terminal.wait_for("\n>>>")
    screen = terminal.wait_for("| idle")
    toolbar = next(line for line in screen.split("\n") if "| idle" in line)
    assert worker.address in toolbar
    assert len(toolbar) <= width
    assert ("arrays" in toolbar) is (width == 200)
    terminal.type(":help")
    terminal.wait_for("Ctrl-C clears the line")


def test_a_dumb_terminal_has_no_toolbar_and_works(terminal: Terminal, worker: RealWorker) -> None:
    """Nothing that moves is drawn where TERM says that it cannot be."""
    terminal.start(worker.address, TERM="dumb")
    terminal.wait_for(">>>")
    terminal.type("6 * 7")
    terminal.wait_for("42")
    assert "| idle" not in terminal.screen()


def test_a_connection_is_opened_by_its_name(terminal: Terminal, worker: RealWorker, tmp_path: Path) -> None:
    """What the settings file says of it is as if it were typed, and vi keys are vi's."""
    (tmp_path / "tiremote").mkdir()
    (tmp_path / "tiremote" / "config.toml").write_text(
        f'keys = "vi"\n[connections.gpu-box]\nurl = "{worker.address}"\nsession = "by-name"\n'
    )
    terminal.start("gpu-box", XDG_CONFIG_HOME=str(tmp_path))
    terminal.wait_for("session by-name")
    terminal.wait_for("\n>>>")
    terminal.press("C-d")
    terminal.wait_for(f"Detached. Return with: tiremote {worker.address} --session by-name")


def test_a_simulation_is_changed_from_an_editor_while_it_runs(
    terminal: Terminal, worker: RealWorker, tmp_path: Path
) -> None:
    """A save is told above the prompt, and the next step is the new one on the old state."""
    file = tmp_path / "sim.py"
    text = "s = ti.field(ti.i32, ())\n\n@ti.kernel\ndef step() -> ti.i32:\n    s[None] += {}\n    return s[None]\n"
    file.write_text(text.format(1))
    terminal.start(worker.address)
    terminal.wait_for("\n>>>")
    terminal.type('w = gpu.watch("sim.py")')
    terminal.wait_for("sim version 1")
    terminal.type('gpu["sim"].step() + 100')
    terminal.wait_for("\n101")
    file.write_text(text.format(40))
    terminal.wait_for("sim version 2")
    terminal.type('gpu["sim"].step() + 100')
    terminal.wait_for("\n141")


def test_ctrl_c_twice_restarts_the_engine_when_that_is_wanted(terminal: Terminal, arch: str) -> None:
    """Where the worker waits long for a kernel to stop by itself, nobody has to wait with it."""
    with RealWorker("--grace", "600", arch=arch) as patient:
        terminal.start(patient.address)
        terminal.wait_for("\n>>>")
        terminal.paste(ENDLESS)
        terminal.wait_for("spin version 1")
        terminal.type("x = ti.ndarray(ti.f32, shape=1)", "spin(x)")
        terminal.wait_for("run spin.spin for 1.")
        terminal.press("C-c")
        terminal.press("C-c")
        terminal.wait_for("Restart the engine?")
        terminal.type("y")
        terminal.wait_for("was interrupted")
        terminal.type("6 * 7")
        terminal.wait_for("\n42\n")
