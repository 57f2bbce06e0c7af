"""Forty and more odd texts that a loader meets, each with what must come of it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Odd:
    """A text. ``value``: what ``f()`` returns; else ``error``: a part of the `CompileError`, at ``line``."""

    name: str
    text: object
    value: object = None
    error: str | None = None
    line: int | None = None


KERNEL = "@ti.kernel\ndef f() -> ti.i32:\n    return 7\n"

ODD = [
    Odd("byte order mark", "\ufeff" + KERNEL, 7),
    Odd("windows line ends", KERNEL.replace("\n", "\r\n"), 7),
    Odd("old mac line ends", KERNEL.replace("\n", "\r"), 7),
    Odd("no final newline", KERNEL.rstrip("\n"), 7),
    Odd("tabs", KERNEL.replace("    ", "\t"), 7),
    Odd("one line", "@ti.kernel\ndef f() -> ti.i32: return 7", 7),
    Odd("indented as a whole", "".join(f"        {line}\n" for line in KERNEL.splitlines()), 7),
    Odd("indented by tabs as a whole", "".join(f"\t{line}\n" for line in KERNEL.splitlines()), 7),
    Odd("indented with a comment at the margin", "    x = 7\n# margin\n    def f():\n        return x\n", 7),
    Odd("comment at the margin inside a kernel", "@ti.kernel\ndef f() -> ti.i32:\n# margin\n    return 7\n", 7),
    Odd(
        "string at the margin inside a method",
        "@ti.data_oriented\nclass A:\n    @ti.kernel\n    def g(self) -> ti.i32:\n"
        '        """Text\nat the margin."""\n        return 7\ndef f():\n    return A().g()\n',
        7,
    ),
    Odd("form feed", f"x = 1\n\f\n{KERNEL}", 7),
    Odd("unicode line separator in a comment", f"# a\u2028b\x85c\n{KERNEL}", 7),
    Odd("names that are not ASCII", "größe = 7\n@ti.kernel\ndef f() -> ti.i32:\n    é = größe\n    return é\n", 7),
    Odd("continuation lines", "@ti.kernel\ndef f() -> \\\n        ti.i32:\n    return (3 +\n4)\n", 7),
    Odd("semicolons", "x = 3; y = 4\n@ti.kernel\ndef f() -> ti.i32:\n    a = x; b = y; return a + b\n", 7),
    Odd("future annotations", f"from __future__ import annotations\n{KERNEL}", 7),
    Odd(
        "future annotations with a name that comes later",
        "from __future__ import annotations\nclass A:\n    def copy(self) -> A: return A()\n"
        "def g(x: Later): pass\nclass Later: pass\n" + KERNEL,
        7,
    ),
    Odd("annotations as text", '@ti.kernel\ndef f() -> "ti.i32":\n    return 7\n', 7),
    Odd("another future import", f"from __future__ import division, annotations\n{KERNEL}", 7),
    Odd("its own imports", f"import taichi as ti\nimport numpy as np\nimport taichi.math as tm\n{KERNEL}", 7),
    Odd("star import", "from taichi import *\n@kernel\ndef f() -> i32:\n    return 7\n", 7),
    Odd("decorator by another name", "k = ti.kernel\n@k\ndef f() -> ti.i32:\n    return 7\n", 7),
    Odd(
        "class decorator by another name",
        "from taichi import data_oriented as odop\n@odop\nclass A:\n    @ti.kernel\n    def g(self) -> ti.i32:\n"
        "        return 7\ndef f():\n    return A().g()\n",
        7,
    ),
    Odd(
        "two class decorators",
        "def same(c): return c\n@same\n@ti.data_oriented\nclass A:\n    @ti.kernel\n"
        "    def g(self) -> ti.i32:\n        return 7\ndef f():\n    return A().g()\n",
        7,
    ),
    Odd(
        "inherited class kernel",
        "@ti.data_oriented\nclass A:\n    def __init__(self): self.n = 7\n    @ti.kernel\n"
        "    def g(self) -> ti.i32:\n        return self.n\n@ti.data_oriented\nclass B(A):\n"
        "    @ti.kernel\n    def h(self) -> ti.i32:\n        return self.n * 0\n"
        "def f():\n    return B().g() + B().h()\n",
        7,
    ),
    Odd(
        "class in a function",
        "def make():\n    @ti.data_oriented\n    class A:\n        @ti.kernel\n        def g(self) -> ti.i32:\n"
        "            return 7\n    return A()\ndef f():\n    return make().g()\n",
        7,
    ),
    Odd(
        "kernel in a function",
        "def make(n):\n    @ti.kernel\n    def g() -> ti.i32:\n        return n\n    return g\ndef f():\n"
        "    return make(7)()\n",
        7,
    ),
    Odd(
        "standard dataclass",
        "from dataclasses import dataclass, field\n@dataclass\nclass A:\n    n: int = 7\n"
        "    l: list = field(default_factory=list)\ndef f():\n    return A().n\n",
        7,
    ),
    Odd(
        "taichi dataclass under future annotations",
        "from __future__ import annotations\n@ti.dataclass\nclass A:\n    n: ti.i32\n@ti.kernel\n"
        "def f() -> ti.i32:\n    a = A(7)\n    return a.n\n",
        7,
    ),
    Odd("main guard", f"{KERNEL}if __name__ == '__main__':\n    raise SystemExit\n", 7),
    Odd(
        "a name that is missing in a branch that is left out",
        "@ti.kernel\ndef f() -> ti.i32:\n    x = 7\n    if ti.static(False):\n        x = missing\n    return x\n",
        7,
    ),
    Odd(
        "a global that is made later",
        "x = None\ndef init():\n    global x\n    x = ti.field(ti.i32, 1)\n@ti.kernel\ndef g():\n    x[0] = 7\n"
        "def f():\n    init()\n    g()\n    return x[0]\n",
        7,
    ),
    Odd("a program's own command line", f"import argparse\nargparse.ArgumentParser().parse_args()\n{KERNEL}", 7),
    Odd("a very long line", f"x = [{', '.join('1' for _ in range(20000))}]\n{KERNEL}", 7),
    Odd(
        "objects that raise whatever is asked of them",
        "class A:\n    def __getattribute__(self, name): 1 / 0\na = A()\ndef f(): return 7\n",
        7,
    ),
    Odd("a decorated kernel", "def same(f): return f\n@same\n@ti.kernel\ndef f() -> ti.i32: return 7\n", 7),
    Odd("it empties its own namespace", "globals().clear()\ndef f(): return 7\n", 7),
    Odd("an exception beside Exception", "class E(BaseException): pass\nraise E('x')\n", error="E: x", line=2),
    Odd("a func that calls itself", "@ti.func\ndef g(): g()\n@ti.kernel\ndef f(): g()\n", error="recursion", line=2),
    Odd("a docstring only", '"""Nothing."""\ndef f(): return 7\n', 7),
    Odd("empty", "", error="empty"),
    Odd("white space", " \n\t\n", error="empty"),
    Odd("not text", b"x = 1", error="bytes"),
    Odd("nothing at all", None, error="NoneType"),
    Odd("a NUL", "x = 1\ny = '\0'\n", error="NUL", line=None),
    Odd("half a surrogate pair", "x = '\ud800'\n", error="not Python"),
    Odd("nested too deep", "x = " + "(" * 5000 + ")" * 5000, error="nested", line=1),
    Odd("a sum nested too deep", "x = " + "-" * 200_000 + "1", error="nested"),
    Odd("syntax", "x = 1\ny = = 2\n", error="SyntaxError", line=2),
    Odd("open bracket", "x = 1\ny = (2\n", error="never closed", line=2),
    Odd("bad indentation", "def f():\n    x = 1\n  y = 2\n", error="IndentationError", line=3),
    Odd("tabs and spaces", "def f():\n\tif 1:\n        return 1\n", error="TabError", line=3),
    Odd("return outside", "x = 1\nreturn x\n", error="'return' outside function", line=2),
    Odd("indented at its beginning only", "    x = 1\ny = 2\n", error="unexpected indent", line=1),
    Odd("an indented syntax error", "    x = 1\n    y = = 2\n", error="SyntaxError", line=2),
    Odd("missing import", "x = 1\nimport not_a_module_anywhere\n", error="not_a_module_anywhere", line=2),
    Odd("missing name from a module", "from math import nothing_there\n", error="nothing_there", line=1),
    Odd("it raises", "x = 1\n\nraise ValueError('a\\nb')\n", error="ValueError: a b", line=3),
    Odd("it exits", "import sys\nsys.exit(3)\n", error="SystemExit", line=2),
    Odd("endless recursion", "def r(): r()\nr()\n", error="RecursionError", line=1),
    Odd("an exception without a text", "class E(Exception):\n    def __str__(self): 1/0\nraise E\n", error="E", line=3),
    Odd("a kernel without annotations", "@ti.kernel\ndef f(x): pass\n", error="annotated", line=2),
    Odd("a kernel with a default", "@ti.kernel\ndef f(x: ti.i32 = 1): pass\n", error="default", line=2),
    Odd("a kernel with *args", "@ti.kernel\ndef f(*x): pass\n", error="*args", line=2),
    Odd("a return that is promised", "x = 1\n@ti.kernel\ndef f() -> ti.i32:\n    pass\n", error="return", line=3),
    Odd("a window", "gui = ti.GUI('x', (10, 10))\n", error="window", line=1),
    Odd(
        "a kernel that calls a kernel",
        f"{KERNEL}@ti.kernel\ndef g():\n    f()\n",
        error="Kernels cannot call other kernels: f",
        line=6,
    ),
    Odd("a statement Taichi has not", "@ti.kernel\ndef f():\n    try: pass\n    finally: pass\n", error="Try", line=3),
]
