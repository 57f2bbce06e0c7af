"""The hop between front and engine: whole messages, bulk bytes beside them, nothing left over."""

from __future__ import annotations

import contextlib
import os
import select
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tiremote.protocol.errors import OutOfMemory
from tiremote.protocol.receipts import ArrayHolding, Definition, UnitHolding
from tiremote.protocol.results import EngineInfo
from tiremote.protocol.values import Handle, Name
from tiremote.worker.cargo import INLINE_BYTES
from tiremote.worker.host_copy import Moved, Piece
from tiremote.worker.link import (
    MARKER,
    Changes,
    Channel,
    Compiling,
    Copied,
    Done,
    Exit,
    Load,
    Message,
    Open,
    Prepare,
    PutBack,
    Ready,
    Snap,
    UnitArrays,
    Warned,
    Work,
    make_link,
    marker,
)
from tiremote.worker.page import Page
from tiremote.worker.segments import make_segment, map_segment
from tiremote.worker.slots import UNIT, UNITS


@pytest.fixture
def link() -> Iterator[tuple[Channel, Channel]]:
    """The front's end and the engine's."""
    front, theirs = make_link()
    engine = Channel(theirs)
    yield front, engine
    front.close()
    engine.close()


def carried(front: Channel, engine: Channel, message: Message, buffers: list[Any]) -> tuple[Message, list[Any]]:
    """Sends to the engine, front and engine taking turns as they would in two processes."""
    front.queue(message, buffers)
    engine.sock.setblocking(False)
    received: list[tuple[Message, list[Any]]] = []
    while not received:
        waiting = not front.flush()
        select.select([engine], [front] if waiting else [], [], 10)
        received, alive = engine.read()
        assert alive
    return received[0]


INFO = EngineInfo(runtime="taichi", version="1.7.4", arch="cpu", device="a CPU")
HOLDING = ArrayHolding(handle=Handle(kind="ndarray", id="s.1.1"), place=Name(unit="u", name="x"))
MOVED = Moved(
    target=Name(unit="u", name="x"),
    dtype="f32",
    shape=(4, 3),
    piece=Piece(dtype="f64", shape=(2,), flat=(0, 2), cast=True),
)
PART = Piece(dtype="f32", shape=(2,), order="F", region=(1, (None, 2, None)))
CHANGES = Changes(
    units=(UnitHolding(unit="u", version=2, definitions=(Definition(name="k", kind="kernel", line=3),)),),
    dropped_units=("v",),
    arrays=(ArrayHolding(handle=Handle(kind="ndarray", id="s.1.1"), label="x", nbytes=4, made_by="r1"),),
    dropped=("s.1.2",),
    reset=(Name(unit="u", name="x"),),
    unit_arrays=(UnitArrays(unit="u", names=("x", "sim.grid.mass")),),
)


@pytest.mark.parametrize(
    "message",
    [
        Prepare(options={"arch": "cpu", "debug": True}),
        Open(session="s1", generation=3, options={}),
        Load(key=7, unit="u", version=2, source="x = 1\n"),
        Work(key=2**40, header=b"\x80"),
        Exit(),
        Ready(info=INFO),
        Ready(failure=["refused", "no such arch", {}]),
        Done(key=1, ok=True, body=b"\xc0", compile=0.5, launch=0.25, changes=CHANGES),
        Done(key=1, ok=False, body=b"\xc0", poisoned="lost its device"),
        Done(key=1, ok=True, body=b"\xc0", moved=MOVED),
        Done(key=1, ok=True, body=b"\xc0", moved=replace(MOVED, piece=PART, source=Handle(kind="array", id="s.1.2"))),
        Copied(key=1, moved=(MOVED, replace(MOVED, piece=PART))),
        PutBack(key=1, target=MOVED.target, dtype="f32", shape=(4, 3), pieces=(MOVED.piece, PART), holding=HOLDING),
        Snap(key=1),
        Warned(key=1, text="on the CPU"),
        Compiling(key=1, compiled=0.5, spared=0.25, since=1234.5, spare=2.0),
        Compiling(key=1, compiled=0.5, spared=0.25),
    ],
)
def test_every_message_arrives_as_it_was(link: tuple[Channel, Channel], message: Message) -> None:
    """Each kind of message is the same dataclass on the other side."""
    assert carried(*link, message, []) == (message, [])


@pytest.mark.parametrize("size", [0, 1, INLINE_BYTES, INLINE_BYTES + 1, 5_000_000])
def test_buffers_arrive_whole_on_both_sides_of_the_threshold(link: tuple[Channel, Channel], size: int) -> None:
    """A buffer is the same bytes whether it went through the socket or through shared memory."""
    data = np.random.default_rng(size).integers(0, 255, size, dtype=np.uint8)
    _, (received,) = carried(*link, Work(key=1, header=b""), [data.data])
    assert bytes(received) == data.tobytes()


