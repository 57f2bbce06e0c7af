"""What an engine tells the front of what it holds, beside what single requests have changed."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True, slots=True)
class Ledger:
    """Sizes in bytes. ``units``: each unit's names of arrays, and of what arrays are behind, to the size of those.

    ``held``: replaced versions of units that somebody holds still. ``host_bytes``: NumPy arrays, wherever they are.
    ``chunk_bytes``: what is kept of what clients sent, not to be sent it again.
    ``device_free`` and ``device_total`` are of the GPU, None where it cannot be asked.
    """

    units: dict[str, dict[str, int]] = field(default_factory=dict)
    held: dict[str, tuple[int, ...]] = field(default_factory=dict)
    host_bytes: int = 0
    chunk_bytes: int = 0
    snode_trees: int = 0
    device_free: int | None = None
    device_total: int | None = None

    def unit_bytes(self) -> int:
        """Of the arrays behind all units' names."""
        return sum(sum(names.values()) for names in self.units.values())
