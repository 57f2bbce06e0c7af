"""CURVE keys, as a pair of files: NAME.key to be given away, NAME.key_secret to be kept."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

import zmq.auth


class KeygenError(Exception):
    """No keys were made; the text says why."""


@dataclass(frozen=True, slots=True)
class KeyFiles:
    public: Path
    secret: Path


def make_keys(name: str, folder: Path) -> KeyFiles:
    """Writes both files. Raises `KeygenError` where one is there already or cannot be written."""
    if not re.fullmatch(r"[\w][\w.@-]{0,99}", name):
        raise KeygenError(f"{name!r} is no name of a key: letters, digits, '.', '_', '@' and '-' are taken")
    files = KeyFiles(folder / f"{name}.key", folder / f"{name}.key_secret")
    for path in (files.public, files.secret):
        if path.exists():
            raise KeygenError(f"{path} is there already, and a key is never overwritten: choose another name")
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
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
    """What to copy where."""
    public, _ = zmq.auth.load_certificate(files.public)
    return (
        f"{files.public}: public, to be given away\n"
        f"{files.secret}: secret, stays here\n"
        f"public key: {public.decode()}\n"
        "\n"
        "As a client: copy the public file into the worker's folder of authorised clients\n"
        "  (tiremote-worker --keys WORKER.key_secret --authorized FOLDER), then\n"
        f"  tiremote tcp://HOST:5555 --key {files.secret} --server-key WORKER.key\n"
        "As a worker: give the public file to its clients, and start it with\n"
        f"  tiremote-worker --keys {files.secret} --authorized FOLDER"
    )
