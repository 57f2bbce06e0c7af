"""From whatever a user's code raised to a typed error with frames in the user's own text, and nothing else.

Taichi writes the places of a compile into the text of its exceptions (``File "...", line 4, in f, columns 9-18:``,
see `source_hooks`), from the kernel inwards; Python keeps those of a driver function in the traceback.
"""

from __future__ import annotations

import itertools
import re
import traceback
import types
from dataclasses import dataclass, replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from tiremote.protocol.errors import (
    CompileError,
    KernelArgumentError,
    KernelRuntimeError,
    OutOfMemory,
    SourceFrame,
    TiremoteError,
)
from tiremote.worker.engine.definition_places import place_of
from tiremote.worker.engine.runtime_imports import OtherRuntimeError
from tiremote.worker.engine.source import source_of

if TYPE_CHECKING:
    from tiremote.worker.engine.runtime import TaichiRuntime

#: Of an endless recursion this many frames are kept at either end.
_MOST_FRAMES: Final = 8
_MOST_CHARACTERS: Final = 2000

_PLACE = re.compile(r'^\s*File "(?P<file>.*)", line (?P<line>\d+), in (?P<function>[^,]*?)'
                    r"(?:, columns (?P<first>\d+)-(?P<last>\d+))?:?$")  # fmt: skip
#: Between these two lines some runtimes show their own stack.
_OWN_STACK = re.compile(r"^\w+ stack trace:$")
_OWN_STACK_END = "Your code:"
_CARETS = re.compile(r"^\s*[\^~]+\s*$")
_RULE = re.compile(r"^={4,}$")
_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
#: ``(kernel=add_c12_0)`` and ``[frontend_ir.cpp:type_check@782]``, in front of what is of interest.
_INSIDES = re.compile(r"^\s*(?:[\[(]kernel=[^\])]*[\])]|\[[\w./]+\.(?:cpp|cc|h|cu):[^\]]*\])\s*")
#: The same inside a traceback that Taichi printed into its message.
_INTERNAL = re.compile(r"^RuntimeError: \[[\w./]+:[^\]]*\]\s*")
#: Taichi's own exceptions there, whose names say nothing.
_QUALIFIED = re.compile(r"^\w+\.lang\.exception\.\w+: ")

#: In front of what is wrong with an argument, in some runtimes.
_ENSURING = re.compile(r"^exception while trying to ensure compiled ")

#: Behind a wrong argument of one of Taichi's own functions: what its C++ side takes.
_PYBIND = re.compile(r" The following argument types are supported:.*$")

#: A public name that is not there.
_MISSING = tuple(
    map(
        re.compile,
        (
            r"module '(?P<package>\w+)(?P<inside>(?:\.\w+)*)' has no attribute '(?P<name>\w+)'",
            r"cannot import name '(?P<name>\w+)' from '(?P<package>\w+)(?P<inside>(?:\.\w+)*)'",
            r"No module named '(?P<package>\w+)(?P<inside>(?:\.\w+)*)\.(?P<name>\w+)'",
        ),
    )
)

#: At the end of ``cannot import name``: a path of the worker's.
_MODULE_FILE = re.compile(r" \([^()]*\)$")

_MEMORY = re.compile(r"out of memory|OUT_OF_(?:HOST_|DEVICE_)?MEMORY|bad_alloc|(?:failed|unable) to allocate", re.I)
#: After one of these every later call in the process fails too.
_POISON = re.compile(r"CUDA_ERROR_\w+|CUDA Error|hipError\w+|VK_ERROR_DEVICE_LOST|illegal memory access", re.I)

#: What Taichi says of a call that does not fit the signature; it calls that a syntax error.
_CALL = re.compile(
    r"^(?:Primary exception: )?"
    r"(?:Too many arguments\.|Parameter `.*` missing\.|Missing argument|Multiple values for|Unexpected argument)"
)


def without_colours(text: str) -> str:
    """A text of Taichi's without its terminal codes."""
    return _ANSI.sub("", text)


def poison_in(error: BaseException) -> str | None:
    """The line that says that the device is lost to this process, which must be replaced then; else None."""
    # Taichi, PyTorch and CuPy all raise a RuntimeError; a user's ValueError may say whatever it likes.
    for text in (_text(each) for each in _chain(error) if isinstance(each, RuntimeError)):
        if not _MEMORY.search(text):
            for line in text.splitlines():
                if _POISON.search(line):
                    return _INSIDES.sub("", line).strip()
    return None


