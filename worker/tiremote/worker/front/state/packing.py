"""Rows to bytes and back. What is its default is left out, so that a later tiremote may add to a row.

It is the protocol's encoding without the protocol's checks: what is packed here is ours, and is so for every request.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import MISSING, fields
from typing import Any, TypeVar

import msgpack
import numpy as np

from tiremote.protocol.packing import HANDLE, NAME, unpack
from tiremote.protocol.results import Limits
from tiremote.protocol.structures import structure
from tiremote.protocol.values import Handle, Name

T = TypeVar("T")

_ANY_SIZE = Limits(header_bytes=1 << 31)
_NO_DEFAULT: Any = object()
#: Of each class the names of its fields and their defaults.
_FIELDS: dict[type, tuple[tuple[str, Any], ...]] = {}


def packed(value: Any, without: Collection[str] = ()) -> bytes:
    """A dataclass, or a request's id, as bytes; ``without`` these of its fields."""
    plain = _fields_set(value, without) if hasattr(value, "__dataclass_fields__") else value
    # Text may quote what UTF-8 does not hold.
    return bytes(msgpack.packb(plain, default=_plain, unicode_errors="backslashreplace"))


def unpacked(cls: type[T], data: bytes, known: dict[str, Any]) -> T:
    """What was packed, with the fields that are ``known``. Raises `ProtocolError`, `UnsupportedType`."""
    return structure(cls, {**unpack(data, (), _ANY_SIZE), **known}, cls.__name__)


def _fields_set(value: Any, without: Collection[str] = ()) -> dict[str, Any]:
    cls = type(value)
    known = _FIELDS.get(cls)
    if known is None:
        known = _FIELDS[cls] = tuple(
            (each.name, _NO_DEFAULT if each.default is MISSING else each.default) for each in fields(cls)
        )
    found = {}
    for name, default in known:
        one = getattr(value, name)
        if one is not default and name not in without:
            found[name] = one
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, Handle):
        return msgpack.ExtType(HANDLE, packed([value.kind, value.id, value.meta]))
    if isinstance(value, Name):
        return msgpack.ExtType(NAME, packed([value.unit, value.name]))
    if hasattr(value, "__dataclass_fields__"):
        return _fields_set(value)
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, memoryview | bytearray):
        return bytes(value)
    raise TypeError(f"a {type(value).__name__} is not kept on disk")
