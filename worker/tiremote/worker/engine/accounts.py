"""Keeps account of what a session holds, and says so when it is something else than before."""

from __future__ import annotations

import gc
import re
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from tiremote.worker.engine.arrays import Arrays
from tiremote.worker.engine.declarations import members
from tiremote.worker.engine.holdings import Holdings
from tiremote.worker.engine.loader import KernelLoader
from tiremote.worker.engine.places import arrays_in
from tiremote.worker.engine.runtime import TaichiRuntime
from tiremote.worker.engine.source import living_texts
from tiremote.worker.ledger import Ledger

#: Looking takes at most this part of the time, and so does collecting garbage.
_SHARE = 0.02
#: Arrays that code makes beyond our sight, and the GPU's memory, are looked at again after as many seconds.
_PATIENCE = 1.0


class Accounts:
    """``ledger`` is cheap where nothing has changed: it may be asked after every request."""

    def __init__(
        self,
        runtime: TaichiRuntime,
        loader: KernelLoader,
        arrays: Arrays,
        holdings: Holdings,
        chunk_bytes: Callable[[], int] = lambda: 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._runtime = runtime
        self._loader = loader
        self._arrays = arrays
        self._holdings = holdings
        self._chunk_bytes = chunk_bytes
        self._clock = clock
        self._told: Ledger | None = None
        self._trees = -1
        self._again_at = 0.0
        #: Whether what was replaced may be garbage that lies about; when it is collected again; what was none.
        self._littered = False
        self._collect_at = 0.0
        self._held: set[str] = set()

    def ledger(self, *, changed: bool) -> Ledger | None:
        """What there is, None where that was told before. ``changed``: units or handles came or went."""
        started = self._clock()
        trees = self._runtime.snode_tree_count()
        if not changed and trees == self._trees and started < self._again_at:
            return None
        self._trees = trees
        self._littered |= changed
        made = self._made()
        ended = self._clock()
        self._again_at = ended + max(_PATIENCE, (ended - started) / _SHARE)
        if made == self._told:
            return None
        self._told = made
        return made

    def _made(self) -> Ledger:
        seen: set[int] = set()
        host = 0
        units: dict[str, dict[str, int]] = {}
        for unit in self._loader:
            loaded = self._loader.loaded(unit)
            sizes = units[unit] = {}
            names = [name for name in loaded.own if name in loaded.namespace]
            for path, array in arrays_in(loaded.namespace, names, self._runtime):
                if id(array) in seen:
                    continue
                seen.add(id(array))
                size = self._size(array)
                host += size if isinstance(array, np.ndarray) else 0
                name = re.split(r"[.\[]", path, maxsplit=1)[0]
                sizes[name] = sizes.get(name, 0) + size
        for handle in self._holdings.all():
            value = self._holdings.value(handle)
            if isinstance(value, np.ndarray) and id(value) not in seen:
                host += value.nbytes
        free, total = self._arrays.device_memory() or (None, None)
        return Ledger(
            units=units,
            held=self._held_versions(),
            host_bytes=host,
            chunk_bytes=self._chunk_bytes(),
            snode_trees=self._trees,
            device_free=free,
            device_total=total,
        )

    def _held_versions(self) -> dict[str, tuple[int, ...]]:
        current = {self._loader.loaded(unit).source.file for unit in self._loader}
        # Versions that were replaced are cycles: each lives until somebody looks for garbage.
        looked = self._littered and self._collect()
        living = {text.file: text for text in living_texts() if text.file not in current}
        self._held = set(living) if looked else self._held & set(living)
        found: dict[str, set[int]] = {}
        for file in self._held:
            found.setdefault(living[file].unit, set()).add(living[file].version)
        return {unit: tuple(sorted(versions)) for unit, versions in sorted(found.items())}

    def _collect(self) -> bool:
        started = self._clock()
        if started < self._collect_at:
            return False
        gc.collect()
        ended = self._clock()
        self._collect_at = ended + (ended - started) / _SHARE
        self._littered = False
        return True

    def _size(self, array: Any) -> int:
        """With its gradients; 0 where it cannot be told."""
        if isinstance(array, np.ndarray):
            return int(array.nbytes)
        runtime = self._runtime
        if runtime.is_ndarray(array):
            return runtime.about_bytes(array) * (2 if runtime.has_grad(array) else 1)
        kinds = {where.partition(".")[0] for where, member in members(array, runtime) if member.ptr.snode() is not None}
        return runtime.about_bytes(array) * len(kinds)
