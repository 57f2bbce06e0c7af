"""Plain msgpack, held to what the protocol allows: whole, unambiguous, of bounded depth, without foreign types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgpack

from tiremote.protocol.errors import ProtocolError, UnsupportedType

#: Containers within containers. Readers recurse, and each level of a tuple is decoded from a copy of its bytes.
MAX_DEPTH = 32

#: Items of one array or map: more than that is an array's bytes, not a list.
MAX_ITEMS = 1 << 18

#: Arrays and maps in one header. Each costs the reader an object, and its sender a byte: a stranger's few megabytes
#: would hold the worker up for seconds.
MAX_CONTAINERS = 1 << 16

#: Bytes up to which a value needs no pass of its own before it is decoded: what its lengths can claim is little, for
#: the decoder believes none that is larger than the whole.
SMALL = 1 << 10

#: msgpack makes and takes these without asking. (`ExtType` is a tuple: it is looked for first.)
_FOREIGN = (msgpack.Timestamp, msgpack.ExtType)
_LOOKED_AT = (*_FOREIGN, list, tuple, dict)


def load(data: Any, ext_hook: Callable[[int, bytes], Any] = msgpack.ExtType) -> Any:
    """The one msgpack value that ``data`` is. Raises `ProtocolError`, `UnsupportedType`."""
    try:
        if memoryview(data).nbytes <= SMALL:
            value = _unpacked_small(data, ext_hook)
        else:
            _check_whole(data)
            value = _unpacked(data, ext_hook)
        check_plain(value)
    except msgpack.exceptions.StackError:
        raise ProtocolError(f"a value is nested more than {MAX_DEPTH} deep") from None
    except msgpack.exceptions.OutOfData:
        raise ProtocolError("the msgpack is truncated") from None
    except (ValueError, TypeError, msgpack.exceptions.UnpackException) as error:
        # Trailing bytes, invalid UTF-8, a byte that starts nothing, unhashable keys.
        raise ProtocolError(f"this is not one whole msgpack value: {error or type(error).__name__}") from None
    return value


def glance(data: Any) -> Any:
    """The value of msgpack that `load` refuses, its extension types left out, or None where it is not even whole."""
    try:
        _check_whole(data)
        return _unpacked(data, lambda *_: None, unique=False)
    except (ProtocolError, ValueError, TypeError, msgpack.exceptions.UnpackException):
        return None


def _check_whole(data: Any) -> None:
    # The decoder allocates what a length claims before it looks for the items. This pass allocates nothing; after
    # it every claim is backed by bytes that came.
    size = max(memoryview(data).nbytes, 1)
    unpacker = msgpack.Unpacker(
        None, max_buffer_size=size, read_size=size, max_array_len=MAX_ITEMS, max_map_len=MAX_ITEMS
    )
    unpacker.feed(data)
    unpacker.skip()


def _unpacked_small(data: Any, ext_hook: Callable[[int, bytes], Any]) -> Any:
    return msgpack.unpackb(
        data, raw=False, strict_map_key=False, object_pairs_hook=_map_without_repeats, ext_hook=ext_hook
    )


def _map_without_repeats(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ProtocolError("a map has the same key twice")
    return value


def _unpacked(data: Any, ext_hook: Callable[[int, bytes], Any], *, unique: bool = True) -> Any:
    left = MAX_CONTAINERS

    def count() -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise ProtocolError(f"a header has at most {MAX_CONTAINERS} arrays and maps: send numbers as an array")

    def read_list(value: list[Any]) -> list[Any]:
        count()
        return value

    def read_map(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
        count()
        return _map_without_repeats(pairs) if unique else dict(pairs)

    return msgpack.unpackb(
        data,
        raw=False,
        strict_map_key=False,
        list_hook=read_list,
        object_pairs_hook=read_map,
        ext_hook=ext_hook,
        max_array_len=MAX_ITEMS,
        max_map_len=MAX_ITEMS,
    )


def check_plain(value: Any, depth: int = 0) -> None:
    """Raises `ProtocolError` where a value is too deep or too long, `UnsupportedType` for msgpack's own extras."""
    if isinstance(value, _FOREIGN):
        raise UnsupportedType(f"a msgpack {type(value).__name__} does not travel: send numbers, strings or bytes")
    if not isinstance(value, _LOOKED_AT):
        return
    if depth >= MAX_DEPTH:
        raise ProtocolError(f"a value is nested more than {MAX_DEPTH} deep")
    if len(value) > MAX_ITEMS:
        raise ProtocolError(f"a list of {len(value)} items came, at most {MAX_ITEMS} travel: send an array")
    for item in value:
        if isinstance(item, _LOOKED_AT):
            check_plain(item, depth + 1)
    if isinstance(value, dict):
        for item in value.values():
            if isinstance(item, _LOOKED_AT):
                check_plain(item, depth + 1)
