"""Scripts: exit status, and what goes where."""

from __future__ import annotations

import pytest

from recording_session import RecordingSession
from tiremote.repl.script import run_script


def run(text: str) -> int:
    return run_script(RecordingSession(), text)  # type: ignore[arg-type]


def test_a_script_prints_what_it_prints_and_its_last_value(capsys: pytest.CaptureFixture[str]) -> None:
    """Of bare expressions only the last shows its value, on stdout, and stderr stays empty."""
    assert run("print('a')\n1\n2\n") == 0
    assert capsys.readouterr() == ("a\n2\n", "")


def test_receipts_of_a_script_are_not_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """Loading a kernel from a script is silent, so that its output is the program's own."""
    assert run("@ti.kernel\ndef k(): pass\n") == 0
    assert capsys.readouterr() == ("", "")


def test_a_script_ends_at_its_first_error_with_the_line_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    """Output up to the error stays on stdout, and lines are counted across commands."""
    assert run("print('a')\n:kernels\n\n1 / 0\nprint('b')\n") == 1
    out, err = capsys.readouterr()
    assert out == "a\nNo kernel is loaded: type one.\n"
    assert err == "ZeroDivisionError: division by zero\n  line 4\n    1 / 0\n    ^^^^^\n"


def test_nothing_of_a_script_with_a_syntax_error_runs(capsys: pytest.CaptureFixture[str]) -> None:
    """As with Python, a mistake further down keeps the first line from running."""
    assert run("print('a')\nx = )\n") == 1
    assert capsys.readouterr() == ("", "SyntaxError: unmatched ')'\n  line 2\n    x = )\n        ^\n")


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("", 0),
        (":quit\n1/0", 0),
        ("exit()", 0),
        ("raise SystemExit(3)", 3),
        ("raise KeyboardInterrupt", 130),
        (":nothing", 1),
    ],
)
def test_the_exit_status_is_that_of_a_program(text: str, status: int) -> None:
    """Shells and build tools see success, failure, exit codes and interrupts as of any Python script."""
    assert run(text) == status


def test_a_program_that_ends_with_a_text_says_it_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    """SystemExit with a text prints that and exits with 1, as in Python."""
    assert run("raise SystemExit('so')") == 1
    assert capsys.readouterr() == ("", "so\n")
