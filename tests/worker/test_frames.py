"""From exceptions to typed errors whose frames are in the user's text alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tested_runtime import RUNTIME
from tiremote.protocol.errors import (
    CompileError,
    KernelArgumentError,
    KernelRuntimeError,
    OutOfMemory,
    Refused,
    TiremoteError,
)
from tiremote.worker.engine.frames import is_out_of_memory, load_error, poison_in, run_error
from tiremote.worker.engine.runtime import TaichiRuntime
from tiremote.worker.engine.source import read_source, withdraw

from .test_runtime import in_fresh_process

Failing = Callable[..., TiremoteError]


@pytest.fixture
def failing(runtime: TaichiRuntime) -> Any:
    """Runs a text and then an expression in it, which must fail; gives the error to report."""
    files = []

    def run(text: str, expression: str, **given: Any) -> TiremoteError:
        source = read_source(text, "unit", 4)
        source.publish()
        files.append(source.file)
        namespace = {"ti": runtime.ti, "tm": runtime.tm, **given}
        exec(source.code, namespace)
        try:
            eval(expression, namespace)
        except Exception as error:
            return run_error(error, runtime)
        raise AssertionError("it did not fail")

    yield run
    for file in files:
        withdraw(file)
    runtime.leave_kernel()


def places(error: Any) -> list[tuple[str, int, str]]:
    """Function, line, and the underlined text of each frame."""
    return [(f.function, f.line, f.text[f.column - 1 : f.end_column - 1] if f.column else "") for f in error.frames]


def test_the_chain_of_a_compile(failing: Failing) -> None:
    """Kernel, func, func: each with the expression at fault, tabs and non-ASCII names before it or not."""
    error = failing(
        "@ti.func\ndef g(a):\n    return a + undefined\n"
        "@ti.func\ndef f(a):\n\tb = 0\n\tif a > 0:\n\t\tb = g(a) * 2\n\treturn b\n"
        "@ti.kernel\ndef k(x: ti.i32) -> ti.i32:\n    é = 1; y = f(x)\n    return y\n",
        "k(3)",
    )
    assert isinstance(error, CompileError)
    assert error.message == 'Name "undefined" is not defined'
    assert places(error) == [("k", 12, "f(x)"), ("f", 8, "g(a)"), ("g", 3, "undefined")]


def test_a_driver_function_in_front_of_the_chain(failing: Failing) -> None:
    """What Python was doing comes before what Taichi was compiling."""
    error = failing("@ti.kernel\ndef k():\n    undefined\ndef drive():\n    é = 2; k()\n", "drive()")
    assert isinstance(error, CompileError)
    assert places(error) == [("drive", 5, "k()"), ("k", 3, "undefined")]


def test_a_long_line_is_underlined_right(failing: Failing) -> None:
    """Taichi wraps at 80 characters; places do not."""
    error = failing(f"@ti.kernel\ndef k():\n    x = {' + '.join(['1'] * 60)} + undefined + 1\n", "k()")
    assert places(error) == [("k", 3, "undefined")]


def test_a_method_with_a_comment_at_the_margin(failing: Failing) -> None:
    """Columns are those of the user's line, whatever was cut to parse it."""
    error = failing(
        "@ti.data_oriented\nclass A:\n    @ti.kernel\n    def k(self):\n# margin\n        x = undefined\n", "A().k()"
    )
    assert places(error) == [("k", 6, "undefined")]


def test_a_failure_inside_taichi_library_code(failing: Failing) -> None:
    """Frames of Taichi's own functions are left out, and its printed traceback is one line."""
    error = failing("@ti.kernel\ndef k():\n    a = ti.Vector([1, 2])\n    b = a @ a @ 3\n", "k()")
    assert error.message == "Getting shape of non-tensor type: i32"
    assert places(error) == [("k", 4, "a @ a @ 3")]
    error = failing("@ti.kernel\ndef k():\n    a = 1\n    a.nothing()\n", "k()")
    assert "nothing" in error.message
    assert "Traceback" not in str(error)
    assert "site-packages" not in str(error)


def test_an_assertion_of_the_compiler(failing: Failing) -> None:
    """Without the C++ file and line."""
    error = failing("@ti.kernel\ndef k():\n    x = tm.vec3(1, 2)\n", "k()")
    assert error.message.startswith("Assertion failure")
    assert places(error) == [("k", 3, "tm.vec3(1, 2)")]


def test_python_in_a_driver(failing: Failing) -> None:
    """Type and message as Python shows them, columns from the interpreter."""
    error = failing("def f(a):\n    return 1 / a\ndef g():\n    return f(0)\n", "g()")
    assert isinstance(error, KernelRuntimeError)
    assert error.type == "ZeroDivisionError"
    assert error.message == "ZeroDivisionError: division by zero"
    assert places(error) == [("g", 4, "f(0)"), ("f", 2, "1 / a")]


def test_an_endless_recursion_is_short(failing: Failing) -> None:
    """A thousand equal frames are not sent."""
    error = failing("def even(n):\n    return odd(n)\ndef odd(n):\n    return even(n)\n", "even(1)")
    assert isinstance(error, KernelRuntimeError)
    assert error.type == "RecursionError"
    assert 2 < len(error.frames) < 30


def test_colours_and_lines_are_taken_out_of_a_message(failing: Failing) -> None:
    """A message is one line of plain text."""
    error = failing("def f():\n    raise ValueError('\\x1b[31mred\\x1b[0m\\nline')\n", "f()")
    assert error.message == "ValueError: red line"


