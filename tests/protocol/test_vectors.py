"""``protocol/vectors``: read here as a client in another language would, with msgpack, struct and PROTOCOL.md."""

from __future__ import annotations

import hashlib
import importlib.util
import itertools
import json
import math
import struct
from pathlib import Path
from types import ModuleType
from typing import Any

import msgpack
import pytest

from tiremote.protocol.codec import decode_reply, decode_request, encode, error_of, id_in, id_of, read_header
from tiremote.protocol.dtypes import DTYPES
from tiremote.protocol.error_wire import BY_CODE
from tiremote.protocol.errors import TiremoteError
from tiremote.protocol.messages import OPS, Failure

PROTOCOL = Path(__file__).parents[2] / "protocol"
FILES = {path.name: json.loads(path.read_text(encoding="utf-8")) for path in (PROTOCOL / "vectors").glob("*.json")}
VECTORS = [entry for name, entries in FILES.items() if name != "malformed.json" for entry in entries]
MALFORMED = FILES["malformed.json"]

FORMATS = {"bool": "?", "i8": "b", "i16": "h", "i32": "i", "i64": "q", "u8": "B", "u16": "H", "u32": "I", "u64": "Q",
           "f16": "e", "f32": "f", "f64": "d"}  # fmt: skip


def described(entry: dict[str, Any]) -> str:
    return str(entry["description"])


def frames_of(entry: dict[str, Any]) -> list[bytes]:
    return [bytes.fromhex(frame) for frame in entry["frames"]]


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_vectors", PROTOCOL / "make_vectors.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Foreign:
    """Tells a message's meaning without anything of ours."""

    def __init__(self, frames: list[bytes]) -> None:
        self.buffers = frames[1:]
        self.header = self.meaning(msgpack.unpackb(frames[0]))

    def meaning(self, value: Any) -> Any:
        if isinstance(value, msgpack.ExtType):
            return self.extension(value.code, msgpack.unpackb(value.data))
        if isinstance(value, list):
            return [self.meaning(one) for one in value]
        if isinstance(value, dict):
            return {key: self.meaning(one) for key, one in value.items()}
        if isinstance(value, bytes):
            return {"$bytes": value.hex()}
        return {"$float": str(value)} if isinstance(value, float) and not math.isfinite(value) else value

    def extension(self, code: int, parts: list[Any]) -> Any:
        if code == 1:
            return {"$array": self.array(*parts)}
        if code == 2:
            return {"$handle": {"kind": parts[0], "id": parts[1], "meta": self.meaning(parts[2])}}
        if code == 3:
            return {"$scalar": {"dtype": parts[0], "value": self.scalars(*parts)[0]}}
        if code == 4:
            return {"$tuple": self.meaning(parts)}
        if code == 5:
            return {"$name": {"unit": parts[0], "name": parts[1]}}
        raise AssertionError(f"an unknown extension type {code}")

    def array(
        self, dtype: str, shape: list[int], order: str, buffer: int | None, access: str, writeable: bool, *coding: str
    ) -> Any:
        known = {"dtype": dtype, "shape": shape, "order": order, "buffer": buffer, "access": access,
                 "writeable": writeable, **({"coding": coding[0]} if coding else {})}  # fmt: skip
        elements = None
        if buffer is not None and coding == ("chunks",):
            return known | {"chunks": chunks(self.buffers[buffer])}
        if buffer is not None:
            data = self.buffers[buffer]
            elements = self.scalars(dtype, decoded(data, struct.calcsize(FORMATS[dtype]), *coding) if coding else data)
            if order == "F":
                elements = [elements[offset] for offset in fortran_offsets(shape)]
        return known | {"elements in C order": elements}

    def scalars(self, dtype: str, data: bytes) -> list[Any]:
        return [self.meaning(one) for (one,) in struct.iter_unpack(f"<{FORMATS[dtype]}", data)]


def decoded(frame: bytes, itemsize: int, coding: str) -> bytes:
    """The bytes that PROTOCOL.md says, of a frame of zstd with a size of one byte and one block that is not packed."""
    assert frame[:5] == b"\x28\xb5\x2f\xfd\x20"
    planes = frame[9:]
    assert len(planes) == frame[5]
    count, mask = len(planes) // itemsize, (1 << 8 * itemsize) - 1
    values = [int.from_bytes(planes[number::count], "little") for number in range(count)]
    differences = {"shuffle": 0, "delta": 1, "delta2": 2}[coding.split("-")[0]]
    if differences:
        values = [value >> 1 ^ -(value & 1) & mask for value in values]
    for _ in range(differences):
        values = [value & mask for value in itertools.accumulate(values)]
    return b"".join(value.to_bytes(itemsize, "little") for value in values)


