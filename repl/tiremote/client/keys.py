"""CURVE keys: the client's own pair and the worker's public key, from the files that `tiremote keygen` writes."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

import platformdirs
import zmq.auth

#: Characters of a key in Z85, as ZeroMQ writes it.
_KEY_LENGTH = 40


@dataclass(frozen=True, slots=True)
class CurveKeys:
    """In Z85. ``secret`` never shows in a repr."""

    public: bytes
    secret: bytes = field(repr=False)
    server: bytes


def keys_folder() -> Path:
    """Where `tiremote keygen` writes, and where keys are looked for."""
    return Path(platformdirs.user_config_dir("tiremote")) / "keys"


def load_keys(
    key: str | os.PathLike[str] | None,
    server_key: str | os.PathLike[str] | None,
    *,
    words: tuple[str, str] = ("key=", "server_key="),
) -> CurveKeys | None:
    """The keys to use, None where neither argument is given. Raises `ValueError` for what is no key.

    ``words`` are what the user calls the two: on a command line they are options.
    """
    if key is None and server_key is None:
        return None
    if server_key is None:
        raise ValueError(
            f"with {words[0]} also give {words[1]}: the path of the worker's .key file, or its 40 characters"
        )
    path = keys_folder() / "client.key_secret" if key is None else Path(key)
    public, secret = _certificate(path, "the client's key")
    if secret is None:
        raise ValueError(f"{path} holds no secret key: {words[0]} is the .key_secret file that `tiremote keygen` wrote")
    return CurveKeys(public, secret, _server_key(server_key))


def _server_key(given: str | os.PathLike[str]) -> bytes:
    if isinstance(given, str) and len(given) == _KEY_LENGTH and not Path(given).exists():
        return given.encode("ascii", "replace")
    return _certificate(Path(given), "the worker's key")[0]


def _certificate(path: Path, what: str) -> tuple[bytes, bytes | None]:
    if not path.is_file():
        raise ValueError(f"{what}: there is no file {path}; run `tiremote keygen` first, or give its path")
    try:
        return zmq.auth.load_certificate(path)
    except OSError as error:
        raise ValueError(f"{what} cannot be read: {path}: {error.strerror or error}") from None
    except ValueError:
        raise ValueError(f"{what}: {path} is no certificate as `tiremote keygen` writes it") from None