def test_more_segments_than_one_message_can_carry_descriptors_for(link: tuple[Channel, Channel]) -> None:
    """Hundreds of large buffers arrive in order."""
    buffers = [bytes([n % 256]) * (INLINE_BYTES + 1 + n) for n in range(300)]
    _, received = carried(*link, Work(key=1, header=b""), buffers)
    assert [bytes(one) for one in received] == buffers


def test_a_message_larger_than_the_socket_takes_is_sent_in_pieces(link: tuple[Channel, Channel]) -> None:
    """The front never blocks: what the socket does not take waits."""
    front, engine = link
    message = Load(key=1, unit="u", version=1, source="x" * 8_000_000)
    front.queue(message)
    assert front.flush() is False
    assert carried(front, engine, Exit(), [])[0] == message


def test_the_end_of_the_peer_is_told_after_what_it_said(link: tuple[Channel, Channel]) -> None:
    """Messages that were sent before a death are read before it is noticed."""
    front, engine = link
    engine.send(Warned(key=1, text="last words"))
    engine.close()
    messages, _ = front.read()
    assert [message for message, _ in messages] == [Warned(key=1, text="last words")]
    assert front.read() == ([], False)


def test_sending_to_a_peer_that_is_gone_raises_an_oserror(link: tuple[Channel, Channel]) -> None:
    """The loop finds a dead engine by this or by reading; it never crashes."""
    front, engine = link
    engine.close()
    front.queue(Exit())
    with pytest.raises(OSError):  # noqa: PT011 (EPIPE or ECONNRESET, as the system likes)
        front.flush()


def test_descriptors_of_unsent_and_untaken_segments_are_closed() -> None:
    """Shared memory is given back also where a message never arrives."""
    before = len(os.listdir("/proc/self/fd"))
    for sent in (True, False):
        front, theirs = make_link()
        engine = Channel(theirs)
        front.queue(Work(key=1, header=b""), [bytes(INLINE_BYTES + 1)] * 5)
        if sent:
            front.flush()
            engine.sock.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                while engine._fill():
                    pass
        front.close()
        engine.close()
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_received_segment_goes_with_its_view(link: tuple[Channel, Channel]) -> None:
    """When the buffers are dropped that slots are too small for, so is the memory."""
    _, buffers = carried(*link, Work(key=1, header=b""), [bytes(UNITS * UNIT + 1)])
    assert "memfd:tiremote" in Path("/proc/self/maps").read_text()
    del buffers
    assert "memfd:tiremote" not in Path("/proc/self/maps").read_text()


def test_a_segment_is_made_of_parts_in_order() -> None:
    """Parts of different types lie end to end."""
    parts = [memoryview(b"abc"), np.arange(2, dtype=np.int16).data]
    assert bytes(map_segment(make_segment(parts), 7)) == b"abc\0\0\1\0"


def test_no_memory_for_a_segment_is_an_error_with_the_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """A full memory is told as such, and nothing stays open."""

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(OutOfMemory) as caught:
        make_segment([memoryview(bytes(100))])
    assert caught.value.requested == 100
    assert len(os.listdir("/proc/self/fd")) == before


def test_the_page_is_one_for_both_ends(tmp_path: Path) -> None:
    """What the front writes the engine reads, and the other way."""
    with (tmp_path / "page").open("w+b") as file:
        file.truncate(Page.SIZE)
        front, engine = Page(file.fileno()), Page(file.fileno())
    front.nudged = 7
    engine.begun = 2**40
    for place in range(Page.WITHDRAWN + 1):
        front.withdraw(100 + place, place)
    assert (engine.nudged, front.begun) == (7, 2**40)
    assert set(engine.withdrawn) == set(range(101, 101 + Page.WITHDRAWN))
    front.close()
    engine.close()


@pytest.mark.parametrize("key", [0, 1, 2**64 - 1])
def test_a_marker_reads_back(key: int) -> None:
    """A marker holds its key in a fixed number of bytes."""
    found = MARKER.fullmatch(marker(key))
    assert found is not None
    assert int(found[1], 16) == key


@pytest.mark.parametrize("data", [b"", b"\x1e", marker(1)[:-1], marker(1)[:-1] + b"x", b"\x1ezzzzzzzzzzzzzzzz\x1e"])
def test_what_is_no_marker_is_none(data: bytes) -> None:
    """Bytes that a user prints are not taken for one."""
    assert MARKER.fullmatch(data) is None


def test_the_engines_socket_is_a_plain_one() -> None:
    """Its descriptor can be handed to a spawned process."""
    front, theirs = make_link()
    assert isinstance(theirs, socket.socket)
    front.close()
    theirs.close()
