"""What it means how a crashed request ended when it was run again under checks."""

from __future__ import annotations

from dataclasses import dataclass

from tiremote.protocol.error_wire import error_from_wire
from tiremote.protocol.errors import KernelRuntimeError, SourceFrame
from tiremote.protocol.packing import unpack
from tiremote.worker import out_of_bounds
from tiremote.worker.front.recovery import ending, signal_name
from tiremote.worker.link import Done

#: Archs on which kernels can assert.
_CHECKED = ("cpu", "cuda", "amdgpu")

_MEANINGS = {
    "SIGSEGV": "memory was used that is not there",
    "SIGBUS": "memory was used that is not there",
    "SIGABRT": "a library gave up",
    "SIGKILL": "something ended it from outside, such as a system that is out of memory",
    "SIGFPE": "the processor refused a division",
    "SIGILL": "the processor did not know an instruction",
}


_NOTHING_FAILED = "no check failed; it may need other contents of the arrays to crash, or what ran before it"
_NOTHING_CHECKED = "on this arch Taichi has no checks that could have failed"


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """As `CrashExplanation` has them."""

    kind: str
    message: str
    frames: tuple[SourceFrame, ...] = ()
    index: tuple[int, ...] | None = None
    bounds: tuple[int, ...] = ()
    first: tuple[int, ...] = ()
    signal: str | None = None


def of_answer(done: Done, arch: str) -> Finding:
    """It came to an answer."""
    if done.poisoned is not None:
        return Finding(kind="crashed again", message=f"the engine {done.poisoned}, and no check had failed before")
    if done.ok:
        return Finding(kind="ran to its end", message=_NOTHING_FAILED if arch in _CHECKED else _NOTHING_CHECKED)
    error = error_from_wire(*unpack(done.body))
    frames: tuple[SourceFrame, ...] = getattr(error, "frames", ())
    # Whatever was called, and also where a text did so while it was loaded.
    found = out_of_bounds.read(error.message)
    if found is not None:
        return Finding(
            kind="out of bounds",
            message=error.message,
            frames=frames,
            index=found.index,
            bounds=found.shape,
            first=found.first,
        )
    failed = isinstance(error, KernelRuntimeError) and error.type == "AssertionError"
    return Finding(kind="assertion" if failed else "error", message=error.message, frames=frames)


def of_death(returncode: int, frames: tuple[SourceFrame, ...]) -> Finding:
    """The engine ended; ``frames`` is where Python was, as far as it said so."""
    signal = signal_name(returncode)
    meaning = _MEANINGS.get(signal or "", "the code, or a library, ended the process")
    where = "what it calls there" if frames else "what the code calls"
    return Finding(
        kind="crashed again",
        message=(
            f"the engine {ending(returncode)}: {meaning}; no index of a kernel was out of bounds before, "
            f"so look at {where}: Python or C code (ctypes, os.kill, an extension), or Taichi itself"
        ),
        frames=frames,
        signal=signal,
    )


def of_time(seconds: float) -> Finding:
    """It was not done in time."""
    return Finding(
        kind="took too long",
        message=f"it had not ended after {seconds:g} s; checks make it slower: give it a longer deadline",
    )


def of_trouble(reason: str) -> Finding:
    """It did not come to be run."""
    return Finding(kind="not restored", message=f"what it needs could not be had in a debug engine: {reason}")


def of_nothing(nbytes: int) -> Finding:
    """It is not there any more."""
    return Finding(
        kind="not kept",
        message=(
            f"the request, {nbytes:,} bytes, had to make room for copies of arrays: start the worker with a larger "
            "--copies, or put large arrays first and pass them by their handles"
        ),
    )
