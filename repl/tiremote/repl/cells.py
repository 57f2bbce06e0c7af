"""Text into cells, and cells into statements that keep the line numbers the user sees."""

from __future__ import annotations

import ast
import re
import textwrap
from codeop import CommandCompiler
from collections.abc import Iterator
from dataclasses import dataclass

#: A line that Python could never begin a statement with.
COMMAND = re.compile(r":[A-Za-z?]")

#: The first line of a cell that says where it runs: ``%%worker``, or ``%%`` for the laptop again.
MAGIC = re.compile(r"\s*%%(\w*)[^\S\n]*(?:\n|\Z)")


@dataclass(frozen=True, slots=True)
class Command:
    """``:fetch x 2:4`` is name ``fetch`` and rest ``x 2:4``; ``line`` counts from 1."""

    name: str
    rest: str
    line: int = 1


@dataclass(frozen=True, slots=True)
class Statement:
    """One top-level statement. ``source`` stands at its own line: as many empty lines come before it."""

    node: ast.stmt
    first_line: int
    text: str

    @property
    def source(self) -> str:
        return "\n" * (self.first_line - 1) + self.text + "\n"


@dataclass(frozen=True, slots=True)
class Cell:
    """Python text that is run together; its first line has the number ``first_line``."""

    text: str
    first_line: int = 1

    def statements(self) -> list[Statement]:
        """Raises SyntaxError, whose ``lineno`` is counted as the user counts."""
        text = textwrap.dedent(self.text) if self.text[:1] in " \t" else self.text
        try:
            tree = ast.parse(text)
        except SyntaxError as error:
            for name in ("lineno", "end_lineno"):
                if getattr(error, name):
                    setattr(error, name, getattr(error, name) + self.first_line - 1)
            raise
        except (RecursionError, MemoryError):
            raise SyntaxError("the text is nested too deeply for Python's parser") from None
        except ValueError as error:  # a NUL character
            raise SyntaxError(str(error)) from None
        lines = text.splitlines()
        spans = [(_start(node), node.end_lineno or node.lineno) for node in tree.body]
        made = []
        for position, node in enumerate(tree.body):
            start, end = spans[position]
            shares = (position > 0 and spans[position - 1][1] >= start) or (
                position + 1 < len(spans) and spans[position + 1][0] <= end
            )
            whole = "\n".join(lines[start - 1 : end])
            piece = (ast.get_source_segment(text, node) or whole) if shares else whole
            ast.increment_lineno(node, self.first_line - 1)
            made.append(Statement(node, start + self.first_line - 1, piece))
        return made


def read_cells(text: str) -> Iterator[Command | Cell]:
    """A command is a line of its own, between complete statements; what lies between commands is one cell.

    So is what begins with ``%%worker`` or ``%%`` on a line of its own, up to the next.
    """
    pending: list[str] = []
    first = 1
    for number, line in enumerate(text.splitlines(), 1):
        if (COMMAND.match(line) or MAGIC.match(line)) and _parses("\n".join(pending)):
            if any(each.strip() for each in pending):
                yield Cell("\n".join(pending), first)
            pending, first = [], number + 1
            if MAGIC.match(line):
                pending, first = [line], number
            else:
                yield read_command(line, number)
        else:
            pending.append(line)
    if any(each.strip() for each in pending):
        yield Cell("\n".join(pending), first)


def read_command(line: str, number: int = 1) -> Command:
    name, _, rest = line.strip()[1:].partition(" ")
    return Command(name, rest.strip(), number)


def is_complete(text: str) -> bool:
    """Whether Enter runs this cell. An indented block ends with an empty line, as in Python's own REPL."""
    if COMMAND.match(text.lstrip()) and "\n" not in text.strip():
        return True
    if MAGIC.match(text):
        # Ends with an empty line, whatever is in it.
        body = text.lstrip().partition("\n")[2]
        return bool(body.strip()) and not body.rpartition("\n")[2].strip() and not _goes_on(body.rstrip() + "\n")
    last = text.rpartition("\n")[2]
    if text.strip() and "\n" in text and not last.strip():
        # The empty line was typed: only an open bracket or string goes on.
        return not _goes_on(text.rstrip() + "\n")
    return not _goes_on(text) and not _opens_block(text)


def _goes_on(text: str) -> bool:
    """codeop knows single statements; a pasted file is judged by its end."""
    try:
        ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        try:
            return CommandCompiler()(text, "<cell>", "exec") is None
        except (SyntaxError, ValueError, OverflowError, RecursionError, MemoryError):
            return False
    return False


def _opens_block(text: str) -> bool:
    """Whether the last statement is a block that more lines could join."""
    try:
        body = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    lines = text.splitlines()
    return bool(body) and isinstance(body[-1], _BLOCKS) and lines[-1][:1] in (" ", "\t")


def _start(node: ast.stmt) -> int:
    decorators = getattr(node, "decorator_list", [])
    lines: list[int] = [each.lineno for each in decorators]
    return min([node.lineno, *lines])


def _parses(text: str) -> bool:
    try:
        ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        # Wrong in any case: the cell is ended here unless it is merely unfinished.
        return not _goes_on(text)
    return True


_BLOCKS = (
    ast.FunctionDef,
    ast.AsyncFunctionDef,
    ast.ClassDef,
    ast.For,
    ast.AsyncFor,
    ast.While,
    ast.If,
    ast.With,
    ast.AsyncWith,
    ast.Try,
    ast.Match,
)
