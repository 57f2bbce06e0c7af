"""One watched file: the unit it becomes, and what can be read from it at the moment."""

from __future__ import annotations

import io
import os
import tokenize
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class WatchedFile:
    """``path`` is absolute with its links left in, so that one that is pointed elsewhere counts as a change.

    ``unit`` is the id it is loaded under, the file's stem; ``shown`` the path as it was given.
    """

    path: Path
    unit: str
    shown: str

    def __str__(self) -> str:
        return self.shown


@dataclass(frozen=True, slots=True)
class Reading:
    """The source in a file, or why there is none: ``problem`` goes on after the file's name."""

    text: str = ""
    problem: str = ""


def watched_files(paths: Iterable[str | os.PathLike[str]]) -> tuple[WatchedFile, ...]:
    """The files, each once. Raises `ValueError` in one line for what is no file, and for two of the same stem."""
    found: dict[str, WatchedFile] = {}
    for each in paths:
        shown = os.fspath(each)
        path = Path(os.path.abspath(shown))
        if not path.is_file():
            raise ValueError(f"{shown} is a folder: name the files in it" if path.is_dir() else _missing(shown))
        other = found.get(path.stem)
        if other is not None and other.path != path:
            raise ValueError(f"{other} and {shown} would both be the unit {path.stem!r}: rename one of them")
        found[path.stem] = other or WatchedFile(path, path.stem, shown)
    if not found:
        raise ValueError("name at least one file to watch")
    return tuple(found.values())


def read_source(file: WatchedFile) -> Reading:
    """What is in the file now, decoded as Python decodes a module."""
    try:
        raw = file.path.read_bytes()
    except FileNotFoundError:
        return Reading(problem="is gone")
    except OSError as error:
        # Windows denies what an editor has just opened; that passes like an empty file does.
        return Reading(problem=f"cannot be read ({error.strerror or error})")
    if not raw.strip():
        return Reading(problem="is empty")
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(raw).readline)
        text = raw.decode(encoding)
    except (SyntaxError, UnicodeDecodeError, LookupError) as error:
        return Reading(problem=f"is no text of Python's ({error})")
    return Reading(text=text.replace("\r\n", "\n").replace("\r", "\n"))


def _missing(shown: str) -> str:
    host, colon, port = shown.rpartition(":")
    if colon and host and port.isdigit():
        return f"there is no file {shown}; an address begins with a scheme: tcp://{shown}"
    return f"there is no file {shown}"
