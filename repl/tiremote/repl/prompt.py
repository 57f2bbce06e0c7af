"""The prompt in a terminal."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import platformdirs
from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.patch_stdout import StdoutProxy

from tiremote.client import Session
from tiremote.protocol.errors import TiremoteError
from tiremote.repl.busy import BusyLine
from tiremote.repl.collecting import left_behind
from tiremote.repl.commands import Quit
from tiremote.repl.completion import PromptCompleter
from tiremote.repl.editing import Aids, make_prompt
from tiremote.repl.monitor import Monitor
from tiremote.repl.pastes import Pastes
from tiremote.repl.render import Style, wrapped
from tiremote.repl.settings import Settings
from tiremote.repl.shell import Shell, emit, leave
from tiremote.repl.signatures import called_at, tip
from tiremote.repl.status_text import engine_text
from tiremote.repl.toolbar import Place, toolbar_text

#: What is asked when Ctrl-C came twice and something runs still.
RESTART = "It runs still. Restart the engine? Kernels are loaded again, arrays are as they were last copied. [y/N] "


def run_prompt(gpu: Session, *, url: str | None, session: str | None, settings: Settings | None = None) -> None:
    """Until Ctrl-D or ``:quit``; then the session is left."""
    dumb = os.environ.get("TERM") in ("dumb", "unknown")
    colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR") and not dumb
    shell = Shell(gpu, write=_say, complain=_say, note=_say, style=Style(colour=colour))
    where = "a local worker" if url is None else gpu.address
    again = ", rejoined" if gpu.info.rejoined else ""
    _say(f"{where}: {engine_text(gpu.info.engine)}; session {gpu.name}{again}")
    if gpu.info.rejoined and (left := left_behind(gpu.requests())):
        _say(left)
    _say("Type Taichi and Python. Tab completes, :help tells more, Ctrl-D leaves.")
    monitor = Monitor(lambda: shell.gpu)
    surroundings = Surroundings(shell, monitor, local=url is None)
    line = None if dumb else BusyLine(surroundings.toolbar, _width, sys.stdout)
    status = 0
    monitor.start()
    try:
        prompt = make_prompt(history(), colour=colour, aids=surroundings.aids(settings or Settings(), dumb=dumb))
        read_and_run(shell, prompt, surroundings, line)
    except SystemExit as stop:
        status = stop.code if isinstance(stop.code, int) else 0
    finally:
        monitor.end()
        _say(leave(shell.gpu, url=url, session=session))
    if status:
        raise SystemExit(status)


def _say(text: str) -> None:
    emit(wrapped(text, _width()))


def _columns() -> int:
    # What is drawn: COLUMNS may say something else.
    return get_app().output.get_size().columns


def _width() -> int:
    return shutil.get_terminal_size().columns


@dataclass(slots=True)
class Surroundings:
    """What the prompt shows of the worker, without ever waiting for it."""

    shell: Shell
    monitor: Monitor
    local: bool = False
    pastes: Pastes = field(default_factory=Pastes)

    def aids(self, settings: Settings, *, dumb: bool) -> Aids:
        """What the line is helped by; on a terminal that can only print, nothing that moves."""
        vi = settings.keys == "vi"
        completer = PromptCompleter(
            lambda: self.shell.evaluator.names,
            self.shell.commands,
            lambda: self.monitor.view.description,
        )
        if dumb:
            return Aids(completer=completer, vi=vi, pastes=self.pastes)
        return Aids(
            completer=completer,
            toolbar=lambda: self.toolbar(_columns()),
            tip=self._tip,
            vi=vi,
            pastes=self.pastes,
        )

    def toolbar(self, width: int) -> str:
        """The line at the bottom."""
        gpu = self.shell.gpu
        worker = "local worker" if self.local else gpu.address
        place = Place(worker=worker, session=gpu.name, engine=gpu.info.engine)
        return toolbar_text(place, self.monitor.view, self.monitor.clock(), width)

    def _tip(self, text: str) -> str:
        path = called_at(text)
        return tip(self.shell.evaluator.names, self.monitor.view.description, path) if path is not None else ""


def read_and_run(
    shell: Shell,
    prompt: PromptSession[str],
    surroundings: Surroundings | None = None,
    line: BusyLine | None = None,
    ask: Callable[[str], str] = input,
) -> None:
    """Reads cells and runs them until the end of input or ``:quit``."""
    while True:
        try:
            # What arrives from the worker meanwhile is printed above the prompt.
            with printed_above():
                text = prompt.prompt()
        except KeyboardInterrupt:
            continue
        except EOFError:
            return
        if not text.strip():
            continue
        if surroundings is not None:
            text = surroundings.pastes.whole(text)
        try:
            with _busy(shell, line):
                good = shell.run(text.rstrip() + "\n")
        except Quit:
            return
        if not good and isinstance(shell.last_error, KeyboardInterrupt):
            offer_restart(shell, ask)
        if surroundings is not None:
            surroundings.monitor.look()


@contextlib.contextmanager
def printed_above() -> Iterator[None]:
    """stdout and stderr go above the prompt that is edited."""
    with StdoutProxy(raw=True) as proxy:
        saved = sys.stdout, sys.stderr
        sys.stdout = sys.stderr = proxy
        try:
            yield
        finally:
            sys.stdout, sys.stderr = saved


@contextlib.contextmanager
def _busy(shell: Shell, line: BusyLine | None) -> Iterator[None]:
    if line is None:
        yield
        return
    with line:
        shell.gpu.on_progress = line.progress
        yield


def offer_restart(shell: Shell, ask: Callable[[str], str]) -> None:
    """After Ctrl-C broke even the wait for what it had stopped: something runs still."""
    try:
        session = shell.gpu.status().session
        if session is None or session.running is None:
            return
        running = session.running.request
        if ask(RESTART).strip().lower() not in ("y", "yes"):
            return
        shell.gpu.interrupt(running)
        shell.run_request(running)
    except (KeyboardInterrupt, EOFError, TiremoteError):
        return


def history() -> History:
    """Kept between starts, where a file can be."""
    folder = Path(platformdirs.user_state_path("tiremote"))
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = folder / "history"
        path.touch(mode=0o600)
    except OSError:
        return InMemoryHistory()
    return FileHistory(str(path))
