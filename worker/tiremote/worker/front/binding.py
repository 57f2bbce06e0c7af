"""Where the worker may listen, and whom it lets in."""

from __future__ import annotations

import contextlib
import ipaddress
import logging
import os
import socket as unix
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import zmq
import zmq.auth
from zmq.auth.thread import ThreadAuthenticator

from tiremote.protocol.errors import Refused

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class Curve:
    """The worker's own key pair (a ``.key_secret`` file), and the folder of public keys that are admitted."""

    secret_file: Path
    authorized: Path


def check_address(address: str, *, curve: bool) -> str:
    """The address in ZeroMQ's spelling. Raises `Refused` for one that would let strangers in."""
    parts = urlsplit(address)
    if parts.scheme == "ipc" and address != "ipc://":
        return address
    if parts.scheme != "tcp" or not parts.hostname:
        raise Refused(f"cannot listen on {address!r}: give tcp://HOST:PORT or ipc://PATH")
    try:
        port = parts.port
    except ValueError:
        port = 0 if address.endswith(":*") else None
    if port is None:
        raise Refused(f"cannot listen on {address!r}: a port from 0 (any free one) to 65535 is missing")
    if not curve and not _is_loopback(parts.hostname):
        raise Refused(
            f"will not listen on {address} without keys: whoever reaches it could run any code here. Make keys with "
            "'tiremote keygen' and start with --keys FILE --authorized FOLDER, or listen on tcp://127.0.0.1:PORT and "
            "reach it through 'ssh -L PORT:127.0.0.1:PORT'"
        )
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"tcp://{host}:{port or '*'}"


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def ipc_path(address: str) -> Path:
    """The file of an ``ipc://`` address."""
    return Path(address.removeprefix("ipc://"))


def _is_served(path: Path) -> bool:
    with unix.socket(unix.AF_UNIX) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            return False
    return True


class AuthorizedKeys:
    """The public keys in a folder, as ZeroMQ's authenticator asks for them: looked at anew by each handshake.

    So a key that is added is admitted from then on, and one that is removed no longer; connections stay.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        #: Path, time and size of a file to the key in it: only what changed is read.
        self._known: dict[tuple[Path, int, int], bytes | None] = {}

    def callback(self, _domain: str, key: bytes) -> bool:
        """Whether the key (in Z85) lies in the folder."""
        self._known = {stamp: self._known.get(stamp) or _public_key(stamp[0]) for stamp in self._stamps()}
        return key in self._known.values()

    def _stamps(self) -> list[tuple[Path, int, int]]:
        stamps = []
        for path in self._folder.glob("*.key"):
            with contextlib.suppress(OSError):
                facts = path.stat()
                stamps.append((path, facts.st_mtime_ns, facts.st_size))
        return stamps


def _public_key(path: Path) -> bytes | None:
    try:
        return zmq.auth.load_certificate(path)[0]
    except (OSError, ValueError) as error:
        _log.warning("no client's key in %s: %s", path, error)
        return None


def start_authenticator(context: zmq.Context[zmq.Socket[bytes]], curve: Curve) -> ThreadAuthenticator:
    """Admits the keys in the folder and nobody else."""
    if not curve.authorized.is_dir():
        raise Refused(f"no folder of authorised clients at {curve.authorized}: put their .key files there")
    authenticator = ThreadAuthenticator(context)
    authenticator.start()
    authenticator.configure_curve_callback(domain="*", credentials_provider=AuthorizedKeys(curve.authorized))
    return authenticator


def secure(socket: zmq.Socket[bytes], curve: Curve) -> None:
    """Makes the socket a CURVE server. Raises `Refused` for a key file that is none, or that others can read."""
    try:
        mode = curve.secret_file.stat().st_mode
        public, secret = zmq.auth.load_certificate(curve.secret_file)
    except (OSError, ValueError) as error:
        raise Refused(f"no key in {curve.secret_file}: {error}; make one with 'tiremote keygen'") from None
    if secret is None:
        raise Refused(f"{curve.secret_file} holds a public key only: give the .key_secret file")
    if mode & 0o077:
        raise Refused(f"{curve.secret_file} can be read by others: chmod 600 {curve.secret_file}")
    socket.curve_publickey, socket.curve_secretkey, socket.curve_server = public, secret, True


def bind(socket: zmq.Socket[bytes], address: str) -> str:
    """Binds and returns the real address. Raises `Refused` where that is not possible."""
    if address.startswith("ipc://") and _is_served(ipc_path(address)):
        # ZeroMQ would take the other's file away without a word.
        raise Refused(f"cannot listen on {address}: somebody does already: is another worker running there?")
    # An ipc socket file belongs to this user alone, from the moment it is there.
    mask = os.umask(0o177)
    try:
        socket.bind(address)
    except zmq.ZMQError as error:
        hint = ": is another worker running there?" if error.errno == zmq.EADDRINUSE else ""
        raise Refused(f"cannot listen on {address}: {error.strerror or error}{hint}") from None
    finally:
        os.umask(mask)
    return (
        socket.last_endpoint.decode().rstrip("\0")
        if isinstance(socket.last_endpoint, bytes)
        else str(socket.last_endpoint)
    )
