"""``tiremote-worker``: the process on the GPU machine."""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import resource
import shlex
import sys
import time
from pathlib import Path

import click
import zmq

from tiremote.protocol.errors import TiremoteError
from tiremote.protocol.results import Limits
from tiremote.worker.front.binding import Curve, bind, check_address, ipc_path, secure, start_authenticator
from tiremote.worker.front.core import Front
from tiremote.worker.front.loop import Loop
from tiremote.worker.front.settings import Settings
from tiremote.worker.front.state.store import Store
from tiremote.worker.front.welcoming import WORKER_VERSION
from tiremote.worker.runtimes import RUNTIMES, check_runtime, installed

#: Messages that may wait for one client: a client may have that many small answers on their way.
_HIGH_WATER = 100_000
_LINGER_MS = 1000
#: ZeroMQ's own heartbeat: a connection that is cut without a word is dropped after the time-out.
_HEARTBEAT_MS, _HEARTBEAT_TIMEOUT_MS = 10_000, 30_000


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--bind", "address", default="tcp://127.0.0.1:5555", show_default=True, help="Where to listen.")
@click.option("--arch", default="auto", show_default=True, help="auto, cuda, vulkan, metal, cpu, ...")
@click.option(
    "--runtime",
    type=click.Choice(list(RUNTIMES)),
    help="Of sessions that ask for none; by default the first of these that is installed.",
)
@click.option("--keys", type=click.Path(path_type=Path), help="This worker's .key_secret file: listen under CURVE.")
@click.option("--authorized", type=click.Path(path_type=Path), help="The folder of the clients' .key files.")
@click.option("--lease", default=24 * 3600.0, show_default=True, help="Seconds that a session outlives its clients.")
@click.option("--max-sessions", default=Limits().sessions, show_default=True, type=click.IntRange(min=1))
@click.option(
    "--session-bytes",
    default=Limits().session_bytes,
    show_default=True,
    type=click.IntRange(min=1 << 20),
    help="Bytes that may wait in one session: requests for its engine, answers for its clients.",
)
@click.option(
    "--spares",
    default=1,
    show_default=True,
    type=click.IntRange(0, 16),
    help="Engines kept warm; with 0 one is until the first session.",
)
@click.option("--grace", default=0.5, show_default=True, help="Seconds that interrupted code has to stop by itself.")
@click.option("--drain", default=30.0, show_default=True, help="Seconds that running work has after SIGTERM.")
@click.option(
    "--history",
    default=Settings().history,
    show_default=True,
    type=click.IntRange(min=1),
    help="Versions of a unit that are remembered.",
)
@click.option(
    "--copies",
    default=Settings().copies_bytes,
    show_default=True,
    type=click.IntRange(min=0),
    help="Bytes of copies of arrays that are kept, to be put back after a crash.",
)
@click.option(
    "--chunk-cache",
    default=Settings().chunk_cache,
    show_default=True,
    type=click.IntRange(min=0),
    help="Bytes of what clients send over slow links that each session keeps, so as not to be sent it again; 0: none.",
)
@click.option(
    "--snapshot-every",
    default=0.0,
    show_default=True,
    type=click.FloatRange(min=0),
    help="Seconds between two copies of a session's arrays, 0 for never; a client may ask for another interval.",
)
@click.option(
    "--state",
    type=click.Path(file_okay=False),
    callback=lambda _context, _option, value: None if value is None else _directory(value),
    help="Keep sessions in this directory: they are there again when the worker is started again.",
)
@click.option(
    "--recycle",
    default=Settings().recycle_bytes,
    show_default=True,
    type=click.IntRange(min=0),
    help="Bytes that an engine may leak before its session is moved to another while it rests; 0: never.",
)
@click.option("--until-eof", is_flag=True, help="End when standard input does: for a program that starts a worker.")
@click.option("--log-level", default="warning", type=click.Choice(["debug", "info", "warning", "error"]))
@click.version_option(WORKER_VERSION, prog_name="tiremote-worker")
def main(
    address: str,
    arch: str,
    runtime: str | None,
    keys: Path | None,
    authorized: Path | None,
    lease: float,
    max_sessions: int,
    session_bytes: int,
    spares: int,
    grace: float,
    drain: float,
    history: int,
    copies: int,
    chunk_cache: int,
    snapshot_every: float,
    state: Path | None,
    recycle: int,
    until_eof: bool,
    log_level: str,
) -> None:
    """Serve Taichi kernels: compile, run and reload what clients send, on this machine's GPU.

    Prints one line when it is ready. SIGTERM and Ctrl-C drain: running work ends first; a second one stops at once.
    """
    logging.basicConfig(level=log_level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    there = installed()
    settings = Settings(
        options={"arch": arch},
        runtime=runtime or next(iter(there), Settings().runtime),
        runtimes=there,
        limits=Limits(sessions=max_sessions, session_bytes=session_bytes),
        lease=lease,
        spares=spares,
        grace=grace,
        drain=drain,
        history=history,
        copies_bytes=copies,
        chunk_cache=chunk_cache,
        snapshot_seconds=snapshot_every,
        recycle_bytes=recycle,
    )
    _take_descriptors()
    try:
        check_runtime(settings.runtime, there)
        curve = _curve(keys, authorized)
        with contextlib.ExitStack() as stack:
            store = None
            if state is not None:
                store = stack.enter_context(contextlib.closing(Store(state, copies, time.monotonic)))
            _serve(address, curve, settings, sys.stdin.fileno() if until_eof else None, store)
    except TiremoteError as error:
        click.echo(f"tiremote-worker: {error}", err=True)
        sys.exit(1)


def _directory(path: str) -> Path:
    """Raises `click.BadParameter` for no path at all, which would be the directory that the worker is started in."""
    if not path:
        raise click.BadParameter("it is empty: name a directory, or leave --state out")
    return Path(path)


def _take_descriptors() -> None:
    """Clients, engines and arrays on their way take descriptors: as many as this process may have."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    # Where there is no limit, there may be a lower one of the system's that is not told: then it stays.
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _curve(keys: Path | None, authorized: Path | None) -> Curve | None:
    if (keys is None) != (authorized is None):
        raise click.UsageError("--keys and --authorized go together: the worker's own key, and whom it lets in")
    return None if keys is None or authorized is None else Curve(secret_file=keys, authorized=authorized)


def _serve(address: str, curve: Curve | None, settings: Settings, lifeline: int | None, store: Store | None) -> None:
    wanted = check_address(address, curve=curve is not None)
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    authenticator = start_authenticator(context, curve) if curve else None
    router = context.socket(zmq.ROUTER)
    real = None
    try:
        _tune(router, settings.limits)
        if curve:
            secure(router, curve)
        real = bind(router, wanted)
        Loop(
            router,
            settings,
            curve=curve is not None,
            on_ready=functools.partial(_say_ready, real),
            lifeline=lifeline,
            store=store,
        ).run()
    finally:
        router.close()
        if authenticator:
            authenticator.stop()
        context.term()
        if real is not None and wanted.startswith("ipc://"):
            ipc_path(wanted).unlink(missing_ok=True)


def _tune(router: zmq.Socket[bytes], limits: Limits) -> None:
    router.setsockopt(zmq.MAXMSGSIZE, max(limits.buffer_bytes, limits.header_bytes))
    router.setsockopt(zmq.ROUTER_MANDATORY, 1)
    router.setsockopt(zmq.SNDHWM, _HIGH_WATER)
    router.setsockopt(zmq.RCVHWM, _HIGH_WATER)
    router.setsockopt(zmq.LINGER, _LINGER_MS)
    router.setsockopt(zmq.HEARTBEAT_IVL, _HEARTBEAT_MS)
    router.setsockopt(zmq.HEARTBEAT_TIMEOUT, _HEARTBEAT_TIMEOUT_MS)


def _say_ready(address: str, front: Front) -> None:
    info = front.scheduler.pool.info
    if info is not None:
        click.echo(
            f"tiremote-worker ready {address} arch={info.arch} device={shlex.quote(info.device)} "
            f"runtime={info.runtime} {info.version} tiremote={WORKER_VERSION} pid={os.getpid()}"
        )
