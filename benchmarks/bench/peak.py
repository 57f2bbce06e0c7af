"""How much memory a process had at most, as Linux counts it."""

from __future__ import annotations

import re
from pathlib import Path


def available() -> bool:
    """Whether this system tells."""
    return Path("/proc/self/clear_refs").exists()


def restart(pid: int | str) -> int:
    """From now on the most is counted anew; the resident bytes now."""
    # proc(5): 5 sets the high-water mark to what is resident.
    Path(f"/proc/{pid}/clear_refs").write_text("5", encoding="ascii")
    return _told(pid, "VmRSS")


def most(pid: int | str) -> int:
    """Resident bytes at most since `restart`."""
    return _told(pid, "VmHWM")


def _told(pid: int | str, what: str) -> int:
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    found = re.search(rf"^{what}:\s+(\d+) kB", status, flags=re.MULTILINE)
    if found is None:
        raise ValueError(f"/proc/{pid}/status tells no {what}")
    return int(found[1]) << 10
