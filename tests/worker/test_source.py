"""How a text is read: what is taken, and where its errors are."""

from __future__ import annotations

import linecache
import traceback

import pytest

from tiremote.protocol.errors import CompileError
from tiremote.worker.engine.source import digest_of, read_source, source_of, withdraw


def failure(text: object) -> CompileError:
    with pytest.raises(CompileError) as caught:
        read_source(text, "unit", 3)
    return caught.value


def test_syntax_error_has_line_column_and_text() -> None:
    """The frame of a syntax error is in the user's text, with the caret where Python puts it."""
    frame = failure("x = 1\ny = = 2\n").frames[0]
    assert (frame.unit, frame.version, frame.line, frame.column, frame.text) == ("unit", 3, 2, 5, "y = = 2")


def test_syntax_error_in_an_indented_text_keeps_the_columns() -> None:
    """Text indented as a whole is reported in its own columns and lines."""
    frame = failure("\n    x = 1\n    y = = 2\n").frames[0]
    assert (frame.line, frame.column) == (3, 9)


def test_a_nul_is_refused_with_its_line() -> None:
    """Python's own message does not tell where the NUL is."""
    assert "line 2" in failure("x = 1\ny = '\0'").message


def test_the_text_outlives_checkcache() -> None:
    """Tracebacks call linecache.checkcache, which drops what is not on disk unless it has no time."""
    source = read_source("x = 1\nraise ValueError('seven')\n", "unit", 1)
    source.publish()
    linecache.checkcache()
    assert linecache.getline(source.file, 2) == "raise ValueError('seven')\n"
    with pytest.raises(ValueError, match="seven") as caught:
        exec(source.code, {})
    assert "raise ValueError" in "".join(traceback.format_exception(caught.value))
    withdraw(source.file)
    assert source_of(source.file) is None
    assert source.file not in linecache.cache


def test_every_reading_has_a_file_name_of_its_own() -> None:
    """Taichi reads by file name: two versions must never share one, not even with equal text."""
    first, second = (read_source("x = 1", "unit", 1) for _ in range(2))
    assert first.file != second.file
    assert first.digest == second.digest


def test_line_ends_do_not_make_another_text() -> None:
    """The digest is the same for the same program in another file format."""
    assert digest_of("\ufeffx = 1\r\ny = 2") == digest_of("x = 1\ny = 2\n")


def test_warnings_of_the_compiler_are_told_with_their_line() -> None:
    """``is`` with a literal warns; the receipt tells it, and nothing is printed."""
    source = read_source("x = 1\ny = x is 1\n", "unit", 1)
    assert len(source.warnings) == 1
    assert source.warnings[0].startswith("line 2: ")


def test_our_own_future_import_does_not_reach_the_text() -> None:
    """This package uses postponed annotations; the text it compiles must not."""
    namespace: dict[str, object] = {}
    exec(read_source("def f(x: int): pass\n", "unit", 1).code, namespace)
    assert namespace["f"].__annotations__ == {"x": int}  # type: ignore[attr-defined]


def test_names_that_are_used_and_not_made() -> None:
    """Locals, class bodies and names bound anywhere at module level are told apart from what is free."""
    names = read_source(
        "import math as m\nfrom os import path\n"
        "class A:\n    size = 1\n    twice = size * factor\n"
        "def f(a, *, b=later):\n    c = a\n    global made\n    made = [q for q in c if q > limit]\n"
        "    return len(c) + m.pi\n",
        "unit",
        1,
    ).names
    assert names.free == {"factor", "later", "limit", "len", "__name__"}
    assert names.bound == {"m", "path", "A", "f", "made"}
    assert names.assigned_later == {"made"}
