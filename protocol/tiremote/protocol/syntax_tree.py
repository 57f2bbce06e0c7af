"""The request for a kernel's tree as Python parses it, and the answer."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, ClassVar

from tiremote.protocol.request import EngineRequest
from tiremote.protocol.values import Ref


@dataclass(frozen=True, kw_only=True, slots=True)
class GetSyntaxTree(EngineRequest):
    """The tree of a kernel, func, function or class by its name, or of the ``method`` of what ``target`` stands for."""

    op: ClassVar[str] = "syntax_tree"

    target: Ref
    method: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class SyntaxTree:
    """What the runtime makes a kernel from. ``unit``, ``version`` and ``line`` are where it is defined.

    ``text`` is Python's own ``ast.dump(tree, indent=2)``. ``json`` has of each node ``type``, ``fields``, ``lineno``
    and ``col_offset``, lists as lists, and what JSON lacks as its text. Lines are the unit's, from 1; columns are UTF-8
    bytes from 0.
    """

    unit: str
    version: int
    name: str
    line: int
    text: str
    json: str

    @property
    def tree(self) -> dict[str, Any]:
        """``json``, read."""
        read: dict[str, Any] = json.loads(self.json)
        return read

    def __str__(self) -> str:
        return self.text
