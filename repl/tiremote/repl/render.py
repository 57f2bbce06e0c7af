"""What people read: values, arrays, and errors that point into their own text."""

from __future__ import annotations

import linecache
import textwrap
import traceback
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from types import TracebackType

import numpy as np

from tiremote.client import RemoteArray, RemoteField
from tiremote.client.watch import WatchedFile, place_text
from tiremote.protocol.dtypes import name_of
from tiremote.protocol.errors import EngineError, SourceFrame, TiremoteError, UnknownName, WorkerUnreachable
from tiremote.protocol.values import Handle
from tiremote.repl.evaluate import FILE_PREFIX
from tiremote.repl.losses import loss_lines
from tiremote.repl.worker_cells import SHOWN

_RED, _BOLD, _PLAIN = "\x1b[31m", "\x1b[1m", "\x1b[0m"
#: Of an endless recursion this many frames are shown at either end.
_MOST_FRAMES = 6


@dataclass(frozen=True, slots=True)
class Style:
    """``colour`` False: no control character at all."""

    colour: bool = False

    def error(self, text: str) -> str:
        return f"{_RED}{text}{_PLAIN}" if self.colour else text

    def strong(self, text: str) -> str:
        return f"{_BOLD}{text}{_PLAIN}" if self.colour else text


PLAIN = Style()


def is_lost(array: RemoteArray, held: Collection[str]) -> bool:
    """Whether it went with an engine, where the worker holds the handles of these ids."""
    return isinstance(array._target, Handle) and array._target.id not in held


def kind_of(array: RemoteArray) -> str:
    return "field" if isinstance(array, RemoteField) else "ndarray"


def error_text(error: BaseException, style: Style = PLAIN) -> str:
    """As `located_text`, at a prompt."""
    text = located_text(error, style)
    if isinstance(error, WorkerUnreachable):
        text += "\nThe prompt stays, with the names of this laptop. :status asks for the worker again. Where it does"
        text += "\nnot have this session any more, :reconnect opens a new one and loads again what was typed here."
    elif isinstance(error, UnknownName) and error.name == "token":
        text += "\nThe prompt stays, with the names of this laptop. :reconnect opens a new session and loads again"
        text += "\nwhat was typed here."
    return text


def located_text(error: BaseException, style: Style = PLAIN, files: Sequence[WatchedFile] = ()) -> str:
    """The error in one line, then where: first in the cell or script, then in what the worker loaded.

    Of this program and of the worker's nothing is shown. What came from one of ``files`` is told as a place in it.
    """
    if isinstance(error, SyntaxError) and _is_of_cell(error):
        return _syntax_text(error, style)
    if isinstance(error, KeyboardInterrupt):
        return _interrupt_text(error, style)
    if isinstance(error, TiremoteError):
        whole = not (getattr(error, "frames", None) or isinstance(error, EngineError))
        message = (str(error) if whole else error.message) or "no reason was given"
        head = f"{type(error).__name__}: {message}"
    else:
        head = "".join(traceback.TracebackException.from_exception(error, limit=0).format_exception_only()).strip()
    lines = [style.error(head), *(loss_lines(error) if isinstance(error, EngineError) else ())]
    for frame in _shortened(_own_frames(error.__traceback__) + list(getattr(error, "frames", ()))):
        lines += _place(frame, style, files)
    return "\n".join(lines)


def _own_frames(trace: TracebackType | None) -> list[SourceFrame]:
    frames = []
    for each in traceback.extract_tb(trace):
        if not each.filename.startswith(FILE_PREFIX):
            continue
        line = each.lineno or 0
        text = linecache.getline(each.filename, line).rstrip("\n")
        start, end = each.colno, each.end_colno
        column = end_column = 0
        if start is not None and end is not None:
            raw = text.encode()
            stop = end if each.end_lineno == each.lineno else len(raw)
            column, end_column = (len(raw[:offset].decode("utf-8", "replace")) + 1 for offset in (start, stop))
        function = "" if each.name == "<module>" else each.name
        frames.append(
            SourceFrame(
                unit="", version=0, function=function, line=line, column=column, end_column=end_column, text=text
            )
        )
    return frames


def _place(frame: SourceFrame, style: Style, files: Sequence[WatchedFile] = ()) -> list[str]:
    # `SourceFrame` draws the caret; only its first line speaks of units and versions.
    _, *body = str(frame).split("\n")
    where = f"line {frame.line}" + (f", in {frame.function}" if frame.function not in ("", SHOWN) else "")
    if len(body) > 1:
        body[-1] = style.error(body[-1])
    return [f"  {place_text(frame, files) or where}", *(line for line in body if line.strip())]


def _shortened(frames: list[SourceFrame]) -> list[SourceFrame]:
    return frames if len(frames) <= 2 * _MOST_FRAMES else frames[:_MOST_FRAMES] + frames[-_MOST_FRAMES:]


def _is_of_cell(error: SyntaxError) -> bool:
    return error.lineno is not None or not error.__traceback__


def _syntax_text(error: SyntaxError, style: Style) -> str:
    lines = [style.error(f"{type(error).__name__}: {error.msg}")]
    if error.lineno and error.text is not None:
        end = error.end_offset if error.end_lineno == error.lineno and error.end_offset else 0
        frame = SourceFrame(
            unit="",
            version=0,
            function="",
            line=error.lineno,
            column=max(error.offset or 0, 0),
            end_column=max(end, error.offset or 0),
            text=error.text.rstrip("\n"),
        )
        lines += _place(frame, style)
    return "\n".join(lines)


def _interrupt_text(error: KeyboardInterrupt, style: Style) -> str:
    cause = error.__cause__
    if isinstance(cause, EngineError):
        return "\n".join([style.error(f"Interrupted: {cause.message}"), *loss_lines(cause)])
    return style.error(f"Interrupted: {cause}" if isinstance(cause, TiremoteError) else "Interrupted")


def wrapped(text: str, width: int) -> str:
    """Lines of at most ``width`` characters, cut at blanks; what goes on is indented as its line, and 4 more.

    A word that is longer stays whole: a number cut in two is another number.
    """
    lines = []
    for line in text.split("\n"):
        if len(line) <= width:
            lines.append(line)
            continue
        indent = line[: len(line) - len(line.lstrip(" "))]
        lines += textwrap.wrap(
            line,
            max(width, 20),
            subsequent_indent=indent + "    ",
            break_long_words=False,
            break_on_hyphens=False,
            replace_whitespace=False,
            expand_tabs=False,
        )
    return "\n".join(lines)


def size_text(nbytes: int) -> str:
    """``1,536 bytes``, ``1.5 KiB``, ``12.0 MiB``."""
    size = float(nbytes)
    if size < 1024:
        return f"{nbytes} bytes"
    for unit in ("KiB", "MiB", "GiB"):
        size /= 1024
        if size < 1024:
            return f"{size:.1f} {unit}"
    return f"{size / 1024:.1f} TiB"


def table(rows: Sequence[tuple[str, ...]]) -> str:
    """Rows of equal length, in columns; the first row is the head."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join("  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in rows)


def preview(array: np.ndarray) -> str:
    """A fetched part, as NumPy prints it."""
    return f"{name_of(array.dtype)} {array.shape}\n{array}"
