"""What can be typed next, from both sides. Nothing here asks the worker: it is told what the monitor heard last."""

from __future__ import annotations

import ast
import builtins
import keyword
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from tiremote.client import RemoteArray, RemoteKernel, RemoteObject, RemoteUnit, Session
from tiremote.protocol.dtypes import name_of
from tiremote.protocol.receipts import Description
from tiremote.protocol.values import Handle
from tiremote.repl.cells import COMMAND
from tiremote.repl.commands import Commands, Given
from tiremote.repl.names import Names
from tiremote.repl.signatures import definition_of, value_of
from tiremote.repl.taichi_names import PUBLIC_NAMES

#: The path that the cursor is at the end of, such as ``gpu["sim"].st``.
_PATH = re.compile(r"((?:[^\W\d]\w*|gpu\[(?:None|\"[^\"\n]*\"|'[^'\n]*')\])(?:\.[^\W\d]\w*)*)?(\.?)([^\W\d]\w*)?\Z")
_UNIT = re.compile(r"gpu\[([\"'])([^\"'\]\n]*)\Z")
_UNIT_PATH = re.compile(r"gpu\[(None|\"[^\"\n]*\"|'[^'\n]*')\]\Z")
_MAGICS = ("%%worker",)


class PromptCompleter(Completer):
    """``description`` gives what the worker holds, as far as that was heard."""

    def __init__(
        self,
        names: Callable[[], Names],
        commands: Commands,
        description: Callable[[], Description | None],
    ) -> None:
        self._names_now = names
        self._commands = commands
        self._description = description

    @property
    def _names(self) -> Names:
        return self._names_now()

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:  # noqa: ARG002
        """prompt_toolkit's own signature."""
        text = document.text_before_cursor
        if COMMAND.match(text.lstrip()) or text.strip() == ":":
            yield from self._of_command(text.lstrip())
        elif "\n" not in text and text.startswith("%"):
            yield from (Completion(each, -len(text), display_meta="runs on the worker") for each in _MAGICS)
        else:
            yield from self._of_code(text)

    # Commands

    def _of_command(self, text: str) -> Iterator[Completion]:
        name, blank, rest = text[1:].partition(" ")
        if not blank:
            for entry in self._commands.table.values():
                if entry.name.startswith(name):
                    yield Completion(entry.name, -len(name), display=entry.usage, display_meta=entry.does)
            return
        chosen = self._commands.table.get(name)
        if chosen is None or not chosen.words:
            return
        words = rest.split(" ")
        kind = chosen.words[min(len(words), len(chosen.words)) - 1]
        if kind is Given.CODE:
            yield from self._of_code(rest)
            return
        if kind is Given.FILE:
            yield from _files(words[-1])
            return
        for word, meta in self._words(kind):
            if word.startswith(words[-1]):
                yield Completion(word, -len(words[-1]), display_meta=meta)

    def _words(self, kind: Given | tuple[str, ...]) -> Iterator[tuple[str, str]]:
        names = self._names
        if isinstance(kind, tuple):
            yield from ((each, "") for each in kind)
        elif kind is Given.COMMAND:
            yield from ((each.name, each.does) for each in self._commands.table.values())
        else:
            for name in sorted(names.values):
                value = names.values[name]
                array = isinstance(value, RemoteArray)
                kernel = not array and callable(value) and names.remote_unit(name) is not None
                if name.startswith("_") or not (array or kernel):
                    continue
                if kind is Given.NAME or (kind is Given.ARRAY and array) or (kind is Given.KERNEL and kernel):
                    yield name, self._meta(name, value)

    # Python

    def _of_code(self, text: str) -> Iterator[Completion]:
        if (quoted := _UNIT.search(text)) is not None:
            yield from self._of_units(quoted[1], quoted[2])
            return
        line = text.rpartition("\n")[2]
        if _in_string_or_comment(line):
            return
        matched = _PATH.search(text)
        path, dot, begun = matched.groups() if matched is not None else (None, "", "")
        begun = begun or ""
        if path and not dot:
            # The last name of the path is what is being typed.
            path, dot, begun = path.rpartition(".")
        if not dot:
            if begun:
                yield from self._of_names(begun)
            return
        seen = [(name, meta) for name, meta in self._members(path or "") if name.startswith(begun)]
        private = begun.startswith("_")
        for name, meta in seen:
            if private or not name.startswith("_"):
                yield Completion(name, -len(begun), display_meta=meta)

    def _of_units(self, quote: str, begun: str) -> Iterator[Completion]:
        description = self._description()
        for holding in description.units if description is not None else ():
            if holding.unit.startswith(begun):
                defines = ", ".join(each.name for each in holding.definitions)
                yield Completion(f"{holding.unit}{quote}]", -len(begun), display=holding.unit, display_meta=defines)

    def _of_names(self, begun: str) -> Iterator[Completion]:
        values = self._names.values
        for name in sorted(name for name in values if name.startswith(begun)):
            if not name.startswith("__"):
                yield Completion(name, -len(begun), display_meta=self._meta(name, values[name]))
        for name in keyword.kwlist:
            if name.startswith(begun):
                yield Completion(name, -len(begun), display_meta="keyword")
        for name in dir(builtins):
            if name.startswith(begun) and name not in values and not name.startswith("_"):
                yield Completion(name, -len(begun), display_meta="builtin")

    def _members(self, path: str) -> Iterator[tuple[str, str]]:
        unit = _UNIT_PATH.match(path)
        if unit is not None:
            yield from self._defined_in(None if unit[1] == "None" else unit[1][1:-1])
            return
        module = self._names.taichi_path(ast.parse(path, mode="eval").body)
        if module is not None and module in PUBLIC_NAMES:
            yield from ((name, "Taichi") for name in sorted(PUBLIC_NAMES[module]))
            return
        try:
            value = value_of(self._names, path)
        except LookupError:
            return
        if isinstance(value, RemoteUnit):
            yield from self._defined_in(value._unit)
        elif isinstance(value, RemoteObject):
            meta = value._target.meta if isinstance(value._target, Handle) else {}
            yield from ((str(name), "method, on the worker") for name in meta.get("methods", ()))
        else:
            # Of a proxy what its type has: no attribute of the value itself is read.
            listed = dir(type(value)) if isinstance(value, RemoteArray | RemoteKernel | Session) else _dir(value)
            yield from ((name, "") for name in listed)

    def _defined_in(self, unit: str | None) -> Iterator[tuple[str, str]]:
        description = self._description()
        if description is None:
            return
        wanted = description.newest if unit is None else unit
        for holding in description.units:
            if holding.unit == wanted:
                yield from ((each.name, str(each)) for each in holding.definitions)

    def _meta(self, name: str, value: Any) -> str:
        definition = definition_of(self._names, self._description(), name)
        if definition is not None and definition.kind not in ("field", "ndarray"):
            doc = (definition.doc or "").strip().partition("\n")[0]
            return f"{definition.kind} {definition}" + (f": {doc}" if doc else "")
        if isinstance(value, RemoteArray):
            return f"{name_of(value.dtype)} {value.shape}, on the worker"
        return type(value).__name__


def _dir(value: Any) -> list[str]:
    try:
        return sorted(dir(value))
    except Exception:  # the user's own __dir__
        return []


def _files(begun: str) -> Iterator[Completion]:
    path = Path(begun).expanduser()
    folder, start = (path, "") if begun.endswith("/") or not begun else (path.parent, path.name)
    try:
        found = sorted(folder.iterdir())
    except OSError:
        return
    for each in found:
        if each.name.startswith(start) and (start.startswith(".") or not each.name.startswith(".")):
            yield Completion(each.name + ("/" if each.is_dir() else ""), -len(start))


def _in_string_or_comment(line: str) -> bool:
    quote = ""
    for character in line:
        if quote:
            quote = "" if character == quote else quote
        elif character in "\"'":
            quote = character
        elif character == "#":
            return True
    return bool(quote)
