"""What of a class is code: its bases, methods and properties, and the members of an enumeration.

Another process makes all of that again from the text. Where a call has put something else there, the two differ.
"""

from __future__ import annotations

import enum
import types
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from tiremote.worker.engine.runtime import TaichiRuntime

_SCALARS: Final = (bool, int, float, complex, str, bytes, type(None), np.generic)
_DEEPEST: Final = 5


def class_code(cls: type, runtime: TaichiRuntime) -> tuple[Any, ...]:
    """The same for every class that the same text has made, as long as nobody has changed its code."""
    bases = tuple(base.__qualname__ for base in cls.__bases__)
    members = ((name, _member(name, value, runtime)) for name, value in sorted(vars(cls).items()))
    code = tuple((name, mark) for name, mark in members if mark is not None)
    return (bases, code, _enumeration(cls) if issubclass(cls, enum.Enum) else ())


def _member(name: str, value: Any, runtime: TaichiRuntime) -> Any:
    """None for what is data, or follows from something else."""
    if hasattr(type(value), "__get__"):
        return _code(value, runtime)
    is_special = name.startswith("__") and name not in ("__module__", "__doc__")
    return repr(value) if is_special and isinstance(value, _SCALARS) else None


def _code(value: Any, runtime: TaichiRuntime) -> Any:
    if isinstance(value, staticmethod | classmethod):
        return (type(value).__name__, _code(value.__func__, runtime))
    if isinstance(value, property):
        return ("property", *(_code(each, runtime) for each in (value.fget, value.fset, value.fdel)))
    if runtime.is_kernel(value) or runtime.is_func(value):
        value = runtime.python_function(value)
    if type(value) is types.FunctionType:
        return (value.__qualname__, value.__code__.co_firstlineno, value.__code__.co_name)
    return type(value).__qualname__


def _enumeration(cls: type[enum.Enum]) -> tuple[Any, ...]:
    own = [(name, _outline(value, 0)) for name, value in sorted(vars(cls).items()) if not _is_pythons(name)]
    for name, member in cls.__members__.items():
        state = sorted(vars(member).items())
        own.append((name, repr([(key, _outline(each, 0)) for key, each in state if not _is_pythons(key)])))
    return tuple(own)


def _is_pythons(name: str) -> bool:
    return name.startswith("_") and name.endswith("_") and name != "_value_"


def _outline(value: Any, depth: int) -> str:
    kind = type(value)
    if isinstance(value, _SCALARS) and not isinstance(value, enum.Enum):
        return repr(value)
    if depth < _DEEPEST and kind in (list, tuple):
        return repr([_outline(each, depth + 1) for each in value])
    if depth < _DEEPEST and kind in (set, frozenset):
        return repr(sorted(_outline(each, depth + 1) for each in value))
    if depth < _DEEPEST and kind is dict:
        return repr([(_outline(key, depth + 1), _outline(each, depth + 1)) for key, each in value.items()])
    return kind.__qualname__
