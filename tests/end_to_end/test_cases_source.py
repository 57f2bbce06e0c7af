"""Cases 1 to 9: source from strings, as people write it, and what is said of source that cannot be loaded."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest

from tiremote.client import Session
from tiremote.protocol.errors import CompileError, KernelArgumentError, KernelRuntimeError, Refused, TiremoteError

Check = Callable[[], None]

FILL = """
@ti.kernel
def fill(x: ti.types.ndarray(), n: ti.f32):
    for i in x:
        x[i] = n
"""


def places(error: CompileError | KernelRuntimeError) -> list[tuple[str, int]]:
    """Function and line of each frame, outermost first."""
    return [(frame.function, frame.line) for frame in error.frames]


# ---------------------------------------------------------------- 1: kernels from strings


@pytest.mark.parametrize(
    "source",
    [
        FILL,
        FILL.replace("    ", "\t"),
        FILL.replace("\n", "\r\n"),
        FILL.replace("\n", "\r"),
        FILL.rstrip("\n"),
        "\ufeff" + FILL,
        "@ti.kernel\ndef fill(x: ti.types.ndarray(), n: ti.f32): x[0] = n; x[1] = n; x[2] = n",
        "\n".join(f"        {line}" for line in FILL.splitlines()),
        "import taichi as ti\n" + FILL,
        "import taichi as ti\nimport numpy as np\nimport taichi.math as tm\n" + FILL,
        ("from taichi import kernel, types, f32\n@kernel\ndef fill(x: types.ndarray(), n: f32):\n"
"    for i in x:\n        x[i] = n\n"),
        'r"""A docstring with \\n."""\n' + FILL,
        "# -*- coding: latin-1 -*-\n# Größe\n" + FILL,
        FILL.replace("fill", "größe").replace("n: ti", "ñ: ti").replace("= n", "= ñ") + "fill = größe\n",
        "if True:\n" + "\n".join(f"    {line}" for line in FILL.splitlines()),
        "def make():\n" + "\n".join(f"    {line}" for line in FILL.splitlines()) + "\n    return fill\nfill = make()\n",
        FILL.replace("n: ti.f32", "n: float"),
        FILL.replace("):\n    for", ") -> None:\n    for"),
        FILL.replace("@ti.kernel", "@ti.kernel  # here\n# and there"),
        FILL.replace("x: ti.types.ndarray(), n", "x: ti.types.ndarray(),\n         n"),
        FILL.replace("def fill(x", "def fill(\n    x").replace(
            "for i in x:", '"""Fills."""\n    for i in range(\n        x.shape[0]\n    ):'
        ),
    ],
    ids=[
        "as it is", "tabs", "CRLF", "CR", "no final newline", "a byte order mark", "one line", "indented as a whole",
        "import taichi", "all imports", "from taichi", "a docstring", "another encoding named", "not ASCII",
        "under an if", "in a function", "Python's float", "returns None", "comments",
        "a signature over lines", "a docstring inside",
    ],
)  # fmt: skip
def test_case_1_source_from_a_string_loads_and_compiles(gpu: Session, source: str) -> None:
    """A kernel from a string works at its first call, however its text is laid out."""
    gpu.compile_and_load(source)
    x = gpu.ti.ndarray(gpu.ti.f32, 3)
    gpu[None].fill(x, 2.5)
    assert x.to_numpy().tolist() == [2.5, 2.5, 2.5]


def test_case_1_a_kernel_is_compiled_when_it_is_loaded(gpu: Session, unharmed: Check) -> None:
    """A type error inside a kernel is told when the source is loaded, not at the first call."""
    with pytest.raises(CompileError) as caught:
        gpu.compile_and_load(
            "\n\n@ti.kernel\ndef f(n: ti.i32) -> ti.i32:\n    v = ti.Vector([1, 2])\n    return v.nothing + n\n"
        )
    assert places(caught.value) == [("f", 6)]
    unharmed()


# ---------------------------------------------------------------- 2: funcs of other units


def test_case_2_a_func_sent_earlier_is_used_by_a_kernel_sent_later(gpu: Session, unharmed: Check) -> None:
    """Names that a text uses and does not define come from earlier units: funcs, constants, fields and functions."""
    gpu.compile_and_load("\n\n@ti.func\ndef square(a):\n    return a * a\n", "maths")
    gpu.compile_and_load("FACTOR = 3\nweights = ti.field(ti.f32, 4)\ndef setup():\n    weights.fill(2)\n", "data")
    gpu.compile_and_load(
        "@ti.kernel\ndef f(x: ti.f32) -> ti.f32:\n    return square(x) * FACTOR + weights[1]\n"
        "def both(x):\n    setup()\n    return f(x)\n",
        "use",
    )
    assert gpu["use"].both(5.0) == 77
    unharmed()


def test_case_2_lines_of_both_texts_are_right(gpu: Session, unharmed: Check) -> None:
    """An error inside a func of another unit points into both texts, each with its own lines."""
    gpu.compile_and_load("\n\n\n@ti.func\ndef broken(v):\n    return v.no_such_member\n", "maths")
    with pytest.raises(CompileError) as caught:
        gpu.compile_and_load(
            "@ti.kernel\ndef f() -> ti.f32:\n    v = ti.Vector([1.0, 2.0])\n    return broken(v)\n", "use"
        )
    assert [(frame.unit, frame.function, frame.line) for frame in caught.value.frames] == [
        ("use", "f", 4),
        ("maths", "broken", 6),
    ]
    unharmed()


def test_case_2_a_name_that_is_nowhere_is_told_with_its_line(gpu: Session, unharmed: Check) -> None:
    """A func that was never sent is a compile error at the place that uses it."""
    with pytest.raises(CompileError, match="never_sent") as caught:
        gpu.compile_and_load("@ti.kernel\ndef f() -> ti.f32:\n    return never_sent(1.0)\n")
    assert (caught.value.line, caught.value.column) == (3, 12)
    unharmed()


# ---------------------------------------------------------------- 3: versions keep their text


def test_case_3_an_old_version_that_was_never_called_keeps_its_text(gpu: Session) -> None:
    """What holds the first version's kernel calls the first version, although it compiles only afterwards."""
    text = "@ti.kernel\ndef answer(x: ti.types.ndarray()) -> ti.i32:\n    x[0] = {n}\n    return {n}\n"
    gpu.compile_and_load(
        "kept = []\ndef keep(function):\n    kept.append(function)\ndef call(i, x):\n    return kept[i](x)\n", "keeper"
    )
    x = gpu.ti.ndarray(gpu.ti.f32, 1)
    for n in (1, 2, 3):
        gpu.compile_and_load(text.format(n=n) + "keep(answer)\n", "k")
    assert [gpu["keeper"].call(i, x) for i in range(3)] == [1, 2, 3]
    assert gpu["k"].answer(x) == 3


