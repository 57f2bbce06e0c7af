"""Frames to messages and back: ``[header, buffer, buffer, ...]``, the header a msgpack map. PROTOCOL.md in code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import msgpack

from tiremote.protocol.error_wire import error_from_wire, error_to_wire
from tiremote.protocol.errors import PayloadTooLarge, ProtocolError, TiremoteError, VersionMismatch, shown
from tiremote.protocol.messages import (
    OLDEST_VERSION,
    OPS,
    REPLIES,
    VERSION,
    Failure,
    Ok,
    Reply,
    Request,
    RequestId,
)
from tiremote.protocol.packing import Buffer, all_fields, fields_set, pack, unpack
from tiremote.protocol.plain import glance
from tiremote.protocol.receipts import Timing
from tiremote.protocol.results import Limits
from tiremote.protocol.structures import structure


def encode(message: Request | Reply) -> list[Buffer]:
    """The frames of a message. Raises `UnsupportedType` for a value that does not travel."""
    header: dict[str, Any] = {"v": VERSION, "op": message.op}
    header.update(fields_set(message))
    buffers: list[Buffer] = []
    return [pack(header, buffers), *buffers]


def encode_ok(request: RequestId, raw_result: bytes, timing: Timing, collected: str | None = None) -> bytes:
    """The header of an `Ok` around a result that is packed already, so that the front need not unpack it."""
    packer = msgpack.Packer(autoreset=False, buf_size=1024)
    items = ["v", VERSION, "op", Ok.op, "id", request, "timing", all_fields(timing)]
    items += [] if collected is None else ["collected", collected]
    packer.pack_map_header(len(items) // 2 + 1)
    for item in (*items, "result"):
        packer.pack(item)
    return bytes(packer.bytes()) + raw_result


def decode_request(frames: Sequence[Buffer], limits: Limits | None = None) -> Request:
    """The request in a message's frames. Raises `ProtocolError`; `id_of` tells whom to answer then."""
    limits = limits or Limits()
    header, buffers = _split(frames, limits)
    return request_from_header(read_header(header, buffers, limits))


def read_header(header: Buffer, buffers: Sequence[Buffer], limits: Limits | None = None) -> dict[str, Any]:
    """The header's map, its values not yet checked."""
    value = unpack(header, buffers, limits)
    if not isinstance(value, dict):
        raise ProtocolError(f"a header is a msgpack map, not {type(value).__name__}")
    return value


def id_of(header: dict[str, Any]) -> RequestId | None:
    """The id to answer, None where there is none that could be one."""
    value = header.get("id")
    return value if isinstance(value, str | int) and not isinstance(value, bool) else None


def id_in(header: Buffer, limits: Limits | None = None) -> RequestId | None:
    """The id to answer where `read_header` refuses the header for something else in it. Never raises."""
    if memoryview(header).nbytes > (limits or Limits()).header_bytes:
        return None
    value = glance(header)
    return id_of(value) if isinstance(value, dict) else None


def request_from_header(header: dict[str, Any]) -> Request:
    """The typed request. Raises `ProtocolError`, `VersionMismatch`."""
    op = header.get("op")
    version = header.get("v")
    if isinstance(version, bool) or not isinstance(version, int):
        raise ProtocolError(f"a header has 'v', the protocol version, an int; {shown(version)} came")
    # hello is readable in every version: that is how the two sides find one.
    if op != "hello" and not OLDEST_VERSION <= version <= VERSION:
        raise VersionMismatch(
            f"version {version} came; this worker speaks {OLDEST_VERSION} to {VERSION}",
            supported=(OLDEST_VERSION, VERSION),
        )
    cls = OPS.get(op) if isinstance(op, str) else None
    if cls is None:
        raise ProtocolError(f"unknown op {shown(op)}; known are {', '.join(OPS)}")
    body = _body(header)
    if version > VERSION:
        # A later version's hello may say more: it is still told which versions there are.
        body = {field.name: body[field.name] for field in fields(cls) if field.name in body}
    return structure(cls, body, f"op {op}")


def decode_reply(frames: Sequence[Buffer]) -> Reply:
    """What a worker sent. Raises `ProtocolError`."""
    # A reply's size is the worker's choice, and bounded there.
    limits = Limits(header_bytes=1 << 31, buffer_bytes=1 << 40, buffers=1 << 20, session_bytes=1 << 40)
    header_frame, buffers = _split(frames, limits)
    header = read_header(header_frame, buffers, limits)
    op = header.get("op")
    cls = REPLIES.get(op) if isinstance(op, str) else None
    if cls is None:
        raise ProtocolError(f"unknown kind of reply {shown(op)}; known are {', '.join(REPLIES)}")
    return structure(cls, _body(header), f"a reply of kind {cls.op}")


def _body(header: dict[Any, Any]) -> dict[str, Any]:
    for key in header:
        if not isinstance(key, str):
            raise ProtocolError(f"a header's keys are strings; {shown(key)} came")
    return {key: value for key, value in header.items() if key not in ("v", "op")}


def _split(frames: Sequence[Buffer], limits: Limits) -> tuple[Buffer, Sequence[Buffer]]:
    if not frames:
        raise ProtocolError("a message has at least one frame, its header")
    check_buffers(frames[1:], limits)
    return frames[0], frames[1:]


def check_buffers(buffers: Sequence[Buffer], limits: Limits) -> int:
    """The bytes of all buffers. Raises `PayloadTooLarge`."""
    if len(buffers) > limits.buffers:
        raise PayloadTooLarge(
            f"{len(buffers)} buffers came, at most {limits.buffers} are taken in one message",
            size=len(buffers),
            limit=limits.buffers,
        )
    total = 0
    for number, buffer in enumerate(buffers):
        size = memoryview(buffer).nbytes
        if size > limits.buffer_bytes:
            raise PayloadTooLarge(
                f"buffer {number} has {size} bytes, at most {limits.buffer_bytes} are taken: send flat ranges",
                size=size,
                limit=limits.buffer_bytes,
            )
        total += size
    return total


def failure(request: RequestId | None, error: TiremoteError, timing: Timing | None = None) -> Failure:
    """The reply that carries an error."""
    code, message, data = error_to_wire(error)
    return Failure(id=request, code=code, message=message, data=data, timing=timing)


def error_of(reply: Failure) -> TiremoteError:
    """The typed error that a reply carries."""
    return error_from_wire(reply.code, reply.message, reply.data)
