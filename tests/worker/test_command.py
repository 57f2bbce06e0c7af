"""The ``tiremote-worker`` command as far as nothing is started."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from tiremote.worker.command import main


def test_an_empty_state_directory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``--state "$UNSET"`` is an error, not the directory that the worker is started in."""
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(main, ["--state", ""])
    assert done.exit_code == 2
    assert "name a directory, or leave --state out" in done.stderr
    assert list(tmp_path.iterdir()) == []
