"""The shape of the distribution: one namespace, three roots, a laptop that needs no GPU machine's packages."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tiremote.worker.runtimes import RUNTIMES

REPOSITORY = Path(__file__).parent.parent
ROOTS = ("protocol", "worker", "repl")
PACKAGES = ("tiremote.protocol", "tiremote.worker", "tiremote.client", "tiremote.repl")
RUNTIME_MODULE = REPOSITORY / "worker/tiremote/worker/engine/runtime_modules.py"
MODULES = sorted(path for root in ROOTS for path in (REPOSITORY / root / "tiremote").rglob("*.py"))


def python(code: str, cwd: Path) -> str:
    """What ``code`` prints in a Python of its own, whose first import path is ``cwd``."""
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def named(path: Path) -> str:
    return str(path.relative_to(REPOSITORY))


# The namespace


@pytest.mark.parametrize("root", ROOTS)
def test_no_root_holds_an_init_that_would_hide_the_other_two(root: str) -> None:
    """No root claims the tiremote package for itself, so that all three can be installed side by side."""
    assert not (REPOSITORY / root / "__init__.py").exists()
    assert not (REPOSITORY / root / "tiremote" / "__init__.py").exists()


def test_tiremote_is_a_namespace_over_all_its_roots(tmp_path: Path) -> None:
    """Each package can be imported from anywhere, and tiremote itself has no file."""
    code = f"import importlib, tiremote; print(tiremote.__file__); [importlib.import_module(p) for p in {PACKAGES}]"
    assert python(code, tmp_path).strip() == "None"


@pytest.mark.parametrize("package", PACKAGES)
def test_every_package_is_marked_as_typed(package: str, tmp_path: Path) -> None:
    """Type checkers of users see our annotations, because py.typed is installed with each package."""
    folder = Path(python(f"import {package} as p; print(p.__path__[0])", tmp_path).strip())
    assert (folder / "py.typed").is_file()


def test_modules_of_the_user_with_the_names_of_our_roots_never_shadow_ours(tmp_path: Path) -> None:
    """A folder with its own worker.py or client.py does not break our imports."""
    for name in ("protocol", "worker", "client", "repl", "engine", "front"):
        (tmp_path / f"{name}.py").write_text("raise RuntimeError('the module of the user was imported')")
    python("; ".join(f"import {package}" for package in PACKAGES), tmp_path)


# The laptop


LAPTOP = "import sys, tiremote.client, tiremote.repl, tiremote.repl.command"


def test_the_laptop_loads_no_taichi_and_no_worker(tmp_path: Path) -> None:
    """Importing client and command needs neither Taichi nor psutil nor any module of the worker."""
    loaded = python(f"{LAPTOP}; print(*sys.modules)", tmp_path).split()
    assert [name for name in loaded if name.split(".")[0] in {*RUNTIMES, "psutil"}] == []
    assert [name for name in loaded if name.startswith("tiremote.worker")] == []


def test_the_laptop_installs_without_taichi() -> None:
    """No runtime is a dependency of a plain installation; each has an extra that is all a worker needs."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert not [requirement for requirement in project["dependencies"] if requirement.startswith(tuple(RUNTIMES))]
    for kind in RUNTIMES.values():
        names = {re.split("[<>=]", each)[0] for each in project["optional-dependencies"][kind.extra]}
        assert names == {kind.name, "psutil"}


WINDOWS_HAS_NOT = """
import builtins, os, signal, socket, sys
import tiremote.client, tiremote.repl, tiremote.repl.command  # loads what we use of others

for name in [name for name in sys.modules if name.split(".")[0] == "tiremote"]:
    del sys.modules[name]
for module, names in {
    os: ("fork", "forkpty", "getuid", "geteuid", "getpgid", "killpg", "setsid", "register_at_fork"),
    signal: ("SIGKILL", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGTSTP", "pthread_sigmask"),
    socket: ("AF_UNIX",),
}.items():
    for name in names:
        if hasattr(module, name):
            delattr(module, name)
missing = {"fcntl", "termios", "tty", "pty", "pwd", "grp", "resource", "posix", "syslog", "readline", "curses"}
plain_import = builtins.__import__

def windows_import(name, globals=None, *rest):
    importer = (globals or {}).get("__name__", "")
    if importer.split(".")[0] == "tiremote" and name.split(".")[0] in missing:
        raise ModuleNotFoundError(f"{importer} imports {name}, which Windows has not")
    return plain_import(name, globals, *rest)

builtins.__import__ = windows_import
import tiremote.client, tiremote.repl, tiremote.repl.command
"""


def test_the_laptop_imports_nothing_at_its_start_that_windows_has_not(tmp_path: Path) -> None:
    """Client and command can be imported where POSIX modules, signals and calls are missing."""
    python(WINDOWS_HAS_NOT, tmp_path)


# Which Taichi it is


def imports_in(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and name of every module that a statement imports, at any depth."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.lineno, node.module or ""


def imports_by_name_in(tree: ast.Module) -> Iterator[tuple[int, str | None]]:
    """Line and name (None: worked out at run time) of every call of ``import_module`` or ``__import__``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in {"import_module", "__import__"}:
            first = node.args[0] if node.args else None
            literal = first.value if isinstance(first, ast.Constant) else None
            yield node.lineno, literal if isinstance(literal, str) else None


@pytest.mark.parametrize("path", MODULES, ids=named)
def test_no_statement_imports_taichi_and_one_module_reaches_it_by_name(path: Path) -> None:
    """Which Taichi is used is decided in one place, as no other module of ours chooses one to import."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert [(line, name) for line, name in imports_in(tree) if name.split(".")[0] in RUNTIMES] == []
    # The import statement of a user's text is passed on to Python as it stands.
    if path not in (RUNTIME_MODULE, RUNTIME_MODULE.with_name("unit_imports.py")):
        by_name = list(imports_by_name_in(tree))
        assert [(line, name) for line, name in by_name if name is None or name.split(".")[0] in RUNTIMES] == []
