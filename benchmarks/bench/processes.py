"""Processes of a benchmark's own, which end with it, however it ends."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any

from bench.turns import Turn, timed

#: Seconds that a process may take to start, with Taichi in it, and to answer.
PATIENCE = 120.0
#: Seconds that it has to end.
FAREWELL = 20.0

_spawning = multiprocessing.get_context("spawn")


@contextmanager
def server(serve: Callable[..., None], *arguments: Any) -> Iterator[Any]:
    """Runs ``serve(ready, *arguments)`` in a process and gives what it passes to ``ready`` first: an address, say.

    Raises `RuntimeError` where it ends before, or takes too long.
    """
    ours, theirs = _spawning.Pipe()
    process = _spawning.Process(target=_serve, args=(theirs, serve, arguments), daemon=True)
    process.start()
    theirs.close()
    try:
        if not ours.poll(PATIENCE):
            raise RuntimeError(f"{serve.__module__} was not ready after {PATIENCE:.0f} s")
        try:
            yield ours.recv()
        except EOFError:
            raise RuntimeError(f"{serve.__module__} has ended before it was ready") from None
    finally:
        ours.close()
        process.terminate()
        process.join(FAREWELL)
        if process.is_alive():
            process.kill()
            process.join()


def _serve(connection: Connection, serve: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    def end_with_parent() -> None:
        try:
            connection.recv()
        except (EOFError, OSError):
            os._exit(0)

    def ready(value: Any) -> None:
        connection.send(value)
        threading.Thread(target=end_with_parent, daemon=True).start()

    serve(ready, *arguments)


class Child:
    """An object in a process of its own, whose methods are called and timed there.

    ``make`` makes it there; it is pickled by its name. What it makes is closed in the end, if it can be. ``patience``
    is the seconds that one call or turn may take.
    """

    def __init__(self, make: Callable[..., Any], *arguments: Any, patience: float = PATIENCE) -> None:
        self._patience = patience
        self._connection, theirs = _spawning.Pipe()
        self._process = _spawning.Process(target=_answer, args=(theirs, make, arguments), daemon=True)
        self._process.start()
        theirs.close()

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()
        self._process.join(FAREWELL)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()

    def call(self, method: str, *arguments: Any) -> Any:
        """What it returns, pickled. Raises `RuntimeError` with what it raised."""
        return self._asked(None, method, arguments)

    def turn(self, method: str, *arguments: Any, seconds: float = 0.0, most: int = 1000) -> Turn:
        """A turn that is taken there, as by `timed`."""
        return lambda: self._asked((seconds, most), method, arguments)

    def _asked(self, limits: tuple[float, int] | None, method: str, arguments: tuple[Any, ...]) -> Any:
        self._connection.send((limits, method, arguments))
        if not self._connection.poll(self._patience):
            raise RuntimeError(f"{method} was not done after {self._patience:.0f} s")
        try:
            error, value = self._connection.recv()
        except EOFError:
            raise RuntimeError(f"the process of {method} has ended") from None
        if error:
            raise RuntimeError(f"{method}: {error}")
        return value


def _answer(connection: Connection, make: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    made = make(*arguments)
    while True:
        try:
            limits, method, given = connection.recv()
        except EOFError:
            if hasattr(made, "close"):
                made.close()
            return
        try:
            call = getattr(made, method)
            if limits is None:
                connection.send(("", call(*given)))
            else:
                seconds, most = limits
                connection.send(("", timed(lambda: call(*given), seconds=seconds, most=most)()))  # noqa: B023
        except Exception as error:
            connection.send((f"{type(error).__name__}: {error}", None))
