"""`tiremote.protocol.packing`."""

from __future__ import annotations

import collections
import contextlib
import datetime
import enum
import fractions
from typing import Any, NamedTuple

import msgpack
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from array_zoo import REFUSED, ZOO
from tiremote.protocol.dtypes import DTYPES
from tiremote.protocol.errors import PayloadTooLarge, ProtocolError, TiremoteError, UnsupportedType
from tiremote.protocol.messages import Cleanup, Fetch, Hello, Ok, Run
from tiremote.protocol.packing import fields_set, pack, unpack
from tiremote.protocol.plain import MAX_DEPTH
from tiremote.protocol.receipts import Receipt, Timing
from tiremote.protocol.results import Limits, RunResult
from tiremote.protocol.values import Handle, Name, WireArray, wire_array


def there_and_back(value: Any) -> Any:
    buffers: list[Any] = []
    return unpack(pack(value, buffers), [bytes(buffer) for buffer in buffers])


def ext(code: int, content: Any) -> bytes:
    return msgpack.packb(msgpack.ExtType(code, msgpack.packb(content)))


class Colour(enum.IntEnum):
    RED = 1


class Point(NamedTuple):
    x: int
    y: int


plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 63), (1 << 64) - 1) | st.floats(allow_nan=False) | st.text()
    | st.binary() | st.builds(Name, unit=st.none() | st.text(), name=st.text())
    | st.builds(Handle, kind=st.text(), id=st.text()),
    lambda inner: st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)  # fmt: skip


@given(plain)
def test_every_value_of_the_wire_comes_back_equal_and_of_the_same_type(value: Any) -> None:
    """Lists stay lists, tuples tuples, ints ints; handles and names are themselves again."""
    again = there_and_back(value)
    assert again == value
    assert repr(again) == repr(value)


@pytest.mark.parametrize("name", ZOO)
def test_an_array_of_the_zoo_travels_anywhere_in_a_value(name: str) -> None:
    """Every odd array survives inside lists, tuples and maps, next to another one."""
    array = ZOO[name]()
    first, second = there_and_back({"a": [array, (1, array)]})["a"]
    for wire in (first, second[1]):
        assert isinstance(wire, WireArray)
        np.testing.assert_array_equal(wire.view(), array)
        assert wire.view().dtype == array.dtype.newbyteorder("<")


@pytest.mark.parametrize("name", REFUSED)
def test_an_array_that_does_not_travel_is_refused_where_it_stands(name: str) -> None:
    """The refusal reaches the caller from any depth, as UnsupportedType."""
    with pytest.raises(UnsupportedType):
        pack({"a": [(REFUSED[name](),)]}, [])


def test_array_bytes_are_never_copied_through_msgpack() -> None:
    """The header of a large array stays small and the buffer is the array's own memory."""
    array = np.zeros(1 << 20, "f4")
    buffers: list[Any] = []
    assert len(pack([array], buffers)) < 64
    assert np.shares_memory(np.frombuffer(buffers[0], "u1"), array)


@pytest.mark.parametrize("name", DTYPES)
def test_a_scalar_keeps_its_exact_width(name: str) -> None:
    """A NumPy scalar of every dtype comes back of that dtype and value, from either byte order."""
    for dtype in (DTYPES[name], DTYPES[name].newbyteorder(">")):
        value = np.array([1], dtype)[0]
        again = there_and_back(value)
        assert again.dtype == DTYPES[name]
        assert again == value


def test_the_ends_of_64_bits_are_exact() -> None:
    """u64 and i64 at their ends lose nothing, as scalars and as plain ints."""
    for value in (np.uint64(2**64 - 1), np.int64(-(2**63)), 2**64 - 1, -(2**63)):
        assert int(there_and_back(value)) == int(value)


@pytest.mark.parametrize(
    ("value", "arrives"),
    [
        (Colour.RED, 1),
        (collections.OrderedDict(a=1), {"a": 1}),
        (collections.defaultdict(list, a=[1]), {"a": [1]}),
        (Point(1, 2), (1, 2)),
        (bytearray(b"ab"), b"ab"),
        (memoryview(b"ab"), b"ab"),
        ({1: "a", (1, 2): "b", None: "c"}, {1: "a", (1, 2): "b", None: "c"}),
    ],
)
def test_relatives_of_plain_types_travel_as_what_they_are(value: object, arrives: object) -> None:
    """Subclasses and buffers travel as the plain type that they extend."""
    again = there_and_back(value)
    assert again == arrives
    assert type(again) is type(arrives)


