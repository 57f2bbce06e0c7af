"""The file names under which Python and Taichi know users' texts: made in an engine, read out of what it printed."""

from __future__ import annotations

import re
from typing import Final

#: How each begins, for those that look at frames.
FILE_PREFIX: Final = "<unit "
_MOST_CHARACTERS: Final = 40
_FILE = re.compile(rf"^{FILE_PREFIX}(?P<name>\S+) v(?P<version>\d+) [0-9a-f]+ \d+>$")


def unit_file(unit: str, version: int, digest: str, serial: int) -> str:
    """A name that no other text has, as long as ``serial`` is new."""
    return f"{FILE_PREFIX}{name_in_file(unit)} v{version} {digest[:12]} {serial}>"


def name_in_file(unit: str) -> str:
    """What of a unit's name is in those of its files: Python escapes other characters where it says its last words."""
    return re.sub(r"[^\w.-]", "_", unit, flags=re.ASCII)[:_MOST_CHARACTERS]


def read_unit_file(file: str) -> tuple[str, int] | None:
    """The unit's name, as it is in file names, and its version; None for another file."""
    found = _FILE.match(file)
    return None if found is None else (found["name"], int(found["version"]))
