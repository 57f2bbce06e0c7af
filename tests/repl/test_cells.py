"""Text into cells and statements."""

from __future__ import annotations

import pytest

from tiremote.repl.cells import Cell, Command, is_complete, read_cells, read_command


@pytest.mark.parametrize(
    ("text", "complete"),
    [
        ("x = 1", True),
        (":help", True),
        ("", True),
        ("@ti.kernel", False),
        ("@ti.kernel\n", False),
        ("@ti.kernel\ndef k():", False),
        ("@ti.kernel\ndef k():\n    pass", False),
        ("@ti.kernel\ndef k():\n    pass\n    ", True),
        ("for i in x:\n    pass\nprint(1)", True),
        ("if 1: pass", True),
        ("x = (", False),
        ("x = (1,\n", False),
        ("s = '''\n\n", False),
        ("s = '''\n'''", True),
        ("1 +* 2", True),
        ("s = 'open", True),
        ("x = )", True),
        ("%%worker", False),
        ("%%worker\nx = 1", False),
        ("%%worker\nx = (1,\n", False),
        ("%%worker\nx = 1\n", True),
    ],
)
def test_enter_runs_what_is_complete_or_wrong_and_goes_on_otherwise(text: str, complete: bool) -> None:
    """Only text that more lines could complete is continued; a mistake runs at once, to be shown."""
    assert is_complete(text) is complete


def test_a_cell_is_split_into_statements_that_stand_at_their_own_lines() -> None:
    """Decorators belong to their definition, and each source is padded so that lines count as the user sees them."""
    statements = Cell("a = 1\n\n@ti.kernel\ndef k():\n    pass\n", 10).statements()
    assert [(each.first_line, each.text) for each in statements] == [
        (10, "a = 1"),
        (12, "@ti.kernel\ndef k():\n    pass"),
    ]
    assert statements[1].source.splitlines()[11:] == ["@ti.kernel", "def k():", "    pass"]
    assert statements[1].node.lineno == 13


def test_statements_that_share_a_line_are_told_apart() -> None:
    """A semicolon separates statements, also where one of them goes on to the next line."""
    statements = Cell("x = 1; y = (2,\n3)").statements()
    assert [(each.first_line, each.text) for each in statements] == [(1, "x = 1"), (1, "y = (2,\n3)")]


def test_a_cell_that_is_indented_as_a_whole_is_taken() -> None:
    """Code copied from inside a block runs without the user taking its indentation away."""
    assert [each.text for each in Cell("    x = 1\n    y = 2").statements()] == ["x = 1", "y = 2"]


def test_the_line_of_a_syntax_error_is_counted_as_the_user_counts() -> None:
    """A mistake in a later cell has its line in the whole text, not in the cell."""
    with pytest.raises(SyntaxError) as caught:
        Cell("x = 1\ny = )", 5).statements()
    assert caught.value.lineno == 6


@pytest.mark.parametrize("text", ["x = 1\0", "(" * 5000 + ")" * 5000])
def test_text_that_no_parser_takes_is_a_syntax_error(text: str) -> None:
    """Null characters and too deep nesting are reported like any other mistake, not as an error of ours."""
    with pytest.raises(SyntaxError):
        Cell(text).statements()


def test_a_command_stands_between_cells_that_keep_their_lines() -> None:
    """A command splits a script in two, and the lines of the code behind it are counted from the script's start."""
    assert list(read_cells("x = 1\n:fetch x 2:4\n\ny = 2\n")) == [
        Cell("x = 1", 1),
        Command("fetch", "x 2:4", 2),
        Cell("\ny = 2", 3),
    ]


def test_a_colon_inside_a_string_or_bracket_is_no_command() -> None:
    """A line that begins with a colon is Python where a statement is still open."""
    text = "s = '''\n:help\n'''\nx = y[\n:a]"
    assert list(read_cells(text)) == [Cell(text, 1)]


def test_a_command_has_a_name_and_a_rest() -> None:
    """Blanks around a command and between its name and arguments do not matter."""
    assert read_command("  :fetch  x 2:4 ") == Command("fetch", "x 2:4")
    assert read_command(":quit") == Command("quit", "")


def test_a_cell_for_the_worker_goes_on_to_the_next_one() -> None:
    """In a file, %%worker begins a cell for the worker and %% one for the laptop; commands end both."""
    cells = list(read_cells("a = 1\n%%worker\nx = 1\n\ny = 2\n:kernels\n%%\nb = 1\n"))
    assert cells == [
        Cell("a = 1", 1),
        Cell("%%worker\nx = 1\n\ny = 2", 2),
        Command("kernels", "", 6),
        Cell("%%\nb = 1", 7),
    ]
