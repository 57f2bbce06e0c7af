"""The parameter without a type, found."""

from __future__ import annotations

import pytest

from recording_session import compile_error
from tiremote.protocol.errors import CompileError
from tiremote.repl.annotations import with_parameter
from tiremote.repl.cells import Cell
from tiremote.repl.pending import unit_of

COMPLAINT = "Taichi kernels parameters must be type annotated"


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("@ti.kernel\ndef k(a: ti.f32, b): pass\n", 2, 18),
        ("@ti.data_oriented\nclass S:\n    @ti.kernel\n    def k(self, b): pass\n", 4, 17),
    ],
)
def test_the_parameter_is_named_and_pointed_at(text: str, line: int, column: int) -> None:
    """``self`` needs no type."""
    error = with_parameter(CompileError(COMPLAINT), unit_of(*Cell(text).statements()))
    assert error.message.startswith("parameter 'b' of kernel k() has no type: write b: ti.f32")
    assert (error.line, error.column) == (line, column)


def test_another_error_stays_what_it_is() -> None:
    """And so does this one where no parameter is found."""
    unit = unit_of(*Cell("@ti.kernel\ndef k(a: ti.f32): pass\n").statements())
    for error in (compile_error("no"), compile_error(COMPLAINT)):
        assert isinstance(error, CompileError)
        assert with_parameter(error, unit) is error
