"""`connect`: from an address, or from none, to a `Session`."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tiremote.client.compression import When
from tiremote.client.exchange import Exchange
from tiremote.client.keys import CurveKeys, load_keys
from tiremote.client.link import Link
from tiremote.client.local_worker import LocalWorker
from tiremote.client.output import OutputHandler, print_output
from tiremote.client.session import Session
from tiremote.protocol.errors import Refused
from tiremote.protocol.messages import Hello

_TCP = re.compile(r"tcp://(\[[0-9A-Fa-f:.%\w]+\]|[^\s:/\[\]@]+):(\d{1,5})")


def connect(
    url: str | None = None,
    *,
    session: str | None = None,
    arch: str | None = None,
    default_fp: str | None = None,
    default_ip: str | None = None,
    debug: bool | None = None,
    random_seed: int | None = None,
    options: Mapping[str, Any] | None = None,
    timeout: float = 10.0,
    liveness: float = 15.0,
    lease: float | None = None,
    snapshot_every: float | None = None,
    token: str | None = None,
    key: str | os.PathLike[str] | None = None,
    server_key: str | os.PathLike[str] | None = None,
    on_output: OutputHandler | None = print_output,
    client: str | None = None,
    runtime: str | None = None,
    compress: When = "auto",
    reuse: When = "auto",
) -> Session:
    """Opens a session on the worker at ``url``, or on a local worker that is started for it and ends with it.

    ``url`` is ``tcp://host:port`` or ``ipc://path``. ``session`` names a session, which is then shared with every
    client that uses the name and is kept when this one leaves; without a name it is private and ends with it.
    ``token`` (of `Session.detach`) rejoins one. ``arch``, ``default_fp`` and ``default_ip`` (such as ``"f32"``),
    ``debug``, ``random_seed`` and further ``options`` are Taichi's and count where the session is made; so does
    ``runtime`` (``taichi``, ``gstaichi``, ``quadrants``), by default the worker's, for a local one ``taichi``.
    ``lease`` is the seconds that it outlives its last client. ``snapshot_every``: so often, in seconds, the worker
    copies its arrays by itself, to put them back when an engine is lost (`Session.snapshot`).

    ``timeout``: seconds to wait for the worker's first sign of life; ``liveness``: seconds of silence after which
    what is waited for fails. Neither limits how long work may take. ``key`` (the path of a ``.key_secret`` file, by
    default ``client.key_secret`` in the folder that `tiremote keygen` writes to) and ``server_key`` (the path of
    the worker's ``.key`` file or the 40 characters of its public key) turn CURVE on.

    ``compress``: ``"auto"`` makes arrays smaller on their way (without loss) where the link is measured to be slow and
    a sample of the array shrinks; True does so on any link, False on none. ``reuse``: likewise, arrays of 1 MiB and
    more are put in chunks, of which only those are sent that the session does not have (by its worker's
    ``--chunk-cache``).

    ``on_output`` takes what remote code prints (``None``: it is not sent); ``client`` is the name that others see.

    Raises `WorkerUnreachable`, `Unauthorized`, `VersionMismatch`, `Refused` (an option that is not taken), and
    `ValueError` for an address or a key that is none, or another ``compress`` or ``reuse``.
    """
    wanted = dict(options or {})
    named = {"arch": arch, "default_fp": default_fp, "default_ip": default_ip, "runtime": runtime}
    wanted |= {name: _option(value) for name, value in named.items() if value is not None}
    wanted |= {name: value for name, value in {"debug": debug, "random_seed": random_seed}.items() if value is not None}
    for name, when in (("compress", compress), ("reuse", reuse)):
        if when != "auto" and not isinstance(when, bool):
            raise ValueError(f"{name}={when!r} came: it is 'auto', True or False")
    if url is not None:
        check_address(url)
    keys = load_keys(key, server_key)
    if url is None and keys is not None:
        raise ValueError("key= and server_key= are for a remote worker: give its address as well")
    hello = Hello(id="", token=token, session=session, client=client or _client_name(), options=wanted, lease=lease)
    opening = Opening(
        url=url,
        keys=keys,
        timeout=timeout,
        liveness=liveness,
        on_output=on_output,
        hello=hello,
        arch=arch,
        runtime=runtime,
        snapshot_every=snapshot_every,
        compress=compress,
        reuse=reuse,
    )
    return opening.open()


@dataclass(frozen=True, kw_only=True, slots=True)
class Opening:
    """How a session was opened, so that another can be: after its worker is gone, or with other options."""

    url: str | None
    keys: CurveKeys | None
    timeout: float
    liveness: float
    on_output: OutputHandler | None
    hello: Hello
    arch: str | None
    runtime: str | None
    snapshot_every: float | None = None
    compress: When = "auto"
    reuse: When = "auto"

    def with_options(self, options: Mapping[str, Any]) -> Opening:
        """The same for a new session whose options of Taichi differ."""
        hello = replace(self.hello, token=None, options={**self.hello.options, **options})
        return replace(self, hello=hello)

    def open(self, worker: LocalWorker | None = None) -> Session:
        """Raises as `connect` does. A local ``worker`` that runs is used, where one was to be started."""
        started = None
        url = self.url
        if url is None:
            if worker is None:
                worker = started = LocalWorker.start(arch=self.arch, runtime=self.runtime)
            url = worker.address
        link = Link(url, quiet_limit=self.timeout, keys=self.keys)
        exchange = Exchange(link, on_output=self.on_output, compress=self.compress, reuse=self.reuse)
        try:
            hello = exchange.open(self.hello, liveness=self.liveness)
        except BaseException:
            exchange.close()
            if started is not None:
                started.stop()
            raise
        if worker is not None:
            worker.when_it_ends(exchange.lost)
        session = Session(exchange, hello, private=self.hello.session is None, worker=worker, opening=self)
        if self.snapshot_every is not None:
            try:
                session.snapshot(every_seconds=self.snapshot_every)
            except BaseException:
                session.close()
                raise
        return session


def check_address(url: str) -> None:
    """Raises `ValueError`, in one line, for what is no ``tcp://host:port`` and no ``ipc://path``."""
    if not isinstance(url, str):
        raise ValueError(f"an address is a string such as 'tcp://gpu-box:5555', not {type(url).__name__}")
    if url.startswith("ipc://"):
        if len(url) == len("ipc://"):
            raise ValueError("ipc:// needs the path of the worker's socket: 'ipc:///run/user/1000/tiremote.ipc'")
        return
    matched = _TCP.fullmatch(url)
    if matched is None or not 0 < int(matched[2]) < 65536:
        raise ValueError(
            f"{url!r} is no address of a worker; it is 'tcp://host:port' (a port from 1 to 65535) or 'ipc://path'"
        )


def _option(value: Any) -> Any:
    """Taichi's objects, such as those of ``gpu.ti``, as the names that travel."""
    name = getattr(value, "name", value)
    if not isinstance(name, str):
        raise Refused(f"an arch, dtype or runtime is given by its name, such as 'cuda' or 'f32', not {value!r}")
    return name


def _client_name() -> str:
    # Not getpass: on Windows it may need a module, and a name is a courtesy to other users of the worker.
    user = os.environ.get("USER") or os.environ.get("USERNAME") or "client"
    return f"{user}-{os.getpid()}"
