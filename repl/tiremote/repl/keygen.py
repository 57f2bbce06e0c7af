"""CURVE keys, as a pair of files: NAME.key to be given away, NAME.key_secret to be kept."""

from __future__ import annotations

import os
import re
import shlex
from dataclasses import dataclass
from pathlib import Path

import zmq.auth


class KeygenError(Exception):
    """No keys were made; the text says why."""


@dataclass(frozen=True, slots=True)
class KeyFiles:
    """``clients`` is the folder, beside them, of the public keys that a worker with these shall admit."""

    public: Path
    secret: Path
    clients: Path


def make_keys(name: str, folder: Path) -> KeyFiles:
    """Writes both files. Raises `KeygenError` where one is there already or cannot be written."""
    if not re.fullmatch(r"[\w][\w.@-]{0,99}", name):
        raise KeygenError(f"{name!r} is no name of a key: letters, digits, '.', '_', '@' and '-' are taken")
    files = KeyFiles(folder / f"{name}.key", folder / f"{name}.key_secret", folder / "clients")
    for path in (files.public, files.secret):
        if path.exists():
            raise KeygenError(f"{path} is there already, and a key is never overwritten: choose another name")
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        files.clients.mkdir(mode=0o700, exist_ok=True)
        before = os.umask(0o077)  # never readable by others, not even for a moment
        try:
            zmq.auth.create_certificates(folder, name)
        finally:
            os.umask(before)
        files.public.chmod(0o644)
        files.secret.chmod(0o600)
    except OSError as error:
        raise KeygenError(f"no key can be written in {folder}: {error.strerror or error}") from None
    return files


def what_to_do(files: KeyFiles) -> str:
    """What to copy where, and the commands to type."""
    public, _ = zmq.auth.load_certificate(files.public)
    name = files.public.name
    return (
        f"{files.public}: public, to be given away\n"
        f"{files.secret}: secret, stays here\n"
        f"public key: {public.decode()}\n"
        "\n"
        f"For a worker on this machine: put the public keys of its clients into {files.clients}, and start it with\n"
        f"  tiremote-worker --bind tcp://0.0.0.0:5555 --keys {_quoted(files.secret)} "
        f"--authorized {_quoted(files.clients)}\n"
        f"  its clients are given --server-key '{public.decode()}'\n"
        f"For a client on this machine: put a copy of {name} into the clients folder of the worker, and open it with\n"
        f"  tiremote tcp://HOST:5555 --key {_quoted(files.secret)} --server-key WORKERS_PUBLIC_KEY\n"
        "  where WORKERS_PUBLIC_KEY is the path of its .key file, or the 40 characters, in quotes"
    )


def _quoted(path: Path) -> str:
    return shlex.quote(str(path))