def test_case_3_classes_keep_the_version_they_were_made_from(gpu: Session) -> None:
    """An object made from version 1 goes on with version 1's methods, and a new one has version 2's."""
    text = "@ti.data_oriented\nclass Model:\n    @ti.kernel\n    def answer(self) -> ti.i32:\n        return {n}\n"
    gpu.compile_and_load(text.format(n=1), "model")
    old = gpu["model"].Model()
    gpu.compile_and_load(text.format(n=2), "model")
    new = gpu["model"].Model()
    assert (old.answer(), new.answer(), old.answer()) == (1, 2, 1)


def test_case_3_a_cleaned_up_id_starts_anew(gpu: Session) -> None:
    """The same id with another text, after a cleanup as well: each time the text that was sent last is what runs."""
    for n in (1, 2):
        gpu.compile_and_load(f"@ti.kernel\ndef answer() -> ti.i32:\n    return {n}\n", "k")
        assert gpu["k"].answer() == n
        gpu.cleanup("k")
    assert "k" not in gpu


# ---------------------------------------------------------------- 4: classes

BODY = """
@ti.data_oriented
class Body:
    def __init__(self, n):
        self.n = n
        self.x = ti.field(ti.f32, n)

    @ti.func
    def rate(self, i):
        return 1.0

    @ti.kernel
    def step(self, dt: ti.f32):
        for i in range(self.n):
            self.x[i] += dt * self.rate(i)

    def run(self, steps):
        for _ in range(steps):
            self.step(0.5)
        return self.x.to_numpy()

    @staticmethod
    @ti.kernel
    def twice(a: ti.f32) -> ti.f32:
        return a * 2

    @property
    def size(self):
        return self.n


class Faster(Body):
    def __init__(self, n, speed):
        super().__init__(n)
        self.speed = speed

    @ti.func
    def rate(self, i):
        return self.speed * i
"""


