"""Where Taichi looks into the user's text, it is given exact answers instead of guesses from lines.

Left alone it finds a function's text by counting indentation (a comment or a string that begins further left breaks
it), finds out by a pattern on the source line whether a kernel stands in a class, and tells places by carets
under lines wrapped at 80 characters.
"""

from __future__ import annotations

import ast
import functools
import sys
import traceback
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from tiremote.worker.engine.future_annotations import decorators
from tiremote.worker.engine.source import Source, source_of

if TYPE_CHECKING:
    from tiremote.worker.engine.runtime import TaichiRuntime

#: Taichi shows a tab as this many spaces before it parses, and counts columns in that.
_TAB: Final = 4
_CO_OPTIMIZED: Final = 1

_INSTALLED: Final = "_tiremote_hooks"

Place = Callable[[Any, Any], str]


def install(runtime: TaichiRuntime) -> None:
    """Once for a process."""
    layout, impl = runtime.layout, runtime.impl
    walking = runtime.lang("ast.ast_transformer_utils")
    context = getattr(walking, layout.context)
    if hasattr(context, _INSTALLED):
        return
    setattr(context, _INSTALLED, True)
    texts, making = runtime.module(layout.texts), runtime.lang("kernel_impl")
    texts.getsourcelines = _lines_of(texts.getsourcelines)
    texts.getsourcefile = _file_of(texts.getsourcefile)
    making._inside_class = _inside_class(making._inside_class, static_is_owned=layout.static_is_owned)
    setattr(context, layout.place, _place(getattr(context, layout.place)))
    walking.traceback = types.SimpleNamespace(format_exc=_without_its_own(runtime.exception("CompilationError")))
    kernel_class = runtime.kernel_class
    kernel_class.materialize = _never_nested(kernel_class.materialize, runtime.exception("SyntaxError"))
    setattr(impl, layout.asserting, _placed_assert(getattr(impl, layout.asserting), impl))


def _lines_of(original: Callable[[Any], tuple[list[str], int]]) -> Callable[[Any], tuple[list[str], int]]:
    @functools.wraps(original)
    def getsourcelines(function: Any) -> tuple[list[str], int]:
        source = source_of(function.__code__.co_filename)
        first = function.__code__.co_firstlineno
        if source is None or first not in source.functions:
            return original(function)
        last = source.functions[first].end_lineno or first
        indent = _indent(source, first)
        lines = {number: source.lines[number - 1] for number in range(first, last + 1)}
        _plain_returns(source, source.functions[first].returns, lines)
        return [_shown(line)[_cut(source, number, indent) :] for number, line in lines.items()], first

    return getsourcelines


def _plain_returns(source: Source, returns: ast.expr | None, lines: dict[int, str]) -> None:
    """Replaces ``-> None`` by spaces: Taichi takes it in the signature and then fails over it in the text. Of a type in
    quotes it takes any name: some runtimes end the process over a constant."""
    if returns is None or returns.end_lineno != returns.lineno:
        return
    line = lines[returns.lineno]
    first, last = source.byte_columns(returns.lineno, returns.col_offset, returns.end_col_offset or 0)
    arrow = line.rfind("->", 0, first - 1)
    if arrow < 0:
        return
    if isinstance(returns, ast.Constant) and returns.value is None:
        lines[returns.lineno] = line[:arrow] + " " * (last - 1 - arrow) + line[last - 1 :]
    elif line[last - 2 : last - 1] in ("'", '"'):
        lines[returns.lineno] = line[: first - 1] + "_" + " " * (last - first - 1) + line[last - 1 :]


def _file_of(original: Callable[[Any], str]) -> Callable[[Any], str]:
    @functools.wraps(original)
    def getsourcefile(function: Any) -> str:
        file = str(function.__code__.co_filename)
        return file if source_of(file) is not None else original(function)

    return getsourcefile