def circular() -> object:
    value: list[Any] = []
    value.append((value,))
    return value


@pytest.mark.parametrize(
    "value",
    [
        object(),
        {1, 2},
        1j,
        1 << 64,
        -(1 << 63) - 1,
        "\ud800",
        fractions.Fraction(1, 3),
        datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC),
        np.complex64(1),
        np.longdouble(1),
        np.datetime64(0, "s"),
        np.str_("a"),
        np.array(["a"])[0],
        msgpack.Timestamp(1),
        msgpack.ExtType(5, b""),
        int,
        Receipt,
        len,
        circular(),
        Handle(kind="a", id="b", meta={"a": np.float32(1)}),
        Handle(kind="a", id="b", meta={"a": 1 << 64}),
        Handle(kind="a", id="b", meta={"a": msgpack.Timestamp(1)}),
        Handle(kind="a", id="\ud800"),
        Name(name="\ud800"),
    ],
)
@pytest.mark.parametrize("around", [lambda v: v, lambda v: {"a": [(v,)]}, lambda v: Timing(queue=v)])
def test_what_does_not_travel_is_refused(value: object, around: Any) -> None:
    """Anything that the wire does not carry is an UnsupportedType of one line, wherever it stands."""
    with pytest.raises(UnsupportedType) as caught:
        pack(around(value), [])
    assert "\n" not in caught.value.message


@pytest.mark.parametrize("wrap", [lambda v: [v], lambda v: (v,), lambda v: {"a": v}])
def test_as_deep_as_one_side_sends_the_other_reads(wrap: Any) -> None:
    """A value of the greatest depth travels; one level more is refused by the sender already."""
    value = 0
    for _ in range(MAX_DEPTH):
        value = wrap(value)
    assert there_and_back(value) == value
    with pytest.raises(UnsupportedType, match="deep"):
        pack(wrap(value), [])


def test_the_tuples_of_a_handles_meta_are_plain_arrays() -> None:
    """A shape in a handle's meta needs no extension type of another language's client."""
    handle = there_and_back(Handle(kind="ndarray", id="a", meta={"shape": (2, 3)}))
    assert handle.meta == {"shape": [2, 3]}


def test_only_fields_that_differ_from_their_defaults_are_sent() -> None:
    """A message says no more than it has to; a user's tuple stays a tuple, a list of ours is an array."""
    handle = Handle(kind="ndarray", id="a")
    assert fields_set(Run(id=1, target=handle, args=((1, 2), [3]))) == {
        "id": 1,
        "target": handle,
        "args": [(1, 2), [3]],
    }
    assert fields_set(Cleanup(id=1, targets=(handle,))) == {"id": 1, "targets": [handle]}
    assert fields_set(Fetch(id=1, target=handle, flat=(0, 3))) == {"id": 1, "target": handle, "flat": [0, 3]}
    assert fields_set(Hello(id=1)) == {"id": 1}


@pytest.mark.parametrize("value", [(), (1, 2), ((1,), [2]), [], {}, None, False, 0])
def test_a_users_value_is_the_same_in_a_result(value: object) -> None:
    """A function that returns a tuple, or something empty, is seen to return just that."""
    assert there_and_back(RunResult(value=value))["value"] == value
    sent = there_and_back(fields_set(Ok(id=1, result=value)))
    assert sent.get("result") == value
    assert type(sent.get("result")) is type(value)


