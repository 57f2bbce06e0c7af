"""The settings file."""

from __future__ import annotations

from pathlib import Path

import pytest

from tiremote.repl.settings import Settings, read_settings


def test_without_a_file_there_are_defaults(tmp_path: Path) -> None:
    """Nobody needs one."""
    assert read_settings(tmp_path / "config.toml") == Settings()


def test_connections_and_keys_are_read(tmp_path: Path) -> None:
    """Each connection has what the command line could say."""
    path = tmp_path / "config.toml"
    path.write_text('keys = "vi"\n[connections.gpu-box]\nurl = "tcp://gpu-box:5555"\nsession = "lab"\n')
    expected = Settings("vi", {"gpu-box": {"url": "tcp://gpu-box:5555", "session": "lab"}})
    assert read_settings(path) == expected


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("keys = ", "is no TOML"),
        ('keys = "nano"', "'emacs' or 'vi'"),
        ("colour = 1", "has 'colour'"),
        ("connections = 1", r"\[connections.NAME\]"),
        ("[connections.a]\n", "needs url"),
        ('[connections.a]\nurl = "tcp://a:1"\nport = 1\n', "has 'port': it takes arch"),
    ],
)
def test_a_mistake_in_it_is_told_with_the_file(tmp_path: Path, text: str, told: str) -> None:
    """In one line that says what it takes."""
    path = tmp_path / "config.toml"
    path.write_text(text)
    with pytest.raises(ValueError, match=told) as caught:
        read_settings(path)
    assert str(path) in str(caught.value)
