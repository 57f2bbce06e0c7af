"""A loaded version of a unit: the namespace its text made, and the view of it that callers get."""

from __future__ import annotations

import difflib
import types
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from tiremote.protocol.errors import UnknownName
from tiremote.protocol.receipts import Definition
from tiremote.worker.engine.call_types import Argument, remember
from tiremote.worker.engine.half_declared import Waiting
from tiremote.worker.engine.signature import ParameterType
from tiremote.worker.engine.source import Source, withdraw

if TYPE_CHECKING:
    from tiremote.worker.engine.keeping import Initial
    from tiremote.worker.engine.runtime import TaichiRuntime
    from tiremote.worker.engine.unit_imports import Imports

#: In every namespace from the beginning.
GIVEN: Final = frozenset({"ti", "tm", "np", "import_unit", "__builtins__"})

_LIFELINE: Final = "__tiremote_text__"


class UnknownAttribute(UnknownName, AttributeError):
    """`UnknownName` that ``hasattr`` and ``getattr`` with a default understand."""


class _Lifeline:
    """Lives in a namespace, and so as long as any function that came from its text."""

    __slots__ = ("__weakref__",)


@dataclass(frozen=True, slots=True, eq=False)
class LoadedUnit:
    """One version. ``uses``: name to the (unit, version) it was taken from; ``own``: what the text itself bound.

    ``imports``: unit to the names that were imported from it, None for all. ``initial``:
    what its objects began with. ``waiting``: fields that it left without a place.
    """

    source: Source
    module: types.ModuleType
    own: frozenset[str]
    definitions: tuple[Definition, ...]
    uses: dict[str, tuple[str, int]]
    imports: Imports = field(default_factory=dict)
    initial: dict[int, Initial] = field(default_factory=dict)
    waiting: Waiting = field(default_factory=Waiting)
    calls: dict[str, tuple[Argument, ...]] = field(default_factory=dict)
    #: What executing it did outside of this process.
    outside: tuple[str, ...] = ()

    @property
    def unit(self) -> str:
        return self.source.unit

    @property
    def version(self) -> int:
        return self.source.version

    @property
    def module_name(self) -> str:
        return module_name(self.source)

    @property
    def namespace(self) -> dict[str, Any]:
        return self.module.__dict__

    def get(self, name: str) -> Any:
        """What the text made under this name. Raises `UnknownName` (an AttributeError too)."""
        try:
            return self.namespace[name]
        except KeyError:
            known = tuple(each.name for each in self.definitions)
            raise UnknownAttribute(unknown(f"unit {self.unit!r} has no", name, known), name=name, known=known) from None

    def record_call(
        self, name: str, arguments: Sequence[Any], kinds: Sequence[ParameterType], runtime: TaichiRuntime
    ) -> None:
        """Keeps the types of a kernel's successful call: the next version is compiled for them when it is loaded.

        ``arguments`` are those the kernel was launched with, in its order, and ``kinds`` what its parameters take. A
        name with dots is a kernel of an object; its owner is not among the arguments.
        """
        kernel = reached(self.namespace, name)
        if runtime.is_kernel(kernel) or runtime.is_bound_kernel(kernel):
            self.calls[name] = tuple(
                remember(value, kind, runtime) for value, kind in zip(arguments, kinds, strict=True)
            )


def reached(namespace: Mapping[str, Any], dotted: str) -> Any:
    """What a name such as ``sim.step`` stands for, None where there is nothing."""
    first, *rest = dotted.split(".")
    value = namespace.get(first)
    for name in rest:
        try:
            value = getattr(value, name)
        except Exception:
            # A user's object may raise whatever is asked of it.
            return None
    return value


class Unit:
    """What ``loader[kernel_id]`` gives: its attributes are the names of the text. ``unit["name"]`` is the same.

    It stays with its version when the unit is replaced.
    """

    __slots__ = ("_loaded",)

    def __init__(self, loaded: LoadedUnit) -> None:
        object.__setattr__(self, "_loaded", loaded)

    def __getattribute__(self, name: str) -> Any:
        if name == "_loaded" or (name.startswith("__") and name.endswith("__")):
            return object.__getattribute__(self, name)
        return self._loaded.get(name)

    def __setattr__(self, name: str, value: Any) -> None:
        self._loaded.namespace[name] = value

    def __getitem__(self, name: str) -> Any:
        return self._loaded.get(name)

    def __contains__(self, name: object) -> bool:
        return name in self._loaded.namespace

    def __iter__(self) -> Iterator[str]:
        return iter([each.name for each in self._loaded.definitions])

    def __dir__(self) -> Iterable[str]:
        return list(self)

    def __repr__(self) -> str:
        loaded = self._loaded
        inside = ", ".join(map(str, loaded.definitions))
        return f"<Unit {loaded.unit!r} version {loaded.version}: {inside}>"


def module_name(source: Source) -> str:
    """What no import can name, so that no id stands for a module that exists."""
    again = f" build {source.build}" if source.build else ""
    return f"tiremote unit [{source.unit}] v{source.version}{again}"


def keep_text_alive(namespace: dict[str, Any], source: Source) -> None:
    """Lets the text be found until the last function with this namespace is gone. Doing it again does no harm."""
    if _LIFELINE in namespace:
        return
    source.publish()
    lifeline = _Lifeline()
    namespace[_LIFELINE] = lifeline
    weakref.finalize(lifeline, withdraw, source.file).atexit = False


def unknown(what: str, name: object, known: Iterable[str]) -> str:
    """``unit 'a' has no 'ad_base': did you mean 'add_base'? There are ...``"""
    names = list(known)
    close = difflib.get_close_matches(str(name), names, n=1)
    hint = f": did you mean {close[0]!r}?" if close else ""
    listed = ", ".join(names[:20]) + (f" and {len(names) - 20} more" if len(names) > 20 else "")
    return f"{what} {name!r}{hint}{';' if not hint else ''} there {'is nothing' if not names else f'are {listed}'}"
