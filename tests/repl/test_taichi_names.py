"""The list of Taichi's names that the laptop has."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tiremote.repl import taichi_names

SCRIPT = Path(__file__).parents[2] / ".ci" / "taichi-names"


def test_the_list_is_that_of_the_installed_taichi() -> None:
    """Else write it anew, with the script."""
    pytest.importorskip("psutil")  # installed with Taichi, which is not to be imported here
    done = subprocess.run([sys.executable, SCRIPT], capture_output=True, text=True, timeout=100, check=True)
    # Taichi greets on standard output.
    written = "".join(line for line in done.stdout.splitlines(True) if not line.startswith("[Taichi]"))
    assert Path(taichi_names.__file__).read_text() == written
