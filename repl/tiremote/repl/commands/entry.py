"""What a command is: an entry in a table, which tells what it is given, what it does, and what runs it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum

from tiremote.client import RemoteArray, Session
from tiremote.repl.evaluate import Evaluator


class CommandError(Exception):
    """The command is not one, or was not given what it needs."""


class Quit(Exception):
    """The user wants to leave."""


class Given(StrEnum):
    """What a word after a command is, for completion."""

    ARRAY = "array"
    KERNEL = "kernel"
    NAME = "name"
    COMMAND = "command"
    FILE = "file"
    CODE = "code"


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """``:name given`` does ``does``; ``more`` is what else there is to know.

    ``run`` takes the rest of the line. ``words`` is what its words are, by position, or the words themselves; the last
    counts for all that follow.
    """

    name: str
    run: Callable[[str], None]
    does: str
    given: str = ""
    more: str = ""
    words: tuple[Given | tuple[str, ...], ...] = ()

    @property
    def usage(self) -> str:
        return f":{self.name} {self.given}".rstrip()


@dataclass(frozen=True, slots=True)
class Context:
    """What every group of commands has: the names at the prompt, and ``show``, which takes what is printed."""

    evaluator: Evaluator
    show: Callable[[str], None]

    @property
    def gpu(self) -> Session:
        """The session that is used now."""
        return self.evaluator.gpu

    def array(self, name: str) -> RemoteArray:
        """The array or field of that name. Raises `CommandError`."""
        arrays = dict(self.evaluator.names.arrays())
        if name not in arrays:
            raise CommandError(f"there is no array {name!r}{nearest(name, arrays)}")
        return arrays[name]


def nearest(name: str, names: Iterable[str], prefix: str = "") -> str:
    """What was probably meant, to be put behind an error."""
    close = get_close_matches(name, list(names), n=1, cutoff=0.5)
    if close:
        return f"; did you mean {prefix}{close[0]}?"
    return "; :help lists them" if prefix else "; :arrays and :kernels list what there is"
