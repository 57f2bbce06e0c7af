"""One prompt's worth of work without a terminal: a cell or a command in, text out. The prompt and scripts use it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from tiremote.client import RemoteArray, Session
from tiremote.protocol.errors import EngineError, StaleHandle
from tiremote.protocol.messages import RequestId
from tiremote.protocol.results import SnapshotResult
from tiremote.repl.cells import COMMAND, Cell, Command, read_cells, read_command
from tiremote.repl.commands import CommandError, Commands, Quit
from tiremote.repl.evaluate import Evaluator
from tiremote.repl.render import PLAIN, Style, error_text
from tiremote.repl.shown import value_text


class Shell:
    """``write`` takes lines for the user, ``complain`` errors, ``note`` receipts."""

    def __init__(
        self,
        gpu: Session,
        *,
        write: Callable[[str], None],
        complain: Callable[[str], None],
        note: Callable[[str], None],
        style: Style = PLAIN,
    ) -> None:
        self._write = write
        self._complain = complain
        self._style = style
        #: What the part that ran last ended with.
        self.last_error: BaseException | None = None
        self.evaluator = Evaluator(gpu, show=note, display=self._display)
        self.commands = Commands(self.evaluator, write)

    @property
    def gpu(self) -> Session:
        """The session that is used now: ``ti.init`` and ``:reconnect`` open others."""
        return self.evaluator.gpu

    def run(self, text: str) -> bool:
        """Runs what was typed; whether it went well. Raises `Quit`, and SystemExit where the text says so."""
        if COMMAND.match(text.lstrip()) and "\n" not in text.strip():
            return self.run_part(read_command(text))
        return all(self.run_part(part) for part in read_cells(text))

    def run_part(self, part: Cell | Command) -> bool:
        """Whether it went well."""
        if isinstance(part, Command):
            return self._told(lambda: self.commands.run(part))
        return self._told(lambda: self.evaluator.run(part))

    def run_request(self, request: RequestId) -> bool:
        """Waits for what was left under way, and tells what became of it; whether it went well."""
        return self._told(lambda: self.gpu.collect(request).result())

    def _told(self, action: Callable[[], Any]) -> bool:
        self.last_error = None
        try:
            action()
        except (Quit, SystemExit):
            raise
        except CommandError as error:
            self.last_error = error
            self._complain(self._style.error(str(error)))
            return False
        except BaseException as error:
            self.last_error = error
            if isinstance(error, (EngineError, StaleHandle)) or isinstance(error.__cause__, EngineError):
                self.evaluator.rebind_lost()
            self._complain(self.evaluator.names.named(error_text(error, self._style)))
            return False
        return True

    def _display(self, value: Any) -> None:
        text = value_text(value)
        # Of arrays they speak as the worker does.
        spoken = isinstance(value, (RemoteArray, SnapshotResult))
        self._write(self.evaluator.names.named(text) if spoken else text)


def leave(gpu: Session, *, url: str | None, session: str | None) -> str:
    """Closes the session; one line that says what became of it."""
    name = gpu.name
    gpu.close()
    if url is None:
        return "The session and its local worker have ended."
    if session is None:
        return "The private session has ended. With --session NAME it is kept when you leave."
    return f"Detached. Return with: tiremote {url} --session {name}"


def emit(text: str) -> None:
    print(text, flush=True)


def emit_error(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
