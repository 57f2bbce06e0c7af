"""Where the arrays of a unit are: the paths by which its text reaches them, and what a path leads to."""

from __future__ import annotations

import ast
import functools
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from tiremote.protocol.errors import UnknownName
from tiremote.worker.engine.declarations import is_array, is_sparse, members
from tiremote.worker.engine.pairing import attributes, is_unit_object

if TYPE_CHECKING:
    from tiremote.worker.engine.runtime import TaichiRuntime

#: As in `pairing`: longer lists hold data, and the walk has to end.
_LONGEST = 10_000
_MOST_VALUES = 200_000
_DEEPEST = 12
_PLAIN = (int, float, str, bool, bytes, type(None))


def things_in(
    namespace: Mapping[str, Any], names: Collection[str], runtime: TaichiRuntime
) -> Iterator[tuple[str, Any]]:
    """(path, thing) of every array, struct field and object of a unit's class behind the names, each once: ``x``,
    ``layers[0]``, ``sim.grid.mass``, ``particles.position`` for a member of a struct field.
    """
    walk = _Walk(runtime)
    # Names first: an array that an object refers to as well is known by its own name.
    for name in sorted(names, key=lambda one: (not is_array(namespace[one], runtime), one)):
        yield from walk.of(name, namespace[name], 0)


def arrays_in(
    namespace: Mapping[str, Any], names: Collection[str], runtime: TaichiRuntime
) -> Iterator[tuple[str, Any]]:
    """The arrays among them."""
    return ((path, value) for path, value in things_in(namespace, names, runtime) if is_whole(value, runtime))


def is_whole(value: Any, runtime: TaichiRuntime) -> bool:
    """Whether this is one array: a field, an ndarray or a NumPy array, not a struct field or an object."""
    return type(value) is np.ndarray or (is_array(value, runtime) and not runtime.is_struct_field(value))


class _Walk:
    def __init__(self, runtime: TaichiRuntime) -> None:
        self._runtime = runtime
        self._seen: dict[int, Any] = {}
        self._steps = 0

    def of(self, path: str, value: Any, depth: int) -> Iterator[tuple[str, Any]]:
        self._steps += 1
        if type(value) in _PLAIN or id(value) in self._seen or self._steps > _MOST_VALUES or depth > _DEEPEST:
            return
        runtime = self._runtime
        self._seen[id(value)] = value
        if is_whole(value, runtime):
            yield path, value
        elif runtime.is_struct_field(value):
            yield path, value
            for name, member in value.field_dict.items():
                yield from self.of(f"{path}.{name}", member, depth + 1)
        elif is_unit_object(value):
            yield path, value
            for name, inner in list(attributes(value).items()):
                if name.isidentifier():
                    yield from self.of(f"{path}.{name}", inner, depth + 1)
        elif type(value) in (list, tuple) and len(value) <= _LONGEST:
            for number, inner in enumerate(value):
                yield from self.of(f"{path}[{number}]", inner, depth + 1)
        elif type(value) is dict and len(value) <= _LONGEST:
            for key, inner in list(value.items()):
                if type(key) in (str, int):
                    yield from self.of(f"{path}[{key!r}]", inner, depth + 1)


def why_not_copied(value: Any, runtime: TaichiRuntime) -> str | None:
    """Why an array's contents cannot be read and written back as they are, None where they can."""
    if isinstance(value, np.ndarray):
        if value.dtype.hasobject:
            return "it holds Python objects"
        return None if value.flags.writeable else "it is read-only"
    if not runtime.is_field(value):
        return None
    nodes = [member.ptr.snode() for where, member in members(value, runtime) if where.startswith("primal")]
    if any(node is None for node in nodes):
        return "it has no place yet"
    # Writing a cell of a sparse field activates it: read and written back, all of it would be.
    return "it is sparse" if any(is_sparse(node) for node in nodes) else None


def reach(namespace: Mapping[str, Any], path: str, runtime: TaichiRuntime) -> Any:
    """What a path of `arrays_in` leads to. Raises `UnknownName`."""
    try:
        return _follow(_parsed(path), namespace, runtime)
    except Exception as error:
        # A user's object may raise whatever is asked of it.
        raise UnknownName(f"{path!r} leads to nothing now ({type(error).__name__}: {error})", name=path) from None


@functools.lru_cache(16_384)
def _parsed(path: str) -> ast.expr:
    return ast.parse(path, mode="eval").body


def _follow(node: ast.expr, namespace: Mapping[str, Any], runtime: TaichiRuntime) -> Any:
    match node:
        case ast.Name(id=name):
            return namespace[name]
        case ast.Attribute(value=inner, attr=name):
            value = _follow(inner, namespace, runtime)
            if runtime.is_struct_field(value) and name in value.field_dict:
                return value.field_dict[name]
            if is_unit_object(value) and name in attributes(value):
                return attributes(value)[name]
            return getattr(value, name)
        case ast.Subscript(value=inner, slice=key):
            return _follow(inner, namespace, runtime)[ast.literal_eval(key)]
    raise ValueError("a path is names, attributes and constant indices")
