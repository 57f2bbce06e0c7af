"""Which global names a text uses and which it binds, as Python's own compiler decides it."""

from __future__ import annotations

import dis
import types
from collections.abc import Iterator
from dataclasses import dataclass

_USES = frozenset({"LOAD_NAME", "LOAD_GLOBAL", "LOAD_FROM_DICT_OR_GLOBALS"})
_BINDS = frozenset({"STORE_NAME", "STORE_GLOBAL"})


@dataclass(frozen=True, slots=True)
class GlobalNames:
    """``bound``: assigned, defined or imported at module level, or declared ``global`` and assigned elsewhere.
    ``free``: used and not bound, builtins among them. ``assigned_later``: assigned by a function, when it is called."""

    bound: frozenset[str]
    free: frozenset[str]
    assigned_later: frozenset[str]


def global_names(code: types.CodeType) -> GlobalNames:
    """The names of a module's code and of everything that is defined in it."""
    used: set[str] = set()
    bound: set[str] = set()
    later: set[str] = set()
    for each in nested(code):
        own = _names(each, _BINDS)
        # In a class body a name is first looked for in the class, whose own names are not global.
        is_class_body = each is not code and not each.co_flags & _CO_OPTIMIZED
        used |= _names(each, _USES) - (own if is_class_body else set())
        bound |= _names(each, frozenset({"STORE_GLOBAL"})) if is_class_body else own
        later |= own if each is not code and not is_class_body else set()
    return GlobalNames(
        bound=frozenset(bound),
        free=frozenset(used - bound),
        assigned_later=frozenset(later),
    )


def names_used(code: types.CodeType) -> frozenset[str]:
    """The global names that a function and what is nested in it use."""
    return frozenset(name for each in nested(code) for name in _names(each, _USES))


def nested(code: types.CodeType) -> Iterator[types.CodeType]:
    """A code object and all that are defined in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from nested(constant)


def _names(code: types.CodeType, operations: frozenset[str]) -> set[str]:
    return {str(each.argval) for each in dis.get_instructions(code) if each.opname in operations}


_CO_OPTIMIZED = 1
