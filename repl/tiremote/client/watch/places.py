"""Places in what the worker loaded, told as places in the files that it came from."""

from __future__ import annotations

import ast
from collections.abc import Collection
from pathlib import Path

from tiremote.client.watch.files import WatchedFile
from tiremote.protocol.errors import Refused, SourceFrame, TiremoteError


def place_text(frame: SourceFrame, files: Collection[WatchedFile]) -> str | None:
    """``sim.py:12:5, in step``, as terminals and editors open it; None where it is in none of the files."""
    for file in files:
        if file.unit == frame.unit:
            column = f":{frame.column}" if frame.column > 0 else ""
            return f"{file}:{frame.line}{column}" + (f", in {frame.function}" if frame.function else "")
    return None


def failure_text(error: TiremoteError, files: Collection[WatchedFile]) -> str:
    """The error in one line; below it each place with its line and the caret."""
    frames: tuple[SourceFrame, ...] = getattr(error, "frames", ())
    message = error.message if frames else str(error)
    # "Refused" adds nothing to its message, which says what was not done and why.
    lines = [message if type(error) is Refused else f"{type(error).__name__}: {message}"]
    for frame in frames:
        # `SourceFrame` draws the caret; only its first line speaks of units and versions.
        head, *body = str(frame).split("\n")
        place = place_text(frame, files)
        lines += [f"  {place}" if place else head, *body]
        lines += [f"  {each.name} lies beside it and is not watched: name it too" for each in _unwatched(frame, files)]
    return "\n".join(lines)


def _unwatched(frame: SourceFrame, files: Collection[WatchedFile]) -> list[Path]:
    """Files that a line of a watched file imports, as the worker does not have them."""
    importing = next((file for file in files if file.unit == frame.unit), None)
    try:
        statements = ast.parse(frame.text.strip()).body if importing is not None else []
    except SyntaxError:
        return []
    modules = [each.module or "" for each in statements if isinstance(each, ast.ImportFrom) and not each.level]
    modules += [alias.name for each in statements if isinstance(each, ast.Import) for alias in each.names]
    beside = [importing.path.with_name(f"{module}.py") for module in modules] if importing is not None else []
    return [path for path in beside if path.is_file() and all(path != file.path for file in files)]