def is_out_of_memory(error: BaseException) -> bool:
    return any(isinstance(each, MemoryError) or _MEMORY.search(_text(each)) for each in _chain(error))


def load_error(error: BaseException, runtime: TaichiRuntime | None = None) -> TiremoteError:
    """What to report of an exception that came while a text was loaded: `CompileError`, or a `TiremoteError` as it is.

    Without a runtime nothing can be told apart as Taichi's own.
    """
    if isinstance(error, TiremoteError):
        return error
    if is_out_of_memory(error):
        return OutOfMemory(_told(error).message)
    told = _told(error)
    if isinstance(error, OtherRuntimeError):
        return CompileError(told.message, frames=told.frames)
    if isinstance(error, ImportError):
        message = _named(error, told.message, runtime)
        why = _lacking(message, runtime) or "the worker's Python cannot import it"
        return CompileError(f"{message}: {why}", frames=told.frames)
    if isinstance(error, SystemExit):
        return CompileError("the source ends the program (SystemExit) while it is loaded", frames=told.frames)
    message = told.message if _is_compilation(error, runtime) else _named(error, told.message, runtime)
    return CompileError(_explained(message, runtime), frames=told.frames)


def run_error(error: BaseException, runtime: TaichiRuntime | None = None) -> TiremoteError:
    """What to report of an exception that came while something of the user's was called.

    A kernel's first call compiles it: `CompileError`. A call that does not fit: `KernelArgumentError`. Memory:
    `OutOfMemory`. Everything else: `KernelRuntimeError`.
    """
    if isinstance(error, TiremoteError):
        return error
    told = _told(error)
    if is_out_of_memory(error):
        return OutOfMemory(told.message)
    if _is_compilation(error, runtime):
        if _CALL.match(told.message) and not told.in_kernel:
            return KernelArgumentError(told.message, frames=told.frames)
        return CompileError(_explained(told.message, runtime), frames=told.frames)
    if runtime is not None and isinstance(error, runtime.argument_errors()):
        return KernelArgumentError(told.message, frames=told.frames)
    taichis_own = runtime is not None and isinstance(error, runtime.assertion_errors())
    message = told.message if taichis_own else _explained(_named(error, told.message, runtime), runtime)
    kind = "AssertionError" if taichis_own else type(error).__name__.removeprefix(_prefix(runtime))
    if isinstance(error, SystemExit):
        message = f"SystemExit: the code asked to end the program with {error.code!r}; the session goes on"
    return KernelRuntimeError(message, type=kind, frames=told.frames)


def gradient_error(error: BaseException, function: Any, runtime: TaichiRuntime) -> TiremoteError:
    """`run_error` for the adjoint of a kernel, whose place is told where the error has none of its own."""
    told = run_error(error, runtime)
    name = getattr(function, "__name__", None)
    if name is not None:
        told.message = f"the gradient of {name}(): {told.message}"
    source = source_of(function.__code__.co_filename) if isinstance(function, types.FunctionType) else None
    if source is not None and isinstance(told, KernelRuntimeError | CompileError) and not told.frames:
        first = function.__code__.co_firstlineno
        line = source.functions[first].lineno if first in source.functions else first
        told.frames = (source.frame(line, function=name or ""),)
    return told


@dataclass(frozen=True, slots=True)
class _Told:
    message: str
    frames: tuple[SourceFrame, ...]
    in_kernel: bool


def _told(error: BaseException) -> _Told:
    message, inner = _read_text(_text(error))
    outer, place = _traceback_frames(error.__traceback__), place_of(error)
    if place is not None:
        # It takes the place of the decorator.
        outer[-1:] = [replace(place, function=outer[-1].function if outer else "")]
    frames = [*outer, *inner]
    distinct = [frame for frame, _ in itertools.groupby(frames)]
    if len(distinct) > 2 * _MOST_FRAMES:
        distinct = distinct[:_MOST_FRAMES] + distinct[-_MOST_FRAMES:]
    return _Told(message, tuple(distinct), bool(inner))


