"""The commands at the prompt, each a line that begins with a colon."""

from __future__ import annotations

import ast
from collections.abc import Callable
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np

from tiremote.client import RemoteArray, Session
from tiremote.protocol.dtypes import name_of
from tiremote.protocol.errors import TiremoteError
from tiremote.protocol.receipts import ArrayHolding, UnitHolding
from tiremote.repl.cells import Command
from tiremote.repl.collecting import Collecting, NotCollected, requests_text
from tiremote.repl.comparing import read_comparison
from tiremote.repl.durations import duration
from tiremote.repl.evaluate import Evaluator
from tiremote.repl.losses import as_of_text
from tiremote.repl.render import is_lost, kind_of, preview, size_text, table
from tiremote.repl.snapshotting import read_plan
from tiremote.repl.status_text import status_text

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

#: What each command is given, what it does, and what more there is to know.
ABOUT = {
    "help": ("[COMMAND]", "this text, or more about a command", ""),
    "kernels": ("", "what is loaded, with signatures and versions", ""),
    "arrays": (
        "",
        "arrays and fields by name",
        """\
One that its engine took along is marked as lost. One that was put back then
says from when its contents were, before the loss, until it is filled anew.""",
    ),
    "fetch": (
        "NAME [SLICE] [FILE]",
        "numbers of an array, shown or saved",
        """\
:fetch x              all of x
:fetch x 2:4          what x[2:4] is
:fetch v 0:2,1        of vectors: number 1 of the first two
:fetch x :,0 c.npy    column 0, saved as NumPy saves it""",
    ),
    "ast": (
        "KERNEL",
        "the tree that a kernel is made from",
        """\
:ast add           of a kernel, func, function or class
:ast Model.step    of a method
gpu.ast(unit, name).json has it as JSON.""",
    ),
    "compare": (
        "CALL [VERSION [VERSION]]",
        "two versions of a kernel side by side",
        """\
:compare add(x, 5.0)      what is loaded with the version before it
:compare add(x, 5.0) 1    version 1 with what is loaded
:compare add(x, 5.0) 1 3  version 1 with version 3
Tells how far the results differ and how long each takes. Both run on copies:
arrays, fields and what is loaded stay as they are.""",
    ),
    "snapshot": (
        "[SECONDS|off]",
        "copies arrays, to be there after a crash",
        """\
:snapshot                 now
:snapshot 10              now, and from now on by itself 10 s later, if anything ran
:snapshot every 5 min     likewise
:snapshot every 100 runs  likewise, after so many
:snapshot off             now, and not by itself any more
When an engine is lost, arrays hold again what was last copied, put or fetched.""",
    ),
    "cleanup": ("NAME|all", "drops a kernel, an array, or everything", "Its memory on the worker comes back."),
    "status": ("", "the worker and this session", ""),
    "requests": (
        "",
        "what runs, waits, or was answered to nobody",
        """\
Of all clients of this session, also of programs that were killed or have left.
:collect takes one up.""",
    ),
    "collect": (
        "ID",
        "output and result of a request of before",
        """\
What it printed comes from the start, then what it gives, which is _ afterwards:
of a call that gives nothing the arrays that it wrote to, by their position.
Ctrl-C ends the wait alone; the request goes on.""",
    ),
    "explain": (
        "",
        "what the last crash was: the line, the index",
        """\
Runs the request again that the engine died with, in a debug engine of its own:
with the text as it was, on copies of the arrays. What is here is not touched.
Ctrl-C ends it.""",
    ),
    "reconnect": (
        "",
        "a new session, after the worker was gone",
        """\
What was typed here is loaded again; what was in arrays and fields is lost.
A local worker that has ended is started anew.""",
    ),
    "quit": ("", "leaves, as Ctrl-D does", ""),
}


#: What elsewhere does the same.
_OTHER_NAMES = {"exit": "quit"}


class CommandError(Exception):
    """The command is not one, or was not given what it needs."""


class Quit(Exception):
    """The user wants to leave."""


