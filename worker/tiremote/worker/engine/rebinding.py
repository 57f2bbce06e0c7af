"""Puts what is kept where a new version's own fields, ndarrays and objects were."""

from __future__ import annotations

import functools
import types
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tiremote.worker.engine.likeness import is_a
from tiremote.worker.engine.pairing import MODULE_PREFIX, attributes, is_unit_object

if TYPE_CHECKING:
    from tiremote.worker.engine.runtime import TaichiRuntime

_LONGEST = 10_000
_MOST_VALUES = 200_000
_DEEPEST = 16


class Rebinder:
    """Goes through everything that can be reached from a new version's names: lists, dicts, objects, closures,
    defaults, classes. ``kept``: ids of new things to the old ones; ``nodes`` the same for ids of SNodes."""

    def __init__(self, kept: Mapping[int, Any], nodes: Mapping[int, Any], runtime: TaichiRuntime) -> None:
        self._kept = kept
        self._nodes = nodes
        self._runtime = runtime
        #: By identity: also keeps them alive, so that no id is used twice.
        self._seen: dict[int, Any] = {}

    def namespace(self, namespace: dict[str, Any]) -> None:
        """Rebinds every name, and what lies behind it."""
        for name, value in list(namespace.items()):
            if name.startswith("__"):
                continue
            better = self.value(value)
            if better is not value:
                namespace[name] = better

    def value(self, value: Any, depth: int = 0) -> Any:
        """What stands for it now: itself, changed inside where needed, or another."""
        if id(value) in self._kept:
            return self._kept[id(value)]
        if is_a(value, (str, int, float, type(None))) or depth > _DEEPEST or len(self._seen) > _MOST_VALUES:
            return value
        if self._runtime.is_snode(value):
            node = self._nodes.get(value.ptr.id)
            return value if node is None else self._runtime.snode(node)
        if type(value) is tuple or (is_a(value, tuple) and hasattr(type(value), "_make")):
            return self._tuple(value, depth)
        if id(value) not in self._seen:
            self._seen[id(value)] = value
            return self._inside(value, depth + 1)
        return value

    def _tuple(self, value: Any, depth: int) -> Any:
        if len(value) > _LONGEST:
            return value
        items = [self.value(each, depth + 1) for each in value]
        if all(new is old for new, old in zip(items, value, strict=True)):
            return value
        return tuple(items) if type(value) is tuple else type(value)._make(items)

    def _inside(self, value: Any, depth: int) -> Any:
        if type(value) is list and len(value) <= _LONGEST:
            value[:] = [self.value(each, depth) for each in value]
        elif is_a(value, dict) and len(value) <= _LONGEST:
            self._items(value, depth)
        elif type(value) is set and len(value) <= _LONGEST:
            better = {self.value(each, depth) for each in value}
            value.clear()
            value |= better
        elif self._runtime.is_kernel(value) or self._runtime.is_func(value):
            self._function(self._runtime.python_function(value), depth)
        elif is_a(value, types.FunctionType):
            self._function(value, depth)
        elif is_a(value, functools.partial):
            args = [self.value(each, depth) for each in value.args]
            keywords = {name: self.value(each, depth) for name, each in value.keywords.items()}
            return functools.partial(self.value(value.func, depth), *args, **keywords)
        elif is_a(value, types.MethodType):
            owner = self.value(value.__self__, depth)
            if owner is not value.__self__:
                return getattr(owner, value.__name__, value)
        elif self._runtime.is_bound(value):
            was = self._runtime.bound_to(value)
            owner = self.value(was, depth)
            if owner is not was:
                return getattr(owner, value.__name__, value)
        elif is_a(value, type):
            if str(value.__module__).startswith(MODULE_PREFIX):
                self._class(value, depth)
        elif is_unit_object(value) or is_a(value, types.SimpleNamespace):
            self._items(attributes(value), depth)
        return value

    def _items(self, items: dict[Any, Any], depth: int) -> None:
        for key, value in list(items.items()):
            better = self.value(value, depth)
            if better is not value:
                items[key] = better

    def _function(self, function: Any, depth: int) -> None:
        for cell in function.__closure__ or ():
            try:
                value = cell.cell_contents
            except ValueError:
                continue  # not assigned yet
            better = self.value(value, depth)
            if better is not value:
                cell.cell_contents = better
        if function.__defaults__:
            function.__defaults__ = tuple(self.value(each, depth) for each in function.__defaults__)
        if function.__kwdefaults__:
            self._items(function.__kwdefaults__, depth)
        inner = getattr(function, "__wrapped__", None)
        if inner is not None:
            self.value(inner, depth)

    def _class(self, cls: type, depth: int) -> None:
        for name, value in list(vars(cls).items()):
            if is_a(value, (staticmethod, classmethod)):
                self.value(value.__func__, depth)
            elif is_a(value, property):
                for each in (value.fget, value.fset, value.fdel):
                    if each is not None:
                        self.value(each, depth)
            elif not name.startswith("__"):
                better = self.value(value, depth)
                if better is not value:
                    setattr(cls, name, better)
