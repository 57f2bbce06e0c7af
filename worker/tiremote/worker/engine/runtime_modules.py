"""An imported runtime by its modules: the base of the seam to Taichi."""

from __future__ import annotations

import functools
import importlib
from typing import Any

from tiremote.worker.engine.quiet import quiet_environment
from tiremote.worker.runtimes import RUNTIMES


class RuntimeModules:
    """``ti`` is the runtime's module, ``tm`` its ``math``, ``layout`` where the rest of it lies."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.kind = RUNTIMES[name]
        self.layout = self.kind.layout
        self._modules: dict[str, Any] = {}
        with quiet_environment(self.layout.environment):
            self.ti: Any = importlib.import_module(name)
            self.tm: Any = importlib.import_module(f"{name}.math")
        self.impl: Any = self.lang("impl")
        self.core: Any = importlib.import_module(f"{name}._lib").core
        for (module, value_name), value in self.layout.mended.items():
            setattr(self.module(module), value_name, value)
        self._name_errors_as_taichi()

    def _name_errors_as_taichi(self) -> None:
        """Lets a text catch ``ti.TaichiRuntimeError`` on every runtime."""
        prefix = self.layout.errors
        for name, value in list(vars(self.ti).items()):
            if name.startswith(prefix) and name.endswith("Error"):
                setattr(self.ti, f"Taichi{name.removeprefix(prefix)}", value)

    def module(self, path: str) -> Any:
        """A module below the runtime's package, such as ``lang.impl``."""
        found = self._modules.get(path)
        if found is None:
            found = self._modules[path] = importlib.import_module(f"{self.name}.{path}")
        return found

    def lang(self, module: str) -> Any:
        """A module of the runtime's ``lang`` package, such as ``impl``."""
        return self.module(f"lang.{module}")

    def found(self, place: tuple[str, str]) -> Any:
        """What is at a place of the layout: a module and a name in it, perhaps one in a class."""
        return functools.reduce(getattr, place[1].split("."), self.module(place[0]))

    def exception(self, name: str) -> type[BaseException]:
        """The runtime's own exception, such as ``CompilationError``."""
        return getattr(self.lang("exception"), f"{self.layout.errors}{name}")  # type: ignore[no-any-return]