class Commands:
    """Runs commands on one evaluator's names; ``show`` takes what they print."""

    def __init__(self, evaluator: Evaluator, show: Callable[[str], None]) -> None:
        self._evaluator = evaluator
        self._show = show
        self._collecting = Collecting()
        self._table: dict[str, Callable[[str], None]] = {
            "help": lambda rest: show(help_text(rest)),
            "kernels": lambda _: self._kernels(),
            "arrays": lambda _: self._arrays(),
            "fetch": self._fetch,
            "ast": self._ast,
            "compare": self._compare,
            "snapshot": self._snapshot,
            "cleanup": self._cleanup,
            "status": lambda _: show(status_text(self._gpu.status(), self._gpu.address)),
            "requests": lambda _: show(requests_text(self._gpu.requests())),
            "collect": self._collect,
            "explain": lambda _: show(str(self._gpu.explain_crash())),
            "reconnect": lambda _: self._reconnect(),
            "quit": self._quit,
        }

    @property
    def _gpu(self) -> Session:
        return self._evaluator.gpu

    @property
    def names(self) -> tuple[str, ...]:
        """What there is, for completion."""
        return tuple(self._table)

    def run(self, command: Command) -> None:
        """Raises `CommandError`, `Quit`, and what the session raises."""
        action = self._table.get(command.name)
        if action is None:
            meant = _nearest(_OTHER_NAMES.get(command.name, command.name), self._table, ":")
            raise CommandError(f"there is no command :{command.name}{meant}")
        action(command.rest)

    def _kernels(self) -> None:
        rows = [("unit", "version", "defines")]
        for holding in self._gpu.describe().units:
            shown = [str(each) for each in holding.definitions if each.kind not in ("value", "field", "ndarray")]
            for position, text in enumerate(shown):
                rows.append((holding.unit, str(holding.version), text) if position == 0 else ("", "", text))
        self._show(table(rows) if len(rows) > 1 else "No kernel is loaded: type one.")

    def _arrays(self) -> None:
        rows: list[tuple[str, ...]] = [
            ("name", "kind", "dtype", "shape", "size", "place", "made by", "last used", "put back")
        ]
        named = set()
        description = self._gpu.describe()
        back = {one.target: as_of_text(one) for one in description.as_of}
        held = description.arrays
        ids = {holding.handle.id for holding in held}
        use = {holding.handle.id: _use(holding) for holding in held}
        units = {holding.unit: _use(holding) for holding in description.units}
        for name, array in self._evaluator.names.arrays():
            try:
                # Not its handle: a look must not keep a field when its unit goes.
                place = "lost: make it again" if is_lost(array, ids) else array.place
            except TiremoteError as error:
                place = f"({error.message})"
            named.add(place)
            shape = str(array.shape) + (f" of {array.element_shape}" if array.element_shape else "")
            row = (name, kind_of(array), name_of(array.dtype), shape, size_text(array.nbytes), place)
            used = use.get(place) or units.get(place.partition(".")[0], ("", ""))
            rows.append((*row, *used, back.get(place, "")))
        for holding in held:
            if holding.handle.id not in named:
                meta = holding.handle.meta
                shape = str(tuple(meta.get("shape", ())))
                label = f"({holding.label})" if holding.label else "(no name here)"
                size = size_text(holding.nbytes)
                row = (label, holding.handle.kind, str(meta.get("dtype", "")), shape, size, holding.handle.id)
                rows.append((*row, *use[holding.handle.id], back.get(holding.handle.id, "")))
        if not any(row[-1] for row in rows[1:]):
            rows = [row[:-1] for row in rows]
        self._show(table(rows) if len(rows) > 1 else "There is no array: x = ti.ndarray(ti.f32, shape=10) makes one.")

    def _fetch(self, rest: str) -> None:
        name, _, after = rest.partition(" ")
        if not name:
            raise CommandError("say which array: :fetch NAME [SLICE] [FILE.npy]")
        array = self._array(name)
        words = after.split()
        path = Path(words.pop()).expanduser() if words and words[-1].endswith(".npy") else None
        text = "".join(words)
        part = np.asarray(array[read_slice(text)] if text else array.to_numpy())
        if path is None:
            self._show(preview(part))
            return
        try:
            np.save(path, part)
        except OSError as error:
            raise CommandError(f"{path} cannot be written: {error.strerror or error}") from None
        self._show(f"{path}: {name_of(part.dtype)} {part.shape}, {size_text(part.nbytes)}")

    def _array(self, name: str) -> RemoteArray:
        arrays = dict(self._evaluator.names.arrays())
        if name not in arrays:
            raise CommandError(f"there is no array {name!r}{_nearest(name, arrays)}")
        return arrays[name]

    def _ast(self, name: str) -> None:
        if not name:
            raise CommandError("say of what: :ast KERNEL; :kernels lists what is loaded")
        first = name.partition(".")[0]
        unit = self._evaluator.names.remote_unit(first)
        if unit is None:
            raise CommandError(f"nothing on the worker is called {first!r}: :kernels lists what is loaded")
        self._show(str(self._gpu.ast(unit, name)))

    def _compare(self, rest: str) -> None:
        try:
            asked = read_comparison(rest, self._evaluator.names)
        except ValueError as error:
            raise CommandError(str(error)) from None
        self._show(str(asked.run(self._gpu)))

    def _snapshot(self, rest: str) -> None:
        try:
            plan = read_plan(rest)
        except ValueError as error:
            raise CommandError(str(error)) from None
        self._show(self._evaluator.names.named(str(self._gpu.snapshot(**plan))))

    def _cleanup(self, name: str) -> None:
        names = self._evaluator.names
        if not name:
            raise CommandError("say what to drop: the name of a kernel or an array, or all")
        if name == "all":
            result = self._gpu.cleanup_all()
            self._evaluator.forget_everything()
            self._show(f"dropped everything: {len(result.units)} units, {size_text(result.nbytes)} came back")
            return
        value = names.values.get(name)
        unit = names.remote_unit(name)
        if isinstance(value, RemoteArray) and unit is None:
            size = value.nbytes
            value.free()
            del names.values[name]
            self._show(f"dropped {name}, {size_text(size)} came back")
            return
        held = {holding.unit for holding in self._gpu.describe().units}
        chosen = unit if unit in held else name
        if chosen not in held:
            raise CommandError(f"nothing is called {name!r}{_nearest(name, [*held, *dict(names.arrays())])}")
        result = self._gpu.cleanup(chosen)
        self._evaluator.forget_unit(chosen)
        self._show(f"dropped {chosen}, {size_text(result.nbytes)} came back")

    def _collect(self, request: str) -> None:
        if not request:
            raise CommandError("say which request: :collect ID; :requests lists them")
        try:
            value = self._collecting.collect(self._gpu, request)
        except NotCollected as error:
            raise CommandError(str(error)) from None
        if value is None:
            self._show(f"{request} is done")
        else:
            self._evaluator.show_value(value)

    def _reconnect(self) -> None:
        try:
            there = self._gpu.status().session is not None
        except TiremoteError:
            there = False
        if there:
            self._show(f"session {self._gpu.name} on {self._gpu.address} is there: nothing is lost")
        else:
            self._evaluator.reconnect()

    def _quit(self, _: str) -> None:
        raise Quit


