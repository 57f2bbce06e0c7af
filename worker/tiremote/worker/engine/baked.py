"""What a kernel has compiled in: plain values that it read while it was compiled, and that it never reads again.

Another process that compiles the same text later compiles in what those are then. So each compile is noted with a
digest of what it could see, to be compared with one of a later moment.
"""

from __future__ import annotations

import collections
import functools
import hashlib
import types
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tiremote.worker.engine.call_types import Argument, remember
from tiremote.worker.engine.declarations import is_array
from tiremote.worker.engine.global_names import nested
from tiremote.worker.engine.pairing import MODULE_PREFIX, attributes, is_unit_object
from tiremote.worker.engine.unit import Unit

if TYPE_CHECKING:
    from tiremote.worker.engine.runtime import TaichiRuntime

_SCALARS = (bool, int, float, complex, str, bytes, type(None), np.generic)
_MOST_VALUES: Final = 20_000
_DEEPEST: Final = 12
_SEQUENCES: Final = (list, tuple, collections.deque)
#: What stands for functions and values, and where it has them.
_CALLABLES: Final[dict[type, tuple[str, ...]]] = {
    functools.partial: ("func", "args", "keywords"),
    types.MethodType: ("__func__", "__self__"),
    property: ("fget",),
}
#: No digest is like this one.
_UNKNOWN: Final = ""


@dataclass(frozen=True, slots=True)
class _Compiled:
    """One compile: the digest of what it saw, for which objects among its arguments, and of what types all were."""

    digest: str
    objects: tuple[weakref.ref[Any], ...] = ()
    arguments: tuple[Argument, ...] | None = None


class BakedValues:
    """Notes every compile of a unit's kernel. ``draws``: whether one was compiled that draws random numbers."""

    def __init__(self, runtime: TaichiRuntime) -> None:
        self._runtime = runtime
        self._compiled: weakref.WeakKeyDictionary[Any, list[_Compiled]] = weakref.WeakKeyDictionary()
        self.draws = False
        runtime.compile_clock.on_compiled = self._note
        self._watch_random(runtime.core)

    def _watch_random(self, core: Any) -> None:
        make = core.make_rand_expr

        def make_rand_expr(*args: Any) -> Any:
            self.draws = True
            return make(*args)

        core.make_rand_expr = make_rand_expr

    def _note(self, kernel: Any, args: Sequence[Any]) -> None:
        if not _is_of_unit(kernel.func):
            return
        objects = [each for each in args if is_unit_object(each)]
        try:
            digest = self._digest(kernel.func, objects)
            compiled = _Compiled(digest, tuple(map(weakref.ref, objects)), self._kinds(kernel, args))
        except Exception:
            # A user's object may raise whatever is asked of it.
            compiled = _Compiled(_UNKNOWN)
        known = self._compiled.setdefault(kernel, [])
        if compiled not in known:
            known.append(compiled)

    def _kinds(self, kernel: Any, args: Sequence[Any]) -> tuple[Argument, ...] | None:
        kinds = self._runtime.parameter_types(kernel)
        if len(kinds) != len(args):
            return None
        return tuple(remember(value, kind, self._runtime) for value, (_, kind) in zip(args, kinds, strict=True))

    def compiled_for(self, kernel: Any) -> list[tuple[Argument, ...]]:
        """The arguments for which a kernel has instances, its owner first where it is of a class."""
        known = self._compiled.get(kernel, ()) if self._runtime.instances(kernel) else ()
        return [compiled.arguments for compiled in known if compiled.arguments is not None]

    def is_current(self, kernel: Any) -> bool:
        """Whether compiling it again now would see what each of its compiles saw that can still be launched."""
        if not self._runtime.instances(kernel):
            return True
        for compiled in self._compiled.get(kernel, ()):
            objects = [reference() for reference in compiled.objects]
            if all(each is not None for each in objects) and self._digest(kernel.func, objects) != compiled.digest:
                return False
        return True

    def forget(self, kernel: Any) -> None:
        """Has a kernel compiled again at its next call."""
        self._runtime.forget_compiled(kernel, list(self._runtime.instances(kernel)))
        self._compiled.pop(kernel, None)

    def _digest(self, function: Any, objects: list[Any]) -> str:
        names: frozenset[str] = frozenset()
        functions = {id(function): function}
        while True:
            # A name that a function mentions may lead to another function, with names of its own.
            view = _View(self._runtime, functions, names)
            pieces = list(view.pieces(objects))
            if view.functions.keys() == functions.keys() and view.names == names:
                break
            functions, names = view.functions, view.names
        digest = hashlib.blake2b(digest_size=16)
        for piece in pieces:
            digest.update(piece.encode("utf-8", "surrogatepass"))
            digest.update(b"\0")
        return digest.hexdigest()