def test_case_4_classes_from_a_string_work_with_inheritance(gpu: Session, unharmed: Check) -> None:
    """Kernels, funcs, static kernels and driver methods of a class and of one that inherits from it."""
    gpu.compile_and_load(BODY)
    body, faster = gpu[None].Body(3), gpu[None].Faster(3, 10.0)
    body.step(2.0)
    faster.step(2.0)
    assert body.run(2).tolist() == [3, 3, 3]
    assert faster.run(2).tolist() == [0, 30, 60]
    assert body.twice(4.0) == 8
    unharmed()


def test_case_4_a_class_whose_base_came_earlier(gpu: Session) -> None:
    """The base may be in another unit, and methods find each other across the two texts."""
    gpu.compile_and_load(BODY, "base")
    gpu.compile_and_load("class Slower(Body):\n    @ti.func\n    def rate(self, i):\n        return 0.5\n", "derived")
    slower = gpu["derived"].Slower(2)
    assert slower.run(4).tolist() == [1, 1]


def test_case_4_an_error_in_a_method_has_its_line(gpu: Session, unharmed: Check) -> None:
    """A method that does not compile tells the call chain at its call, and the object is good for its other methods."""
    gpu.compile_and_load(BODY + "\n    @ti.kernel\n    def bad(self):\n        self.x[0] = self.nothing\n")
    faster = gpu[None].Faster(2, 1.0)
    with pytest.raises(CompileError, match="nothing") as caught:
        faster.bad()
    assert places(caught.value)[-1][1] == BODY.count("\n") + 4
    assert faster.run(2).tolist() == [0, 1]
    unharmed()


def test_case_4_dataclasses_and_structs(gpu: Session) -> None:
    """``ti.dataclass`` with methods, and fields of them, from a string."""
    gpu.compile_and_load("""
@ti.dataclass
class Ball:
    centre: tm.vec3
    radius: ti.f32

    @ti.func
    def volume(self):
        return 4 / 3 * tm.pi * self.radius ** 3

balls = Ball.field(shape=2)

@ti.kernel
def total() -> ti.f32:
    s = 0.0
    for i in balls:
        balls[i].radius = i + 1
        s += balls[i].volume()
    return s
""")
    assert gpu[None].total() == pytest.approx(4 / 3 * np.pi * 9, rel=1e-5)


# ---------------------------------------------------------------- 5: postponed annotations


@pytest.mark.parametrize(
    "definition",
    [
        FILL,
        "@ti.kernel\ndef fill(x: 'ti.types.ndarray()', n: 'ti.f32'):\n    for i in x:\n        x[i] = n\n",
        (
            "import typing\nNumber = ti.f32\n@ti.kernel\n"
            "def fill(x: ti.types.ndarray(dtype=Number, ndim=1), n: Number) -> None:\n    for i in x:\n"
            "        x[i] = n\n"
        ),
        (
            "@ti.data_oriented\nclass A:\n    @ti.kernel\n"
            "    def fill(self, x: ti.types.ndarray(), n: ti.f32) -> None:\n        for i in x:\n"
            "            x[i] = n\n    def go(self, x: Missing, n: float):\n        self.fill(x, n)\n"
            "def fill(x, n):\n    A().go(x, n)\n"
        ),
    ],
    ids=["a kernel", "quoted", "aliases", "a class"],
)
def test_case_5_postponed_annotations_are_resolved(gpu: Session, definition: str) -> None:
    """``from __future__ import annotations`` in a text makes no difference."""
    gpu.compile_and_load("from __future__ import annotations\n" + definition)
    x = gpu.ti.ndarray(gpu.ti.f32, 2)
    gpu[None].fill(x, 1.5)
    assert x.to_numpy().tolist() == [1.5, 1.5]


# ---------------------------------------------------------------- 6: errors in the user's own text

CHAIN = """
@ti.func
def inner(v):
    return v.missing + 1

@ti.func
def middle(v):
    return inner(v)

@ti.kernel
def outer() -> ti.f32:
    v = ti.Vector([1.0, 2.0])
    return middle(v)
"""


