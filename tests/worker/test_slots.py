"""Shared memory that is used again and again: whose it is when, and that none is left or handed out twice."""

from __future__ import annotations

import errno
import gc
import os
import random
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tiremote.protocol.errors import OutOfMemory
from tiremote.protocol.values import Name
from tiremote.worker.cargo import INLINE_BYTES, Cargo, close_all
from tiremote.worker.front.copies import CopyStore
from tiremote.worker.host_copy import Moved, Piece
from tiremote.worker.slots import AVAILABLE, UNIT, UNITS, SlotReader, SlotWriter, is_lent, make_slots

pytestmark = pytest.mark.skipif(
    not AVAILABLE, reason="this system has no anonymous files whose pages can be given back"
)


class Ends:
    """Both ends of four units in this process."""

    def __init__(self) -> None:
        self.fd = make_slots(4)
        self.writer, self.reader = SlotWriter(self.fd), SlotReader(self.fd)

    def sent(self, data: bytes) -> memoryview:
        """Bytes that went through a slot."""
        room = self.writer.take(len(data))
        assert room is not None
        room[:] = np.frombuffer(data, np.uint8)
        first = self.writer.hand_over(memoryview(room))
        assert first is not None
        return self.reader.view(first, len(data))

    @property
    def memory(self) -> int:
        """Bytes that the file takes."""
        return os.fstat(self.fd).st_blocks * 512


@pytest.fixture
def ends() -> Iterator[Ends]:
    made = Ends()
    yield made
    made.writer.close()
    os.close(made.fd)


@pytest.fixture
def cargos() -> Iterator[tuple[Cargo, Cargo]]:
    """The sender's and the receiver's."""
    made = Cargo(), Cargo()
    yield made
    for cargo in made:
        cargo.close()


def carried(sender: Cargo, receiver: Cargo, buffers: list[Any]) -> list[Any]:
    """Buffers that went from one end to the other."""
    told, descriptors = sender.load(buffers)
    waiting = deque(os.dup(fd) for fd in descriptors)
    close_all(descriptors)
    received = receiver.unload(told, waiting)
    assert not waiting
    return received


def test_a_slot_is_free_again_when_nothing_refers_to_its_bytes(ends: Ends) -> None:
    """Views of any kind keep it, and the last that goes gives it back."""
    view = ends.sent(b"a" * 4 * UNIT)
    array = np.asarray(np.frombuffer(view[UNIT:], np.float32)).reshape(2, -1)[1:]
    part = memoryview(array[:, :5])
    del view, array
    assert ends.writer.take(1) is None
    assert bytes(part.tobytes()) == b"a" * 20
    del part
    assert ends.writer.take(4 * UNIT) is not None


def test_room_that_was_not_handed_over_is_free_when_it_is_dropped(ends: Ends) -> None:
    """A result that is not sent in the end costs nothing."""
    room = ends.writer.take(3 * UNIT)
    assert room is not None
    view = np.asarray(room).view(np.float32).reshape(3, -1)
    del room
    assert ends.writer.take(2 * UNIT) is None
    del view
    assert ends.writer.take(2 * UNIT) is not None


def test_only_what_was_taken_is_handed_over(ends: Ends) -> None:
    """A part of a slot, and memory that lies elsewhere, are no slot."""
    room = ends.writer.take(UNIT)
    assert room is not None
    assert ends.writer.hand_over(memoryview(room)[1:]) is None
    assert ends.writer.hand_over(memoryview(room)[:-1]) is None
    assert ends.writer.hand_over(memoryview(bytes(UNIT))) is None
    assert ends.writer.hand_over(memoryview(room)) == 0
    assert ends.writer.hand_over(memoryview(room)) is None


@pytest.mark.parametrize(("first", "nbytes"), [(-1, 1), (4, 1), (3, UNIT + 1), (0, 4 * UNIT + 1)])
def test_what_lies_outside_is_not_looked_at(ends: Ends, first: int, nbytes: int) -> None:
    """An end that says nonsense gets an error, not somebody's memory."""
    with pytest.raises(ValueError, match="do not lie in 4 units"):
        ends.reader.view(first, nbytes)


def test_memory_is_there_only_while_it_is_used(ends: Ends) -> None:
    """It comes with the first use and goes with the second trim after the last one; then it can be used again."""
    before = ends.memory
    view = ends.sent(b"a" * 2 * UNIT)
    other = ends.sent(b"b" * UNIT)
    assert ends.memory == before + 3 * UNIT
    assert not ends.writer.is_idle
    del other
    ends.writer.trim()
    assert ends.memory == before + 3 * UNIT
    ends.writer.trim()
    assert ends.writer.is_idle
    assert ends.memory == before + 2 * UNIT
    assert bytes(view) == b"a" * 2 * UNIT
    del view
    assert bytes(ends.sent(b"c" * 4 * UNIT)) == b"c" * 4 * UNIT


