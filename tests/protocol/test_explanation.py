"""`tiremote.protocol.explanation`."""

from __future__ import annotations

from dataclasses import replace

from tiremote.protocol.errors import AsOf, SourceFrame
from tiremote.protocol.explanation import KINDS, CrashExplanation

FRAME = SourceFrame(unit="sim", version=2, function="step", line=5, column=9, end_column=13, text="        x[i] = 1")
FOUND = CrashExplanation(
    kind="out of bounds",
    message="index (10) is out of bounds: the shape is (10)",
    request=7,
    target="run step",
    crash="the engine died of SIGSEGV",
    frames=(FRAME,),
    index=(10,),
    bounds=(10,),
    as_of=(AsOf(name="x", target="s.1.1", request=3, op="put", seconds=1.5),),
    anew=("y", "sim.z"),
)


def test_an_index_reads_as_its_expression_and_place() -> None:
    """First what is wrong, then where, then what it was run again with."""
    assert (FOUND.line, FOUND.expression) == (5, "x[i]")
    assert str(FOUND).splitlines() == [
        "x[i]: index (10) is out of bounds: the shape is (10)",
        '  in "sim" version 2, line 5, in step',
        "    x[i] = 1",
        "    ^^^^",
        "of run step (request 7), with which the engine died of SIGSEGV",
        "  run again with x (as of a put 1.5 s before)",
        "  with zeros, or as loaded, for want of a copy: y, sim.z",
    ]


def test_anything_else_reads_as_its_kind() -> None:
    """Without a place where none is known."""
    told = replace(FOUND, kind="crashed again", message="SIGSEGV", frames=(), index=None, as_of=(), anew=())
    assert (told.line, told.expression) == (None, "")
    assert str(told).splitlines()[0] == "crashed again: SIGSEGV"
    whole_line = replace(told, frames=(replace(FRAME, column=0, end_column=0),), missing=("model",))
    assert (whole_line.line, whole_line.expression) == (5, "")
    assert str(whole_line).splitlines()[-1] == "  without model"


def test_the_kinds_are_told_apart() -> None:
    """Those that a worker of this version says."""
    assert FOUND.kind in KINDS
    assert len(set(KINDS)) == len(KINDS)
