"""`tiremote.protocol.codec`."""

from __future__ import annotations

import contextlib
from typing import Any

import msgpack
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from array_zoo import ZOO
from tiremote.protocol.codec import (
    decode_reply,
    decode_request,
    encode,
    encode_ok,
    error_of,
    failure,
    id_in,
    id_of,
    read_header,
    request_from_header,
)
from tiremote.protocol.errors import (
    PayloadTooLarge,
    ProtocolError,
    TiremoteError,
    UnsupportedType,
    VersionMismatch,
)
from tiremote.protocol.messages import (
    OPS,
    VERSION,
    Alloc,
    Bench,
    Bye,
    Cancel,
    Cleanup,
    ClearGradients,
    CloseTape,
    Collect,
    Compare,
    Compile,
    CompileAll,
    Describe,
    Event,
    ExplainCrash,
    Failure,
    Fetch,
    FindChunks,
    GetAttribute,
    GetSyntaxTree,
    Hello,
    History,
    Interrupt,
    Lend,
    Ok,
    OpenLane,
    OpenTape,
    Ping,
    Put,
    Requests,
    Rollback,
    Run,
    SetAttribute,
    Side,
    Snapshot,
    Status,
    UnitText,
)
from tiremote.protocol.packing import pack
from tiremote.protocol.receipts import Receipt, Timing
from tiremote.protocol.results import Limits, RunResult
from tiremote.protocol.structures import structure
from tiremote.protocol.values import Handle, Name, WireArray, wire_array

HANDLE = Handle(kind="ndarray", id="s.1.1")
REQUESTS = [
    Hello(id=1),
    Hello(id="a", token="t", versions=(1, 3), session="lab", client="me", options={"arch": "cpu"}, lease=60.0),
    Ping(id=-1, pending=(1, "b"), seen=(3,), received=("c", 2)),
    Status(id=1),
    Describe(id=1, token="t"),
    Interrupt(id=1, token="t"),
    Interrupt(id=1, token="t", request="r"),
    Cancel(id=1, token="t", request=7),
    Bye(id=1, token="t", end=True),
    Bye(id=1, token="t", received=()),
    Requests(id=1, token="t"),
    Collect(id=1, token="t", request="r", seat=2, events=True, seen=4),
    Compile(id=1, token="t", source="x = 1\n", unit="u", events=True, deadline=2.5, keep=False),
    CompileAll(
        id=1, token="t", units=(UnitText(unit="u", source="x = 1\n"), UnitText(unit="v", source="")), keep=False
    ),
    Compare(
        id=1,
        token="t",
        target=Name(unit="u", name="f"),
        args=(1, HANDLE),
        kwargs={"a": 2.5},
        before=Side(version=1),
        after=Side(source="x"),
        repeats=3,
    ),
    Rollback(id=1, token="t", unit="u", version=2, keep=False),
    History(id=1, token="t", unit="u", version=2),
    Snapshot(id=1, token="t", every_seconds=0.5, every_runs=3),
    ExplainCrash(id=1, token="t", deadline=2.5),
    Run(id=1, token="t", target=Name(name="f"), args=(1, (2, [3]), np.float32(1.5), HANDLE), kwargs={"a": None}),
    Run(id=1, token="t", target=HANDLE, method="step", tape=HANDLE),
    OpenTape(id=1, token="t", loss=(HANDLE,), clear=False, validation=True, check=(Name(name="x"),)),
    OpenTape(id=1, token="t", mode="forward", loss=(HANDLE, Name(name="y")), parameter=HANDLE, seed=(1.0, 2.5)),
    CloseTape(id=1, token="t", tape=HANDLE, evaluate=False),
    ClearGradients(id=1, token="t"),
    GetSyntaxTree(id=1, token="t", target=HANDLE, method="step"),
    OpenLane(id=1, token="t"),
    Bench(id=1, token="t", target=HANDLE, method="m", args=(1,), kwargs={"a": 2.0}, warmup=0, repeats=7),
    Lend(id=1, token="t", number=3),
    FindChunks(id=1, token="t", digests=bytes(32), size=4096, target=HANDLE, flat=(0, 2048)),
    GetAttribute(id=1, token="t", target=HANDLE, name="inner.n"),
    SetAttribute(id=1, token="t", target=Name(unit="u", name="sim"), name="n", value=2.5),
    Put(id=1, token="t", target=HANDLE, source=Name(unit="u", name="x"), region=(0, (None, 3, None)), cast=True),
    Alloc(id=1, token="t", kind="field", dtype="i64", shape=(2, 3), element_shape=(3,), fill="value", value=4, seed=1),
    Alloc(id=1, token="t", kind="field", needs_grad=True, needs_dual=True),
    Alloc(id=1, token="t", kind="array", copy_of=HANDLE, label="x"),
    Fetch(id=1, token="t", target=HANDLE, flat=(0, 10), form="summary"),
    Cleanup(id=1, token="t", unit="u", targets=(HANDLE, Name(name="x")), everything=True),
]


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda request: request.op)
def test_a_request_comes_back_equal(request_: Any) -> None:
    """Every request is read as it was made, all fields set or none."""
    assert decode_request(encode(request_)) == request_


