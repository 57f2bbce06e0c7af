"""The prompt in a terminal."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

import platformdirs
from prompt_toolkit import PromptSession
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.enums import EditingMode
from prompt_toolkit.filters import is_searching
from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.lexers import PygmentsLexer
from prompt_toolkit.output import ColorDepth, Output
from prompt_toolkit.patch_stdout import patch_stdout
from pygments.lexers.python import PythonLexer

from tiremote.client import Session
from tiremote.repl.cells import is_complete
from tiremote.repl.collecting import left_behind
from tiremote.repl.commands import Quit
from tiremote.repl.render import Style, wrapped
from tiremote.repl.shell import Shell, emit, leave
from tiremote.repl.status_text import engine_text

_INDENT = "    "


def run_prompt(gpu: Session, *, url: str | None, session: str | None) -> None:
    """Until Ctrl-D or ``:quit``; then the session is left."""
    colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    shell = Shell(gpu, write=_say, complain=_say, note=_say, style=Style(colour=colour))
    where = "a local worker" if url is None else gpu.address
    again = ", rejoined" if gpu.info.rejoined else ""
    _say(f"{where}: {engine_text(gpu.info.engine)}; session {gpu.name}{again}")
    if gpu.info.rejoined and (left := left_behind(gpu.requests())):
        _say(left)
    _say("Type Taichi and Python. :help tells more, Ctrl-D leaves.")
    status = 0
    try:
        read_and_run(shell, make_prompt(history(), colour=colour))
    except SystemExit as stop:
        status = stop.code if isinstance(stop.code, int) else 0
    finally:
        _say(leave(shell.gpu, url=url, session=session))
    if status:
        raise SystemExit(status)


def _say(text: str) -> None:
    emit(wrapped(text, shutil.get_terminal_size().columns))


def read_and_run(shell: Shell, prompt: PromptSession[str]) -> None:
    """Reads cells and runs them until the end of input or ``:quit``."""
    while True:
        try:
            # What arrives from the worker meanwhile is printed above the prompt.
            with patch_stdout(raw=True):
                text = prompt.prompt()
        except KeyboardInterrupt:
            continue
        except EOFError:
            return
        if not text.strip():
            continue
        try:
            shell.run(text.rstrip() + "\n")
        except Quit:
            return


def make_prompt(
    history: History,
    *,
    colour: bool = True,
    input: Input | None = None,  # noqa: A002 - prompt_toolkit's name
    output: Output | None = None,
) -> PromptSession[str]:
    """Multi-line, highlighted, indented as it is typed; Enter runs what is complete."""
    return PromptSession(
        FormattedText([("bold" if colour else "", ">>> ")]),
        multiline=True,
        prompt_continuation=lambda width, number, wrapped: " " * width if wrapped else "... ".rjust(width),  # noqa: ARG005
        lexer=PygmentsLexer(PythonLexer) if colour else None,
        history=history,
        key_bindings=_bindings(),
        color_depth=None if colour else ColorDepth.DEPTH_1_BIT,
        editing_mode=EditingMode.EMACS,
        input=input,
        output=output,
    )


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


def next_indent(text: str) -> str:
    """The indentation of the line that follows ``text``."""
    last = text.rsplit("\n", 1)[-1]
    indent = last[: len(last) - len(last.lstrip())]
    code = last.split("#")[0].rstrip()
    if code.endswith(":"):
        return indent + _INDENT
    words = code.split()
    if words and words[0] in ("return", "pass", "break", "continue", "raise"):
        return indent.removesuffix(_INDENT)
    return indent


@dataclass(slots=True)
class _AutoIndent:
    """The indentation that was given to a line on which nothing is typed yet."""

    text: str = ""
    position: int = -1
    width: int = 0

    def give(self, buffer: Buffer) -> None:
        """A new line with the indentation that follows."""
        indent = next_indent(buffer.document.text_before_cursor)
        buffer.insert_text("\n" + indent)
        self.text, self.position, self.width = buffer.text, buffer.cursor_position, len(indent)

    def take_back(self, buffer: Buffer) -> None:
        """Where nothing was typed since: what comes has its own."""
        if (buffer.text, buffer.cursor_position) == (self.text, self.position):
            buffer.delete_before_cursor(self.width)
        self.position = -1


def _bindings() -> KeyBindings:
    bindings = KeyBindings()
    given = _AutoIndent()

    @bindings.add("enter", filter=~is_searching)
    def _(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        document = buffer.document
        at_end = not document.text_after_cursor.strip()
        if at_end and is_complete(document.text):
            buffer.validate_and_handle()
        else:
            given.give(buffer)

    @bindings.add(" ", filter=~is_searching)
    def _(event: KeyPressEvent) -> None:
        given.take_back(event.current_buffer)
        event.current_buffer.insert_text(" " * event.arg)

    @bindings.add(Keys.BracketedPaste)
    def _(event: KeyPressEvent) -> None:
        text = event.data.replace("\r\n", "\n").replace("\r", "\n")
        if text[:1] in (" ", "\t") or "\n" in text.rstrip("\n"):
            given.take_back(event.current_buffer)
        event.current_buffer.insert_text(text)

    @bindings.add("tab", filter=~is_searching)
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text(_INDENT)

    @bindings.add("backspace", filter=~is_searching)
    def _(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        before = buffer.document.current_line_before_cursor
        whole = bool(before) and not before.strip(" ") and len(before) % len(_INDENT) == 0
        buffer.delete_before_cursor(len(_INDENT) if whole else 1)

    return bindings
