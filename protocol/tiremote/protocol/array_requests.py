"""The requests that make, write and read arrays."""

from __future__ import annotations

from dataclasses import dataclass
from keyword import iskeyword
from typing import Any, ClassVar

from tiremote.protocol.dtypes import dtype_of
from tiremote.protocol.errors import ProtocolError, shown
from tiremote.protocol.request import EngineRequest
from tiremote.protocol.values import Ref, WireArray

#: One axis of a region: an index, or (start, stop, step) with None where Python's slice has none.
Axis = int | tuple[int | None, int | None, int | None]
#: ``start`` and ``stop`` count scalar elements in C order.
FlatRange = tuple[int, int]

#: What `Alloc` makes, what it puts there, and how `Fetch` shows it.
KINDS = ("ndarray", "field", "array")
FILLS = ("empty", "value", "arange", "random")
FORMS = ("array", "summary", "handle")


def _one_of(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise ProtocolError(f"{name} is one of {', '.join(known)}; {shown(value)} came")


def _part(region: tuple[Axis, ...] | None, flat: FlatRange | None) -> None:
    if region is not None and flat is not None:
        raise ProtocolError("a part is a region or a flat range, not both")
    if flat is not None and not 0 <= flat[0] <= flat[1]:
        raise ProtocolError(f"a flat range is [start, stop] with 0 <= start <= stop; {list(flat)} came")


@dataclass(frozen=True, kw_only=True, slots=True)
class Put(EngineRequest):
    """Writes ``array`` (or the kept ``source``) into ``target``, whole or in part. Without a target: a new ndarray.

    ``cast``: other dtypes are converted, value-checked; without it they are refused.
    """

    op: ClassVar[str] = "put"

    target: Ref | None = None
    array: WireArray | None = None
    source: Ref | None = None
    region: tuple[Axis, ...] | None = None
    flat: FlatRange | None = None
    cast: bool = False
    label: str | None = None

    def __post_init__(self) -> None:
        EngineRequest.__post_init__(self)
        _part(self.region, self.flat)
        if (self.array is None) == (self.source is None):
            raise ProtocolError("put takes an array or a source, one of them")
        if self.target is None and (self.region is not None or self.flat is not None):
            raise ProtocolError("put writes a region or a flat range of a target; there is no target")


@dataclass(frozen=True, kw_only=True, slots=True)
class Alloc(EngineRequest):
    """Makes an ``ndarray`` or a ``field``, or with ``copy_of`` a host ``array`` holding what that holds now.

    ``fill`` is ``empty``, ``value`` (with ``value``: a number, or those of one element in lists), ``arange`` or
    ``random`` (uniform in [0, 1), with ``seed``).
    ``needs_dual``, of fields, is for forward mode. With a ``target`` nothing is made: the target is filled.
    ``members`` make a field of structs: by name ``[dtype, element shape]``, or members again.
    """

    op: ClassVar[str] = "alloc"

    kind: str = "ndarray"
    dtype: str = "f32"
    shape: tuple[int, ...] = ()
    element_shape: tuple[int, ...] = ()
    needs_grad: bool = False
    needs_dual: bool = False
    fill: str = "empty"
    value: Any = None
    seed: int | None = None
    label: str | None = None
    copy_of: Ref | None = None
    target: Ref | None = None
    members: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        EngineRequest.__post_init__(self)
        _one_of("kind", self.kind, KINDS)
        if self.members is not None:
            if self.kind != "field" or self.element_shape or self.fill != "empty" or self.needs_grad or self.needs_dual:
                raise ProtocolError("members are of a field of structs of zeros, which has no gradient")
            _check_members(self.members)
        _one_of("fill", self.fill, FILLS)
        for size in (*self.shape, *self.element_shape):
            if size < 0:
                raise ProtocolError(f"a shape's sizes count from 0; {size} came")


def _check_members(members: Any) -> None:
    if not isinstance(members, dict) or not members:
        raise ProtocolError(f"the members of a struct are a map of their names, at least one; {shown(members)} came")
    for name, member in members.items():
        if not isinstance(name, str) or not name.isidentifier() or iskeyword(name) or name.startswith("__"):
            raise ProtocolError(f"a member has a name that can be written in source; {shown(name)} came")
        if isinstance(member, dict):
            _check_members(member)
            continue
        if not isinstance(member, list | tuple) or len(member) != 2 or not isinstance(member[1], list | tuple):
            raise ProtocolError(f"member {name} is [dtype, element shape] or a map of members; {shown(member)} came")
        dtype, sizes = member
        if not isinstance(dtype, str):
            raise ProtocolError(f"member {name} has the name of a dtype first; {shown(dtype)} came")
        dtype_of(dtype)
        if not all(type(size) is int and size > 0 for size in sizes) or len(sizes) > 2:
            raise ProtocolError(f"member {name} has at most two sizes, from 1; {shown(sizes)} came")


@dataclass(frozen=True, kw_only=True, slots=True)
class Fetch(EngineRequest):
    """Reads ``target``, whole or in part. ``form`` is ``array``, ``summary``, or ``handle`` (no bytes: what it is).

    ``codings``: what an array that comes may be coded with.
    """

    op: ClassVar[str] = "fetch"

    target: Ref
    region: tuple[Axis, ...] | None = None
    flat: FlatRange | None = None
    form: str = "array"
    codings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        EngineRequest.__post_init__(self)
        _one_of("form", self.form, FORMS)
        _part(self.region, self.flat)
