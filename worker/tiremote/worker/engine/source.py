"""A user's text: made fit for Python, kept where Taichi and tracebacks look for it, and never moved by a line.

Taichi reads the text of a kernel at its first compile, by file name. So every version of every unit has a file
name of its own, which exists in `linecache` only, from before the text runs until the last of its functions is gone.
"""

from __future__ import annotations

import ast
import hashlib
import itertools
import linecache
import types
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tiremote.protocol.errors import CompileError, SourceFrame
from tiremote.worker.engine.future_annotations import resolve_annotations
from tiremote.worker.engine.global_names import GlobalNames, global_names
from tiremote.worker.unit_files import unit_file

#: Longer texts are refused: Python's own parser needs about a hundred times as much memory.
MAX_SOURCE_CHARACTERS: Final = 16 * 2**20

_serial = itertools.count(1)
_by_file: dict[str, Source] = {}


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """One version of one unit. ``lines`` are the user's own, without line ends.

    ``build`` counts how often the version was executed again because of what it uses.
    """

    unit: str
    version: int
    text: str
    digest: str
    file: str
    lines: tuple[str, ...]
    tree: ast.Module
    code: types.CodeType
    names: GlobalNames
    functions: Mapping[int, ast.FunctionDef | ast.AsyncFunctionDef]
    warnings: tuple[str, ...]
    build: int = 0

    def publish(self) -> None:
        """Lets Taichi, `inspect` and tracebacks find the text under `file`."""
        _by_file[self.file] = self
        # No modification time: linecache.checkcache leaves such an entry alone.
        linecache.cache[self.file] = (
            len(self.text),
            None,
            [f"{line}\n" for line in self.lines],
            self.file,
        )

    def frame(self, line: int, column: int = 0, end_column: int = 0, function: str = "") -> SourceFrame:
        """The frame for a place in this text; columns in characters from 1."""
        text = self.lines[line - 1] if 0 < line <= len(self.lines) else ""
        return SourceFrame(
            unit=self.unit,
            version=self.version,
            function=function,
            line=line,
            column=column,
            end_column=max(end_column, column),
            text=text,
        )

    def byte_columns(self, line: int, start: int, end: int) -> tuple[int, int]:
        """Python counts columns in UTF-8 bytes from 0; these are characters from 1."""
        raw = (self.lines[line - 1] if 0 < line <= len(self.lines) else "").encode("utf-8", "surrogatepass")
        first, last = (len(raw[:offset].decode("utf-8", "replace")) + 1 for offset in (start, end))
        return first, last


def withdraw(file: str) -> None:
    """The opposite of `Source.publish`. A file that is not there is fine."""
    _by_file.pop(file, None)
    linecache.cache.pop(file, None)


def living_texts() -> list[Source]:
    """Every text that somebody can still call a function of."""
    return list(_by_file.values())


def source_of(file: str) -> Source | None:
    """The text of a file name that `Source.publish` made known."""
    return _by_file.get(file)


def digest_of(text: object) -> str:
    """What tells whether two texts are the same: line ends and a byte order mark do not count."""
    return hashlib.sha256(_plain(text).encode("utf-8", "surrogatepass")).hexdigest()


def read_source(text: object, unit: str, version: int, build: int = 0) -> Source:
    """Parses and compiles a text without running it. Raises `CompileError` with the line and column."""
    plain = _plain(text)
    lines = tuple(plain.split("\n")[:-1] if plain.endswith("\n") else plain.split("\n"))
    digest = hashlib.sha256(plain.encode("utf-8", "surrogatepass")).hexdigest()
    file = unit_file(unit, version, digest, next(_serial))
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            tree = _parse(plain, file)
            resolve_annotations(tree)
            code = compile(tree, file, "exec", dont_inherit=True)
    except SyntaxError as error:
        raise _syntax_error(error, unit, version, lines) from None
    except (RecursionError, MemoryError):
        raise CompileError("the source is nested too deeply for Python's parser") from None
    except (ValueError, OverflowError, UnicodeError) as error:
        raise CompileError(f"the source is not Python: {str(error).splitlines()[0]}") from None
    functions = {
        (node.decorator_list[0].lineno if node.decorator_list else node.lineno): node
        for node in ast.walk(tree)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    }
    return Source(
        unit=unit,
        version=version,
        text=plain,
        digest=digest,
        file=file,
        lines=lines,
        tree=tree,
        code=code,
        names=global_names(code),
        functions=functions,
        warnings=tuple(f"line {each.lineno}: {each.message}" for each in caught),
        build=build,
    )


def _plain(text: object) -> str:
    if not isinstance(text, str):
        raise CompileError(f"the source must be text (str), not {type(text).__name__}")
    if len(text) > MAX_SOURCE_CHARACTERS:
        raise CompileError(f"the source has {len(text):,} characters; at most {MAX_SOURCE_CHARACTERS:,} are taken")
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise CompileError(f"the source holds a NUL character on line {line}")
    plain = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    if not plain.strip():
        raise CompileError("the source is empty")
    return plain if plain.endswith("\n") else f"{plain}\n"


def _parse(plain: str, file: str) -> ast.Module:
    """Text that is indented as a whole, as in a string inside a function, is taken with its own columns."""
    first = next((line for line in plain.split("\n") if line.strip() and not line.lstrip().startswith("#")), "")
    if not first[:1].isspace() or not first.lstrip("\f")[:1].isspace():
        return ast.parse(plain, file)
    try:
        tree = ast.parse(f"if 1:\n{plain}", file)
    except SyntaxError as error:
        error.lineno = (error.lineno or 1) - 1
        error.end_lineno = (error.end_lineno or 1) - 1
        raise
    block = tree.body[0]
    if not isinstance(block, ast.If) or len(tree.body) > 1:
        # Only the beginning is indented: Python's own error is the right one.
        return ast.parse(plain, file)
    return ast.Module(body=[ast.increment_lineno(each, -1) for each in block.body], type_ignores=[])


def _syntax_error(error: SyntaxError, unit: str, version: int, lines: tuple[str, ...]) -> CompileError:
    message = f"{type(error).__name__}: {error.msg}"
    line = error.lineno or 0
    if not 0 < line <= len(lines) + 1:
        return CompileError(message)
    column = max(error.offset or 0, 0)
    end = error.end_offset if error.end_offset and error.end_lineno == line else column
    frame = SourceFrame(
        unit=unit,
        version=version,
        function="",
        line=line,
        column=column,
        end_column=max(end, column),
        text=lines[line - 1] if line <= len(lines) else "",
    )
    return CompileError(message, frames=(frame,))
