"""`tiremote.protocol.errors` and `tiremote.protocol.error_wire`."""

from __future__ import annotations

import copy
import pickle
import re

import pytest

from tiremote.protocol import errors
from tiremote.protocol.codec import decode_reply, encode, error_of, failure
from tiremote.protocol.error_wire import BY_CODE, error_from_wire
from tiremote.protocol.errors import (
    AsOf,
    CompileError,
    EngineCrashed,
    KernelArgumentError,
    KernelRuntimeError,
    SourceFrame,
    TiremoteError,
    UnknownName,
    shown,
)

FRAME = SourceFrame(
    unit="sim", version=3, function="step", line=7, column=5, end_column=9, text="    y = spam(1)"
)  # fmt: skip
DATA = {
    "supported": (1, 2),
    "size": 10,
    "limit": 5,
    "frames": (FRAME,),
    "parameter": "x",
    "unit": "sim",
    "type": "ValueError",
    "request": "r-1",
    "restored": ("sim",),
    "as_of": (
        AsOf(name="z", target="s.1.1", request=7, op="put", seconds=0.5),
        AsOf(name="w", target="w", request=None, op="snapshot", seconds=2.0),
    ),
    "coming": ("v",),
    "lost": ("x", "y"),
    "generation": 3,
    "signal": "SIGSEGV",
    "explainable": True,
    "deadline": 2.5,
    "phase": "compile",
    "chunks": (0, 7),
    "requested": 1 << 40,
    "available": 12,
    "name": "stpe",
    "known": ("step", "reset"),
    "handle": "s.1.4",
}


def made(cls: type[TiremoteError]) -> TiremoteError:
    return cls("what came; what to do", **{name: DATA[name] for name in cls.carries})


def over_the_wire(error: TiremoteError) -> TiremoteError:
    reply = decode_reply(encode(failure("r-1", error)))
    return error_of(reply)  # type: ignore[arg-type]


@pytest.mark.parametrize("code", BY_CODE)
def test_every_error_crosses_the_wire_with_its_type_and_data(code: str) -> None:
    """The client raises the class that the worker raised, with the same message and attributes."""
    error = made(BY_CODE[code])
    arrived = over_the_wire(error)
    assert type(arrived) is type(error)
    assert arrived.message == error.message
    assert arrived.data() == error.data()
    assert str(arrived) == str(error)


@pytest.mark.parametrize("code", BY_CODE)
def test_every_error_crosses_the_wire_without_data(code: str) -> None:
    """An error whose details are not known arrives with the same empty details."""
    error = BY_CODE[code]("something")
    assert over_the_wire(error).data() == error.data()


