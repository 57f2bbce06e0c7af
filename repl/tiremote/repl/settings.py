"""The file ``config.toml``: named connections, and how the prompt takes keys."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import platformdirs

#: What a connection may say, each an option of the command line.
CONNECTION = frozenset(
    {"url", "session", "arch", "runtime", "key", "server_key", "timeout", "liveness", "default_fp", "default_ip",
     "random_seed", "debug"}
)  # fmt: skip
_KEYS = ("emacs", "vi")


@dataclass(frozen=True, slots=True)
class Settings:
    """``keys`` is ``emacs`` or ``vi``; ``connections`` are options by name, each with its ``url``."""

    keys: str = "emacs"
    connections: dict[str, dict[str, Any]] = field(default_factory=dict)


def settings_file() -> Path:
    """Where it is looked for."""
    return Path(platformdirs.user_config_path("tiremote")) / "config.toml"


def read_settings(path: Path | None = None) -> Settings:
    """What the file says; without a file the defaults. Raises `ValueError` that names the file and what is wrong."""
    path = path or settings_file()
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return Settings()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} cannot be read: {error}") from None
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path} is no TOML: {error}") from None
    if unknown := sorted(set(table) - {"keys", "connections"}):
        raise ValueError(f"{path} has {unknown[0]!r}: it takes keys and [connections.NAME]")
    keys = table.get("keys", "emacs")
    if keys not in _KEYS:
        raise ValueError(f"{path}: keys = {keys!r} came; it is 'emacs' or 'vi'")
    connections = table.get("connections", {})
    if not isinstance(connections, dict):
        raise ValueError(f"{path}: connections are tables, [connections.NAME]")
    for name, options in connections.items():
        if not isinstance(options, dict) or not isinstance(options.get("url"), str):
            raise ValueError(f'{path}: [connections.{name}] needs url = "tcp://host:port"')
        if unknown := sorted(set(options) - CONNECTION):
            raise ValueError(
                f"{path}: [connections.{name}] has {unknown[0]!r}: it takes {', '.join(sorted(CONNECTION))}"
            )
    return Settings(keys, connections)