def chunks(buffer: bytes) -> dict[str, Any]:
    """The five parts that PROTOCOL.md names."""
    size, digests, given, coding, data = msgpack.unpackb(buffer)
    return {"size": size, "digests": digests.hex(), "given": given, "coding": coding, "data": data.hex()}


def fortran_offsets(shape: list[int]) -> list[int]:
    """Where the elements, taken in C order, lie in Fortran order."""
    strides = [math.prod(shape[:axis]) for axis in range(len(shape))]
    indices = itertools.product(*map(range, shape))
    return [sum(i * stride for i, stride in zip(index, strides, strict=True)) for index in indices]


def test_the_files_are_what_the_generator_writes(generator: ModuleType) -> None:
    """After a change of the protocol the files are made anew, and the difference is looked at."""
    written = {path.name: path.read_text(encoding="utf-8") for path in (PROTOCOL / "vectors").glob("*")}
    assert written == {name: generator.text(entries) for name, entries in generator.vectors().items()}


@pytest.mark.parametrize("entry", VECTORS, ids=described)
def test_the_frames_mean_what_the_file_says(entry: dict[str, Any]) -> None:
    """Somebody with msgpack alone reads from the frames what stands beside them."""
    assert Foreign(frames_of(entry)).header == entry["header"]


@pytest.mark.parametrize("entry", VECTORS, ids=described)
def test_we_read_the_frames_too(entry: dict[str, Any], generator: ModuleType) -> None:
    """Our own codec gives the same meaning, and a typed message of that op and id."""
    frames = frames_of(entry)
    assert generator.meaning(read_header(frames[0], frames[1:])) == entry["header"]
    message = decode_request(frames) if entry["direction"] == "to the worker" else decode_reply(frames)
    head, *buffers = encode(message)
    again = generator.meaning(read_header(head, buffers))
    assert (again["op"], again["id"]) == (entry["header"]["op"], entry["header"]["id"])


@pytest.mark.parametrize("entry", MALFORMED, ids=described)
def test_what_is_malformed_is_refused_as_the_file_says(entry: dict[str, Any]) -> None:
    """The code of the error, and the id that is answered where one can be read."""
    frames = frames_of(entry)
    with pytest.raises(TiremoteError) as caught:
        decode_request(frames)
    try:
        found = id_of(read_header(frames[0], frames[1:]))
    except TiremoteError:
        found = id_in(frames[0])
    assert entry["error"] == {"id": found, "code": caught.value.code}


def test_the_digests_are_what_the_page_says() -> None:
    """The first 16 bytes of the SHA-256 of the key that hello gives and the chunk's bytes."""
    (hello,) = (entry for entry in FILES["replies.json"] if entry["description"] == "hello")
    (put,) = (entry for entry in FILES["requests.json"] if "put of two chunks" in entry["description"])
    key = hello["header"]["result"]["chunk_key"].encode()
    told = put["header"]["array"]["$array"]["chunks"]
    data = struct.pack("<1026f", *range(1026))
    digests = [hashlib.sha256(key + data[start : start + 4096]).digest()[:16] for start in (0, 4096)]
    assert told["digests"] == b"".join(digests).hex()
    assert told["data"] == data[4096:].hex()


def test_nothing_is_left_out() -> None:
    """There is a vector for every op and its answer, kind of reply, error, extension type and dtype."""
    headers = {name: [entry["header"] for entry in FILES[name]] for name in FILES if name != "malformed.json"}
    everything = json.dumps(headers)
    assert {header["op"] for header in headers["requests.json"]} == set(OPS)
    assert {header["code"] for header in headers["errors.json"]} == set(BY_CODE)
    assert all(f'"${kind}": ' in everything for kind in ("array", "handle", "scalar", "tuple", "name"))
    for dtype in DTYPES:
        assert f'"$array": {{"dtype": "{dtype}"' in everything
        assert f'"$scalar": {{"dtype": "{dtype}"' in everything
    answered = " ".join(entry["description"] for entry in FILES["replies.json"])
    assert all(op in answered for op in OPS)


def test_the_errors_of_the_vectors_are_typed() -> None:
    """Each error vector arrives as its class, with every attribute that the class carries."""
    for entry in FILES["errors.json"]:
        reply = decode_reply(frames_of(entry))
        assert isinstance(reply, Failure)
        error = error_of(reply)
        assert type(error) is BY_CODE[reply.code]
        if reply.id is not None:
            assert set(reply.data) == set(error.carries)
