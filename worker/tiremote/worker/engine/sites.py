"""Calls that an engine remembers, so that they can be made again with other numbers and nothing else.

A site is one call of a kernel by one client: the kernel, the arrays it was given, and the places of its numbers.
Whatever could make a name or a handle stand for another thing has all of them forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tiremote.protocol.lanes import MAX_SITES, NUMBERS
from tiremote.protocol.messages import Run
from tiremote.protocol.values import Handle, Name
from tiremote.worker.engine.arguments import BoundCall
from tiremote.worker.engine.converters import Converter
from tiremote.worker.engine.results import to_plain
from tiremote.worker.engine.scalars import Mismatch
from tiremote.worker.engine.signature import ScalarType

if TYPE_CHECKING:
    from tiremote.worker.engine.runtime import TaichiRuntime

#: A client, by its token, and the number that it gave the site.
Key = tuple[str | None, int]


@dataclass(frozen=True, slots=True, eq=False)
class Site:
    """``values`` are all arguments; at ``numbers`` they are converted anew for each call."""

    target: Callable[..., Any]
    values: list[Any]
    numbers: tuple[tuple[int, Converter], ...]


class Sites:
    """Those of one session."""

    def __init__(self, runtime: TaichiRuntime) -> None:
        self._runtime = runtime
        #: By clients, and their numbers.
        self._sites: dict[str | None, dict[int, Site]] = {}

    def clear(self) -> None:
        """Forgets all of them."""
        self._sites.clear()

    def note(self, request: Run, call: BoundCall, result: Any) -> bool:
        """Whether a call that was made can be made again from here; ``result`` is what it gave, made plain."""
        if request.site is None:
            return False
        site = self._site(request, call, result)
        mine = self._sites.setdefault(request.token, {})
        mine.pop(request.site, None)
        if site is None:
            return False
        mine[request.site] = site
        if len(mine) > MAX_SITES:
            del mine[next(iter(mine))]
        return True

    def _site(self, request: Run, call: BoundCall, result: Any) -> Site | None:
        # What prints is told as output of its own request, which a call over a lane is not.
        if call.kernel is None or self._runtime.prints(call.kernel) or call.lent():
            return None
        if request.kwargs or request.tape is not None or not isinstance(result, type(None) | bool | int | float):
            return None
        numbers = []
        for position, (came, parameter) in enumerate(zip(request.args, call.parameters, strict=False)):
            if type(came) in NUMBERS and isinstance(parameter.takes, ScalarType):
                numbers.append((position, parameter.convert))
            elif not isinstance(came, Handle | Name):
                return None
        return Site(call.target, list(call.values), tuple(numbers))

    def call(self, key: Key, numbers: Sequence[Any]) -> tuple[bool, Any]:
        """Calls a site and waits for it: whether that could be done, and the result. Raises what the kernel does.

        Numbers that the kernel does not take are for `bind` to refuse.
        """
        token, which = key
        site = self._sites.get(token, {}).get(which)
        if site is None or len(numbers) != len(site.numbers):
            return False, None
        values = site.values
        try:
            for (position, convert), number in zip(site.numbers, numbers, strict=True):
                values[position] = convert(number)
        except Mismatch:
            return False, None
        result = site.target(*values)
        self._runtime.sync()
        return True, to_plain(result, self._runtime)
