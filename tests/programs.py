"""Whole programs as they lie in the installed Taichi; nothing of them is copied into this project."""

from __future__ import annotations

import importlib.util
from pathlib import Path

#: Found without importing Taichi.
EXAMPLES = Path(str(importlib.util.find_spec("taichi").origin)).parent / "examples"  # type: ignore[union-attr]


def program(name: str, arch: str, *, until: str | None = None) -> str:
    """The text of an example, cut before its last line that is ``until``.

    Some ask for ``ti.cpu``, which a session on another backend refuses: there they ask for that backend.
    """
    text = (EXAMPLES / f"{name}.py").read_text(encoding="utf-8")
    if until is not None:
        text = text[: text.rindex(f"\n{until}\n") + 1]
    return text if arch == "cpu" else text.replace("ti.init(arch=ti.cpu)", f"ti.init(arch=ti.{arch})")
