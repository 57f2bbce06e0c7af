"""What lies inside a kept object: asked for and, where it is a plain value, set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from tiremote.protocol.receipts import Definition
from tiremote.protocol.request import EngineRequest
from tiremote.protocol.values import Ref


@dataclass(frozen=True, kw_only=True, slots=True)
class GetAttribute(EngineRequest):
    """Reads an attribute of what ``target`` stands for, a property too. ``name`` may be dotted."""

    op: ClassVar[str] = "get_attribute"

    target: Ref
    name: str


@dataclass(frozen=True, kw_only=True, slots=True)
class SetAttribute(EngineRequest):
    """Sets an attribute that is there and plain, a property's too, to a plain ``value``: None, a number or text.

    Kernels that have the old value compiled in are compiled anew at their next call.
    """

    op: ClassVar[str] = "set_attribute"

    target: Ref
    name: str
    value: Any


@dataclass(frozen=True, kw_only=True, slots=True)
class AttributeResult:
    """``value`` is plain, or a handle for what stays on the worker. ``callable``: it is a kernel, function, method or
    class to be called by `Run`, and has no value. ``definition`` tells of a kernel what it takes. Of `SetAttribute`
    ``value`` is the value afterwards."""

    value: Any = None
    callable: bool = False
    definition: Definition | None = None
