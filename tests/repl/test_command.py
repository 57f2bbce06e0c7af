"""The ``tiremote`` command as far as no worker is needed."""

from __future__ import annotations

import re
import shlex
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import zmq.auth

from tiremote.client.keys import keys_folder
from tiremote.repl.keygen import KeygenError, make_keys


def tiremote(*arguments: str) -> subprocess.CompletedProcess[str]:
    code = "from tiremote.repl.command import main; main(prog_name='tiremote')"
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, stdin=subprocess.DEVNULL)


def test_help_names_commands_and_options() -> None:
    """Subcommands and the main options, those of the prompt among them, are found through --help."""
    done = tiremote("--help")
    assert done.returncode == 0
    for word in ("demo", "status", "keygen", "--key", "--server-key", "--arch", "--session", "--version", "-h"):
        assert word in done.stdout


def test_help_loads_neither_numpy_nor_zmq() -> None:
    """Help comes without the wait for libraries that only a session needs."""
    code = """
import sys
from tiremote.repl.command import main
try:
    main(["--help"], prog_name="tiremote")
finally:
    print(*sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert not {"numpy", "zmq", "prompt_toolkit"} & set(done.stdout.split())


def test_the_version_is_one_line() -> None:
    """Scripts can read the version, as the program's name leads a single line."""
    done = tiremote("--version")
    assert (done.returncode, done.stdout.split()[0], done.stdout.count("\n")) == (0, "tiremote", 1)


@pytest.mark.parametrize("url", ["http://gpu-box", "gpu-box", "tcp://gpu-box", "tcp://gpu-box:99999"])
@pytest.mark.parametrize("command", [[], ["demo"], ["status"]])
def test_what_is_no_address_is_refused_in_one_line(command: list[str], url: str) -> None:
    """The prompt, demo and status quote a wrong address and exit with 2, without a traceback."""
    done = tiremote(*command, url)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert f"{url!r} is no address of a worker" in done.stderr


def test_a_command_that_is_mistyped_suggests_the_nearest() -> None:
    """A word that is neither command nor address is answered with the command that was probably meant."""
    assert "did you mean `tiremote status`?" in tiremote("stauts").stderr


def test_options_may_stand_before_the_command() -> None:
    """An option of a command is also taken before its name, and the arguments still belong to that command."""
    assert "'x' is no address" in tiremote("--arch", "cpu", "demo", "x").stderr


def test_status_of_nobody_is_one_line(tmp_path: Path) -> None:
    """Asking a worker that is not there ends with status 1 and one line on stderr, after as long as was said."""
    done = tiremote("status", "--timeout", "0.5", f"ipc://{tmp_path}/nobody")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert "WorkerUnreachable" in done.stderr


@pytest.mark.parametrize("option", ["--timeout", "--liveness"])
def test_a_time_to_wait_is_a_positive_number(option: str) -> None:
    """Zero, less and text are refused before anything is asked."""
    for wrong in ("0", "-1", "soon"):
        done = tiremote(option, wrong, "tcp://127.0.0.1:1")
        assert (done.returncode, option in done.stderr) == (2, True)


@pytest.mark.parametrize("arguments", [["-h"], ["demo", "-h"], ["status", "-h"], ["keygen", "-h"]])
def test_the_short_form_of_help_is_taken(arguments: list[str]) -> None:
    """Of the command itself and of each of its own."""
    done = tiremote(*arguments)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Usage:" in done.stdout


def test_status_takes_no_option_that_would_open_a_session() -> None:
    """A name that is misspelt must not make a session of that name."""
    done = tiremote("status", "--session", "typo")
    assert done.returncode == 2
    assert re.search(r"No such option.*--session", done.stderr)


@pytest.mark.parametrize("option", ["--default-fp", "--default-ip", "--random-seed", "--debug"])
def test_options_of_taichi_are_the_prompts_too(option: str) -> None:
    """And help tells of them."""
    assert option in tiremote("--help").stdout


# Keys


@pytest.mark.parametrize("command", [[], ["demo"], ["status"]])
def test_a_wrong_key_is_told_in_the_words_of_the_command_line(command: list[str], tmp_path: Path) -> None:
    """Not in those of Python's connect."""
    made = make_keys("laptop", tmp_path)
    done = tiremote(*command, "tcp://127.0.0.1:1", "--key", str(made.secret))
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "with --key also give --server-key" in done.stderr
    done = tiremote(*command, "tcp://127.0.0.1:1", "--key", str(made.public), "--server-key", str(made.public))
    assert "--key is the .key_secret file" in done.stderr


def test_keys_without_an_address_are_refused_in_the_words_of_the_command_line() -> None:
    """A local worker needs none."""
    assert "--key and --server-key are for a worker elsewhere" in tiremote("--server-key", "x" * 40).stderr


def test_keygen_prints_whole_commands_and_makes_the_folder_of_clients(tmp_path: Path) -> None:
    """With full paths, quoted for the shell, so that they can be pasted."""
    folder = tmp_path / "my keys"
    done = tiremote("keygen", "gpu", "--dir", str(folder))
    assert (folder / "clients").is_dir()
    commands = [shlex.split(line) for line in done.stdout.splitlines() if line.startswith("  tiremote")]
    assert [command[0] for command in commands] == ["tiremote-worker", "tiremote"]
    assert commands[0][-4:] == ["--keys", str(folder / "gpu.key_secret"), "--authorized", str(folder / "clients")]
    assert commands[1][2:4] == ["--key", str(folder / "gpu.key_secret")]


def test_help_of_keygen_tells_the_default_folder() -> None:
    """Where the client looks for keys too."""
    shown = "".join(tiremote("keygen", "--help").stdout.split())
    assert "".join(str(keys_folder()).split()) in shown


def test_keygen_writes_a_pair_whose_secret_only_its_owner_reads(tmp_path: Path) -> None:
    """The secret is in a private file in a private folder and never on the screen; the public key is shown."""
    folder = tmp_path / "keys"
    done = tiremote("keygen", "laptop", "--dir", str(folder))
    assert done.returncode == 0
    secret = folder / "laptop.key_secret"
    public, private = zmq.auth.load_certificate(secret)
    assert private is not None
    assert public.decode() in done.stdout
    assert private.decode() not in done.stdout
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    assert zmq.auth.load_certificate(folder / "laptop.key") == (public, None)


def test_keygen_never_overwrites(tmp_path: Path) -> None:
    """A key that is in use cannot be lost by making one of the same name."""
    before = make_keys("laptop", tmp_path).secret.read_bytes()
    done = tiremote("keygen", "laptop", "--dir", str(tmp_path))
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "is there already" in done.stderr
    assert (tmp_path / "laptop.key_secret").read_bytes() == before


@pytest.mark.parametrize("name", ["", "a/b", "../a", ".hidden", "a b", "a" * 200])
def test_a_key_is_named_like_a_file(tmp_path: Path, name: str) -> None:
    """Names that would leave the folder, hide the file or be no file name are refused."""
    with pytest.raises(KeygenError, match="is no name of a key"):
        make_keys(name, tmp_path)


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    """A path where no key can be written raises KeygenError, not an error of the file system."""
    (tmp_path / "file").touch()
    with pytest.raises(KeygenError, match="no key can be written"):
        make_keys("laptop", tmp_path / "file" / "keys")
