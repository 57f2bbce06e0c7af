"""How much of an engine's memory nothing explains: Taichi never frees a compiled kernel, and each reload compiles."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(kw_only=True, slots=True)
class Leak:
    """Of a session's engine, in bytes and seconds. ``memory`` was resident when ``arrays`` were in it; ``base_...`` are
    these when it was looked at first."""

    engine: int | None = None
    base_memory: int | None = None
    base_arrays: int = 0
    memory: int = 0
    arrays: int = 0
    #: Loads of which the memory was looked at afterwards, and when it was.
    loads: int = 0
    looked_at: float = float("-inf")
    #: How long before the last load there was another.
    interval: float = float("inf")
    #: What is borne is multiplied by this: replacing an engine that was merely large has brought nothing.
    patience: int = 1
    #: When the session had something to do last.
    busy_at: float = float("-inf")
    #: Why the session could not be moved, how often in a row, and when that is tried again.
    refused: str | None = None
    refusals: int = 0
    not_before: float = float("-inf")
    #: How often it was moved.
    moves: int = 0

    def look(self, engine: int, memory: int, arrays: int, loads: int, now: float) -> None:
        """The memory of the engine of that number was looked at."""
        if self.base_memory is None or engine != self.engine:
            self.engine, self.base_memory, self.base_arrays = engine, memory, arrays
        self.interval = now - self.looked_at
        self.memory, self.arrays, self.loads, self.looked_at = memory, arrays, loads, now
        self.busy_at = now

    @property
    def nbytes(self) -> int:
        """What has been added since the engine began and is no array."""
        if self.base_memory is None:
            return 0
        return max(self.memory - self.base_memory - max(self.arrays - self.base_arrays, 0), 0)

    def begin_anew(self, engine: int, memory: int | None, arrays: int, loads: int, now: float, *, worth: int) -> None:
        """The session was moved to this engine. ``worth``: how many bytes less are to show that this was of use."""
        useful = memory is None or self.memory - memory >= worth
        self.patience = 1 if useful else self.patience * 2
        self.engine, self.base_memory, self.base_arrays = engine, memory, arrays
        self.memory, self.arrays, self.loads, self.looked_at = memory or 0, arrays, loads, now
        self.refused, self.refusals = None, 0
        self.moves += 1

    def refuse(self, why: str, again_at: float) -> None:
        """It could not be moved."""
        self.refused, self.refusals, self.not_before = why, self.refusals + 1, again_at
