"""Units that import one another: ``import_unit("helpers")``, ``import helpers``, ``from helpers import f``.

The import statement finds a unit only in the texts of units, and where no installed module has that name: a file of
that name in the folder that the worker was started in is most likely an older text of the unit.
"""

from __future__ import annotations

import builtins
import contextlib
import importlib.util
import sys
import sysconfig
import types
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tiremote.protocol.errors import UnknownName
from tiremote.worker.engine.runtime_imports import everything, meant_by
from tiremote.worker.engine.unit import Unit

if TYPE_CHECKING:
    from tiremote.worker.engine.unit import LoadedUnit

#: Where installed packages lie.
_INSTALLED = tuple(Path(sysconfig.get_path(kind)) for kind in ("purelib", "platlib"))

#: A unit's id to the names that were taken from it; None among them stands for all.
Imports = dict[str, set[str | None]]


class UnitImports:
    """What one text may import. ``find`` gives the current version of a unit and raises `UnknownName`.

    ``runtime`` is the name of the session's.
    """

    def __init__(self, importer: str, runtime: str, find: Callable[[str], LoadedUnit]) -> None:
        self._importer = importer
        self._runtime = runtime
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
        if not level and name.isidentifier() and not _is_installed(name):
            with contextlib.suppress(UnknownName):
                unit = self._other(name)
                wanted: set[str | None] = {None} if not fromlist or "*" in fromlist else set(fromlist)
                self.taken.setdefault(name, set()).update(wanted)
                return unit.module
        meant = name if level else meant_by(name, self._runtime)
        found = builtins.__import__(meant, globals, locals, fromlist or (), level)
        return everything(found) if meant == self._runtime and "*" in (fromlist or ()) else found

    def _other(self, kernel_id: str) -> LoadedUnit:
        if kernel_id == self._importer:
            raise UnknownName(f"unit {kernel_id!r} cannot import itself", name=kernel_id)
        return self._find(kernel_id)


def _is_installed(name: str) -> bool:
    """Whether Python's own library or an installed package has a module of that name."""
    if name in sys.stdlib_module_names or name in sys.builtin_module_names:
        return True
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        # A module in the middle of its import, or one that replaced itself.
        return name in sys.modules
    if spec is None:
        return False
    places = [spec.origin] if spec.origin else list(spec.submodule_search_locations or ())
    return any(Path(place).is_relative_to(folder) for place in places for folder in _INSTALLED)