@pytest.mark.parametrize("code", BY_CODE)
def test_every_error_can_be_copied_and_pickled(code: str) -> None:
    """Futures and pools move errors between threads and processes: type, message and data stay."""
    error = made(BY_CODE[code])
    for again in (copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert (type(again), again.message, again.data()) == (type(error), error.message, error.data())


def test_every_public_error_has_a_code_of_its_own_and_is_in_the_tree_drawn() -> None:
    """The docstring draws the whole tree, and no two classes share a code."""
    public = {
        one.__name__
        for one in vars(errors).values()
        if isinstance(one, type) and issubclass(one, TiremoteError) and not one.__name__.startswith("_")
    }
    assert {cls.__name__ for cls in BY_CODE.values()} == public
    assert set(re.findall(r"── (\w+)", errors.__doc__ or "")) | {"TiremoteError"} == public


def test_an_unknown_code_becomes_the_root_class() -> None:
    """A code of a later version arrives as TiremoteError, its message kept."""
    error = error_from_wire("of-the-future", "new trouble", {"frames": []})
    assert type(error) is TiremoteError
    assert error.message == "new trouble"


@pytest.mark.parametrize(
    "data",
    [
        {"frames": 3},
        {"frames": [{}]},
        {"frames": ["x"]},
        {"frames": [{"line": "x"}]},
        {"frames": {"unit": 1}},
        {"frames": None},
        {"parameter": None, "of-the-future": 1},
    ],
)
def test_malformed_data_of_an_error_never_hides_the_error(data: dict[str, object]) -> None:
    """What cannot be read of an error's data is left out; the error itself arrives."""
    error = error_from_wire("argument", "bad argument", data)
    assert isinstance(error, KernelArgumentError)
    assert str(error) == "bad argument"


def test_a_frame_with_more_than_we_know_is_read() -> None:
    """A later worker may say more about a frame; what this version knows of it is kept."""
    wire = failure(1, CompileError("no", frames=(FRAME,))).data
    wire["frames"][0]["of-the-future"] = True
    arrived = error_from_wire("compile", "no", wire)
    assert isinstance(arrived, CompileError)
    assert arrived.frames == (FRAME,)


def test_a_message_that_utf8_does_not_hold_still_arrives() -> None:
    """A user's exception may quote undecodable bytes; they arrive escaped instead of losing the reply."""
    assert over_the_wire(KernelRuntimeError("no file \udcff", type="OSError")).message == r"no file \udcff"


def test_data_that_utf8_does_not_hold_still_arrives() -> None:
    """Likewise the names that an error carries, in a tuple too."""
    arrived = over_the_wire(UnknownName("no such name", name="\udcff", known=("a", "\udcfe")))
    assert isinstance(arrived, UnknownName)
    assert (arrived.name, arrived.known) == (r"\udcff", ("a", r"\udcfe"))


def test_an_error_takes_no_data_that_it_does_not_carry() -> None:
    """A misspelt attribute is a TypeError where the error is made."""
    with pytest.raises(TypeError, match="sinal"):
        EngineCrashed("died", sinal="SIGSEGV")


def test_line_and_column_are_those_of_the_innermost_frame() -> None:
    """The place of an error is where it happened, not where the call chain began; column 0 is none."""
    outer = SourceFrame(unit="sim", version=3, function="run", line=2, column=1, end_column=4, text="step()")
    assert (CompileError("no", frames=(outer, FRAME)).line, CompileError("no", frames=(outer, FRAME)).column) == (7, 5)
    whole = SourceFrame(unit="sim", version=3, function="run", line=2, column=0, end_column=0, text="step()")
    assert CompileError("no", frames=(whole,)).column is None
    assert CompileError("no").line is None


@pytest.mark.parametrize(
    ("text", "column", "end_column", "drawn", "carets"),
    [
        ("y = spam(1)", 5, 9, "y = spam(1)", "    ^^^^"),
        ("    y = spam(1)", 9, 13, "y = spam(1)", "    ^^^^"),
        ("\ty = spam(1)", 6, 10, "y = spam(1)", "    ^^^^"),
        ("\t\ty =\tspam(1)", 7, 11, "y = spam(1)", "    ^^^^"),
        ("  \ty = 1", 4, 5, "y = 1", "^"),
        ("y = spam(1)\r\n", 5, 9, "y = spam(1)", "    ^^^^"),
        ("y = 1", 5, 5, "y = 1", "    ^"),
        ("y = 1", 5, 0, "y = 1", "    ^"),
        ("y = (", 6, 7, "y = (", "     ^"),
        ("    y = 1", 1, 3, "y = 1", "^"),
    ],
)
def test_carets_stand_under_what_is_meant(text: str, column: int, end_column: int, drawn: str, carets: str) -> None:
    """Carets mark the columns of the raw line, whatever tabs and a cut indent moved."""
    frame = SourceFrame(unit="u", version=1, function="f", line=1, column=column, end_column=end_column, text=text)
    assert str(frame).split("\n") == ['  in "u" version 1, line 1, in f', f"    {drawn}", f"    {carets}"]


def test_a_frame_without_a_column_has_no_caret() -> None:
    """Column 0 means the whole line: it is shown, and nothing in it is marked."""
    frame = SourceFrame(unit="u", version=1, function="", line=4, column=0, end_column=0, text="  x[i] = y")
    assert str(frame).split("\n") == ['  in "u" version 1, line 4', "    x[i] = y"]


def test_a_lost_engine_says_what_is_there_again_and_what_is_not() -> None:
    """The text of a crash names the units reloaded and the arrays lost, the first few of many."""
    error = EngineCrashed("the engine died", restored=("sim",), lost=tuple(f"a{n}" for n in range(10)))
    assert str(error) == "the engine died; reloaded: sim; lost: a0, a1, a2, a3, a4, a5, a6, a7 and 2 more"


def test_an_unknown_name_is_a_lookup_error_too() -> None:
    """Code that expects Python's own exception for a missing name finds it, with a readable text."""
    with pytest.raises(LookupError) as caught:
        raise UnknownName("no kernel stpe", name="stpe", known=("step",))
    assert str(caught.value) == "no kernel stpe"


@pytest.mark.parametrize("value", ["x" * 1000, [[[[[[1]]]]]] * 100, {n: n for n in range(1000)}, b"x" * 1000, 1 << 64])
def test_a_value_in_a_message_is_short(value: object) -> None:
    """Whatever came, the message that quotes it stays one short line that begins with its type."""
    assert shown(value).startswith(type(value).__name__)
    assert len(shown(value)) < 80