def clean(error: TiremoteError) -> str:
    """The error's text, which holds nothing of the worker and no colour codes."""
    text = str(error)
    assert "\x1b" not in text
    assert not re.search(r"site-packages|/taichi/|Traceback|tiremote/|\.py\"|\[\w+\.cpp", text), text
    return text


def test_case_6_the_call_chain_is_told(gpu: Session, unharmed: Check) -> None:
    """A failing func inside a func inside a kernel: three frames with carets, nothing of the worker, no colours."""
    with pytest.raises(CompileError) as caught:
        gpu.compile_and_load(CHAIN, "chain")
    assert places(caught.value) == [("outer", 13), ("middle", 8), ("inner", 4)]
    assert caught.value.message.count("\n") == 0
    text = clean(caught.value)
    assert "    return v.missing + 1\n           ^^^^^^^^^" in text
    assert 'in "chain" version 1, line 4, in inner' in text
    unharmed()


@pytest.mark.parametrize(
    ("body", "line", "column"),
    [
        ("    return 1 +", 4, None),
        ("    return unknown_name", 4, 12),
        ("    return ti.no_such_function(1.0)", 4, 12),
        ("    x = 1\n    return x[3]", 5, 12),
        ("    return ti.Vector([1, 2]) + ti.Vector([1, 2, 3])", 4, None),
        ("    a = [1, 2, 3]\n    return a[5]", 5, None),
        ("    try:\n        pass\n    except:\n        pass\n    return 1", 4, None),
        ("    ti.static_assert(1 == 2, 'never')\n    return 1", 4, None),
        ("    yield 1", 4, None),
        ("    return len(5)", 4, None),
        ("    return 'text'", 4, None),
        ("    if 1 > 0:\n        return 1\n    return ti.Vector([1, 2])", None, None),
    ],
)
def test_case_6_every_kind_of_compile_error_has_its_line(
    gpu: Session, unharmed: Check, body: str, line: int | None, column: int | None
) -> None:
    """Whatever is wrong with a kernel, the error is a `CompileError` of one line that points at the line."""
    with pytest.raises(CompileError) as caught:
        gpu.compile_and_load(f"\n@ti.kernel\ndef f() -> ti.f32:\n{body}\n")
    clean(caught.value)
    if line is not None:
        assert caught.value.line == line
    if column is not None:
        assert caught.value.column == column
    unharmed()


def test_case_6_a_driver_function_that_raises_shows_its_own_lines(gpu: Session, unharmed: Check) -> None:
    """An exception of loaded Python code arrives with its type and the chain of calls in the text."""
    gpu.compile_and_load("def a(n):\n    return b(n)\n\ndef b(n):\n    return {}['no' * n]\n")
    with pytest.raises(KernelRuntimeError, match="nono") as caught:
        gpu[None].a(2)
    assert caught.value.type == "KeyError"
    assert places(caught.value) == [("a", 2), ("b", 5)]
    clean(caught.value)
    unharmed()


def test_case_6_a_kernel_that_fails_in_a_driver_function(gpu: Session, unharmed: Check) -> None:
    """A compile error at a call inside a driver function tells the driver's line and the kernel's."""
    gpu.compile_and_load(
        "@ti.kernel\ndef f(x: ti.types.ndarray()):\n    x[0] = x.missing\n\ndef drive():\n"
        "    f(ti.ndarray(ti.f32, 3))\n"
    )
    with pytest.raises(CompileError, match="missing") as caught:
        gpu[None].drive()
    assert places(caught.value) == [("drive", 6), ("f", 3)]
    clean(caught.value)
    unharmed()


# ---------------------------------------------------------------- 7: the wrong kind of argument


