"""The ``tiremote`` command. What takes time to import waits until it is known what is wanted."""

from __future__ import annotations

import sys
from collections.abc import Callable
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click
import platformdirs

if TYPE_CHECKING:
    from tiremote.client import Session
    from tiremote.repl.settings import Settings

#: Where a worker listens that was told nothing else.
DEFAULT_ADDRESS = "tcp://127.0.0.1:5555"
_DEFAULT_COMMAND = "open"
#: Told by a shell or a service that the command line itself is wrong.
_USAGE = 2

_SECONDS = click.FloatRange(min=0, min_open=True)

F = TypeVar("F", bound=Callable[..., Any])


class _UrlOrCommand(click.Group):
    """``tiremote tcp://host:5555`` opens the prompt there; ``tiremote`` alone on a local worker."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        takes_value = {name for option in self.commands[_DEFAULT_COMMAND].params for name in option.opts}
        position = 0
        while position < len(args) and args[position].startswith("-"):
            if args[position] in ("-h", "--help", "--version"):
                return super().parse_args(ctx, args)
            position += 2 if args[position] in takes_value else 1
        if position < len(args) and args[position] in self.commands:
            args = [args[position], *args[:position], *args[position + 1 :]]
        else:
            args = [_DEFAULT_COMMAND, *args]
        return super().parse_args(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_options(ctx, formatter)
        opened = self.commands[_DEFAULT_COMMAND]
        rows = [row for option in opened.params if (row := option.get_help_record(ctx)) is not None]
        with formatter.section("Options of the prompt, of demo and of watch (status takes the first three alone)"):
            formatter.write_dl(rows)


def _version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        from importlib.metadata import version

        click.echo(f"tiremote {version('tiremote')}")
        ctx.exit()


def _connection_options(function: F) -> F:
    return click.argument("url", required=False)(_reach_options(function))


def _reach_options(function: F) -> F:
    for option in reversed(
        [
            click.option("--key", type=click.Path(path_type=Path), help="This side's .key_secret file, see keygen."),
            click.option("--server-key", help="The worker's .key file, or the 40 characters of its public key."),
            click.option("--timeout", type=_SECONDS, metavar="SECONDS", help="To wait for its first sign of life."),
        ]
    ):
        function = option(function)
    return function


def _session_options(function: F) -> F:
    for option in reversed(
        [
            click.option("--arch", help="What Taichi shall run on: cpu, cuda, vulkan, metal, ..."),
            click.option("--runtime", help="taichi, gstaichi or quadrants; what the worker has as its own otherwise."),
            click.option("--session", metavar="NAME", help="A session that is kept when you leave, and shared."),
            click.option("--default-fp", metavar="TYPE", help="What float means there: f32, f64, f16."),
            click.option("--default-ip", metavar="TYPE", help="What int means there: i32, i64."),
            click.option("--random-seed", type=int, metavar="N", help="Of ti.random()."),
            click.option("--debug", is_flag=True, default=None, help="Taichi checks indices and assertions."),
            click.option("--liveness", type=_SECONDS, metavar="SECONDS", help="Of silence until a call fails."),
        ]
    ):
        function = option(function)
    return function


@click.group(
    cls=_UrlOrCommand,
    subcommand_metavar="[URL] | COMMAND [ARGS]...",
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="The version.")
def main() -> None:
    """Taichi at a prompt: kernels run on the worker at URL (tcp://host:5555 or ipc://path), everything else here.

    Without a URL a local worker is started for the prompt and ends with it. Cells that are piped to standard input
    run as a script, which ends with a non-zero status at its first error.
    """


@main.command(_DEFAULT_COMMAND, hidden=True)
@_connection_options
@_session_options
def open_prompt(url: str | None, **options: Any) -> None:
    """The prompt, or a script from standard input."""
    # Programs that are pasted or piped may parse it, and these options are not theirs.
    sys.argv = sys.argv[:1]
    settings = _settings()
    url, options = _named(url, options, settings)
    if not sys.stdin.isatty():
        # Read first: a worker need not start for a text that never comes.
        text = sys.stdin.buffer.read().decode("utf-8", "replace")
        gpu = _connect(url, **options)
        from tiremote.repl.script import run_script

        with gpu:
            status = run_script(gpu, text)
        sys.exit(status)
    if url is None:
        click.echo("Starting a local worker ...", err=True)
    gpu = _connect(url, **options)
    from tiremote.repl.prompt import run_prompt

    run_prompt(gpu, url=url, session=options["session"], settings=settings)


@main.command()
@_connection_options
@_session_options
def demo(url: str | None, **options: Any) -> None:
    """The quick start and its hot reload, with what each step took."""
    import time

    started = time.perf_counter()
    gpu = _connect(url, **options)
    from tiremote.protocol.errors import TiremoteError
    from tiremote.repl.demo import run_demo
    from tiremote.repl.status_text import engine_text

    with gpu:
        click.echo(f"{'Local worker' if url is None else url}: {engine_text(gpu.info.engine)}")
        click.echo(f"  {'connected':<52}{(time.perf_counter() - started) * 1e3:>9.1f} ms")
        try:
            good = run_demo(gpu, click.echo)
        except TiremoteError as error:
            _fail(f"{type(error).__name__}: {error}")
    click.echo("All results are right." if good else "A result is wrong.")
    sys.exit(0 if good else 1)


@main.command()
@_connection_options
def status(url: str | None, **keys: Any) -> None:
    """What a worker does and who uses it (tcp://127.0.0.1:5555 without a URL). Opens no session."""
    url = url or DEFAULT_ADDRESS
    from tiremote.protocol.errors import TiremoteError
    from tiremote.repl.status_text import status_text

    _check_url(url)
    _check_keys(url, keys["key"], keys["server_key"])
    from tiremote.repl.ask_status import ask_status

    try:
        click.echo(status_text(ask_status(url, **keys), url))
    except ValueError as error:
        _fail(str(error), _USAGE)
    except TiremoteError as error:
        _fail(f"{type(error).__name__}: {error}")


@main.command()
@click.argument("session")
@_connection_options
def end(session: str, url: str | None, **keys: Any) -> None:
    """Ends a session by its name or id, as `tiremote status` lists them, with everything in it."""
    url = url or DEFAULT_ADDRESS
    from tiremote.protocol.errors import TiremoteError

    _check_url(url)
    _check_keys(url, keys["key"], keys["server_key"])
    from tiremote.repl.ask_status import end_session

    try:
        end_session(url, session, **keys)
    except ValueError as error:
        _fail(str(error), _USAGE)
    except TiremoteError as error:
        _fail(f"{type(error).__name__}: {error}")
    click.echo(f"session {session} has ended")


@main.command(options_metavar="[OPTIONS]")
@click.argument("places", metavar="[URL] FILE...", nargs=-1)
@_reach_options
@_session_options
@click.option(
    "--call", "calls", metavar="TEXT", multiple=True, help="Python to run after each load, such as 'step(10); show()'."
)
@click.option("--once", is_flag=True, help="Load and call once, and end with a status.")
def watch(places: tuple[str, ...], calls: tuple[str, ...], once: bool, **options: Any) -> None:
    """Loads FILEs, and each again whenever it is saved; sim.py becomes the unit sim.

    The files may import one another. What does not load leaves running what was loaded before. Without a URL a local
    worker is started. --call sees the names that the files define, as the prompt does, and np and gpu.
    """
    urls, files = ([each for each in places if ("://" in each) is is_url] for is_url in (True, False))
    if len(urls) > 1:
        _fail(f"one worker at a time, not {' and '.join(urls)}", _USAGE)
    if len(calls) > 1:
        _fail(f"one --call at a time: --call {'; '.join(calls)!r}", _USAGE)
    call = calls[0] if calls else None
    from tiremote.client.watch import watched_files
    from tiremote.repl.cells import Cell
    from tiremote.repl.render import error_text

    try:
        watched_files(files)
    except ValueError as error:
        _fail(str(error), _USAGE)
    try:
        Cell(call or "").statements()
    except SyntaxError as error:
        _fail(f"--call: {error_text(error)}", _USAGE)
    url = urls[0] if urls else None
    gpu = _connect(url, **options)
    from tiremote.repl.shell import emit, emit_error, leave
    from tiremote.repl.watching import Watching, terminal_style

    try:
        watching = Watching(gpu, files, call=call, write=emit, note=emit_error, style=terminal_style())
        status = watching.run(once=once)
    finally:
        emit_error(leave(gpu, url=url, session=options["session"]))
    sys.exit(status)


@main.command()
@click.argument("name")
@click.option(
    "--dir",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    default=lambda: platformdirs.user_config_path("tiremote") / "keys",
    show_default=str(platformdirs.user_config_path("tiremote") / "keys"),
    help="Where to write them.",
)
def keygen(name: str, folder: Path) -> None:
    """Makes a pair of keys for a client or a worker: NAME.key and NAME.key_secret.

    Beside them it makes the folder clients/, for the public keys that a worker shall admit.
    """
    from tiremote.repl.keygen import KeygenError, make_keys, what_to_do

    try:
        files = make_keys(name, folder.absolute())
    except KeygenError as error:
        _fail(str(error))
    click.echo(what_to_do(files))


def _settings() -> Settings:
    from tiremote.repl.settings import read_settings

    try:
        return read_settings()
    except ValueError as error:
        _fail(str(error), _USAGE)


def _named(url: str | None, options: dict[str, Any], settings: Settings) -> tuple[str | None, dict[str, Any]]:
    """What a connection of that name says; what the command line says goes before that."""
    said = settings.connections.get(url) if url is not None else None
    if said is None:
        return url, options
    given = {name: value for name, value in options.items() if value is not None}
    return said["url"], {**options, **{name: value for name, value in said.items() if name != "url"}, **given}


def _connect(url: str | None, **options: Any) -> Session:
    if url is not None:
        _check_url(url)
    _check_keys(url, options["key"], options["server_key"])
    from tiremote.client import connect
    from tiremote.protocol.errors import TiremoteError

    try:
        # What was not said is as for a program.
        return connect(url, **{name: value for name, value in options.items() if value is not None})
    except ValueError as error:
        _fail(str(error), _USAGE)
    except TiremoteError as error:
        _fail(f"{type(error).__name__}: {error}")
    except KeyboardInterrupt:
        _fail("interrupted", 130)


def _check_url(url: str) -> None:
    close = get_close_matches(url, [name for name, each in main.commands.items() if not each.hidden], n=1)
    if close:
        _fail(f"{url!r} is no command and no address; did you mean `tiremote {close[0]}`?", _USAGE)
    from tiremote.client.connect import check_address

    try:
        check_address(url)
    except ValueError as error:
        _fail(str(error), _USAGE)


def _check_keys(url: str | None, key: Path | None, server_key: str | None) -> None:
    """Before the client does, whose words are Python's."""
    if key is None and server_key is None:
        return
    if url is None:
        _fail("--key and --server-key are for a worker elsewhere: give its address as well", _USAGE)
    from tiremote.client.keys import load_keys

    try:
        load_keys(key, server_key, words=("--key", "--server-key"))
    except ValueError as error:
        _fail(str(error), _USAGE)


def _fail(text: str, status: int = 1) -> NoReturn:
    click.echo(f"tiremote: {text}", err=True)
    sys.exit(status)