@pytest.mark.parametrize(
    "header",
    [
        ext(0, []),
        ext(6, []),
        ext(127, []),
        b"\xd4\xfe\x00",
        ext(1, {}),
        ext(1, []),
        ext(1, ["f32", [1], "C"]),
        ext(1, ["f32", [1], "C", None, "inout", True, 1]),
        ext(1, ["f32", 1, "C", None]),
        ext(1, ["f32", ["1"], "C", None]),
        ext(1, ["f32", [-1], "C", None]),
        ext(1, ["f32", [1.0], "C", None]),
        ext(1, ["f32", [True], "C", None]),
        ext(1, ["f32", [[1]], "C", None]),
        ext(1, ["f32", [1], "K", None]),
        ext(1, ["f32", [1], {}, None]),
        ext(1, ["f32", [1], "C", 1]),
        ext(1, ["f32", [1], "C", -1]),
        ext(1, ["f32", [1], "C", "0"]),
        ext(1, ["f32", [1], "C", False]),
        ext(1, ["f32", [2], "C", 0]),
        ext(1, ["f32", [0], "C", 0]),
        ext(1, ["f32", [1 << 63, 4], "C", 0]),
        ext(1, ["f32", [1], "C", 0, "rw"]),
        ext(1, ["f32", [1], "C", 0, "in", 1]),
        ext(2, []),
        ext(2, ["ndarray"]),
        ext(2, ["ndarray", 1]),
        ext(2, ["ndarray", "a", []]),
        ext(2, ["ndarray", "a", {}, 1]),
        ext(3, []),
        ext(3, ["f32", "abcd"]),
        ext(3, ["f32", b"abc"]),
        ext(3, ["bool", b"\2"]),
        ext(4, {}),
        ext(4, 1),
        ext(5, []),
        ext(5, ["a"]),
        ext(5, [1, "a"]),
        ext(5, ["a", None]),
        msgpack.packb(msgpack.ExtType(1, b"")),
        msgpack.packb(msgpack.ExtType(4, b"\x93\x01")),
        msgpack.packb(msgpack.ExtType(4, b"\x90\x90")),
    ],
)
def test_an_extension_that_is_malformed_is_a_protocol_error(header: bytes) -> None:
    """Wrong counts, types, sizes and buffer numbers of every extension type are refused in one line."""
    with pytest.raises(ProtocolError) as caught:
        unpack(header, [bytes(4)])
    assert "\n" not in caught.value.message


@pytest.mark.parametrize("dtype", ["f128", 1, None, [], {}])
def test_an_unknown_dtype_on_the_wire_is_an_unsupported_type(dtype: object) -> None:
    """A dtype that the wire does not know is told apart from a malformed message."""
    with pytest.raises(UnsupportedType):
        unpack(ext(1, [dtype, [1], "C", 0]), [bytes(4)])
    with pytest.raises(UnsupportedType):
        unpack(ext(3, [dtype, b"abcd"]))


def test_optional_parts_of_an_extension_may_be_left_out() -> None:
    """An array needs four parts and a handle two; the rest has defaults."""
    array = unpack(ext(1, ["f32", [1], "C", 0]), [bytes(4)])
    assert (array.descriptor.access, array.descriptor.writeable) == ("inout", True)
    assert unpack(ext(2, ["ndarray", "a"])).meta == {}


def test_tuples_within_tuples_are_bounded() -> None:
    """Thousands of nested tuples end in a ProtocolError, quickly, whatever their bytes repeat."""
    value = b"\xc0"
    for _ in range(2000):
        value = msgpack.packb(msgpack.ExtType(4, b"\x91" + value))
    with pytest.raises(ProtocolError, match="deep"):
        unpack(value)


def test_a_header_above_its_limit_is_not_even_read() -> None:
    """The size is checked first, and the error carries size and limit."""
    with pytest.raises(PayloadTooLarge) as caught:
        unpack(b"\xc1" * 11, limits=Limits(header_bytes=10))
    assert (caught.value.size, caught.value.limit) == (11, 10)


def test_an_array_points_into_the_messages_memory() -> None:
    """Nothing is copied when an array is read."""
    memory = bytearray(wire_array(np.arange(3, dtype="i4")).data)
    array = unpack(ext(1, ["i32", [3], "C", 0]), [memory]).view()
    memory[0] = 9
    assert array[0] == 9


@given(st.binary(max_size=200), st.lists(st.binary(max_size=16), max_size=3))
def test_no_bytes_make_unpack_raise_anything_else(header: bytes, buffers: list[bytes]) -> None:
    """Whatever bytes come, what leaves unpack is a value or a TiremoteError."""
    with contextlib.suppress(TiremoteError):
        unpack(header, buffers)
