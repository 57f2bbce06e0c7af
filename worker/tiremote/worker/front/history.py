"""The texts that units had, so that an earlier one can be looked at and loaded again."""

from __future__ import annotations

import difflib
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, KeysView
from dataclasses import replace

from tiremote.protocol.errors import UnknownName
from tiremote.protocol.messages import RequestId
from tiremote.protocol.receipts import UnitVersion


class UnitHistory:
    """The versions of one unit, oldest first. Beyond ``most`` or ``max_bytes`` the oldest are forgotten."""

    def __init__(
        self, unit: str, most: int, max_bytes: int = 64 << 20, wall_clock: Callable[[], float] = time.time
    ) -> None:
        self._unit = unit
        self._most = most
        self._max_bytes = max_bytes
        self._wall_clock = wall_clock
        self._versions: OrderedDict[int, UnitVersion] = OrderedDict()
        self._bytes = 0

    def add(self, version: int, source: str, loaded_by: RequestId | None) -> None:
        """Remembers a version that was loaded; one that is known already stays as it is."""
        if version in self._versions:
            return
        before = next(reversed(self._versions.values()), None)
        added, removed = line_changes(before.source or "" if before else "", source)
        self._versions[version] = UnitVersion(
            version=version,
            loaded_by=loaded_by,
            loaded_at=self._wall_clock(),
            source_bytes=len(source.encode()),
            lines_added=added,
            lines_removed=removed,
            source=source,
        )
        self._bound(source)

    def restore(self, versions: Iterable[UnitVersion]) -> None:
        """Takes versions that were remembered elsewhere, oldest first, with their texts."""
        for each in versions:
            self._versions[each.version] = each
            self._bound(each.source or "")

    def _bound(self, added: str) -> None:
        self._bytes += len(added)
        while len(self._versions) > 1 and (len(self._versions) > self._most or self._bytes > self._max_bytes):
            _, oldest = self._versions.popitem(last=False)
            self._bytes -= len(oldest.source or "")

    def numbers(self) -> KeysView[int]:
        """The versions that are remembered."""
        return self._versions.keys()

    def all(self) -> tuple[UnitVersion, ...]:
        """Every version that is remembered, without its text."""
        return tuple(replace(each, source=None) for each in self._versions.values())

    def get(self, version: int) -> UnitVersion:
        """One version with its text. Raises `UnknownName`."""
        try:
            return self._versions[version]
        except KeyError:
            known = tuple(map(str, self._versions))
            raise UnknownName(
                f"unit {self._unit!r} has no version {version} in its history; there are {', '.join(known)}",
                name=f"{self._unit} version {version}",
                known=known,
            ) from None

    def before(self, version: int) -> int:
        """The version before that one. Raises `UnknownName` where none is remembered."""
        found = max((each for each in self._versions if each < version), default=None)
        if found is None:
            raise UnknownName(
                f"the history of unit {self._unit!r} has nothing before version {version} to compare it with",
                name=f"{self._unit} before version {version}",
                known=tuple(map(str, self._versions)),
            )
        return found


def line_changes(before: str, after: str) -> tuple[int, int]:
    """How many lines a diff adds and removes."""
    matcher = difflib.SequenceMatcher(a=before.splitlines(), b=after.splitlines(), autojunk=False)
    added = removed = 0
    for tag, a_start, a_end, b_start, b_end in matcher.get_opcodes():
        if tag != "equal":
            added += b_end - b_start
            removed += a_end - a_start
    return added, removed
