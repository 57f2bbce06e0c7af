"""The request that a crash be run again under checks, and what those found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tiremote.protocol.errors import AsOf, SourceFrame, few
from tiremote.protocol.request import EngineRequest, RequestId

#: What an explanation comes to; a later worker may know more.
KINDS = (
    "out of bounds",
    "assertion",
    "error",
    "crashed again",
    "ran to its end",
    "took too long",
    "not restored",
    "not kept",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class ExplainCrash(EngineRequest):
    """Runs the request with which the session's engine crashed last again, in a debug engine that ends with it.

    That one has the units as they were, and copies of the arrays. Nothing of the session is touched, and what the
    session's own engine does goes on meanwhile. ``deadline`` is for all of it; None: a minute.
    """

    op: ClassVar[str] = "explain_crash"


@dataclass(frozen=True, kw_only=True, slots=True)
class CrashExplanation:
    """What was found when ``request``, which did ``target``, was run again after ``crash``.

    ``kind`` is one of `KINDS`, ``message`` a line that says what it means. ``frames`` lead into the text as it was,
    outermost first. Of an index out of bounds ``index`` should be, along each axis, at least ``first`` (0 where that is
    empty) and less than that plus ``bounds``. ``signal`` is what it crashed with again.

    ``as_of`` tells what the arrays held, ``anew`` names those of which there was no copy: they hold zeros, or what
    loading their unit gives. ``missing`` could not be had at all. ``seconds`` is how long all that took.
    """

    kind: str
    message: str
    request: RequestId
    target: str
    crash: str
    frames: tuple[SourceFrame, ...] = ()
    index: tuple[int, ...] | None = None
    bounds: tuple[int, ...] = ()
    first: tuple[int, ...] = ()
    signal: str | None = None
    as_of: tuple[AsOf, ...] = ()
    anew: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def line(self) -> int | None:
        """The line, from 1, of the innermost frame, or None where no line is known."""
        return self.frames[-1].line if self.frames else None

    @property
    def expression(self) -> str:
        """The part of that line that is at fault, such as ``x[i + 1]``; empty where it is not known."""
        frame = self.frames[-1] if self.frames else None
        return frame.text[frame.column - 1 : frame.end_column - 1] if frame is not None and frame.column else ""

    def __str__(self) -> str:
        what = self.expression if self.index is not None and self.expression else self.kind
        lines = [f"{what}: {self.message}", *map(str, self.frames)]
        lines.append(f"of {self.target} (request {self.request}), with which {self.crash}")
        for told, names in (
            ("run again with", tuple(map(str, self.as_of))),
            ("with zeros, or as loaded, for want of a copy:", self.anew),
            ("without", self.missing),
        ):
            if names:
                lines.append(f"  {told} {few(names)}")
        return "\n".join(lines)
