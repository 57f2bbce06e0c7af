"""The feature table: its groups and rows in order, its runtimes, and what a runtime does not have.

A test of tests/features says with `feature` which row it is of. It runs once on each runtime; where the row is declared
`lacking` on a runtime, the tests with ``lacking=True`` run there instead, and assert the refusal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

import pytest

from tiremote.worker import runtimes

#: Another runtime is there as soon as the worker knows it.
RUNTIMES = tuple(runtimes.RUNTIMES)

#: What a test asserts of a row: that it works, that a wrong value is refused, or that what is not there is refused.
Kind = Literal["works", "wrong", "lacking"]


@dataclass(frozen=True, slots=True)
class Row:
    """A line's first cell, and why a runtime does not have it. ``refused``: it is a mistake, which no runtime takes."""

    name: str
    lacking: Mapping[str, str] = field(default_factory=dict)
    refused: bool = False

    def kinds(self, runtime: str) -> tuple[Kind, ...]:
        """The kinds of tests that it needs on a runtime."""
        if runtime in self.lacking:
            return ("lacking",)
        return ("wrong",) if self.refused else ("works", "wrong")


def lacking(name: str, **reasons: str) -> Row:
    """A row that some runtimes do not have, with the reason of each."""
    return Row(name, reasons)


def refused(name: str) -> Row:
    """A row for a mistake that is told apart from others."""
    return Row(name, refused=True)


def rows(*names: str | Row) -> tuple[Row, ...]:
    return tuple(name if isinstance(name, Row) else Row(name) for name in names)


_NO_LOOPS = "only in a session that is opened with `ad_stack_experimental_enabled`"
_GONE = "the runtime has dropped them"
_GRAPHICS = "only a graphics backend has them: on others a clear refusal"
_NO_ARGPACKS = "argpacks are gone: pass a Python dataclass"

GROUPS: Mapping[str, tuple[Row, ...]] = {
    "scalars": rows("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f16", "f32", "f64", "bool"),
    "ndarrays": rows(
        *("0-d to 8-d", "every dtype", "F-ordered", "strided", "empty", "read-only"),
        *("vector elements", "matrix elements", "`dtype=`", "`ndim=`", "`element_dim=`", "`ti.types.ndarray()`"),
        *("`ti.ndarray`", "`Vector.ndarray`", "`Matrix.ndarray`", "torch CPU tensors", "torch CPU tensors with grad"),
        lacking("`Optional[ti.types.ndarray()]`", **dict.fromkeys(("taichi", "gstaichi"), "an array is always there")),
        lacking("elements in SOA", **dict.fromkeys(RUNTIMES, "elements of ndarrays are in AOS order only")),
    ),
    "compound": rows(
        *("vectors", "matrices", "structs", "nested structs", "`ti.dataclass`"),
        *(lacking(name, gstaichi=_NO_ARGPACKS, quadrants=_NO_ARGPACKS) for name in ("ArgPack", "ArgPack of arrays")),
        *(
            lacking(name, taichi="its kernels take argpacks")
            for name in ("dataclasses of arrays", "nested dataclasses")
        ),
    ),
    "templates": rows(
        *("numbers", "tuples", "vectors and matrices", "fields by handle", "struct fields by handle"),
        *("compile-time constants", "`ti.template()`"),
        lacking("`ti.template`", taichi="the annotation is ti.template()"),
    ),
    "other": rows(
        "sparse matrix builders",
        lacking("textures and rw_textures", taichi=_GRAPHICS, gstaichi=_GONE, quadrants=_GONE),
        lacking("`ti.graph`", gstaichi=_GONE, quadrants="`GraphBuilder` is gone: a kernel is made a graph as a whole"),
        *("real functions", "`ti.pyfunc`"),
    ),
    "returns": rows(
        *("signed integers", "unsigned integers", "reals", "bool", "vectors", "matrices", "structs", "nested structs"),
        *("`-> (a, b)`", "`-> tuple[a, b]`"),
    ),
    "call shapes": rows(
        "by position and keyword",
        *map(refused, ("too many", "unexpected", "multiple", "missing", "too many for one launch", "nested kernels")),
        *map(refused, ("no annotation", "wrong annotation", "`*args`", "`**kwargs`", "defaults", "keyword-only")),
    ),
    "classes": rows(
        "construct, several instances",
        "kernels and methods",
        "static and class methods",
        "static kernels",
        "attributes and properties",
        "inheritance",
        "cleaned up when dropped",
    ),
    "autodiff": rows(
        "`kernel.grad`",
        "`needs_grad` fields",
        "`needs_grad` ndarrays",
        lacking("inner loops", gstaichi=_NO_LOOPS, quadrants=_NO_LOOPS),
        "`ti.ad.Tape` from the client",
        "`ti.ad.Tape` in source",
        "`validation`",
        "`grad_check`",
        "forward mode from the client",
        "forward mode in source",
        "`ti.ad.grad_replaced`, `grad_for`, `no_grad`",
        "`clear_all_gradients`",
    ),
    "fields": rows(
        *("dense", "pointer", "dynamic", "bitmasked", "quantised", "`FieldsBuilder`, `destroy`", "SOA and AOS"),
        *("offsets", "matrix fields", "struct fields by member", "struct fields of the client's"),
    ),
    "introspection": rows("kinds, parameters, returns, docstrings", "expected shapes", "captured globals", "AST dump"),
    "programs": rows("nbody", "game_of_life", "mpm88", "mpm99", "stable_fluid", "minimization", "odop_solar"),
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