def test_a_user_exception_that_cannot_be_shown(failing: Failing) -> None:
    """Its name is told."""
    error = failing("class Odd(Exception):\n    def __str__(self): 1 / 0\ndef f():\n    raise Odd\n", "f()")
    assert error.message == "Odd"


@pytest.mark.parametrize("call", ["k()", "k(1, 2)", "k(1, x=2)", "k(y=1)", "k('s')"])
def test_a_call_that_does_not_fit(failing: Failing, call: str) -> None:
    """Not a compile error, though Taichi calls some of these a syntax error."""
    assert isinstance(failing("@ti.kernel\ndef k(x: ti.i32): pass\n", call), KernelArgumentError)


def test_a_field_without_a_place(failing: Failing, runtime: TaichiRuntime) -> None:
    """The frame is where it was declared; Taichi prints the worker's whole stack."""
    snapshot = runtime.take_snapshot()
    error = failing("y = ti.field(ti.f32)\n@ti.kernel\ndef k(): pass\n", "k()")
    snapshot.restore(runtime)
    assert "not placed" in error.message
    assert "/" not in error.message
    assert places(error)[-1][:2] == ("", 1)


def test_debug_text_of_the_device() -> None:
    """Out of bounds in a debug session: the place, and no mangled kernel name."""
    source = read_source("@ti.kernel\ndef k(x: ti.types.ndarray()):\n    x[8] = 1\n", "unit", 1)
    source.publish()
    error = run_error(
        RuntimeError(
            "\n[kernel=k_c92_0] Out of bound access to ndarray at arg 0 with indices [8]\n"
            f'File "{source.file}", line 3, in k, columns 5-9:\n\n'
        )
    )
    withdraw(source.file)
    assert error.message == "RuntimeError: Out of bound access to ndarray at arg 0 with indices [8]"
    assert places(error) == [("k", 3, "x[8]")]


def test_a_debug_session_tells_the_place() -> None:
    """Of an index out of bounds in a func, and of a failed assert with numbers in its message."""
    out = in_fresh_process(
        """
        from tiremote.worker.engine.frames import run_error
        from tiremote.worker.engine.loader import KernelLoader
        from tiremote.worker.engine.runtime import TaichiRuntime
        runtime = TaichiRuntime(RUNTIME)
        runtime.init({"arch": "cpu", "debug": True})
        loader = KernelLoader(runtime)
        loader.compile_and_load('''x = ti.field(ti.f32, 4)
        @ti.func
        def w(i):
            x[i] = 1
        @ti.kernel
        def far(i: ti.i32):
            w(i)
        @ti.kernel
        def wrong(i: ti.i32):
            assert i == 2, f"bad {i}"
        '''.replace("\\n        ", "\\n"))
        for name in ("far", "wrong"):
            try:
                loader[None][name](9)
            except Exception as error:
                told = run_error(error, runtime)
                print(type(told).__name__, told.type, told.message, [(f.function, f.line) for f in told.frames])
    """.replace("RUNTIME", repr(RUNTIME))
    ).splitlines()
    assert out[0].startswith("KernelRuntimeError AssertionError index (9) is out of bounds: the shape is (4)")
    assert out[0].endswith("[('w', 4)]")
    assert out[1] == "KernelRuntimeError AssertionError bad 9 [('wrong', 10)]"


def test_our_own_errors_pass() -> None:
    """A refusal inside the user's code stays what it is."""
    refused = Refused("no")
    assert run_error(refused) is refused
    assert load_error(refused) is refused


@pytest.mark.parametrize(
    ("error", "poisoned", "memory"),
    [
        (RuntimeError("[cuda_driver.h:operator()@92] CUDA Error CUDA_ERROR_ILLEGAL_ADDRESS: an illegal"), True, False),
        (RuntimeError("CUDA_ERROR_OUT_OF_MEMORY: out of memory while calling mem_alloc"), False, True),
        (RuntimeError("[vulkan] VK_ERROR_DEVICE_LOST"), True, False),
        (MemoryError(), False, True),
        (MemoryError("std::bad_alloc"), False, True),
        (ValueError("wrong"), False, False),
    ],
)
def test_what_a_device_error_means(error: Exception, poisoned: bool, memory: bool) -> None:
    """A lost device means a new process; exhausted memory does not."""
    assert (poison_in(error) is not None) is poisoned
    assert is_out_of_memory(error) is memory
    assert isinstance(run_error(error), OutOfMemory) is memory
    assert isinstance(load_error(error), OutOfMemory) is memory


def test_a_lost_device_behind_an_error_is_found() -> None:
    """The user's own exception may hide the device's, say nothing itself, and quote the line in the middle."""
    error = KeyError()
    error.__cause__ = RuntimeError("a launch failed\n  [x.cpp] CUDA_ERROR_ILLEGAL_ADDRESS: an illegal\nat exit")
    assert poison_in(error) == "[x.cpp] CUDA_ERROR_ILLEGAL_ADDRESS: an illegal"


def test_a_missing_module_is_named() -> None:
    """And where it is missing."""
    error = load_error(ModuleNotFoundError("No module named 'matplotlib'"))
    assert error.message == "ModuleNotFoundError: No module named 'matplotlib': the worker's Python cannot import it"


def test_a_users_own_error_about_cuda_is_no_lost_device() -> None:
    """Only what a GPU library raises costs an engine, not a text that happens to name it."""
    assert poison_in(ValueError("my CUDA Error text")) is None
    assert poison_in(RuntimeError("[cuda_driver.h] CUDA Error CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access"))
