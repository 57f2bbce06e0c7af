"""Keys in, cells out, through prompt_toolkit's own pipe."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.input import PipeInput, create_pipe_input
from prompt_toolkit.output import DummyOutput

from recording_session import RecordingSession
from tiremote.protocol.errors import Interrupted
from tiremote.protocol.results import Running, SessionStatus
from tiremote.repl.editing import Aids, make_prompt, next_indent
from tiremote.repl.monitor import Monitor
from tiremote.repl.prompt import Surroundings, offer_restart, read_and_run
from tiremote.repl.shell import Shell


class Typist:
    """Types keys at a prompt over a recording session until they are used up."""

    def __init__(self, keys: PipeInput) -> None:
        self.gpu = RecordingSession()
        self.said: list[str] = []
        say = self.said.append
        self.shell = Shell(self.gpu, write=say, complain=say, note=say)  # type: ignore[arg-type]
        self.keys = keys
        self.aids = Aids()
        self.surroundings: Surroundings | None = None

    def type(self, keys: str) -> list[str]:
        # Ctrl-C drops what is left in the line, where Ctrl-D would delete.
        # From a thread: what is long waits in the pipe until it is read.
        typing = threading.Thread(target=self.keys.send_text, args=(keys + "\x03\x04",))
        typing.start()
        prompt = make_prompt(InMemoryHistory(), input=self.keys, output=DummyOutput(), aids=self.aids)
        read_and_run(self.shell, prompt, self.surroundings)
        typing.join()
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


def test_a_syntax_error_is_kept_in_the_line_and_not_sent(typist: Typist) -> None:
    """Corrected where it stands, it runs."""
    assert typist.type("1 +* 2\r") == []
    # The place of the mistake is where the cursor goes.
    assert typist.type("40 +* 2\r\x1b[3~\r") == ["42"]


def test_an_unclosed_bracket_goes_on_and_an_unclosed_string_is_marked(typist: Typist) -> None:
    """The bracket may be closed on a later line, the string not."""
    assert typist.type("(1,\r2)\r'open\r\x05'\r") == ["(1, 2)", "'open'"]


def test_a_binary_paste_is_not_taken(typist: Typist) -> None:
    """What was typed before stays as it is."""
    assert typist.type("4\x1b[200~\x00\x01\x02\x1b[201~2\r") == ["42"]


def test_a_paste_of_five_megabytes_stands_as_one_line_and_runs_whole(typist: Typist) -> None:
    """The line stays quick to edit, and what runs is all of it."""
    text = "\n".join(f"a{n} = {n}  # {'x' * 2500}" for n in range(2_000))
    assert len(text) > 5_000_000
    typist.surroundings = Surroundings(typist.shell, Monitor(lambda: typist.gpu))  # type: ignore[arg-type, return-value]
    typist.aids = Aids(pastes=typist.surroundings.pastes)
    typist.type(f"\x1b[200~{text}\x1b[201~\r")
    assert typist.shell.evaluator.names.values["a1999"] == 1_999


def test_the_rest_of_an_earlier_line_is_suggested(typist: Typist) -> None:
    """The right arrow takes what history has."""
    # The suggestion comes when history is loaded, which waits for the event loop.
    prompt = make_prompt(InMemoryHistory(["6 * 7"]), input=typist.keys, output=DummyOutput())
    assert isinstance(prompt.auto_suggest, AutoSuggestFromHistory)


def test_tab_indents_where_nothing_is_typed(typist: Typist) -> None:
    """Behind something it completes, which takes its time."""
    typist.type("if True:\r\x7f\tanswer = 1\r\r")
    assert typist.shell.evaluator.names.values["answer"] == 1


def test_vi_keys_are_there_when_they_are_set(typist: Typist) -> None:
    """Escape leaves the insert mode, and b goes back a word."""
    typist.aids = Aids(vi=True)
    assert typist.type("40 + 1\x1bx" + "a2\r") == ["42"]


@pytest.mark.parametrize("keys", ["\x18\x05", "\x1bOS"])
def test_the_line_is_opened_in_the_editor(
    typist: Typist, keys: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-X Ctrl-E and F4 hand it to $EDITOR, and take what that saved."""
    editor = tmp_path / "editor"
    editor.write_text("#!/bin/sh\necho '40 + 2' > \"$1\"\n")
    editor.chmod(0o700)
    monkeypatch.setenv("EDITOR", str(editor))
    monkeypatch.delenv("VISUAL", raising=False)
    prompt = make_prompt(InMemoryHistory(), input=typist.keys, output=DummyOutput())
    opened: list[str] = []
    prompt.default_buffer.open_in_editor = lambda *_, **__: opened.append(prompt.default_buffer.text)  # type: ignore[assignment, method-assign]
    typist.keys.send_text("x" + keys + "\x03\x04")
    read_and_run(typist.shell, prompt)
    assert opened == ["x"]


def test_ctrl_c_twice_offers_to_restart_the_engine(typist: Typist) -> None:
    """Where something runs still: it is stopped again on yes, and left on no."""
    running = Running(request="r1", op="run", target="run k", seconds=1.0)
    session = SessionStatus(session="s1", state="busy", generation=1, clients=1, queued=0, running=running)
    status = typist.gpu.status()
    typist.gpu.status = lambda: replace(status, session=session)  # type: ignore[method-assign]
    stopped: list[str] = []
    typist.gpu.interrupt = stopped.append  # type: ignore[attr-defined]

    def collect(request: str) -> None:
        raise Interrupted(f"{request} was interrupted")

    typist.gpu.collect = collect  # type: ignore[attr-defined]
    offer_restart(typist.shell, lambda _: "n")
    assert stopped == []
    offer_restart(typist.shell, lambda _: "y")
    assert stopped == ["r1"]
    assert "r1 was interrupted" in typist.said[-1]


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
