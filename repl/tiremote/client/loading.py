"""The half of a session that loads source: texts, the versions they had, and how two of these compare."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from tiremote.client import versions
from tiremote.client.arguments import pack_call
from tiremote.protocol.comparison import Comparison
from tiremote.protocol.messages import Compare, Compile, CompileAll, EngineRequest, Rollback, Side, UnitText
from tiremote.protocol.receipts import Receipt
from tiremote.protocol.results import CompileAllResult, HistoryResult
from tiremote.protocol.values import Name

if TYPE_CHECKING:
    from tiremote.client.directory import Directory
    from tiremote.client.exchange import Exchange

R = TypeVar("R")


class Loading:
    """What `Session` inherits."""

    _exchange: Exchange
    _directory: Directory

    def compile_and_load(
        self, source: str, kernel_id: str | None = None, *, keep: bool = True, deadline: float | None = None
    ) -> Receipt:
        """Loads ``source`` under ``kernel_id``, replacing what was there, or under the next free ``kernel_N``.

        Fields, ndarrays and objects whose declaration did not change go on with their contents, unless ``keep`` is
        False; what other units use of it is rebuilt with it. ``deadline`` is in seconds of work. Raises `CompileError`
        (nothing is replaced then), `DeadlineExceeded`.
        """
        if not isinstance(source, str):
            raise TypeError(f"source is a string, not {type(source).__name__}")
        return self._load(
            Compile(id="", source=source, unit=kernel_id, keep=keep, deadline=deadline, events=self._exchange.events),
            Receipt,
        )

    def compile_and_load_all(
        self, sources: Mapping[str, str], *, keep: bool = True, deadline: float | None = None
    ) -> dict[str, Receipt]:
        """Loads several texts, each under its id, as one: all of them, or none.

        Each is loaded after those of them that it uses or imports, whatever their order here; so a name that one has
        and another uses can be changed in both. The last receipt tells of other units as well. Raises as
        `compile_and_load` does; `CompileError.unit` is the one at fault.
        """
        for unit, source in sources.items():
            if not isinstance(source, str):
                raise TypeError(f"the source of {unit!r} is a string, not {type(source).__name__}")
        request = CompileAll(
            id="",
            units=tuple(UnitText(unit=unit, source=source) for unit, source in sources.items()),
            keep=keep,
            deadline=deadline,
            events=self._exchange.events,
        )
        return {receipt.unit: receipt for receipt in self._load(request, CompileAllResult).receipts}

    def rollback(self, kernel_id: str, version: int, *, keep: bool = True, deadline: float | None = None) -> Receipt:
        """Loads the text that a unit had as ``version`` again, as a new version: the same as a reload.

        Raises `UnknownName` for a version that is not in the history, else as `compile_and_load`.
        """
        return self._load(
            Rollback(
                id="", unit=kernel_id, version=version, keep=keep, deadline=deadline, events=self._exchange.events
            ),
            Receipt,
        )

    def _load(self, request: EngineRequest, result: type[R]) -> R:
        try:
            return self._exchange.call(request, result)
        finally:
            self._directory.forget()

    def history(self, kernel_id: str) -> HistoryResult:
        """The versions of a unit that the worker remembers, oldest first. Raises `UnknownName`."""
        return versions.history(self._exchange, kernel_id)

    def source(self, kernel_id: str, version: int | None = None) -> str:
        """The text of a version of a unit; None: the one that is loaded. Raises `UnknownName`."""
        return versions.source(self._exchange, kernel_id, version)

    def diff(self, kernel_id: str, before: int | None = None, after: int | None = None) -> str:
        """A unified diff of two versions of a unit; by default of the one that is loaded and the one before it.

        Raises `UnknownName`.
        """
        return versions.diff(self._exchange, kernel_id, before, after)

    def compare(
        self,
        kernel_id: str,
        name: str,
        /,
        *args: Any,
        before: int | None = None,
        after: int | None = None,
        before_source: str | None = None,
        after_source: str | None = None,
        kwargs: Mapping[str, Any] | None = None,
        repeats: int = 7,
        deadline: float | None = None,
    ) -> Comparison:
        """Runs a kernel, a function or ``object.method`` of two versions of a unit, and loads neither.

        ``before`` and ``after`` are versions of its history, or ``before_source`` and ``after_source`` texts to try.
        ``after`` is by default what is loaded, ``before`` the version before ``after``, or what is loaded where there
        is an ``after_source``. ``args`` and ``kwargs`` are the call's.

        Each side has fields, ndarrays and objects of its own, which begin as those that are loaded are, by the rules of
        a reload. Before each launch all of it, the arguments and what other units hold are as they were, and so they
        are afterwards; that is not in the times. After a first launch each, which is compared, both are launched
        ``repeats`` times in turns.

        Raises what a load and a run raise, with the side in the message; `UnknownName` for a version that is not in the
        history; `Refused` for an argument that could not be put back.
        """
        call = pack_call(self._exchange, args, kwargs or {})
        try:
            return self._exchange.call(
                Compare(
                    id="",
                    target=Name(unit=kernel_id, name=name),
                    args=call.args,
                    kwargs=call.kwargs,
                    before=_side("before", before, before_source),
                    after=_side("after", after, after_source),
                    repeats=repeats,
                    deadline=deadline,
                    events=self._exchange.events,
                ),
                Comparison,
            )
        finally:
            call.drop_loans()


def _side(name: str, version: int | None, source: str | None) -> Side | None:
    if version is not None and source is not None:
        raise TypeError(f"{name}={version} and {name}_source came: give one of them")
    return None if version is None and source is None else Side(version=version, source=source)
