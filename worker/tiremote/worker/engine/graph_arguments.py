"""What a ``ti.graph`` is run with: Taichi's own words for a missing argument are those of an assertion in C++."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from tiremote.protocol.errors import KernelArgumentError

if TYPE_CHECKING:
    from tiremote.worker.engine.runtime import TaichiRuntime

_NAMES = "_tiremote_arguments"


def install(runtime: TaichiRuntime) -> None:
    """Has graphs know their arguments, where the runtime has graphs that are built."""
    if not hasattr(getattr(runtime.ti, "graph", None), "GraphBuilder"):
        return
    module = runtime.module("graph._graph")
    builder, graph = module.GraphBuilder, module.Graph
    compile_, run = builder.compile, graph.run
    dispatches = [(cls, cls.dispatch) for cls in (builder, module.Sequential)]

    def noting(dispatch: Any) -> Any:
        @functools.wraps(dispatch)
        def noted(self: Any, kernel: Any, *args: Any) -> None:
            dispatch(self, kernel, *args)
            self.__dict__.setdefault(_NAMES, set()).update(_names(args))

        return noted

    @functools.wraps(builder.append)
    def append(self: Any, node: Any, _append: Any = builder.append) -> None:
        _append(self, node)
        self.__dict__.setdefault(_NAMES, set()).update(node.__dict__.get(_NAMES, ()))

    @functools.wraps(compile_)
    def compiled(self: Any) -> Any:
        made = compile_(self)
        made.__dict__[_NAMES] = frozenset(self.__dict__.get(_NAMES, ()))
        return made

    @functools.wraps(run)
    def checked(self: Any, args: Any) -> None:
        names = self.__dict__.get(_NAMES)
        if names is not None:
            _check(names, args)
        run(self, args)

    for cls, dispatch in dispatches:
        cls.dispatch = noting(dispatch)
    builder.append, builder.compile, graph.run = append, compiled, checked


def _names(args: Any) -> set[str]:
    found: set[str] = set()
    for each in args:
        # The arguments of a matrix are lists of lists.
        found |= _names(each) if isinstance(each, list | tuple) else {each.name}
    return found


def _check(names: frozenset[str], args: Any) -> None:
    takes = f"it takes {', '.join(sorted(names))}"
    if not isinstance(args, dict):
        raise KernelArgumentError(f"a graph is run with a dict of its arguments, not a {type(args).__name__}; {takes}")
    for name in sorted(names - args.keys()):
        raise KernelArgumentError(f"the graph needs argument {name!r}, which did not come; {takes}", parameter=name)
    for name in args:
        if name not in names:
            raise KernelArgumentError(f"the graph has no argument {name!r}; {takes}", parameter=str(name))