def test_every_op_is_among_the_requests_above() -> None:
    """No op is left out of the round trips."""
    assert {request.op for request in REQUESTS} == set(OPS)


@pytest.mark.parametrize("name", ZOO)
def test_an_array_of_the_zoo_crosses_in_a_request_and_in_a_reply(name: str) -> None:
    """Every odd array arrives as it was, as an argument, as a payload and as a result."""
    array = ZOO[name]()
    put = decode_request(encode(Put(id=1, array=wire_array(array))))
    run = decode_request(encode(Run(id=1, target=HANDLE, args=(array,), kwargs={"a": array})))
    reply = decode_reply(encode(Ok(id=1, result=RunResult(value=array, written=((0, wire_array(array)),)))))
    assert isinstance(put, Put)
    assert isinstance(run, Run)
    assert isinstance(reply, Ok)
    result = structure(RunResult, reply.result, "run")
    for wire in (put.array, run.args[0], run.kwargs["a"], result.value, result.written[0][1]):
        assert isinstance(wire, WireArray)
        np.testing.assert_array_equal(wire.view(), array)


@pytest.mark.parametrize(
    "reply",
    [
        Ok(id=1),
        Ok(id="a", result={"a": [1, (2,)]}, timing=Timing(queue=0.5, total=1.0)),
        Failure(id=None, code="protocol", message="m"),
        Failure(id=1, code="memory", message="m", data={"requested": 1}, timing=Timing(total=1.0)),
        Event(id=1, seq=1, event="stdout", text="hello\n"),
        Event(id=1, seq=2, event="progress", data={"done": 3}),
    ],
)
def test_a_reply_comes_back_equal(reply: Any) -> None:
    """Answers, errors and events are read as they were made."""
    assert decode_reply(encode(reply)) == reply


def test_a_result_that_is_packed_already_is_not_packed_again() -> None:
    """The front puts its header around the engine's bytes; the client reads the same answer."""
    buffers: list[Any] = []
    raw = pack(RunResult(value=(1, np.arange(3))), buffers)
    reply = decode_reply([encode_ok("r", raw, Timing(queue=0.5)), *buffers])
    assert isinstance(reply, Ok)
    assert (reply.id, reply.timing) == ("r", Timing(queue=0.5))
    assert reply.result["value"][0] == 1
    np.testing.assert_array_equal(reply.result["value"][1].view(), [0, 1, 2])


def header(**fields: Any) -> list[bytes]:
    return [msgpack.packb({"v": VERSION, "op": "ping", "id": 1, **fields})]


