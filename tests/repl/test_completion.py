"""What can be typed next, and what is told of a call."""

from __future__ import annotations

from pathlib import Path

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from recording_session import RecordingSession
from tiremote.client import RemoteArray
from tiremote.client.releases import Releases
from tiremote.protocol.receipts import Definition, Parameter, UnitHolding
from tiremote.protocol.values import Handle
from tiremote.repl.completion import PromptCompleter
from tiremote.repl.shell import Shell
from tiremote.repl.signatures import called_at, tip

KERNEL = '@ti.kernel\ndef step(n: ti.i32):\n    """One step."""\n    pass\n'


class FakeExchange:
    """Nothing is asked of it: whatever would be fails."""

    def __init__(self) -> None:
        self.releases = Releases()


class Typed:
    """What is offered after what was typed, at a prompt whose worker is never asked meanwhile."""

    def __init__(self) -> None:
        self.gpu = RecordingSession()
        self.shell = Shell(self.gpu, write=str, complain=str, note=str)  # type: ignore[arg-type]
        self.names = self.shell.evaluator.names
        self.shell.run(KERNEL)
        definition = Definition(
            name="step", kind="kernel", parameters=(Parameter(name="n", takes="i32"),), doc="One step."
        )
        held = self.gpu.describe()
        self.description = type(held)(
            session="s1",
            generation=1,
            newest="step",
            units=(UnitHolding(unit="step", version=1, definitions=(definition,)),),
        )
        meta = {"dtype": "f32", "shape": (4,)}
        self.names.values["cells"] = RemoteArray(
            FakeExchange(),
            Handle(kind="ndarray", id="a1"),
            "ndarray",
            meta,  # type: ignore[arg-type]
        )
        self.gpu.describe = None  # type: ignore[assignment, method-assign]
        self.completer = PromptCompleter(lambda: self.names, self.shell.commands, lambda: self.description)

    def offers(self, text: str) -> dict[str, str]:
        found = self.completer.get_completions(Document(text), CompleteEvent(completion_requested=True))
        return {each.text: each.display_meta_text for each in found}


@pytest.fixture
def typed() -> Typed:
    return Typed()


def test_a_kernel_is_offered_with_signature_and_docstring(typed: Typed) -> None:
    """Its parameters are known from what the worker told before."""
    assert typed.offers("st")["step"] == "kernel step(n: i32): One step."


def test_an_array_is_offered_with_dtype_and_shape(typed: Typed) -> None:
    """As are its methods, without any of its attributes being read."""
    assert typed.offers("y = ce")["cells"] == "f32 (4,), on the worker"
    assert {"to_numpy", "from_numpy", "shape"} <= set(typed.offers("cells."))


def test_local_names_and_their_members_are_offered(typed: Typed) -> None:
    """Names of this laptop, of modules, and Python's own."""
    typed.shell.run("values = [1]\n")
    assert "values" in typed.offers("print(va")
    assert set(typed.offers("values.ap")) == {"append"}
    assert "linspace" in typed.offers("np.lin")
    assert "isinstance" in typed.offers("isin")


def test_taichis_names_are_offered_without_taichi(typed: Typed) -> None:
    """Below its modules, too."""
    assert {"ndarray", "ndrange"} == set(typed.offers("ti.nd"))
    assert "vec3" in typed.offers("v = ti.math.vec")
    assert "normalize" in typed.offers("tm.norm")
    assert "ndarray" in typed.offers("def k(x: ti.types.nda")


def test_units_are_offered_by_their_ids(typed: Typed) -> None:
    """And what they define behind them."""
    assert typed.offers('gpu["s') == {'step"]': "step"}
    assert set(typed.offers('gpu["step"].')) == {"step"}
    assert set(typed.offers("gpu[None].s")) == {"step"}


def test_commands_and_what_they_are_given_are_offered(typed: Typed, tmp_path: Path) -> None:
    """Names of commands, arrays, kernels and files, each where it belongs."""
    (tmp_path / "out.npy").touch()
    assert "arrays" in typed.offers(":ar")
    assert set(typed.offers(":fetch ")) == {"cells"}
    assert set(typed.offers(":ast ")) == {"step"}
    assert set(typed.offers(f":fetch cells {tmp_path}/o")) == {"out.npy"}
    assert "compare" in typed.offers(":help comp")
    assert "step" in typed.offers(":compare st")


def test_nothing_is_offered_in_text_and_comments(typed: Typed) -> None:
    """A word there is none of Python's."""
    assert typed.offers("print('st") == {}
    assert typed.offers("1  # st") == {}


@pytest.mark.parametrize(
    ("text", "called"),
    [
        ("step(", "step"),
        ("y = gpu.run('a', (1, 2), ", "gpu.run"),
        ("step(1)", None),
        ("f(step(", "step"),
        ("f(step(1), ", "f"),
        ("f([1, (2", "f"),
        ("f(')', ", "f"),
        ("x", None),
        ("if True:\n    step(", "step"),
    ],
)
def test_the_call_before_the_cursor_is_found(text: str, called: str | None) -> None:
    """The innermost that is open."""
    assert called_at(text) == called


def test_a_call_is_told_with_signature_and_docstring(typed: Typed) -> None:
    """Of kernels as the worker knows them, of Python as `inspect` does; of what is unknown, nothing."""
    assert tip(typed.names, typed.description, "step") == "step(n: i32)\nOne step."
    assert tip(typed.names, typed.description, "np.linspace").startswith("linspace(start, stop")
    assert tip(typed.names, typed.description, "ti.ndarray").startswith("ndarray(dtype")
    assert tip(typed.names, typed.description, "nowhere") == ""
    assert tip(typed.names, typed.description, "cells") == ""
    assert tip(typed.names, typed.description, "cells.to_numpy").startswith("to_numpy(")
