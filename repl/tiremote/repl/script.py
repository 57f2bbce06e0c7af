"""Cells from a pipe: run in order like a Python file, up to the first error."""

from __future__ import annotations

from tiremote.client import Session
from tiremote.repl.cells import read_cells
from tiremote.repl.commands import Quit
from tiremote.repl.shell import Shell, emit, emit_error

#: What shells report of a program that Ctrl-C ended: 128 and the number of SIGINT.
_INTERRUPTED = 130


def run_script(gpu: Session, text: str) -> int:
    """The exit status. What the text prints goes to stdout, errors to stderr, receipts nowhere.

    ``gpu`` is the caller's to close, unless the text opens another session in its place.
    """
    shell = Shell(gpu, write=emit, complain=emit_error, note=lambda _: None)
    try:
        for part in read_cells(text.removeprefix("\ufeff")):
            if not shell.run_part(part):
                return _INTERRUPTED if isinstance(shell.last_error, KeyboardInterrupt) else 1
    except Quit:
        return 0
    except SystemExit as stop:
        if stop.code is None or isinstance(stop.code, int):
            return stop.code or 0
        emit_error(str(stop.code))
        return 1
    finally:
        if shell.gpu is not gpu:
            shell.gpu.close()
    return 0