def test_case_7_every_kind_of_wrong_argument_is_named(gpu: Session, unharmed: Check) -> None:
    """A field for an ndarray and its kin: the parameter, what it takes and what came, before anything is launched."""
    gpu.compile_and_load("""
f = ti.field(ti.f32, 4)
vectors = ti.Vector.field(3, ti.f32, 4)

@ti.kernel
def takes_ndarray(data: ti.types.ndarray()):
    data[0] = 1

@ti.kernel
def takes_template(field: ti.template()):
    field[0] = 1

@ti.kernel
def takes_number(n: ti.i32) -> ti.i32:
    return n

@ti.kernel
def takes_vector(v: tm.vec3) -> ti.f32:
    return v.sum()

@ti.kernel
def takes_f32_2d(m: ti.types.ndarray(dtype=ti.f32, ndim=2)):
    m[0, 0] = 1
""")
    unit, array = gpu[None], gpu.ti.ndarray(gpu.ti.f32, 4)
    wrong = [
        (unit.takes_ndarray, unit.f, "data", "field"),
        (unit.takes_ndarray, unit.vectors, "data", "field"),
        (unit.takes_ndarray, 5, "data", "5"),
        (unit.takes_ndarray, [1.0, 2.0], "data", "list"),
        (unit.takes_ndarray, None, "data", "None"),
        (unit.takes_ndarray, "text", "data", "text"),
        (unit.takes_template, array, "field", "ndarray"),
        (unit.takes_template, np.zeros(100, np.float32), "field", "ndarray"),
        (unit.takes_number, array, "n", "ndarray"),
        (unit.takes_number, unit.f, "n", "field"),
        (unit.takes_number, "3", "n", "str"),
        (unit.takes_number, None, "n", "None"),
        (unit.takes_number, [1], "n", "list"),
        (unit.takes_vector, array, "v", "ndarray"),
        (unit.takes_vector, (1.0, 2.0), "v", "2 values"),
        (unit.takes_vector, (1.0, 2.0, 3.0, 4.0), "v", "4 values"),
        (unit.takes_vector, 1.0, "v", "1.0"),
        (unit.takes_f32_2d, array, "m", "1 axes"),
        (unit.takes_f32_2d, np.zeros((2, 2)), "m", "f64"),
        (unit.takes_f32_2d, gpu.ti.Vector.ndarray(3, gpu.ti.f32, (2, 2)), "m", "3"),
    ]
    for kernel, value, parameter, came in wrong:
        with pytest.raises(KernelArgumentError) as caught:
            kernel(value)
        assert caught.value.parameter == parameter, caught.value
        assert parameter in caught.value.message
        assert came in caught.value.message, caught.value
        assert "\n" not in caught.value.message
        clean(caught.value)
    unit.takes_template(unit.f)
    assert unit.f[0] == 1
    unharmed()


# ---------------------------------------------------------------- 8: ti.init and ti.reset


@pytest.mark.parametrize(
    "call",
    [
        "ti.init()",
        "ti.init(arch=ti.gpu)",
        "ti.init(ti.gpu)",
        "ti.init(arch=[ti.cuda, ti.vulkan])",
        "ti.init(arch=ti.gpu, default_fp=ti.f32, default_ip=ti.i32, debug=False)",
        "ti.init(offline_cache=False, log_level=ti.WARN, print_ir=False)",
        "import taichi\ntaichi.init()",
        "from taichi import init\ninit()",
        "if __name__ == '__main__':\n    ti.init(default_fp=ti.f64)",
    ],
)
def test_case_8_ti_init_that_agrees_does_nothing(gpu: Session, unharmed: Check, arch: str, call: str) -> None:
    """Nearly every program calls ``ti.init``: with options that agree, all that was there stays. ``ti.gpu`` is what
    most of them ask for, and on a CPU session it is told in a warning."""
    receipt = gpu.compile_and_load(
        f"{call}\nx = ti.field(ti.f32, 3)\n@ti.kernel\ndef f() -> ti.f32:\n    x[0] = 4\n    return x[0]\n"
    )
    assert gpu[None].f() == 4
    asks_for_gpu = "gpu" in call or "cuda" in call
    assert any("GPU" in text for text in receipt.warnings) == (asks_for_gpu and arch == "cpu")
    unharmed()


