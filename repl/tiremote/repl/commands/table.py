"""All commands: a group is a module with ``commands(context)``, and an entry in `_GROUPS` here."""

from __future__ import annotations

from collections.abc import Callable

from tiremote.repl.cells import Command
from tiremote.repl.commands import arrays, kernels, session
from tiremote.repl.commands.entry import CommandError, Context, Entry, Given, nearest
from tiremote.repl.evaluate import Evaluator
from tiremote.repl.render import table

HELP = """\
Type Taichi and Python; an empty line ends a block:
    x = ti.ndarray(ti.f32, shape=10)
    @ti.kernel
    def add(x: ti.types.ndarray(), b: ti.f32):
        for i in x:
            x[i] += b

    add(x, 5.0)
    x.to_numpy(), x[2:4]
Kernels, Taichi's functions and classes, and fields are on the worker. A plain
function that uses them runs there too, if it needs nothing of this laptop but
numbers, text, np and math: its loop of launches is one request, and its
receipt says so. All else runs here. Typing a kernel again replaces it; arrays
and fields keep what is in them.
Here are also gpu (the session), ti, tm (taichi.math), np and _ (the last
value).
"""

#: In the order in which ``:help`` lists them.
_GROUPS = (
    kernels.commands,
    arrays.commands,
    session.commands,
)

#: What elsewhere does the same.
_OTHER_NAMES = {"exit": "quit"}


class Commands:
    """Runs commands on one evaluator's names; ``show`` takes what they print."""

    def __init__(self, evaluator: Evaluator, show: Callable[[str], None]) -> None:
        self._context = context = Context(evaluator, show)
        first = Entry(
            name="help",
            run=lambda rest: show(self.help_text(rest)),
            does="this text, or more about a command",
            given="[COMMAND]",
            words=(Given.COMMAND,),
        )
        entries = (first, *(each for group in _GROUPS for each in group(context)))
        self.table = {each.name: each for each in entries}

    @property
    def names(self) -> tuple[str, ...]:
        """What there is, for completion."""
        return tuple(self.table)

    def run(self, command: Command) -> None:
        """Raises `CommandError`, `Quit`, and what the session raises."""
        entry = self.table.get(command.name)
        if entry is None:
            meant = nearest(_OTHER_NAMES.get(command.name, command.name), self.table, ":")
            raise CommandError(f"there is no command :{command.name}{meant}")
        entry.run(command.rest)

    def help_text(self, name: str = "") -> str:
        """All of it, or about one command. Raises `CommandError`."""
        name = name.removeprefix(":")
        if not name:
            rows = [(each.usage, each.does) for each in self.table.values()]
            return f"{HELP}\n{table(rows)}\nCtrl-C clears the line, or stops what runs on the worker."
        if name not in self.table:
            raise CommandError(f"there is no command :{name}{nearest(name, self.table, ':')}")
        entry = self.table[name]
        return f"{entry.usage}: {entry.does}" + (f"\n{entry.more}" if entry.more else "")