def help_text(name: str = "") -> str:
    """All of it, or about one command. Raises `CommandError`."""
    name = name.removeprefix(":")
    if not name:
        rows = [(f":{each} {given}".rstrip(), does) for each, (given, does, _) in ABOUT.items()]
        return f"{HELP}\n{table(rows)}\nCtrl-C clears the line, or stops what runs on the worker."
    if name not in ABOUT:
        raise CommandError(f"there is no command :{name}{_nearest(name, ABOUT, ':')}")
    given, does, more = ABOUT[name]
    return f"{f':{name} {given}'.rstrip()}: {does}" + (f"\n{more}" if more else "")


def read_slice(text: str) -> Any:
    """``2:4``, ``1,:``, ``::2,...`` as an index. Raises `CommandError`."""
    inside = text.removeprefix("[").removesuffix("]")
    try:
        node = ast.parse(f"_[{inside}]", mode="eval").body
        if not isinstance(node, ast.Subscript):
            raise ValueError
        return _index(node.slice)
    except (SyntaxError, ValueError, TypeError):
        raise CommandError(f"{text!r} is no slice: write it as in 2:4, or 1,: or ::2") from None


def _index(node: ast.expr) -> Any:
    if isinstance(node, ast.Tuple):
        return tuple(map(_index, node.elts))
    if isinstance(node, ast.Slice):
        return slice(*(None if each is None else _index(each) for each in (node.lower, node.upper, node.step)))
    value = ast.literal_eval(node)
    if value is not ... and type(value) is not int:
        raise ValueError
    return value


def _use(holding: ArrayHolding | UnitHolding) -> tuple[str, str]:
    """Who made it, and when it was used last."""
    return holding.owner or "", "" if holding.unused is None else f"{duration(holding.unused)} ago"


def _nearest(name: str, names: Any, prefix: str = "") -> str:
    close = get_close_matches(name, list(names), n=1, cutoff=0.5)
    if close:
        return f"; did you mean {prefix}{close[0]}?"
    return "; :help lists them" if prefix else "; :arrays and :kernels list what there is"
