"""Run by ``wheel-check`` in an environment that holds the wheel as a laptop has it: without the worker extra."""

from __future__ import annotations

import importlib.util
import re
import sys
import tarfile
import zipfile
from pathlib import Path

PACKAGES = ("client", "protocol", "repl", "worker")
RUNTIMES = ("taichi", "gstaichi", "quadrants")


def expect(holds: bool, sentence: str) -> None:
    if not holds:
        sys.exit(f"wheel-check: not so: {sentence}")
    print(f"  {sentence}")


def only(folder: Path, pattern: str) -> Path:
    (found,) = folder.glob(pattern)
    return found


def check_archives(folder: Path) -> None:
    with zipfile.ZipFile(only(folder, "*.whl")) as wheel:
        names = set(wheel.namelist())
    tops = {name.split("/")[0] for name in names if ".dist-info/" not in name}
    expect(tops == {"tiremote"}, "the wheel installs tiremote and nothing beside it")
    expect("tiremote/__init__.py" not in names, "tiremote is a namespace in the wheel")
    expect({f"tiremote/{name}/py.typed" for name in PACKAGES} <= names, "all four packages are marked as typed")
    expect(any(name.endswith("/licenses/LICENSE") for name in names), "the licence is in the wheel")

    with tarfile.open(only(folder, "*.tar.gz")) as archive:
        paths = {name.partition("/")[2] for name in archive.getnames()}
    needed = {"LICENSE", "Makefile", "README.md", "pyproject.toml", "tests/conftest.py"}
    expect(needed <= paths, "the source archive holds what building and testing need")
    # By whole parts of a path: a module may well be called a cache.
    strays = [
        path
        for path in paths
        if any(re.fullmatch(r"\.venv.*|__pycache__|\.\w+_cache", part) for part in path.split("/"))
    ]
    expect(not strays, "the source archive holds no environment and no cache")


def check_import() -> None:
    expect(not any(importlib.util.find_spec(name) for name in RUNTIMES), "no Taichi can be imported here")
    import tiremote.client

    expect(tiremote.client.__file__.startswith(sys.prefix), "tiremote.client imports from the installed wheel")
    worker = [name for name in sys.modules if name.startswith("tiremote.worker")]
    expect(not worker, "importing the client loads no module of the worker")


check_archives(Path(sys.argv[1]))
check_import()