def test_a_fork_of_the_reader_gives_nothing_back(ends: Ends) -> None:
    """What the user's code forks drops its own references; the slot is still read here."""
    view = ends.sent(b"a" * UNIT)
    process = os.fork()
    if process == 0:
        del view
        os._exit(0)
    os.waitpid(process, 0)
    rooms = [ends.writer.take(UNIT) for _ in range(4)]
    assert [room is None for room in rooms] == [False, False, False, True]
    assert bytes(view) == b"a" * UNIT


def test_buffers_of_every_size_arrive_whole_while_others_are_kept(cargos: tuple[Cargo, Cargo]) -> None:
    """Around the sizes of units and of what goes inline, with some kept and some dropped, each has its own bytes."""
    chance = random.Random(5)
    kept: list[tuple[Any, bytes]] = []
    sizes = [
        edge + by for edge in (0, INLINE_BYTES, UNIT, 4 * UNIT, UNITS * UNIT) for by in (-1, 0, 1) if edge + by >= 0
    ]
    for number in range(80):
        size = sizes[number] if number < len(sizes) else chance.randrange(8 * UNIT)
        data = bytes([chance.randrange(256)]) * (size - size // 2) + bytes([chance.randrange(256)]) * (size // 2)
        (came,) = carried(*cargos, [data])
        kept.append((came, data))
        if len(kept) > 12:
            del kept[chance.randrange(len(kept))], came
        assert all(bytes(here) == there for here, there in kept[-3:])
    assert all(bytes(here) == there for here, there in kept)


def test_where_all_slots_are_in_use_a_buffer_has_its_own_memory(cargos: tuple[Cargo, Cargo]) -> None:
    """Nobody waits for a slot, and nothing is overwritten."""
    came = [carried(*cargos, [bytes([number]) * (UNITS // 2 * UNIT)])[0] for number in range(3)]
    assert [is_lent(one) for one in came] == [True, True, False]
    assert [bytes(one[-3:]) for one in came] == [bytes([number]) * 3 for number in range(3)]


def test_no_memory_is_an_error_and_everything_works_after(
    cargos: tuple[Cargo, Cargo], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full memory is told with the size, and nothing of the message stays taken or open."""

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    carried(*cargos, [bytes(UNIT)])
    before = len(os.listdir("/proc/self/fd"))
    with monkeypatch.context() as patch:
        patch.setattr(os, "posix_fallocate", full)
        # The second unit has no memory yet, so that the second buffer needs a segment, which there is none for.
        patch.setattr(os, "write", full)
        with pytest.raises(OutOfMemory) as caught:
            cargos[0].load([bytes(UNIT), bytes(2 * UNIT)])
    assert caught.value.requested == 2 * UNIT
    assert len(os.listdir("/proc/self/fd")) == before
    came = carried(*cargos, [b"x" * (UNITS * UNIT)])
    assert is_lent(came[0])
    assert bytes(came[0][-1:]) == b"x"


def test_room_is_sent_without_a_copy(cargos: tuple[Cargo, Cargo]) -> None:
    """What was made in the sender's room is what the receiver sees."""
    room = cargos[0].room(UNIT)
    assert room is not None
    array = np.asarray(room).view(np.int32)
    array[:] = 7
    (came,) = carried(*cargos, [array.view(np.uint8).data])
    array[0] = 8
    assert np.frombuffer(came, np.int32)[:2].tolist() == [8, 7]


def test_nothing_stays_open_or_mapped_after_both_ends() -> None:
    """Descriptors go with the ends, memory with the last bytes."""
    gc.collect()  # what errors of other tests refer to
    before = len(os.listdir("/proc/self/fd"))
    sender, receiver = Cargo(), Cargo()
    (came,) = carried(sender, receiver, [b"x" * UNIT])
    unsent = Cargo()
    assert unsent.room(UNIT) is not None
    for cargo in (sender, receiver, unsent):
        cargo.close()
    del sender, receiver, cargo, unsent
    assert bytes(came[:1]) == b"x"
    del came
    assert "memfd:tiremote" not in Path("/proc/self/maps").read_text()
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_copy_outlives_the_slot_that_it_came_in(ends: Ends) -> None:
    """What the front keeps of an array does not change when its slot carries something else, and holds no slot."""
    store = CopyStore(1 << 30)
    moved = Moved(target=Name(unit="u", name="x"), dtype="u8", shape=(UNIT,), piece=Piece(dtype="u8", shape=(UNIT,)))
    view = ends.sent(b"a" * UNIT)
    copy = store.moved("s", moved, view, request=1, op="fetch", now=0.0)
    del view
    assert copy is not None
    for _ in range(5):
        ends.sent(b"b" * UNIT)
    assert bytes(copy.pieces[0][1]) == b"a" * UNIT


def test_the_first_message_that_fails_does_not_take_the_slots_along(
    cargos: tuple[Cargo, Cargo], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The slots' descriptor goes with the first message that is really sent."""

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(OutOfMemory):
            cargos[0].load([bytes(UNIT), bytes(UNITS * UNIT)])
    assert is_lent(carried(*cargos, [bytes(UNITS * UNIT)])[0])
