"""Every error that crosses the wire or reaches a user, as one tree.

::

    TiremoteError
    ├── ProtocolError            the message itself is wrong: shape, type, size, op
    │   ├── VersionMismatch      no protocol version is spoken by both sides
    │   └── PayloadTooLarge      a frame, a payload or a session's budget is over its limit
    ├── UnsupportedType          a value or dtype that the wire does not carry
    ├── CompileError             source does not parse, load or compile; nothing was replaced
    ├── KernelArgumentError      an argument was refused before the launch
    ├── KernelRuntimeError       the user's code raised while it ran
    ├── EngineError              the process that owns Taichi was lost, or never came up
    │   ├── EngineCrashed        it died, or a device error poisoned it
    │   ├── Interrupted          somebody asked for the request to be stopped
    │   └── DeadlineExceeded     the request ran longer than it was given
    ├── OutOfMemory              host or device memory is exhausted
    ├── UnknownName              no such unit, kernel, array, attribute or session
    ├── StaleHandle              the handle is from before a crash, or was cleaned up
    ├── MissingChunks            an array was to be made of chunks that the worker does not have any more
    ├── Refused                  well understood, and not done: a limit, a policy, a state
    ├── WorkerUnreachable        nothing is heard from the worker any more
    ├── Unauthorized             the worker does not admit this key, or not to this session
    └── InternalError            a fault of tiremote itself; its log has the stack

An error carries data, not only text: on the wire it is ``code``, ``message`` and the attributes that its
class names in ``carries``. A code that this version does not know arrives as `TiremoteError`.
"""

from __future__ import annotations

from dataclasses import dataclass
from reprlib import Repr
from typing import Any, ClassVar


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceFrame:
    """One place in the user's own source. ``line`` and ``column`` count from 1; ``column`` 0: the whole line."""

    unit: str
    version: int
    function: str
    line: int
    column: int
    end_column: int
    text: str

    def __str__(self) -> str:
        head = f'  in "{self.unit}" version {self.version}, line {self.line}'
        if self.function:
            head += f", in {self.function}"
        body = self.text.rstrip().expandtabs(4)
        stripped = body.lstrip()
        lines = [head, f"    {stripped}"]
        if self.column > 0 and stripped:
            # Columns count characters of the raw line: what a tab or a cut indent moved has to move the caret too.
            cut = len(body) - len(stripped)
            start = max(len(self.text[: self.column - 1].expandtabs(4)) - cut, 0)
            end = max(len(self.text[: max(self.end_column, self.column) - 1].expandtabs(4)) - cut, start + 1)
            lines.append("    " + " " * start + "^" * (end - start))
        return "\n".join(lines)


@dataclass(frozen=True, kw_only=True, slots=True)
class AsOf:
    """An array that was put back: it holds what it held after ``request``, which ended ``seconds`` before the loss.

    ``op`` is the request's: ``put``, ``fetch`` or ``snapshot``; ``request`` is None for a snapshot of the worker's own.
    ``name`` is for people, ``target`` the id of its handle or its name in a unit, such as ``sim.pos``.
    """

    name: str
    target: str
    request: str | int | None
    op: str
    seconds: float

    def __str__(self) -> str:
        return f"{self.name} (as of a {self.op} {self.seconds:.1f} s before)"


class TiremoteError(Exception):
    """The root. ``message`` is one line: what came, what was expected, what to do."""

    code: ClassVar[str] = "error"
    carries: ClassVar[tuple[str, ...]] = ()

    message: str

    def __init__(self, message: str, **data: Any) -> None:
        super().__init__(message)
        unknown = data.keys() - set(self.carries)
        if unknown:
            raise TypeError(f"{type(self).__name__} carries {self.carries}, not {sorted(unknown)}")
        self.message = message
        for name, value in data.items():
            setattr(self, name, value)

    def data(self) -> dict[str, Any]:
        """The attributes that travel with the message."""
        return {name: getattr(self, name) for name in self.carries}

    def __str__(self) -> str:
        return self.message

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.message, self.data())


def _rebuild(cls: type[TiremoteError], message: str, data: dict[str, Any]) -> TiremoteError:
    return cls(message, **data)


class _SourceError(TiremoteError):
    """Shared by the errors that point into the user's text, outermost frame first."""

    carries: ClassVar[tuple[str, ...]] = ("frames",)
    frames: tuple[SourceFrame, ...] = ()

    @property
    def line(self) -> int | None:
        """The line, from 1, of the innermost frame, or None where no line is known."""
        return self.frames[-1].line if self.frames else None

    @property
    def column(self) -> int | None:
        """The column, from 1, of the innermost frame, or None where no column is known."""
        return (self.frames[-1].column or None) if self.frames else None

    def __str__(self) -> str:
        return "\n".join([self.message, *map(str, self.frames)])


class ProtocolError(TiremoteError):
    """The message is malformed, of a wrong type, or of an unknown op."""

    code = "protocol"


class VersionMismatch(ProtocolError):
    """No protocol version is spoken by both sides; ``supported`` is the peer's (lowest, highest)."""

    code = "version"
    carries = ("supported",)
    supported: tuple[int, int] | None = None


