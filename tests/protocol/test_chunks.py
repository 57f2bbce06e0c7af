"""`tiremote.protocol.chunks`: arrays of which only some chunks have their bytes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgpack
import numpy as np
import pytest

from tiremote.protocol.chunks import DIGEST, FindChunks, cut, digest_of, in_chunks, read_chunks
from tiremote.protocol.codec import decode_request, encode
from tiremote.protocol.coding import known_codings
from tiremote.protocol.errors import ProtocolError
from tiremote.protocol.messages import Put
from tiremote.protocol.values import ArrayDescriptor, Handle, WireArray, wire_array

KEY = b"s1-a1b2c3"
SIZE = 4096
#: Five chunks, the last of 16 bytes.
VALUES = np.arange(4100, dtype="f4")
TARGET = Handle(kind="ndarray", id="s.1.1")
DESCRIPTOR = ArrayDescriptor(dtype="f32", shape=(4100,), coding="chunks")


def digests(array: np.ndarray, key: bytes = KEY) -> bytes:
    return b"".join(digest_of(chunk, key) for chunk in cut(wire_array(array).data, SIZE))


def chunked(given: list[int], codings: tuple[str, ...] = ()) -> WireArray:
    return in_chunks(wire_array(VALUES), SIZE, digests(VALUES), given, codings)


def buffer(**other: Any) -> bytes:
    """The parts of `VALUES` with its second and last chunk, but for some."""
    data = VALUES[1024:2048].tobytes() + VALUES[4096:].tobytes()
    parts = {"size": SIZE, "digests": digests(VALUES), "given": [1, 4], "coding": None, "data": data, **other}
    return bytes(msgpack.packb(list(parts.values())))


@pytest.mark.parametrize("codings", [(), known_codings()])
@pytest.mark.parametrize("given", [[], [0], [1, 4], [4], [0, 1, 2, 3, 4]])
def test_what_is_given_comes_and_what_is_not_is_told_by_its_digest(given: list[int], codings: tuple[str, ...]) -> None:
    """Through a message, coded where that makes it smaller."""
    put = Put(id=1, token="t", target=TARGET, array=chunked(given, codings))
    came = decode_request(encode(put))
    assert isinstance(came, Put)
    assert came.array is not None
    read = read_chunks(came.array.descriptor, came.array.data)
    assert (read.size, read.digests, list(read.given)) == (SIZE, digests(VALUES), given)
    expected = b"".join(VALUES.tobytes()[one * SIZE : (one + 1) * SIZE] for one in given)
    assert read.data.tobytes() == expected
    if codings and len(given) == 5:
        assert len(came.array.data) < VALUES.nbytes / 4


def test_a_digest_is_of_the_contents_and_the_session() -> None:
    """The same contents have another in another session, and one byte makes another."""
    other = VALUES.copy()
    other[2000] += 1
    mine, theirs, changed = digests(VALUES), digests(VALUES, b"s2-ffffff"), digests(other)
    for at in range(0, 5 * DIGEST, DIGEST):
        assert mine[at : at + DIGEST] not in theirs
        assert (mine[at : at + DIGEST] == changed[at : at + DIGEST]) == (at != DIGEST)


@pytest.mark.parametrize(
    "other",
    [
        {"size": 64},
        {"size": 4097},
        {"size": True},
        {"size": 8192},
        {"digests": digests(VALUES)[:-1]},
        {"digests": digests(VALUES)[:-DIGEST]},
        {"digests": "x"},
        {"given": [4, 1]},
        {"given": [1, 1]},
        {"given": [1, 5]},
        {"given": [-1, 4]},
        {"given": [1, True]},
        {"given": 1},
        {"data": bytes(4111)},
        {"data": bytes(4113)},
        {"data": "text"},
        {"coding": "zip"},
        {"coding": "shuffle-zstd"},
        {"more": 1},
    ],
    ids=repr,
)
def test_parts_that_do_not_fit_together_are_refused(other: dict[str, Any]) -> None:
    """A `ProtocolError` each, before anything is made of them."""
    assert read_chunks(DESCRIPTOR, buffer()).data.nbytes == 4112
    with pytest.raises(ProtocolError):
        read_chunks(DESCRIPTOR, buffer(**other))


@pytest.mark.parametrize("data", [b"", b"nothing", buffer()[:-1], msgpack.packb({"size": SIZE})])
def test_a_buffer_that_is_no_such_array_is_refused(data: bytes) -> None:
    """Cut off, or something else."""
    with pytest.raises(ProtocolError):
        read_chunks(DESCRIPTOR, data)


def test_an_array_in_chunks_is_not_read_where_nothing_puts_it_together() -> None:
    """Only a session's engine has what is not given."""
    with pytest.raises(ProtocolError, match="put takes them"):
        chunked([0]).view()


def test_an_array_that_was_put_together_is_read_as_any_other() -> None:
    """Read-only, of its shape and order."""
    array = np.asfortranarray(VALUES.reshape(41, 100))
    wire = in_chunks(wire_array(array), SIZE, digests(array), [])
    wire.complete(np.frombuffer(array.tobytes("A"), np.uint8))
    np.testing.assert_array_equal(wire.view(), array)
    assert not wire.view().flags.writeable
    with pytest.raises(ProtocolError):
        replace(wire.descriptor, coding=None).view(array.tobytes()[:-1])


@pytest.mark.parametrize("fields", [{"digests": bytes(17)}, {"size": 4100}, {"size": 0}, {"digests": "text"}])
def test_a_question_about_what_are_no_chunks_is_refused(fields: dict[str, Any]) -> None:
    """By the client that makes it, and by the worker."""
    with pytest.raises(ProtocolError):
        FindChunks(**{"id": 1, "digests": bytes(16), "size": SIZE, **fields})
