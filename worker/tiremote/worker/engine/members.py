"""What of a class or an object is there to be called."""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tiremote.worker.engine.runtime import TaichiRuntime

_CALLABLE = (types.FunctionType, types.MethodType, types.BuiltinFunctionType, type)
#: A handle travels with every answer that has it: of a class with more methods than these none are told.
_MOST_METHODS = 200


def is_callable(value: Any, runtime: TaichiRuntime) -> bool:
    """Whether an attribute is there to be called, and not an object that happens to be callable."""
    return (
        issubclass(type(value), _CALLABLE)
        or runtime.is_kernel(value)
        or runtime.is_bound(value)
        or runtime.is_func(value)
        or runtime.is_gradient(value)
    )


def methods_of(cls: Any, runtime: TaichiRuntime) -> list[str]:
    """The public kernels, functions and methods of a class of the user's, inherited ones too, by name."""
    names: dict[str, bool] = {}
    for base in reversed(type.__dict__["__mro__"].__get__(cls)):
        for name, value in vars(base).items():
            inside = value.__func__ if isinstance(value, staticmethod | classmethod) else value
            names[name] = not name.startswith("_") and is_callable(inside, runtime)
    found = [name for name, there in names.items() if there]
    return found if len(found) <= _MOST_METHODS else []
