"""Commands that look at arrays and fetch them."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import numpy as np

from tiremote.protocol.dtypes import name_of
from tiremote.protocol.errors import TiremoteError
from tiremote.protocol.receipts import ArrayHolding, UnitHolding
from tiremote.repl.commands.entry import CommandError, Context, Entry, Given
from tiremote.repl.durations import duration
from tiremote.repl.losses import as_of_text
from tiremote.repl.render import is_lost, kind_of, preview, size_text, table


def commands(context: Context) -> tuple[Entry, ...]:
    """The group."""
    return _Arrays(context).entries()


class _Arrays:
    def __init__(self, context: Context) -> None:
        self._context = context

    def entries(self) -> tuple[Entry, ...]:
        return (
            Entry(
                name="arrays",
                run=lambda _: self._arrays(),
                does="arrays and fields by name",
                more="""\
One that its engine took along is marked as lost. One that was put back then
says from when its contents were, before the loss, until it is filled anew.""",
            ),
            Entry(
                name="fetch",
                run=self._fetch,
                does="numbers of an array, shown or saved",
                given="NAME [SLICE] [FILE]",
                more="""\
:fetch x              all of x
:fetch x 2:4          what x[2:4] is
:fetch v 0:2,1        of vectors: number 1 of the first two
:fetch x :,0 c.npy    column 0, saved as NumPy saves it""",
                words=(Given.ARRAY, Given.FILE),
            ),
        )

    def _arrays(self) -> None:
        rows: list[tuple[str, ...]] = [
            ("name", "kind", "dtype", "shape", "size", "place", "made by", "last used", "put back")
        ]
        named = set()
        description = self._context.gpu.describe()
        back = {one.target: as_of_text(one) for one in description.as_of}
        held = description.arrays
        ids = {holding.handle.id for holding in held}
        use = {holding.handle.id: _use(holding) for holding in held}
        units = {holding.unit: _use(holding) for holding in description.units}
        for name, array in self._context.evaluator.names.arrays():
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
        self._context.show(
            table(rows) if len(rows) > 1 else "There is no array: x = ti.ndarray(ti.f32, shape=10) makes one."
        )

    def _fetch(self, rest: str) -> None:
        name, _, after = rest.partition(" ")
        if not name:
            raise CommandError("say which array: :fetch NAME [SLICE] [FILE.npy]")
        array = self._context.array(name)
        words = after.split()
        path = Path(words.pop()).expanduser() if words and words[-1].endswith(".npy") else None
        text = "".join(words)
        part = np.asarray(array[read_slice(text)] if text else array.to_numpy())
        if path is None:
            self._context.show(preview(part))
            return
        try:
            np.save(path, part)
        except OSError as error:
            raise CommandError(f"{path} cannot be written: {error.strerror or error}") from None
        self._context.show(f"{path}: {name_of(part.dtype)} {part.shape}, {size_text(part.nbytes)}")


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