@pytest.mark.parametrize(
    ("call", "name"),
    [
        ("ti.init(default_fp=ti.f64)", "default_fp='f64'"),
        ("ti.init(arch=ti.gpu, default_fp=ti.f64)", "default_fp='f64'"),
        ("ti.init(default_ip=ti.i64)", "default_ip='i64'"),
        ("ti.init(debug=True)", "debug=True"),
        ("ti.init(random_seed=1234)", "random_seed=1234"),
        ("ti.init(fast_math=False)", "fast_math=False"),
        ("ti.init(arch=ti.amdgpu)", "arch='amdgpu'"),
    ],
)
def test_case_8_ti_init_that_differs_is_refused_with_advice(
    gpu: Session, unharmed: Check, call: str, name: str
) -> None:
    """Other options cannot be had without losing everything: refused with the line, the difference and what to do."""
    with pytest.raises(Refused, match=re.escape(name)) as caught:
        gpu.compile_and_load(f"\n{call}\nx = ti.field(ti.f32, 3)\n")
    assert "line 2" in caught.value.message
    assert "connect(" in caught.value.message or "remove that" in caught.value.message
    unharmed()


def test_case_8_init_in_a_driver_function_is_guarded_too(gpu: Session, unharmed: Check) -> None:
    """A ``main`` that calls ``ti.init`` or ``ti.reset`` when it runs destroys nothing either."""
    gpu.compile_and_load(
        "def agree():\n    ti.init()\n    return 1\ndef differ():\n    ti.init(default_fp=ti.f64)\n"
        "def reset():\n    ti.reset()\n"
    )
    assert gpu[None].agree() == 1
    with pytest.raises(Refused, match="default_fp"):
        gpu[None].differ()
    with pytest.raises(Refused, match="destroy"):
        gpu[None].reset()
    unharmed()


def test_case_8_ti_reset_is_refused(gpu: Session, unharmed: Check) -> None:
    """``ti.reset()`` in a text would take every array away, and says what to use instead."""
    with pytest.raises(Refused, match="cleanup"):
        gpu.compile_and_load("ti.reset()\n")
    unharmed()


# ---------------------------------------------------------------- 9: what the worker does not have


@pytest.mark.parametrize(
    ("source", "named"),
    [
        ("import no_such_module\n", "no_such_module"),
        ("from no_such_module.inside import thing\n", "no_such_module"),
        ("from taichi import no_such_name\n", "no_such_name"),
        ("x = ti.field(ti.f32, 8)\nimport no_such_module\n", "no_such_module"),
        (
            "x = ti.field(ti.f32, 8)\n@ti.kernel\ndef f():\n    x[0] = 1\nf()\nraise RuntimeError('in the middle')\n",
            "in the middle",
        ),
        ("import sys\nsys.exit(3)\n", "SystemExit"),
        ("exit()\n", "SystemExit"),
        ("1 / 0\n", "ZeroDivisionError"),
        ("open('/no/such/file')\n", "no/such/file"),
        ("def f():\n    f()\nf()\n", "RecursionError"),
        ("import __main__\n__main__.no_such_thing\n", "no_such_thing"),
    ],
)
def test_case_9_source_that_fails_while_it_is_loaded_leaves_nothing(
    gpu: Session, unharmed: Check, source: str, named: str
) -> None:
    """A missing module, an exit, any exception: told in one line, and nothing half-loaded remains."""
    with pytest.raises(CompileError, match=named) as caught:
        gpu.compile_and_load(source, "half")
    clean(caught.value)
    assert caught.value.line is not None
    assert "half" not in gpu
    unharmed()


@pytest.mark.parametrize(
    ("window", "reason"),
    [
        ("gui = ti.GUI('window', (64, 64))\ngui.show()", "window"),
        ("window = ti.ui.Window('window', (64, 64))\nwindow.show()", "Vulkan|GGUI|display|window"),
    ],
)
def test_case_9_a_window_where_there_is_no_display(gpu_without_display: Session, window: str, reason: str) -> None:
    """Source that opens a window at import fails with a reason where there is no display, and the session goes on."""
    gpu = gpu_without_display
    gpu.compile_and_load(
        "kept = ti.field(ti.i32, 2)\n@ti.kernel\ndef f() -> ti.i32:\n    kept[0] += 1\n    return kept[0]\n", "k"
    )
    before = gpu["k"].f()
    with pytest.raises(CompileError, match=reason) as caught:
        gpu.compile_and_load(f"x = ti.field(ti.f32, 8)\n{window}\n", "half")
    clean(caught.value)
    assert caught.value.line == 2
    assert "half" not in gpu
    assert gpu["k"].f() == before + 1