@pytest.mark.parametrize(
    "frames",
    [
        [],
        [b""],
        [b"", b""],
        [b"\xc0"],
        [b"\x90"],
        [b"\x80"],
        [b"hello"],
        header(v=None),
        header(v="1"),
        header(v=True),
        header(v=1.0),
        header(v=[]),
        header(op=None),
        header(op=1),
        header(op=[]),
        header(op={}),
        header(op="PING"),
        header(op="ok"),
        header(op="x" * 1000),
        header(id=None),
        header(id=[]),
        header(id=1.5),
        header(extra=1),
        header(op="bye", token="t", end=True, session="lab"),
        [msgpack.packb({"v": 1, "op": "ping", "id": 1, 5: 6})],
        [msgpack.packb({"v": 1, "op": "ping", "id": 1, b"token": "t"})],
        [msgpack.packb({"v": 1, "op": "ping", "id": 1, (1, 2): 6})],
        [header()[0][:-1]],
        [header()[0] + b"\0"],
        [b"\x84" + header()[0][1:] + b"\xa1v\x02"],
        [b"\x83\xa1v\x01\xa2op\xa4ping\xa2id" + b"\x91" * 900 + b"\xc0"],
    ],
)
def test_a_malformed_request_is_a_protocol_error(frames: list[bytes]) -> None:
    """Missing, doubled, mistyped, unknown and truncated parts are refused in one short line."""
    with pytest.raises(ProtocolError) as caught:
        decode_request(frames)
    assert len(caught.value.message) < 500
    assert "\n" not in caught.value.message


@pytest.mark.parametrize(
    "frames",
    [[], [b""], [b"\x80"], [b"\x81\xa2op\x91\x01"], header(op="ping"), header(op="ok", id=None), header(op="event")],
)
def test_a_malformed_reply_is_a_protocol_error(frames: list[bytes]) -> None:
    """What no worker sends is refused by the client the same way."""
    with pytest.raises(ProtocolError):
        decode_reply(frames)


@pytest.mark.parametrize("version", [0, -1, VERSION + 1, 1 << 63])
def test_another_version_is_refused_with_those_there_are(version: int) -> None:
    """A request of an unknown version is a VersionMismatch that tells the versions spoken."""
    with pytest.raises(VersionMismatch) as caught:
        decode_request(header(v=version))
    assert caught.value.supported == (1, VERSION)


@pytest.mark.parametrize("version", [0, VERSION + 1])
def test_hello_is_read_in_every_version(version: int) -> None:
    """A hello of another version is read, unknown fields and all: that is how the two sides find one."""
    request = decode_request(header(op="hello", v=version, versions=[2, 9]))
    assert isinstance(request, Hello)
    assert request.versions == (2, 9)
    later = decode_request(header(op="hello", v=VERSION + 1, versions=[2, 9], novelty={"a": 1}))
    assert isinstance(later, Hello)
    with pytest.raises(ProtocolError, match="novelty"):
        decode_request(header(op="hello", novelty=1))


@pytest.mark.parametrize(
    ("value", "expected"), [(1, 1), ("a", "a"), (True, None), (None, None), (1.0, None), ([], None), ({}, None)]
)
def test_a_broken_request_is_answered_to_its_id_where_it_has_one(value: object, expected: object) -> None:
    """The id to answer is found without the rest of the header being right."""
    assert id_of(read_header(header(id=value, op=3)[0], [])) == expected


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (header(array=msgpack.ExtType(1, msgpack.packb(["f32", [3], "C", 9])))[0], 1),
        (header(args=[msgpack.Timestamp(1)])[0], 1),
        (header(args=msgpack.ExtType(99, b""), id="a")[0], "a"),
        (b"\x82\xa2id\x07\xa1a" + b"\x91" * 100 + b"\xc0", 7),
        (b"\x82\xa2id\x07\xa2id\x08", 8),
        (b"\x82\xa2id\x07\xa1a" + b"\x91" * 10_000 + b"\xc0", None),
        (header(id=[])[0], None),
        (header()[0][:-1], None),
        (b"", None),
        (b"\x91\x01", None),
    ],
)
def test_the_id_of_a_refused_header_is_found_where_it_can_be(head: bytes, expected: object) -> None:
    """A lying array, a foreign type or too much depth does not hide whom to answer."""
    with pytest.raises(TiremoteError):
        request_from_header(read_header(head, []))
    assert id_in(head) == expected


def test_a_timestamp_does_not_come_through() -> None:
    """msgpack's timestamp is refused as an UnsupportedType, also deep in an argument."""
    with pytest.raises(UnsupportedType):
        decode_request(header(op="run", target=1, args=[[msgpack.Timestamp(1)]]))


