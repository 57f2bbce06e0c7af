"""The feature table: its groups and rows in order, its runtimes, and what a runtime does not have.

A test of tests/features says with `feature` which row it is of. It runs once on each runtime; where the row is declared
`lacking` on a runtime, the tests with ``lacking=True`` run there instead, and assert the refusal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

import pytest

#: Another runtime is one more name here, and whatever its rows lack.
RUNTIMES = ("taichi",)

#: What a test asserts of a row: that it works, that a wrong value is refused, or that what is not there is refused.
Kind = Literal["works", "wrong", "lacking"]


@dataclass(frozen=True, slots=True)
class Row:
    """A line's first cell, and why a runtime does not have it."""

    name: str
    lacking: Mapping[str, str] = field(default_factory=dict)


def lacking(name: str, **reasons: str) -> Row:
    """A row that some runtimes do not have, with the reason of each."""
    return Row(name, reasons)


def rows(*names: str | Row) -> tuple[Row, ...]:
    return tuple(name if isinstance(name, Row) else Row(name) for name in names)


GROUPS: Mapping[str, tuple[Row, ...]] = {
    "scalars": rows("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f16", "f32", "f64", "bool"),
    "ndarrays": (),
    "compound": (),
    "templates": (),
    "other": (),
    "returns": (),
    "call shapes": (),
    "classes": (),
    "autodiff": rows(
        "`kernel.grad`",
        "`needs_grad` fields",
        "`needs_grad` ndarrays",
        "`ti.ad.Tape` from the client",
        "`ti.ad.Tape` in source",
        "`validation`",
        "`grad_check`",
        "forward mode from the client",
        "forward mode in source",
        "`ti.ad.grad_replaced`, `grad_for`, `no_grad`",
        "`clear_all_gradients`",
    ),
    "fields": (),
    "introspection": (),
}


def every_row() -> Iterator[tuple[str, Row]]:
    """Group and row, in the table's order."""
    for group, members in GROUPS.items():
        for row in members:
            yield group, row


def row_of(group: str, name: str) -> Row:
    """A declared row. Raises LookupError, so that a misspelt one is no test of nothing."""
    for row in GROUPS[group]:
        if row.name == name:
            return row
    raise LookupError(f"tests/features/rows.py declares no row {name!r} in {group!r}")


def feature(group: str, name: str, *, wrong: bool = False, lacking: bool = False) -> pytest.MarkDecorator:
    """Marks a test as one of a row: that it works, that a ``wrong`` value is refused, or that it is ``lacking``."""
    row = row_of(group, name)
    if lacking and not row.lacking:
        raise LookupError(f"no runtime is declared to lack {group}: {name}")
    kind: Kind = "lacking" if lacking else "wrong" if wrong else "works"
    return pytest.mark.feature(group, name, kind)
