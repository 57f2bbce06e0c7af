"""Keys in, cells out, through prompt_toolkit's own pipe."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.input import PipeInput, create_pipe_input
from prompt_toolkit.output import DummyOutput

from recording_session import RecordingSession
from tiremote.repl.prompt import make_prompt, next_indent, read_and_run
from tiremote.repl.shell import Shell


class Typist:
    """Types keys at a prompt over a recording session until they are used up."""

    def __init__(self, keys: PipeInput) -> None:
        self.gpu = RecordingSession()
        self.said: list[str] = []
        say = self.said.append
        self.shell = Shell(self.gpu, write=say, complain=say, note=say)  # type: ignore[arg-type]
        self._keys = keys

    def type(self, keys: str) -> list[str]:
        self._keys.send_text(keys + "\x04")
        read_and_run(self.shell, make_prompt(InMemoryHistory(), input=self._keys, output=DummyOutput()))
        return self.said


@pytest.fixture
def typist() -> Iterator[Typist]:
    with create_pipe_input() as keys:
        yield Typist(keys)


def test_enter_runs_a_complete_line(typist: Typist) -> None:
    """A single complete statement needs no empty line after it."""
    assert typist.type("1 + 1\r") == ["2"]


def test_a_kernel_is_indented_as_it_is_typed_and_ends_with_an_empty_line(typist: Typist) -> None:
    """Nobody has to type blanks: each colon indents the next line, and an empty line runs the kernel."""
    typist.type("@ti.kernel\rdef k(x: ti.types.ndarray()):\rfor i in x:\rx[i] = 1\r\r")
    assert typist.gpu.loads == [("k", "@ti.kernel\ndef k(x: ti.types.ndarray()):\n    for i in x:\n        x[i] = 1")]


def test_a_pasted_cell_keeps_its_own_indentation(typist: Typist) -> None:
    """A bracketed paste is taken as it is, with empty lines in it, and runs as a whole."""
    typist.type("\x1b[200~@ti.kernel\ndef k():\n    pass\n\nk()\x1b[201~\r")
    assert typist.gpu.calls == [("k", "k", ())]


def test_lines_typed_with_their_own_indentation_keep_it(typist: Typist) -> None:
    """As a terminal without bracketed paste types what is pasted."""
    typist.type("@ti.kernel\rdef k():\r    for i in range(3):\r        pass\r\rk()\r")
    assert typist.gpu.loads == [("k", "@ti.kernel\ndef k():\n    for i in range(3):\n        pass")]


def test_what_is_pasted_into_an_indented_line_keeps_its_indentation(typist: Typist) -> None:
    """The line that was begun for it is not counted twice."""
    typist.type("if True:\r\x1b[200~    a = 1\n    b = 2\x1b[201~\r\r")
    values = typist.shell.evaluator.names.values
    assert (values["a"], values["b"]) == (1, 2)


def test_a_blank_within_a_line_is_a_blank(typist: Typist) -> None:
    """Only the first one on a new line is another's indentation."""
    typist.type("if True:\ra = 1 + 1\r\r")
    assert typist.shell.evaluator.names.values["a"] == 2


def test_backspace_takes_back_one_indentation(typist: Typist) -> None:
    """One key is enough to leave a block, for an else or the like."""
    typist.type("if True:\ra = 1\r\x7felse:\ra = 2\r\r")
    assert typist.shell.evaluator.names.values["a"] == 1


def test_ctrl_c_at_the_prompt_clears_the_line(typist: Typist) -> None:
    """Ctrl-C drops what was being typed, and names from before stay."""
    assert typist.type("a = 1\rb = (\x03a\r") == ["1"]


def test_ctrl_d_and_quit_end_the_prompt(typist: Typist) -> None:
    """Both return to the shell, and nothing typed after :quit is run."""
    assert typist.type(":quit\r1\r") == []


def test_an_error_leaves_the_prompt(typist: Typist) -> None:
    """An exception is shown, and the next line is run as usual."""
    said = typist.type("1 / 0\r2\r")
    assert said[0].startswith("ZeroDivisionError: division by zero")
    assert said[1] == "2"


def test_ctrl_c_in_a_kernel_returns_to_the_prompt(typist: Typist) -> None:
    """An interrupted call is told in a word, and the next line is run as usual."""
    typist.gpu.call_failures["k"] = KeyboardInterrupt()
    said = typist.type("@ti.kernel\rdef k(): pass\r\rk()\r3\r")
    assert said[-2:] == ["Interrupted", "3"]


@pytest.mark.parametrize(
    ("text", "indent"),
    [
        ("x = 1", ""),
        ("def f():", "    "),
        ("def f():  # why", "    "),
        ("    for i in x:", "        "),
        ("    x = 1", "    "),
        ("    return x", ""),
        ("x = '#'", ""),
    ],
)
def test_the_next_line_is_indented_as_python_is_written(text: str, indent: str) -> None:
    """A colon indents, also before a comment; return takes one level back; a hash in a string is no comment."""
    assert next_indent(text) == indent
