"""Arrays in a coding, as the front sees them: it looks at no byte of them, and keeps what the engine decodes."""

from __future__ import annotations

import pytest

from front_bench import FrontBench, whole
from tiremote.protocol.errors import MissingChunks
from tiremote.protocol.messages import Fetch, Put
from tiremote.protocol.packing import pack
from tiremote.protocol.values import CHUNKS, ArrayDescriptor, Handle, WireArray
from tiremote.worker.front.effects import Effect, Send
from tiremote.worker.front.settings import Settings
from tiremote.worker.host_copy import Moved, Piece
from tiremote.worker.link import Done

X = Handle(kind="ndarray", id="s.1.1")
DATA = bytes(range(100))


class Bench(FrontBench):
    """A front with one session that holds an array of 100 bytes."""

    def __init__(self) -> None:
        self.frames: list[list[bytes]] = []
        super().__init__(Settings())
        self.token = self.hello()
        self.keep_array(self.token, nbytes=100)

    def _carry_out(self, effect: Effect) -> None:
        if isinstance(effect, Send):
            self.frames.append([bytes(memoryview(frame)) for frame in effect.frames])
        super()._carry_out(effect)

    def put(self, number: int, coding: str, flat: tuple[int, int] | None = None) -> None:
        """A put of bytes that nobody here could decode."""
        count = 100 if flat is None else flat[1] - flat[0]
        array = WireArray(ArrayDescriptor(dtype="u8", shape=(count,), coding=coding), b"\xff no frame")
        self.ask(Put(id=number, token=self.token, target=X, flat=flat, array=array))

    def finish(self, moved: Moved | None, *buffers: bytes, error: MissingChunks | None = None) -> None:
        """The engine answers the last job; the last of the buffers is what the array's bytes are."""
        engine, work = self.work[-1]
        body = pack({"holding": None}, []) if error is None else pack([error.code, error.message, {"chunks": [0]}], [])
        done = Done(key=work.key, ok=error is None, body=body, moved=moved, beside=bool(buffers))
        self.front.on_engine(engine, done, list(buffers), self.now)
        self.pump()

    @property
    def copy(self) -> bytes | None:
        """What would be put back."""
        (session,) = self.front._sessions
        copy = self.front.scheduler.copies.get(session.id, X)
        return None if copy is None else b"".join(bytes(data) for _, data in copy.pieces)


@pytest.mark.parametrize("coding", ["shuffle-zstd", CHUNKS])
def test_of_a_put_what_the_engine_decoded_is_kept(coding: str) -> None:
    """Not what came, which means nothing without the engine."""
    bench = Bench()
    bench.put(1, coding)
    assert list(map(bytes, bench.buffers[bench.work[-1][1].key])) == [b"\xff no frame"]
    bench.finish(whole(X, DATA), DATA)
    assert bench.copy == DATA


def test_of_a_fetch_the_client_gets_what_is_coded_and_no_more() -> None:
    """What it was decoded from is kept, and goes to nobody."""
    bench = Bench()
    bench.ask(Fetch(id=1, token=bench.token, target=X, codings=("shuffle-zstd",)))
    bench.finish(whole(X, DATA), b"coded", DATA)
    assert bench.copy == DATA
    assert bench.frames[-1][1:] == [b"coded"]


def test_a_put_that_lacked_chunks_has_changed_nothing() -> None:
    """The pieces before it and after it, and the one that is sent again, are the array's copy."""
    bench = Bench()
    for number, flat in enumerate([(0, 50), (50, 100), (50, 100)]):
        bench.put(number + 1, CHUNKS, flat)
        if number == 1:
            bench.finish(None, error=MissingChunks("not here any more", chunks=(0,)))
        else:
            piece = Piece(dtype="u8", shape=(50,), flat=flat)
            bench.finish(Moved(target=X, dtype="u8", shape=(100,), piece=piece), DATA[slice(*flat)])
    assert bench.copy == DATA
