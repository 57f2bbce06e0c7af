"""How arguments are matched with parameters, and what may not be declared as a parameter at all."""

from __future__ import annotations

import pytest

from features.refusals import does_not_load, refused
from features.rows import feature
from tiremote.client import Session
from tiremote.protocol.errors import CompileError

DIGITS = """
@ti.kernel
def digits(a: ti.i32, b: ti.i32, c: ti.f32) -> ti.f32:
    return a * 100 + b * 10 + c
"""


@feature("call shapes", "by position and keyword")
def test_case_23_arguments_by_position_and_by_keyword(gpu: Session) -> None:
    """In any order of keywords, and by the same rules through `run`."""
    f = gpu[gpu.compile_and_load(DIGITS).unit].digits
    assert f(1, 2, 3.0) == f(1, c=3.0, b=2) == f(c=3, b=2, a=1) == gpu.run("digits", 1, b=2, c=3) == 123


@feature("call shapes", "by position and keyword", wrong=True)
def test_a_wrong_value_is_named_however_it_is_passed(gpu: Session) -> None:
    """By its parameter, not by its place in the call."""
    f = gpu[gpu.compile_and_load(DIGITS).unit].digits
    refused(f, 1, 2.5, 3.0, parameter="b")
    refused(f, c=1.0, a=1, b="2", parameter="b")


@feature("call shapes", "too many", wrong=True)
def test_too_many_arguments_are_counted(gpu: Session) -> None:
    """The message lists what is taken and says how many came."""
    f = gpu[gpu.compile_and_load(DIGITS).unit].digits
    said = refused(f, 1, 2, 3.0, 4, parameter=None)
    assert "takes 3 arguments (a: i32, b: i32, c: f32), but 4 came" in said


@feature("call shapes", "unexpected", wrong=True)
def test_an_unexpected_keyword_is_named(gpu: Session) -> None:
    """With those that there are."""
    f = gpu[gpu.compile_and_load(DIGITS).unit].digits
    assert "no parameter 'd'" in refused(f, 1, 2, c=3.0, d=4, parameter="d")
    assert "no parameter 'd'" in refused(f, 1, 2, d=3.0, parameter="d")


@feature("call shapes", "multiple", wrong=True)
def test_a_parameter_with_two_values_is_named(gpu: Session) -> None:
    """By position and by keyword."""
    f = gpu[gpu.compile_and_load(DIGITS).unit].digits
    assert "twice" in refused(f, 1, 2, 3.0, a=4, parameter="a")
    assert "twice" in refused(f, 1, 2, b=4, parameter="b")


@feature("call shapes", "missing", wrong=True)
def test_a_missing_parameter_is_named_with_its_type(gpu: Session) -> None:
    """The first that is missing."""
    f = gpu[gpu.compile_and_load(DIGITS).unit].digits
    assert "needs parameter 'c' (f32)" in refused(f, 1, 2, parameter="c")
    assert "needs parameter 'a' (i32)" in refused(f, parameter="a")
    assert "needs parameter 'b' (i32)" in refused(f, 1, c=1.0, parameter="b")


@feature("call shapes", "too many for one launch", wrong=True)
def test_more_arguments_than_a_launch_takes_are_refused(gpu: Session, runtime: str) -> None:
    """One more than the runtime's limit, which is told; so many can be passed, by position and by keyword."""
    most = {"taichi": 64}.get(runtime, 512)

    def source(count: int) -> str:
        names = ", ".join(f"a{i}: ti.i32" for i in range(count))
        return f"@ti.kernel\ndef f({names}) -> ti.i32:\n    return a0 + 2 * a{count - 1}\n"

    unit = gpu[gpu.compile_and_load(source(most)).unit]
    assert unit.f(*range(1, most + 1)) == 1 + 2 * most
    assert unit.f(**{f"a{i}": i + 1 for i in range(most)}) == 1 + 2 * most
    gpu.compile_and_load(source(most + 1), unit._unit)
    said = refused(unit.f, *range(most + 1), parameter=None)
    assert f"{most + 1} parameters" in said
    assert f"{most} at most" in said


@feature("call shapes", "nested kernels", wrong=True)
def test_a_kernel_that_calls_a_kernel_does_not_load(gpu: Session) -> None:
    """Directly or through a func: the message names the inner one and says what to do; the next call works."""
    inner = "@ti.kernel\ndef inner():\n    pass\n"
    said = does_not_load(gpu, inner + "@ti.kernel\ndef outer():\n    inner()\n", line=6)
    assert "inner is one" in said
    assert "ti.func" in said
    through = "@ti.func\ndef through():\n    inner()\n@ti.kernel\ndef outer():\n    through()\n"
    assert "inner is one" in does_not_load(gpu, inner + through, line=6)
    assert gpu[gpu.compile_and_load(DIGITS).unit].digits(1, 2, 3.0) == 123


#: What a kernel may not declare, and what is said of it; the line is the parameter's.
DECLARATIONS = {
    "no annotation": ("x", "type annotated"),
    "wrong annotation": ("x: ti.i32, y: list", "argument 1"),
    "`*args`": ("*args", "*args"),
    "`**kwargs`": ("**kwargs", "**kwargs"),
    "defaults": ("x: ti.i32 = 3", "default values"),
    "keyword-only": ("*, x: ti.i32", "keyword parameters"),
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=feature("call shapes", name, wrong=True)) for name in DECLARATIONS]
)
def test_what_a_kernel_may_not_declare_does_not_load(gpu: Session, name: str) -> None:
    """Each with its own reason; what was loaded before stays."""
    unit = gpu[gpu.compile_and_load(DIGITS).unit]
    parameters, said = DECLARATIONS[name]
    assert said in does_not_load(gpu, f"# a comment\n@ti.kernel\ndef f({parameters}):\n    pass\n", line=3)
    with pytest.raises(CompileError):
        gpu.compile_and_load(f"@ti.kernel\ndef digits({parameters}):\n    pass\n", unit._unit)
    assert unit.digits(1, 2, 3.0) == 123
