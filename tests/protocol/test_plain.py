"""`tiremote.protocol.plain`."""

from __future__ import annotations

import datetime
import time
import tracemalloc
from typing import Any

import msgpack
import pytest

from tiremote.protocol.errors import ProtocolError, UnsupportedType
from tiremote.protocol.plain import MAX_DEPTH, MAX_ITEMS, check_plain, glance, load

WHEN = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)


@pytest.mark.parametrize(
    "value",
    [None, True, 0, -(1 << 63), (1 << 64) - 1, 1.5, float("inf"), "ü\0", b"\xff", [], {}, {1: {"a": [None]}}, [[[]]]],
)
def test_plain_values_are_read_as_they_are(value: object) -> None:
    """nil, booleans, 64-bit ints, floats, text, bytes, lists and maps need no extension."""
    assert load(msgpack.packb(value)) == value


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xc1",
        b"\x92\x01",
        b"\x81\x01",
        b"\x01\x02",
        b"\xa5abc",
        b"\xc4\x05abc",
        b"\xc7\x05\x01abc",
        b"\xa2\xff\xfe",
        b"\xa3\xed\xa0\x80",
        b"\xdd\xff\xff\xff\xff",
        b"\xdf\xff\xff\xff\xff",
        b"\xdb\xff\xff\xff\xff",
        b"\xc6\xff\xff\xff\xff",
        b"\xc9\xff\xff\xff\xff\x01",
        b"\x81\x90\x01",
        b"\x81\x80\x01",
        b"\x82\xa1a\x01\xa1a\x02",
        b"\x91\x82\x01\x01\xc3\x02",
    ],
)
def test_what_is_not_one_whole_value_is_refused(data: bytes) -> None:
    """Truncated, trailing, lying, invalid or ambiguous msgpack is a ProtocolError of one short line."""
    with pytest.raises(ProtocolError) as caught:
        load(data)
    assert len(caught.value.message) < 200
    assert "\n" not in caught.value.message


@pytest.mark.parametrize("value", [msgpack.Timestamp(1), msgpack.Timestamp(1 << 33, 5), msgpack.Timestamp(-1)])
@pytest.mark.parametrize("around", [lambda v: v, lambda v: [1, [v]], lambda v: {"a": {"b": v}}, lambda v: {v: 1}])
def test_msgpack_timestamps_are_refused(value: msgpack.Timestamp, around: Any) -> None:
    """msgpack's own extension type -1 is an UnsupportedType wherever it stands, also as a key."""
    with pytest.raises(UnsupportedType, match="Timestamp"):
        load(msgpack.packb(around(value)))


def test_an_extension_inside_an_extension_is_refused() -> None:
    """Where nobody reads extension types they are refused, and do not come through as bytes with a number."""
    with pytest.raises(UnsupportedType, match="ExtType"):
        load(msgpack.packb([msgpack.ExtType(7, b"")]))


@pytest.mark.parametrize("open_", [b"\x91", b"\x81\x01", b"\x81\xa1a"])
def test_depth_is_bounded(open_: bytes) -> None:
    """MAX_DEPTH containers within each other are read, one more is refused, as are thousands."""
    load(open_ * MAX_DEPTH + b"\xc0")
    for depth in (MAX_DEPTH + 1, 1000, 100_000):
        with pytest.raises(ProtocolError, match="deep"):
            load(open_ * depth + b"\xc0")


def test_a_length_that_lies_costs_nothing() -> None:
    """Nested claims of a million items each are refused at once, without memory for what did not come."""
    data = b"\xdd\x00\x0f\xff\xff" * 1000
    tracemalloc.start()
    start = time.perf_counter()
    with pytest.raises(ProtocolError):
        load(data)
    seconds = time.perf_counter() - start
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert seconds < 0.5
    assert peak < 1 << 20


def test_a_list_of_over_a_million_items_is_refused() -> None:
    """As many items as that are an array; both sides say so."""
    load(msgpack.packb([0] * MAX_ITEMS))
    with pytest.raises(ProtocolError):
        load(msgpack.packb([0] * (MAX_ITEMS + 1)))
    with pytest.raises(ProtocolError, match="array"):
        check_plain([0] * (MAX_ITEMS + 1))


def test_a_value_that_holds_itself_is_too_deep() -> None:
    """A circular list ends in an error, not in a loop."""
    value: list[Any] = []
    value.append(value)
    value.append(value)
    with pytest.raises(ProtocolError, match="deep"):
        check_plain(value)


def test_a_header_of_countless_small_containers_is_refused_at_once() -> None:
    """Megabytes of empty lists cost their reader no more than a few thousand of them would."""
    nested = b"\xdd" + (200_000).to_bytes(4, "big") + b"\x90" * 200_000
    with pytest.raises(ProtocolError, match="65536 arrays and maps"):
        load(nested)
    assert glance(nested) is None
    assert len(load(b"\xdd" + (60_000).to_bytes(4, "big") + b"\x80" * 60_000)) == 60_000
