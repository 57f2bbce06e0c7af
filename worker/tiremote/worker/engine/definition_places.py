"""A signature that a runtime refuses where a kernel or a func is defined is told with the parameter that is at fault.

The traceback leads to the decorator alone.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from tiremote.protocol.errors import SourceFrame
from tiremote.worker.engine.source import Source, source_of

if TYPE_CHECKING:
    from tiremote.worker.engine.runtime import TaichiRuntime

_PLACE: Final = "_tiremote_place"


def install(runtime: TaichiRuntime) -> None:
    """Has the methods that read signatures leave the place with what they raise. Once for a process."""
    for module, name in runtime.layout.signatures:
        cls, method = name.split(".")
        owner = getattr(runtime.module(module), cls)
        read = getattr(owner, method)
        if not hasattr(read, "__wrapped__"):
            setattr(owner, method, _placed(read, runtime.layout.parameters))


def place_of(error: BaseException) -> SourceFrame | None:
    """The parameter, or the type of what is returned, for which a signature was refused; None for any other error."""
    return getattr(error, _PLACE, None)


def _placed(read: Callable[[Any], None], parameters: str) -> Callable[[Any], None]:
    @functools.wraps(read)
    def placed(callee: Any) -> None:
        try:
            read(callee)
        except Exception as error:
            # What was read before the one at fault is there already.
            setattr(error, _PLACE, _place(callee, len(getattr(callee, parameters, ()))))
            raise

    return placed


def _place(callee: Any, read: int) -> SourceFrame | None:
    function = callee.func
    code = getattr(function, "__code__", None)
    if code is None or hasattr(function, "__wrapped__"):
        return None
    source = source_of(code.co_filename)
    if source is None:
        return None
    node = source.functions.get(code.co_firstlineno)
    if node is None:
        return None
    if any(each is Ellipsis for each in getattr(callee, "return_type", None) or ()):
        # This is looked at first.
        return None if node.returns is None else _frame(source, node.returns, node.returns)
    found = _parameters(node.args)
    return _frame(source, *found[read]) if read < len(found) else None


def _parameters(args: ast.arguments) -> list[tuple[ast.expr | ast.arg, ast.expr | ast.arg]]:
    """Where each begins and ends, with its default, in the order of a signature."""
    plain = [*args.posonlyargs, *args.args]
    defaults = [None] * (len(plain) - len(args.defaults)) + [*args.defaults]
    named = zip(args.kwonlyargs, args.kw_defaults, strict=True)
    return [
        *((each, default or each) for each, default in zip(plain, defaults, strict=True)),
        *([(args.vararg, args.vararg)] if args.vararg else ()),
        *((each, default or each) for each, default in named),
        *([(args.kwarg, args.kwarg)] if args.kwarg else ()),
    ]


def _frame(source: Source, first: ast.expr | ast.arg, last: ast.expr | ast.arg) -> SourceFrame:
    line = first.lineno
    if last.end_lineno != line:
        last = first
    stop = last.end_col_offset if last.end_lineno == line else len(source.lines[line - 1].encode("utf-8", "replace"))
    return source.frame(line, *source.byte_columns(line, first.col_offset, stop or first.col_offset))
