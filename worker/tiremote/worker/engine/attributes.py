"""Attributes of kept objects, seen and set from outside."""

from __future__ import annotations

import ast
import inspect
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from tiremote.protocol.attributes import AttributeResult, GetAttribute, SetAttribute
from tiremote.protocol.errors import KernelArgumentError
from tiremote.worker.engine.check import is_taichi_scope
from tiremote.worker.engine.definitions import kernel_definition
from tiremote.worker.engine.members import is_callable
from tiremote.worker.engine.pairing import is_unit_object
from tiremote.worker.engine.references import References, attribute, shown
from tiremote.worker.engine.results import to_plain
from tiremote.worker.engine.source import living_texts

if TYPE_CHECKING:
    from tiremote.worker.engine.runtime import TaichiRuntime

_PLAIN = (type(None), bool, int, float, str, np.generic)


class Attributes:
    """Serves both ops. ``sent`` makes handles of what stays here."""

    def __init__(self, runtime: TaichiRuntime, references: References, sent: Callable[[Any], Any]) -> None:
        self._runtime = runtime
        self._references = references
        self._sent = sent

    def get(self, request: GetAttribute) -> AttributeResult:
        """Raises `UnknownName`, and what a property raises."""
        target = self._references.resolve(request.target)
        value = attribute(target, request.name, shown(request.target, target))
        if is_callable(value, self._runtime):
            runtime = self._runtime
            is_kernel = runtime.is_kernel(value) or runtime.is_bound_kernel(value) or runtime.is_gradient(value)
            definition = kernel_definition(request.name, value, runtime) if is_kernel else None
            return AttributeResult(callable=True, definition=definition)
        # A property may have launched kernels.
        self._runtime.sync()
        return AttributeResult(value=self._sent(to_plain(value, self._runtime)))

    def set(self, request: SetAttribute) -> AttributeResult:
        """Raises `UnknownName`, and `KernelArgumentError` for what is not plain."""
        target = self._references.resolve(request.target)
        value = self._references.argument(request.value)
        told = set_attribute(target, request.name, value, shown(request.target, target), self._runtime)
        return AttributeResult(value=told)


def set_attribute(target: Any, name: str, value: Any, shown: str, runtime: TaichiRuntime) -> Any:
    """Sets a plain attribute to a plain value; gives what it is then. Raises `UnknownName`, `KernelArgumentError`."""
    path, _, last = name.rpartition(".")
    owner = attribute(target, path, shown) if path else target
    if not (is_unit_object(owner) or isinstance(owner, types.SimpleNamespace)):
        raise _refused(f"{shown} is a {type(owner).__name__}: attributes of objects of the source's classes are set")
    old = attribute(owner, last, shown)
    if not isinstance(old, _PLAIN):
        raise _refused(f"{name} of {shown} is a {type(old).__name__}: only numbers, text and None are set from outside")
    if not isinstance(value, _PLAIN):
        raise _refused(f"{name} of {shown} takes a number, text or None, but a {type(value).__name__} came")
    plain = value.item() if isinstance(value, np.generic) and not isinstance(old, np.generic) else value
    try:
        setattr(owner, last, plain)
    except AttributeError as error:
        raise _refused(f"{name} of {shown} cannot be set: {error}") from None
    # What a setter does beside is not known.
    has_setter = hasattr(inspect.getattr_static(type(owner), last, None), "__set__")
    if has_setter or ((type(old), old) != (type(plain), plain) and _is_compiled_in(last)):
        runtime.forget_all_compiled()
    return attribute(owner, last, shown)


def _is_compiled_in(name: str) -> bool:
    """Whether a kernel or func of any text asks for an attribute of that name: Taichi reads it once."""
    return any(
        isinstance(node, ast.Attribute) and node.attr == name
        for text in living_texts()
        for function in text.functions.values()
        if is_taichi_scope(function)
        for node in ast.walk(function)
    )


def _refused(message: str) -> KernelArgumentError:
    return KernelArgumentError(message, parameter="value")