class PayloadTooLarge(ProtocolError):
    """``size`` bytes came where at most ``limit`` are taken."""

    code = "too-large"
    carries = ("size", "limit")
    size: int | None = None
    limit: int | None = None


class UnsupportedType(TiremoteError):
    """A value or dtype that the wire does not carry: object, complex, structured, longdouble, datetime."""

    code = "unsupported-type"


class CompileError(_SourceError):
    """The source does not parse, load or compile. What was loaded before stays as it was.

    ``unit`` is the one that could not be built, which may be another one than was sent: one that uses it.
    """

    code = "compile"
    carries = ("unit", "frames")
    unit: str | None = None


class KernelArgumentError(_SourceError):
    """An argument was refused before the launch; ``parameter`` names it where one is at fault."""

    code = "argument"
    carries = ("parameter", "frames")
    parameter: str | None = None


class KernelRuntimeError(_SourceError):
    """The user's code raised while it ran; ``type`` is the name of the exception it raised."""

    code = "runtime"
    carries = ("type", "frames")
    type: str | None = None


class EngineError(TiremoteError):
    """The engine was replaced.

    ``restored`` names the units that are loaded again, ``as_of`` the arrays and fields that were put back and from
    when their contents are, ``lost`` what is not there any more. ``coming`` names what of the first two is still on its
    way: it is there when the next request runs, or that request is told. ``generation`` counts the engines so far.
    """

    code = "engine"
    carries: ClassVar[tuple[str, ...]] = ("request", "restored", "as_of", "coming", "lost", "generation")
    request: str | int | None = None
    restored: tuple[str, ...] = ()
    as_of: tuple[AsOf, ...] = ()
    coming: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    generation: int | None = None

    def __str__(self) -> str:
        parts = [self.message]
        if self.restored:
            parts.append(f"reloaded: {few(self.restored)}")
        if self.as_of:
            parts.append(f"restored: {few(tuple(map(str, self.as_of)))}")
        if self.coming:
            parts.append(f"still on their way: {few(self.coming)}")
        if self.lost:
            parts.append(f"lost: {few(self.lost)}")
        return "; ".join(parts)


class EngineCrashed(EngineError):
    """It died or was poisoned while ``request`` ran; ``signal`` such as ``SIGSEGV``, None for an exit.

    ``explainable``: the op ``explain_crash`` can run that request again, under checks.
    """

    code = "crashed"
    carries = ("signal", "explainable", *EngineError.carries)
    signal: str | None = None
    explainable: bool | None = None

    def __str__(self) -> str:
        told = EngineError.__str__(self)
        return f"{told}; gpu.explain_crash() runs it again under checks" if self.explainable else told


class Interrupted(EngineError):
    """The request was stopped on demand, or because another was that had to be."""

    code = "interrupted"


class DeadlineExceeded(EngineError):
    """The request took longer than ``deadline`` seconds and was stopped.

    ``phase`` is ``compile`` or ``run`` where the two had limits of their own, and says whose was exceeded.
    """

    code = "deadline"
    carries = ("deadline", "phase", *EngineError.carries)
    deadline: float | None = None
    phase: str | None = None


class OutOfMemory(TiremoteError):
    """``requested`` and ``available`` are bytes, None where the backend does not tell."""

    code = "memory"
    carries = ("requested", "available")
    requested: int | None = None
    available: int | None = None


class UnknownName(TiremoteError, LookupError):
    """Nothing of that name; ``known`` lists what there is."""

    code = "unknown-name"
    carries = ("name", "known")
    name: str | None = None
    known: tuple[str, ...] = ()


class StaleHandle(TiremoteError):
    """The handle's object is gone: lost with an engine, or cleaned up."""

    code = "stale-handle"
    carries = ("handle",)
    handle: str | None = None


class MissingChunks(TiremoteError):
    """Of an array that came in chunks those at the positions ``chunks`` came without their bytes, and are not there."""

    code = "missing-chunks"
    carries = ("chunks",)
    chunks: tuple[int, ...] = ()


class Refused(TiremoteError):
    """Understood and not done: a limit of the worker, a state, a policy."""

    code = "refused"


class WorkerUnreachable(TiremoteError):
    """Nothing was heard from the worker for longer than the client waits."""

    code = "unreachable"


class Unauthorized(TiremoteError):
    """The worker does not admit this key, or not to this session."""

    code = "unauthorized"


class InternalError(TiremoteError):
    """A fault of tiremote itself; the worker's log has the stack."""

    code = "internal"


def few(names: tuple[str, ...], most: int = 8) -> str:
    """Names in a line, not all of very many."""
    first = ", ".join(names[:most])
    return first if len(names) <= most else f"{first} and {len(names) - most} more"


_short = Repr()
_short.maxlevel, _short.maxstring, _short.maxother, _short.maxlong = 3, 60, 60, 60


def shown(value: Any) -> str:
    """A value in a message: its type and the start of its text, in bounded time whatever it is."""
    return f"{type(value).__name__} {_cut(_short.repr(value))}"


def _cut(text: str, most: int = 60) -> str:
    return text if len(text) <= most else text[: most - 3] + "..."
