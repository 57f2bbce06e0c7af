"""The ``tiremote`` command as far as no worker is needed."""

from __future__ import annotations

import stat
import subprocess
import sys
from pathlib import Path

import pytest
import zmq.auth

from tiremote.repl.keygen import KeygenError, make_keys


def tiremote(*arguments: str) -> subprocess.CompletedProcess[str]:
    code = "from tiremote.repl.command import main; main(prog_name='tiremote')"
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, stdin=subprocess.DEVNULL)


def test_help_names_commands_and_options() -> None:
    done = tiremote("--help")
    assert done.returncode == 0
    for word in ("demo", "status", "keygen", "--key", "--server-key", "--arch", "--session", "--version"):
        assert word in done.stdout


def test_help_loads_neither_numpy_nor_zmq() -> None:
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
    done = tiremote("--version")
    assert (done.returncode, done.stdout.split()[0], done.stdout.count("\n")) == (0, "tiremote", 1)


@pytest.mark.parametrize("url", ["http://gpu-box", "gpu-box", "tcp://gpu-box", "tcp://gpu-box:99999"])
@pytest.mark.parametrize("command", [[], ["demo"], ["status"]])
def test_what_is_no_address_is_refused_in_one_line(command: list[str], url: str) -> None:
    done = tiremote(*command, url)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert f"{url!r} is no address of a worker" in done.stderr


def test_a_command_that_is_mistyped_suggests_the_nearest() -> None:
    assert "did you mean `tiremote status`?" in tiremote("stauts").stderr


def test_options_may_stand_before_the_command() -> None:
    assert "'x' is no address" in tiremote("--arch", "cpu", "demo", "x").stderr


def test_status_of_nobody_is_one_line(tmp_path: Path) -> None:
    done = tiremote("status", f"ipc://{tmp_path}/nobody")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert "WorkerUnreachable" in done.stderr


# Keys


def test_keygen_writes_a_pair_whose_secret_only_its_owner_reads(tmp_path: Path) -> None:
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
    before = make_keys("laptop", tmp_path).secret.read_bytes()
    done = tiremote("keygen", "laptop", "--dir", str(tmp_path))
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "is there already" in done.stderr
    assert (tmp_path / "laptop.key_secret").read_bytes() == before


@pytest.mark.parametrize("name", ["", "a/b", "../a", ".hidden", "a b", "a" * 200])
def test_a_key_is_named_like_a_file(tmp_path: Path, name: str) -> None:
    with pytest.raises(KeygenError, match="is no name of a key"):
        make_keys(name, tmp_path)


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(KeygenError, match="no key can be written"):
        make_keys("laptop", tmp_path / "file" / "keys")
