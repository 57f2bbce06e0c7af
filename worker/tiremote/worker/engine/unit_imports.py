"""Units that import one another: ``import_unit("helpers")``, ``import helpers``, ``from helpers import f``.

The import statement finds a unit only where Python finds no module of that name, and only in the texts of units.
"""

from __future__ import annotations

import builtins
import types
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tiremote.protocol.errors import UnknownName
from tiremote.worker.engine.unit import Unit

if TYPE_CHECKING:
    from tiremote.worker.engine.unit import LoadedUnit

#: A unit's id to the names that were taken from it; None among them stands for all.
Imports = dict[str, set[str | None]]


class UnitImports:
    """What one text may import. ``find`` gives the current version of a unit and raises `UnknownName`."""

    def __init__(self, importer: str, find: Callable[[str], LoadedUnit]) -> None:
        self._importer = importer
        self._find = find
        self.taken: Imports = {}

    def names(self) -> dict[str, Any]:
        """What goes into the namespace before the text is executed."""
        return {
            "import_unit": self.import_unit,
            "__builtins__": {**vars(builtins), "__import__": self._import},
        }

    def import_unit(self, kernel_id: str) -> Unit:
        """The newest version of another unit; this one is built again when that changes. Raises `UnknownName`."""
        found = self._other(kernel_id)
        self.taken.setdefault(kernel_id, set()).add(None)
        return Unit(found)

    def _import(
        self,
        name: str,
        globals: Mapping[str, Any] | None = None,  # noqa: A002 -- the names that __import__ has
        locals: Mapping[str, Any] | None = None,  # noqa: A002
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> types.ModuleType:
        try:
            return __import__(name, globals, locals, fromlist or (), level)
        except ModuleNotFoundError as error:
            if level or error.name != name or not name.isidentifier():
                raise
            try:
                found = self._other(name)
            except UnknownName:
                raise error from None
            wanted: set[str | None] = {None} if not fromlist or "*" in fromlist else set(fromlist)
            self.taken.setdefault(name, set()).update(wanted)
            return found.module

    def _other(self, kernel_id: str) -> LoadedUnit:
        if kernel_id == self._importer:
            raise UnknownName(f"unit {kernel_id!r} cannot import itself", name=kernel_id)
        return self._find(kernel_id)
