"""Who made what a session holds, and when it was used last."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tiremote.protocol.messages import EngineRequest, RequestId
from tiremote.protocol.values import Handle, Name
from tiremote.worker.link import Changes

#: Deeper inside an argument a handle is not looked for.
_DEEPEST = 4


@dataclass(slots=True)
class Use:
    """``owner``: what the client is called that made it. ``at``: when a request that named it came or ended last."""

    owner: str | None
    at: float


@dataclass(slots=True)
class Usage:
    """Of one session: ``units`` by name, ``arrays`` (objects too) by the id of their handle."""

    units: dict[str, Use] = field(default_factory=dict)
    arrays: dict[str, Use] = field(default_factory=dict)

    def note(self, request: EngineRequest, newest: str | None, now: float) -> None:
        """Whatever the request names is used now."""
        for name in ("target", "source", "copy_of"):
            self._touch(getattr(request, name, None), newest, now)
        for name in ("args", "kwargs"):
            inside = getattr(request, name, None)
            if inside:
                self._touch_inside(inside, newest, now, 0)

    def made(self, changes: Changes, request: RequestId, client: str | None, now: float) -> None:
        """What came and went with a request of that client. A unit that another had built again keeps its owner."""
        for unit in changes.units:
            if unit.loaded_by == request or unit.unit not in self.units:
                self.units[unit.unit] = Use(client, now)
        for array in changes.arrays:
            self.arrays.setdefault(array.handle.id, Use(client, now)).at = now
        for name in changes.dropped_units:
            self.units.pop(name, None)
        for handle in changes.dropped:
            self.arrays.pop(handle, None)

    def _touch(self, value: Any, newest: str | None, now: float) -> None:
        if isinstance(value, Handle):
            use = self.arrays.get(value.id)
        elif isinstance(value, Name):
            use = self.units.get(value.unit or newest or "")
        else:
            return
        if use is not None:
            use.at = now

    def _touch_inside(self, value: Any, newest: str | None, now: float, depth: int) -> None:
        for each in _items(value):
            if isinstance(each, list | tuple | dict) and depth < _DEEPEST:
                self._touch_inside(each, newest, now, depth + 1)
            else:
                self._touch(each, newest, now)


def _items(value: Any) -> Iterator[Any]:
    return iter(value.values() if isinstance(value, dict) else value)