def _read_text(text: str) -> tuple[str, list[SourceFrame]]:
    """One line that says what is wrong, and the places in users' texts."""
    frames: list[SourceFrame] = []
    kept: list[str] = []
    # Below a place stand its source lines and carets; deeper places have theirs.
    in_place = in_own_stack = False
    is_traceback = False
    for line in without_colours(text).splitlines():
        place = _PLACE.match(line)
        if in_own_stack or _OWN_STACK.match(line):
            in_own_stack = line != _OWN_STACK_END
        elif place is not None:
            in_place = True
            frames += _frame_of(place)
        elif line.startswith("Traceback (most recent call last)"):
            is_traceback, kept = True, []
        elif (
            _RULE.match(line) or _ENSURING.match(line) or _CARETS.match(line) or (in_place and line.startswith("    "))
        ):
            continue
        elif line.strip():
            in_place = False
            kept.append(_INSIDES.sub("", line).strip())
    if is_traceback and kept:
        # ``AttributeError: ...`` and, should its text be longer, what follows.
        kept[0] = _INTERNAL.sub("", kept[0])
        kept[0] = _QUALIFIED.sub("", kept[0])
    message = _PYBIND.sub("", " ".join(part for part in kept if part))
    return (message if len(message) <= _MOST_CHARACTERS else f"{message[:_MOST_CHARACTERS]}..."), frames


def _frame_of(place: re.Match[str]) -> list[SourceFrame]:
    source = source_of(place["file"])
    if source is None:
        return []
    function = "" if place["function"] == "<module>" else place["function"]
    return [source.frame(int(place["line"]), int(place["first"] or 0), int(place["last"] or 0), function)]


def _traceback_frames(trace: TracebackType | None) -> list[SourceFrame]:
    frames = []
    while trace is not None:
        code = trace.tb_frame.f_code
        source = source_of(code.co_filename)
        if source is not None:
            positions = list(itertools.islice(code.co_positions(), trace.tb_lasti // 2, trace.tb_lasti // 2 + 1))
            line, end_line, start, end = positions[0] if positions else (None, None, None, None)
            first = last = 0
            if line == trace.tb_lineno and start is not None and end is not None:
                # An expression over several lines is underlined to the end of its first.
                stop = end if end_line == line else len(source.lines[line - 1].encode("utf-8", "replace"))
                first, last = source.byte_columns(line, start, stop)
            function = "" if code.co_name == "<module>" else code.co_qualname
            frames.append(source.frame(trace.tb_lineno, first, last, function))
        trace = trace.tb_next
    return frames


def _is_compilation(error: BaseException, runtime: TaichiRuntime | None) -> bool:
    return runtime is not None and isinstance(error, runtime.compile_errors())


def _explained(message: str, runtime: TaichiRuntime | None) -> str:
    """With what is missing behind it, where that is why."""
    lacking = _lacking(message, runtime)
    return message if lacking is None else f"{message}: {lacking}"


def _lacking(message: str, runtime: TaichiRuntime | None) -> str | None:
    """That the runtime does not have what a missing name stands for, where it is that."""
    found = next((found for each in _MISSING if (found := each.search(message))), None)
    if found is None or runtime is None or found["package"] != runtime.name:
        return None
    # What the package takes from its ``lang`` is told as being there.
    inside = found["inside"].removeprefix(".lang")
    what = runtime.kind.lacking(f"{inside}.{found['name']}".lstrip("."))
    return None if what is None else f"{runtime.name} has no {what}"


def _prefix(runtime: TaichiRuntime | None) -> str:
    """What the names of the runtime's own exceptions begin with."""
    return "Taichi" if runtime is None else runtime.layout.errors


def _named(error: BaseException, message: str, runtime: TaichiRuntime | None) -> str:
    name = type(error).__name__
    if name.startswith(_prefix(runtime)) and message:
        return message
    if isinstance(error, (NameError, AttributeError)):
        # Python's own "Did you mean" is worked out when the exception is shown.
        shown = "".join(traceback.TracebackException.from_exception(error, limit=0).format_exception_only())
        message = " ".join(shown.partition(": ")[2].split()) or message
    if isinstance(error, SyntaxError):
        message = error.msg
    if isinstance(error, ImportError):
        message = _MODULE_FILE.sub("", message)
    return f"{name}: {message}" if message else name


def _chain(error: BaseException | None) -> list[BaseException]:
    found: list[BaseException] = []
    while error is not None and not any(error is each for each in found):
        found.append(error)
        error = error.__cause__
    return found


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        # The user's own __str__.
        return ""
