"""Which call the cursor is in, and what is told of it: signature and docstring."""

from __future__ import annotations

import inspect
import io
import tokenize
from typing import Any

from tiremote.client import RemoteArray
from tiremote.client.remote import Remote
from tiremote.protocol.receipts import Definition, Description
from tiremote.repl.laptop_taichi import LaptopTaichi, OnWorker
from tiremote.repl.names import Names

#: Lines of a docstring that are shown.
_MOST_LINES = 6


def called_at(text: str) -> str | None:
    """``gpu.compile_and_load`` for text that ends in the brackets of its call; None outside of one."""
    open_calls: list[str | None] = []
    name: list[str] = []
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.OP and token.string in "([{":
                open_calls.append("".join(name) if token.string == "(" and name else None)
                name = []
            elif token.type == tokenize.OP and token.string in ")]}":
                if open_calls:
                    open_calls.pop()
                name = []
            elif token.type == tokenize.NAME:
                name = [*name, token.string] if name[-1:] == ["."] else [token.string]
            elif token.type == tokenize.OP and token.string == "." and name:
                name = [*name, "."]
            elif token.type not in (tokenize.NL, tokenize.NEWLINE, tokenize.ENDMARKER, tokenize.INDENT):
                name = []
    except (tokenize.TokenError, SyntaxError):
        pass  # the text is not finished: what was read until here is what counts
    return next((each for each in reversed(open_calls) if each is not None), None)


def value_of(names: Names, path: str) -> Any:
    """What a dotted path at the prompt stands for, without asking the worker and without running anything.

    Raises `LookupError` where that is not known.
    """
    first, *rest = path.split(".")
    if first not in names.values:
        builtin = names.values.get("__builtins__", {})
        if first not in builtin:
            raise LookupError(path)
        value: Any = builtin[first]
    else:
        value = names.values[first]
    for name in rest:
        if isinstance(value, Remote | OnWorker):
            # An attribute of it is asked for on the worker: what its type has is told.
            value = inspect.getattr_static(type(value), name, None)
        elif isinstance(value, LaptopTaichi) or inspect.ismodule(value) or isinstance(value, type):
            value = getattr(value, name, None)
        else:
            value = inspect.getattr_static(value, name, None)
        if value is None:
            raise LookupError(path)
    return value


def definition_of(names: Names, description: Description | None, path: str) -> Definition | None:
    """What the worker told of a name that one of its units defines."""
    unit = names.remote_unit(path)
    if unit is None or description is None:
        return None
    held = next((each for each in description.units if each.unit == unit), None)
    return next((each for each in held.definitions if each.name == path), None) if held is not None else None


def tip(names: Names, description: Description | None, path: str) -> str:
    """Signature and the first lines of the docstring; empty where nothing is known."""
    definition = definition_of(names, description, path)
    if definition is not None:
        return "\n".join([str(definition), *_doc_lines(definition.doc)])
    try:
        value = value_of(names, path)
    except LookupError:
        return ""
    if isinstance(value, RemoteArray | OnWorker | LaptopTaichi) or not callable(value):
        return ""
    try:
        signature = str(inspect.signature(value))
    except (ValueError, TypeError):
        signature = "(...)"
    name = path.rpartition(".")[2]
    return "\n".join([f"{name}{signature}", *_doc_lines(inspect.getdoc(value))])


def _doc_lines(doc: str | None) -> list[str]:
    lines = inspect.cleandoc(doc).split("\n") if doc else []
    return lines[:_MOST_LINES] + (["..."] if len(lines) > _MOST_LINES else [])
