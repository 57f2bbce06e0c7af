"""What tells the instances of a kernel apart by its template arguments, where a runtime does it wrong."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any


def told_apart(extract: Callable[..., Any], fields: tuple[type[Any], ...]) -> Callable[..., Any]:
    """``extract(..., argument, annotation, name)`` with keys of our own.

    Fields are referred to weakly: a kernel would keep each that it was ever given. Booleans and floats are told from
    what is equal to them, ``True`` and ``1.0`` from ``1`` and ``-0.0`` from ``0.0``: a kernel compiled for one of them
    would be run for the other.
    """

    @functools.wraps(extract)
    def extract_arg(*args: Any) -> Any:
        argument = args[-3]
        if isinstance(argument, fields):
            return weakref.ref(argument)
        key = extract(*args)
        # What is no template gives another key than itself.
        if key is argument and type(argument) in (bool, float):
            return type(argument), float.hex(float(argument))
        return key

    return extract_arg
