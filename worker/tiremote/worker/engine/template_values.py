"""For how many numbers each kernel was compiled, because it takes them as templates: soon told to who calls it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from weakref import WeakKeyDictionary

#: Fifty took 2 s where a plain parameter took 0.05 s. From the first on each fourfold number is told again.
_FIRST: Final = 8

_PLAIN = (bool, int, float, str)


class TemplateValues:
    """Counts the values of template parameters that are no fields or objects."""

    def __init__(self) -> None:
        self._seen: WeakKeyDictionary[Any, dict[str, set[tuple[type, Any]]]] = WeakKeyDictionary()

    def note(self, kernel: Any, name: str, templates: Mapping[str, Any]) -> list[str]:
        """Warnings for a call of a ``Kernel`` object with these template arguments by parameter."""
        warnings = []
        for parameter, value in templates.items():
            if type(value) not in _PLAIN:
                continue
            seen = self._seen.setdefault(kernel, {}).setdefault(parameter, set())
            before = len(seen)
            seen.add((type(value), value))
            if len(seen) > before and _is_told(len(seen)):
                warnings.append(
                    f"kernel {name!r} was compiled {len(seen)} times, once for each value of template parameter "
                    f"{parameter!r}: annotate it as a number, such as ti.i32, where it need not be a constant"
                )
        return warnings


def _is_told(count: int) -> bool:
    while count > _FIRST and count % 4 == 0:
        count //= 4
    return count == _FIRST