class _View:
    """What is seen from some functions: their globals and closures, and of objects and modules those attributes whose
    names the functions mention. ``functions`` and ``names`` grow by what is met."""

    def __init__(self, runtime: TaichiRuntime, functions: dict[int, Any], names: frozenset[str]) -> None:
        self._runtime = runtime
        self._seen: dict[int, Any] = {}
        self.functions = dict(functions)
        self.names = names | {name for each in functions.values() for name in _mentioned(each)}

    def pieces(self, objects: list[Any]) -> Iterator[str]:
        """Texts that are the same when everything that is seen is."""
        for function in list(self.functions.values()):
            for name, value in _outer(function):
                yield name
                yield from self._value(value, 0)
        for each in objects:
            yield from self._value(each, 0)

    def _value(self, value: Any, depth: int) -> Iterator[str]:
        kind = type(value)
        if issubclass(kind, _SCALARS):
            yield f"{kind.__name__} {value!r}"
            return
        yield kind.__name__
        if depth > _DEEPEST or len(self._seen) > _MOST_VALUES:
            raise OverflowError("there is more than can be looked at")
        if id(value) in self._seen:
            return
        self._seen[id(value)] = value
        if is_array(value, self._runtime) or self._runtime.is_snode(value):
            yield str(id(value))
        elif (function := self._function_in(value)) is not None:
            self.functions.setdefault(id(function), function)
            yield f"{function.__qualname__} {function.__code__.co_firstlineno}"
        elif (sequence := next((each for each in _SEQUENCES if issubclass(kind, each)), None)) is not None:
            for each in sequence.__iter__(value):
                yield from self._value(each, depth + 1)
            yield str(sequence.__len__(value))
            yield from self._named(value, kind, depth)
        elif issubclass(kind, dict):
            for key, each in dict.items(value):
                yield from self._value(key, depth + 1)
                yield from self._value(each, depth + 1)
            yield from self._named(value, kind, depth)
        elif kind in (set, frozenset):
            yield from sorted(repr(each) if isinstance(each, _SCALARS) else str(id(each)) for each in value)
        elif kind is np.ndarray:
            yield f"{value.dtype} {value.shape} {hashlib.blake2b(value.tobytes()).hexdigest()}"
        elif (numbers := self._runtime.matrix_values(value)) is not None:
            yield f"{numbers.dtype} {numbers.tolist()}"
        else:
            yield from self._named(value, kind, depth)

    def _named(self, value: Any, kind: type, depth: int) -> Iterator[str]:
        if kind is Unit:
            yield from self._attributes(value._loaded.namespace, depth)
        elif kind is types.SimpleNamespace:
            yield from self._value(vars(value), depth + 1)
        elif kind in _CALLABLES:
            for name in _CALLABLES[kind]:
                yield from self._value(getattr(value, name), depth + 1)
        elif kind is types.ModuleType and value.__name__.startswith(MODULE_PREFIX):
            yield from self._attributes(vars(value), depth)
        elif issubclass(kind, type) and str(value.__module__).startswith(MODULE_PREFIX):
            yield value.__qualname__
            for each in value.__mro__:
                if str(each.__module__).startswith(MODULE_PREFIX):
                    yield from self._attributes(vars(each), depth)
        elif is_unit_object(value):
            yield from self._attributes(attributes(value), depth)
            yield from self._value(kind, depth + 1)
        elif str(kind.__module__).startswith(MODULE_PREFIX) and not isinstance(value, type):
            # One with slots.
            yield from self._attributes({name: getattr(value, name, None) for name in _slots(kind)}, depth)
            yield from self._value(kind, depth + 1)

    def _attributes(self, items: Any, depth: int) -> Iterator[str]:
        for name in sorted(self.names & items.keys()):
            yield name
            member = items[name]
            yield from self._value(getattr(member, "__func__", member), depth + 1)

    def _function_in(self, value: Any) -> Any:
        if self._runtime.is_kernel(value) or self._runtime.is_func(value):
            return self._runtime.python_function(value)
        return value if type(value) is types.FunctionType and _is_of_unit(value) else None


def _slots(kind: type) -> list[str]:
    found = [vars(cls).get("__slots__", ()) for cls in kind.__mro__]
    return [name for slots in found for name in ([slots] if isinstance(slots, str) else slots)]


def _is_of_unit(function: Any) -> bool:
    return str(function.__globals__.get("__name__", "")).startswith(MODULE_PREFIX)


def _mentioned(function: Any) -> Iterator[str]:
    for code in nested(function.__code__):
        yield from code.co_names


def _outer(function: Any) -> Iterator[tuple[str, Any]]:
    known = function.__globals__
    if _is_of_unit(function):
        for name in sorted(set(_mentioned(function)) & known.keys()):
            yield name, known[name]
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:
            continue  # not assigned yet
