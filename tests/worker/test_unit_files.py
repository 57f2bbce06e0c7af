"""The file names of users' texts."""

from __future__ import annotations

import pytest

from tiremote.worker.unit_files import name_in_file, read_unit_file, unit_file


@pytest.mark.parametrize("unit", ["sim", "kernel_0", "a b/\u00fc", "x" * 100, "\U0001f600", "<>"])
def test_a_name_is_read_again(unit: str) -> None:
    """As far as it is in there, in characters that come through whatever prints it."""
    file = unit_file(unit, 12, "0123456789abcdef", 7)
    assert file.isascii()
    assert read_unit_file(file) == (name_in_file(unit), 12)


@pytest.mark.parametrize("file", ["<unit >", "<string>", "/usr/lib/python3/os.py", "<unit sim v1 xyz 3>"])
def test_other_files_are_none_of_them(file: str) -> None:
    """Python's own, and what only looks alike."""
    assert read_unit_file(file) is None