def _inside_class(original: Callable[[int], bool], *, static_is_owned: bool) -> Callable[[int], bool]:
    @functools.wraps(original)
    def inside_class(level_of_class_stackframe: int) -> bool:
        # The level is that of the frame around the class body, so the body is one nearer.
        body = sys._getframe(level_of_class_stackframe - 1)
        source = source_of(body.f_code.co_filename)
        if source is None:
            return original(level_of_class_stackframe + 1)
        if static_is_owned and _is_static(source, body.f_lineno):
            return False
        return body.f_locals is not body.f_globals and not body.f_code.co_flags & _CO_OPTIMIZED

    return inside_class


def _is_static(source: Source, line: int) -> bool:
    """Whether the function that is being decorated on this line is a static method."""
    decorated = (node for first, node in source.functions.items() if first <= line <= node.lineno)
    return any("staticmethod" in decorators(node) for node in decorated)


def _place(original: Place) -> Place:
    @functools.wraps(original)
    def get_pos_info(context: Any, node: Any) -> str:
        source = source_of(context.file)
        if source is None:
            return original(context, node)
        line = node.lineno + context.lineno_offset
        cut = _cut(source, line, _indent(source, context.lineno_offset + 1))
        shown = _shown(source.lines[line - 1])[cut:].encode("utf-8", "surrogatepass")
        start = len(shown[: node.col_offset].decode("utf-8", "replace")) + cut
        if node.end_lineno == node.lineno:
            end = len(shown[: node.end_col_offset].decode("utf-8", "replace")) + cut
        else:
            end = len(_shown(source.lines[line - 1]).rstrip())
        first, last = (_raw_column(source.lines[line - 1], column) for column in (start, end))
        return f'File "{context.file}", line {line}, in {context.func.func.__name__}, columns {first}-{last}:\n'

    return get_pos_info


def _without_its_own(error: type[BaseException]) -> Callable[[], str]:
    """What was raised while a tree was walked, for the message of the next error. Some runtimes put the stack of every
    func that is compiled into that of the one that calls it: with a few of them it takes minutes."""

    def format_exc() -> str:
        return "" if isinstance(sys.exc_info()[1], error) else traceback.format_exc()

    return format_exc


def _placed_assert(original: Callable[..., None], impl: Any) -> Callable[..., None]:
    """A failed ``assert`` in a kernel tells its message only; in a debug session it gets its place too.

    Elsewhere asserts are compiled away, and a place in the text would only spoil Taichi's cache of kernels.
    """

    @functools.wraps(original)
    def ti_assert(condition: Any, message: str, *rest: Any) -> None:
        if impl.current_cfg().debug:
            message = f"{message}\n{impl.get_runtime().get_current_src_info()}"
        original(condition, message, *rest)

    return ti_assert


def _never_nested(original: Callable[..., None], error: type[BaseException]) -> Callable[..., None]:
    """Taichi refuses a kernel inside a kernel only if the inner one is not compiled yet; else it launches it, once,
    while the outer one is compiled."""

    @functools.wraps(original)
    def materialize(kernel: Any, *args: Any, **kwargs: Any) -> None:
        if kernel.runtime.inside_kernel:
            raise error(
                f"Kernels cannot call other kernels: {kernel.func.__name__} is one. "
                "Make it a ti.func, or call it from Python"
            )
        original(kernel, *args, **kwargs)

    return materialize


def _shown(line: str) -> str:
    return line.replace("\f", " ").expandtabs(_TAB)


def _indent(source: Source, line: int) -> int:
    text = _shown(source.lines[line - 1])
    return len(text) - len(text.lstrip())


def _cut(source: Source, line: int, indent: int) -> int:
    """How many columns are taken from a line: a comment or the rest of a string may be indented less."""
    return min(indent, _indent(source, line))


def _raw_column(line: str, column: int) -> int:
    """The column from 1, in the line as the user wrote it, of a column from 0 of the line as Taichi saw it."""
    seen = 0
    for position, character in enumerate(line):
        if seen >= column:
            return position + 1
        seen += _TAB - seen % _TAB if character == "\t" else 1
    return len(line) + 1