@pytest.mark.parametrize(
    ("limits", "buffers"),
    [(Limits(buffers=1), [b"", b""]), (Limits(buffer_bytes=3), [b"abcd"]), (Limits(header_bytes=3), [])],
)
def test_a_message_above_a_limit_is_too_large(limits: Limits, buffers: list[bytes]) -> None:
    """Too many buffers, a large buffer and a large header are refused with size and limit."""
    with pytest.raises(PayloadTooLarge) as caught:
        decode_request([*header(), *buffers], limits)
    assert caught.value.size is not None
    assert caught.value.limit is not None
    assert caught.value.size > caught.value.limit


def test_the_client_takes_replies_of_any_size() -> None:
    """A reply with more buffers than a request may have is read: the worker chose it."""
    arrays = tuple(np.zeros(1) for _ in range(1000))
    reply = decode_reply(encode(Ok(id=1, result=arrays)))
    assert isinstance(reply, Ok)
    assert len(reply.result) == 1000


def test_an_error_is_the_same_after_a_reply() -> None:
    """`failure` and `error_of` are each other's inverse."""
    error = error_of(failure(3, PayloadTooLarge("too large", size=4, limit=3)))
    assert isinstance(error, PayloadTooLarge)
    assert (error.size, error.limit) == (4, 3)


# Any bytes at all

scalars = st.none() | st.booleans() | st.integers(-(1 << 63), (1 << 64) - 1) | st.floats() | st.text() | st.binary()
keys = st.sampled_from(
    [field for cls in OPS.values() for field in cls.__dataclass_fields__] + ["v", "op", "result", "code", "message"]
)
extensions = st.builds(msgpack.ExtType, st.integers(0, 127), st.binary(max_size=20))
values = st.recursive(
    scalars | extensions | st.builds(msgpack.Timestamp, st.integers(0, 1 << 33)),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(keys | scalars, inner, max_size=4)
        | st.builds(
            lambda code, content: msgpack.ExtType(code, msgpack.packb(content)),
            st.integers(0, 6),
            st.lists(inner | st.sampled_from(["f32", "C", [1], 0, "bool"]), max_size=7),
        )
    ),
    max_leaves=12,
)
headers = st.fixed_dictionaries(
    {}, optional={"v": st.just(1) | values, "op": st.sampled_from([*OPS, "ok", "error", "event"]) | values}
).flatmap(lambda base: st.dictionaries(keys | st.text(), values, max_size=8).map(lambda more: {**more, **base}))
frames = st.tuples(
    st.binary(max_size=100) | (headers | values).map(msgpack.packb), st.lists(st.binary(max_size=8), max_size=2)
).map(lambda pair: [pair[0], *pair[1]])


@given(frames, st.integers(0, 400), st.integers(0, 255))
@example([b""], 0, 0)
def test_no_bytes_make_the_codec_raise_anything_else(sent: list[bytes], cut: int, byte: int) -> None:
    """Whole, cut short or with a byte changed: what leaves the codec is a message or a TiremoteError."""
    head = sent[0]
    for one in (head, head[:cut], head[:cut] + bytes([byte]) + head[cut + 1 :]):
        id_in(one)
        for decode in (decode_request, decode_reply):
            with contextlib.suppress(TiremoteError):
                message = decode([one, *sent[1:]])
                encode(message)
                if isinstance(message, Failure):
                    str(error_of(message))


@given(headers)
def test_a_header_that_is_read_is_a_request_or_an_error(map_: dict[str, Any]) -> None:
    """The two steps that the front takes let nothing else out either."""
    with contextlib.suppress(TiremoteError):
        id_in(msgpack.packb(map_))
        found = read_header(msgpack.packb(map_), [])
        id_of(found)
        request_from_header(found)


@given(values)
def test_whatever_is_packed_is_read(value: Any) -> None:
    """pack refuses with UnsupportedType or makes bytes that the other side reads."""
    buffers: list[Any] = []
    try:
        packed = pack(value, buffers)
    except UnsupportedType:
        return
    decode_reply([b"\x83\xa2op\xa2ok\xa2id\x01\xa6result" + packed, *buffers])


def test_a_receipt_survives_as_a_result() -> None:
    """A typed result is packed as a map and structured again by its class."""
    receipt = Receipt(unit="u", version=2, warnings=("w",), seconds=0.5)
    reply = decode_reply(encode(Ok(id=1, result=receipt)))
    assert isinstance(reply, Ok)
    assert structure(Receipt, reply.result, "compile") == receipt
