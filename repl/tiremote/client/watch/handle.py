"""A watch under way: the thread that loads what is saved."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING

from tiremote.client.watch.files import WatchedFile, watched_files
from tiremote.client.watch.reloader import Reload, Reloader, print_reloads
from tiremote.client.watch.settling import Edit, changes
from tiremote.client.watch.signals import signals

if TYPE_CHECKING:
    from tiremote.client.session import Session

_log = logging.getLogger(__name__)

ReloadHandler = Callable[[tuple[Reload, ...]], None]


class Watch:
    """What `Session.watch` returns: files are followed until `stop`, the end of the block, or of the session."""

    def __init__(
        self,
        gpu: Session,
        *paths: str | os.PathLike[str],
        on_reload: ReloadHandler | None = print_reloads,
        on_note: Callable[[str], None] | None = None,
    ) -> None:
        self._gpu = gpu
        self._files = watched_files(paths)
        self._on_reload = on_reload
        self._stop = threading.Event()
        self._reloader = Reloader(gpu, self._files, note=on_note or _print_note, clock=time.perf_counter)
        batches = changes(self._files, self._signals(), clock=time.monotonic, wait=self._stop.wait)
        # The first time here: what is loaded can be used at once, and Ctrl-C ends a compilation that takes too long.
        self._load(next(batches))
        self._thread = threading.Thread(target=self._follow, args=(batches,), name="tiremote-watch", daemon=True)
        self._thread.start()

    @property
    def files(self) -> tuple[WatchedFile, ...]:
        """What is watched."""
        return self._files

    def stop(self) -> None:
        """Ends it; a load that was sent is waited for. What is loaded stays."""
        self._stop.set()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def __enter__(self) -> Watch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _signals(self) -> Iterator[None]:
        for signal in signals(self._files, self._stop):
            if self._gpu.closed:
                return
            yield signal

    def _follow(self, batches: Iterator[tuple[Edit, ...]]) -> None:
        for batch in batches:
            self._load(batch)

    def _load(self, batch: tuple[Edit, ...]) -> None:
        reloads = self._reloader.load(batch)
        if self._on_reload is None or not reloads:
            return
        try:
            self._on_reload(reloads)
        except Exception:
            # One mistake in it must not end the watch, of which nobody would learn.
            _log.exception("the handler of reloads failed")


def _print_note(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
