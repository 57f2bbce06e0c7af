"""Errors and values, to be read."""

from __future__ import annotations

from typing import Any

import pytest

from recording_session import RecordingSession
from tiremote.protocol.errors import (
    AsOf,
    CompileError,
    EngineCrashed,
    Interrupted,
    KernelArgumentError,
    SourceFrame,
    TiremoteError,
    UnknownName,
    WorkerUnreachable,
)
from tiremote.repl.cells import Cell
from tiremote.repl.evaluate import Evaluator
from tiremote.repl.render import Style, error_text, size_text, table, wrapped

FRAME = SourceFrame(unit="k", version=2, function="k", line=3, column=5, end_column=8, text="    abc = 1")


def error_of(text: str, first_line: int = 1, **failures: BaseException) -> str:
    gpu = RecordingSession()
    gpu.call_failures.update(failures)
    evaluator = Evaluator(gpu, show=lambda _: None, display=lambda _: None)  # type: ignore[arg-type]
    with pytest.raises(BaseException) as caught:  # noqa: PT011 - whatever comes is shown
        evaluator.run(Cell(text, first_line))
    return error_text(caught.value)


def test_an_error_of_the_worker_points_into_the_users_text() -> None:
    """Line, function and text are shown with carets below, with no indentation but the margin."""
    assert error_text(CompileError("no", frames=(FRAME,))) == "CompileError: no\n  line 3, in k\n    abc = 1\n    ^^^"


def test_an_error_of_a_call_points_to_the_call_first() -> None:
    """The calling line comes above the kernel's, and its carets fit under text that is not ASCII."""
    error = KernelArgumentError("b takes f32", frames=(FRAME,))
    text = "@ti.kernel\ndef k(): pass\n\nk('ä', 1)"
    assert error_of(text, k=error).split("\n") == [
        "KernelArgumentError: b takes f32",
        "  line 4",
        "    k('ä', 1)",
        "    ^^^^^^^^^",
        "  line 3, in k",
        "    abc = 1",
        "    ^^^",
    ]


def test_an_error_of_python_shows_the_users_frames_only() -> None:
    """Frames inside libraries are left out, and lines are counted as the user counts them."""
    text = error_of("import json\ndef f(a):\n    return json.loads(a)\n\nf('{')", 10)
    assert text.startswith("json.decoder.JSONDecodeError: Expecting property name")
    assert "line 14\n    f('{')\n" in text
    assert "line 12, in f\n    return json.loads(a)\n" in text
    assert "decoder.py" not in text


def test_a_syntax_error_has_a_caret_under_its_place() -> None:
    """The caret fits under the shown text, from which the indentation is taken away."""
    assert error_of("x = 1\n  y = )") == "IndentationError: unexpected indent\n  line 2\n    y = )\n    ^"
    assert error_of("1 +* 2", 7) == "SyntaxError: invalid syntax\n  line 7\n    1 +* 2\n       ^"


def test_an_endless_recursion_is_cut() -> None:
    """A thousand equal frames do not flood the screen."""
    assert len(error_of("def f(): f()\nf()").splitlines()) < 50


def test_an_engine_lost_tells_what_is_there_again_and_what_is_not() -> None:
    """After a crash the user reads which units were reloaded, from when each array's contents are, and what is lost."""
    error = EngineCrashed(
        "the engine died",
        signal="SIGSEGV",
        restored=("k", "far"),
        as_of=(
            AsOf(name="y", target="s.1.1", request=3, op="put", seconds=3.25),
            AsOf(name="w", target="s.1.2", request=4, op="put", seconds=3.2504),
            AsOf(name="z", target="k.z", request=None, op="snapshot", seconds=61.0),
        ),
        coming=("far", "z"),
        lost=("x",),
    )
    assert error_text(error).split("\n") == [
        "EngineCrashed: the engine died",
        "  loaded again: k",
        "  put back as of 3.25 s before (put): y, w",
        "  still on their way: far, z",
        "  lost: x",
    ]


def test_of_many_arrays_only_some_are_named() -> None:
    """The rest is counted, and of many moments only the last ones have lines of their own."""
    many = tuple(
        AsOf(name=f"y{number}", target=f"s.1.{number}", request=number, op="put", seconds=10.0 + number)
        for number in range(9)
    )
    *_, sixth, earlier = error_text(EngineCrashed("the engine died", as_of=many)).split("\n")
    assert (sixth, earlier) == ("  put back as of 15 s before (put): y5", "  put back as of earlier: y6, y7, y8")
    error = EngineCrashed("the engine died", lost=tuple(f"x{number}" for number in range(30)))
    assert error_text(error).endswith("x10, x11 and 18 more")


def test_ctrl_c_tells_what_was_stopped_on_the_worker() -> None:
    """An interrupt that reached a kernel also says what it was and what is lost; a plain one is one word."""
    interrupt = KeyboardInterrupt()
    assert error_text(interrupt) == "Interrupted"
    interrupt.__cause__ = Interrupted("k was interrupted", lost=("x",))
    assert error_text(interrupt) == "Interrupted: k was interrupted\n  lost: x"


@pytest.mark.parametrize("error", [WorkerUnreachable("nothing is heard"), UnknownName("no session", name="token")])
def test_a_worker_that_is_gone_leaves_the_prompt_and_says_how_to_go_on(error: TiremoteError) -> None:
    """While it is away, and when it came back without the session."""
    assert "The prompt stays" in error_text(error)
    assert ":reconnect" in error_text(error)


def test_colour_is_there_only_when_asked_for() -> None:
    """Errors hold no escape sequences by default, so that files and pipes stay clean."""
    error = CompileError("no", frames=(FRAME,))
    assert "\x1b[31m" in error_text(error, Style(colour=True))
    assert "\x1b" not in error_text(error)


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 bytes"), (1023, "1023 bytes"), (1536, "1.5 KiB"), (3 << 30, "3.0 GiB"), (5 << 40, "5.0 TiB")],
)
def test_sizes_are_readable(size: int, text: str) -> None:
    """Bytes are given in the unit that keeps the number short."""
    assert size_text(size) == text


def test_a_table_is_as_wide_as_what_is_in_it() -> None:
    """Columns are aligned, and no line ends with blanks."""
    rows: list[tuple[Any, ...]] = [("a", "bb"), ("ccc", "d")]
    assert table(rows) == "a    bb\nccc  d"


def test_long_lines_are_cut_at_blanks_and_never_in_a_number() -> None:
    """What goes on is indented further; a line that fits stays as it is."""
    text = "short\n  one 12345678 two  1234567890 three"
    assert wrapped(text, 22) == "short\n  one 12345678 two\n      1234567890 three"
    assert wrapped("x" * 50, 22) == "x" * 50
