"""A dict that notes which of its keys were changed, so that only those need be written down."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

K = TypeVar("K")
V = TypeVar("V")

_NOTHING: Any = object()


class NotedDict(dict[K, V]):
    """Notes nothing until `watch` is called. It has the changing methods that the front uses, and no others."""

    def __init__(self) -> None:
        super().__init__()
        self._noted: dict[K, None] | None = None

    def watch(self) -> None:
        """Notes every change from now on, and that there is what there is."""
        self._noted = dict.fromkeys(self)

    def take(self) -> tuple[K, ...]:
        """The keys that were changed since this was asked last, in the order of their first change."""
        if not self._noted:
            return ()
        taken = tuple(self._noted)
        self._noted.clear()
        return taken

    def _note(self, key: K) -> None:
        if self._noted is not None:
            self._noted[key] = None

    def __setitem__(self, key: K, value: V) -> None:
        super().__setitem__(key, value)
        self._note(key)

    def __delitem__(self, key: K) -> None:
        super().__delitem__(key)
        self._note(key)

    def pop(self, key: K, default: Any = _NOTHING) -> Any:
        """As a dict's."""
        if key in self:
            self._note(key)
        return super().pop(key) if default is _NOTHING else super().pop(key, default)

    def clear(self) -> None:
        """As a dict's."""
        for key in self:
            self._note(key)
        super().clear()

    def update(self, other: Mapping[K, V]) -> None:  # type: ignore[override]
        """As a dict's, of another dict."""
        super().update(other)
        for key in other:
            self._note(key)

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError("a change that is not noted")

    setdefault = popitem = __ior__ = _refuse


def either(first: Iterable[K], second: Iterable[K]) -> tuple[K, ...]:
    """The keys of both, each once."""
    return tuple(dict.fromkeys([*first, *second]))
