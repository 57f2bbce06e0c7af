"""The requests that load source and ask for the versions it had."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from tiremote.protocol.errors import ProtocolError
from tiremote.protocol.request import EngineRequest, Request
from tiremote.protocol.values import Name

#: Launches of each side of a `Compare`.
MAX_REPEATS = 10_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Compile(EngineRequest):
    """Loads ``source`` as the unit of that name, or as the next free ``kernel_N``.

    ``keep``: fields, ndarrays and objects whose declaration did not change go on with their contents.
    """

    op: ClassVar[str] = "compile"

    source: str
    unit: str | None = None
    keep: bool = True


@dataclass(frozen=True, kw_only=True, slots=True)
class UnitText:
    """One of the texts of `CompileAll`."""

    unit: str
    source: str


@dataclass(frozen=True, kw_only=True, slots=True)
class CompileAll(EngineRequest):
    """Loads several units as one: all of them, or none.

    Each is built after those of them that it uses, whatever their order here. ``keep`` is as in `Compile`.
    """

    op: ClassVar[str] = "compile_all"

    units: tuple[UnitText, ...]
    keep: bool = True

    def __post_init__(self) -> None:
        EngineRequest.__post_init__(self)
        if not self.units:
            raise ProtocolError("compile_all takes at least one unit; none came")
        if len({each.unit for each in self.units}) < len(self.units):
            raise ProtocolError("compile_all takes each unit once; one came twice")


@dataclass(frozen=True, kw_only=True, slots=True)
class Rollback(EngineRequest):
    """Loads the text that ``unit`` had as ``version`` again, as a new version: the same transaction as `Compile`."""

    op: ClassVar[str] = "rollback"

    unit: str
    version: int
    keep: bool = True


#: What puts new text in the place of old.
LoadRequest = Compile | CompileAll | Rollback


@dataclass(frozen=True, kw_only=True, slots=True)
class History(Request):
    """The versions of ``unit`` that are remembered, oldest first; with ``version`` that one alone, with its text."""

    op: ClassVar[str] = "history"

    unit: str
    version: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Side:
    """One side of a `Compare`: a ``version`` from the history, or a ``source`` to try; neither: what is loaded."""

    version: int | None = None
    source: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Compare(EngineRequest):
    """Runs ``target`` in two versions of its unit on copies of the same state, and loads neither.

    ``after``: by default what is loaded. ``before``: by default the version before that, or what is loaded where
    ``after`` is a source. Each is launched ``repeats`` times, in turns.
    """

    op: ClassVar[str] = "compare"

    target: Name
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    before: Side | None = None
    after: Side | None = None
    repeats: int = 7

    def __post_init__(self) -> None:
        EngineRequest.__post_init__(self)
        if not 1 <= self.repeats <= MAX_REPEATS:
            raise ProtocolError(f"repeats is from 1 to {MAX_REPEATS}; {self.repeats} came")
