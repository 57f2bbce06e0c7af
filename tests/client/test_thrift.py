"""`tiremote.client.thrift` and its parts: what is coded, and when, by a clock that is set by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tiremote.client import connect
from tiremote.client.compression import When
from tiremote.client.thrift import Thrift
from tiremote.protocol.coding import known_codings
from tiremote.protocol.errors import Refused
from tiremote.protocol.messages import Fetch, Ok, Put
from tiremote.protocol.receipts import Timing
from tiremote.protocol.results import EngineInfo, HelloResult, Limits
from tiremote.protocol.values import Name, wire_array

MIB = 1 << 20
SMOOTH = np.zeros(MIB, "f4")
NOISE = np.random.default_rng(0).integers(0, 1 << 32, MIB, dtype="u4")
X = Name(name="x")
HELLO = HelloResult(
    version=1,
    token="t",
    session="s",
    engine=EngineInfo(runtime="taichi", version="1", arch="cpu", device="bench"),
    worker_version="0",
    limits=Limits(),
    ops=("find_chunks",),
    codings=known_codings(),
    chunk_cache=256 * MIB,
)


class Line:
    """A connection whose clock is set by hand."""

    def __init__(
        self, compress: When = "auto", reuse: When = "auto", *, local: bool = False, hello: HelloResult = HELLO
    ) -> None:
        self.now = 0.0
        self.thrift = Thrift(compress, reuse, local=local, clock=lambda: self.now)
        self.thrift.agreed(hello)
        self.compression, self.meter = self.thrift.compression, self.thrift.meter

    def put(self, seconds: float) -> None:
        """A put of 1 MiB takes so long."""
        put = Put(id=1, target=X, array=wire_array(np.zeros(MIB, "u1")))
        measured = self.meter.began(put, MIB, 0)
        self.now += seconds + 1.0
        if measured is not None:
            self.meter.ended(measured, Ok(id=1, timing=Timing(total=1.0)))

    def fetch(self, seconds: float) -> None:
        """A fetch of 1 MiB takes so long."""
        measured = self.meter.began(Fetch(id=1, target=X), 100, MIB)
        self.now += seconds
        if measured is not None:
            self.meter.ended(measured, Ok(id=1))

    @property
    def codes(self) -> tuple[bool, bool]:
        """Whether zeros would go coded, and whether they would be asked for."""
        return self.compression.sent(SMOOTH).descriptor.coding is not None, bool(self.compression.asked())


def test_nothing_is_coded_on_a_fast_link() -> None:
    """Neither before anything is known nor when it is."""
    line = Line()
    assert line.codes == (False, False)
    line.put(0.002)
    line.fetch(0.002)
    assert line.codes == (False, False)


def test_each_way_is_measured_by_itself() -> None:
    """Uploads over a slow line are coded, while downloads that are fast are not."""
    line = Line()
    for _ in range(3):
        line.put(1.0)
        line.fetch(0.002)
    assert line.codes == (True, False)


def test_what_does_not_shrink_goes_as_it_is_over_a_slow_link_too() -> None:
    """Random bits are sent plainly."""
    line = Line()
    for _ in range(3):
        line.put(1.0)
    assert line.compression.sent(NOISE).descriptor.coding is None


def test_the_caller_may_say_so() -> None:
    """True codes at once, and False never, whatever the link is."""
    assert Line(True).codes == (True, True)
    never = Line(False)
    for _ in range(3):
        never.put(1.0)
        never.fetch(1.0)
    assert never.codes == (False, False)


def test_what_both_know_is_used_and_nothing_else() -> None:
    """A worker of before, or of later, gets what it reads."""
    assert Line(True, hello=replace(HELLO, codings=())).codes == (False, False)
    assert Line(True, hello=replace(HELLO, codings=("shuffle-zstd", "brotli"))).compression.asked() == ("shuffle-zstd",)


def test_nothing_is_measured_on_one_machine_or_where_the_worker_knows_no_coding() -> None:
    """There it could change nothing."""
    neither = replace(HELLO, codings=(), chunk_cache=0)
    for line in (Line(local=True), Line(hello=neither), Line(False, False), Line(True, False)):
        assert not line.meter.active
        assert list(line.meter.probes(line.meter.up, 64 * MIB, 4)) == []
    for line in (Line(False), Line("auto", False), Line(hello=replace(HELLO, codings=()))):
        assert line.meter.active


def test_a_large_array_has_its_beginning_go_first_until_the_link_is_known() -> None:
    """A slow one after three small pieces, a fast one after one; small arrays go at once."""
    for seconds, pieces in ((1.0, 3), (0.002, 1)):
        line = Line()
        sent = []
        for count in line.meter.probes(line.meter.up, 64 * MIB, 4):
            sent.append(count)
            line.put(seconds)
        assert sent == [1 << 16] * pieces
    assert list(Line().meter.probes(Line().meter.up, MIB, 4)) == []


def test_what_came_coded_is_not_taken_for_what_was_expected() -> None:
    """Or a slow link would seem fast, since less came than was thought."""
    line = Line()
    for _ in range(3):
        line.fetch(1.0)
    fetch = Fetch(id=1, target=X, codings=line.compression.asked())
    assert line.meter.began(fetch, 100, MIB) is None


def test_what_the_worker_did_is_no_matter_of_the_link() -> None:
    """Of a put it follows the bytes, of a fetch it is before them; here it is a minute, and the link is fast."""
    line = Line()
    for request, sent, expects in (
        (Put(id=1, target=X, array=wire_array(SMOOTH)), MIB, 0),
        (Fetch(id=1, target=X), 9, MIB),
    ):
        measured = line.meter.began(request, sent, expects)
        assert measured is not None
        line.now += 60.002
        line.meter.ended(measured, Ok(id=1, timing=Timing(total=60.0)))
    for link in (line.meter.up, line.meter.down):
        assert link.rate is not None
        assert 0.9 < link.rate / (MIB / 0.002) < 1.1


def test_small_messages_tell_nothing() -> None:
    """They are of the round trip."""
    assert Line().meter.began(Fetch(id=1, target=X), 100, 1000) is None


def test_a_request_that_fails_tells_nothing() -> None:
    """It may never have been sent."""
    line = Line()
    for _ in range(3):
        measured = line.meter.began(Put(id=1, target=X, array=wire_array(SMOOTH)), MIB, 0)
        assert measured is not None
        line.now += 10.0
        line.meter.ended(measured, Refused("no"))
    assert line.meter.up.rate is None


def test_large_arrays_are_reused_over_a_slow_link_alone() -> None:
    """Or wherever the caller says so, and the worker keeps chunks."""
    line = Line()
    assert not line.thrift.reuse.is_wanted(64 * MIB)
    for _ in range(3):
        line.put(1.0)
    assert line.thrift.reuse.is_wanted(64 * MIB)
    assert not line.thrift.reuse.is_wanted(MIB - 1)
    assert Line(reuse=True).thrift.reuse.is_wanted(MIB)
    off = (Line(reuse=False), Line(reuse=True, hello=replace(HELLO, chunk_cache=0)))
    assert not any(each.thrift.reuse.is_wanted(64 * MIB) for each in off)
    assert not Line(reuse=True, hello=replace(HELLO, ops=())).thrift.reuse.is_wanted(64 * MIB)


@pytest.mark.parametrize("name", ["compress", "reuse"])
def test_another_way_than_there_is_is_refused(name: str) -> None:
    """Before anything is connected."""
    with pytest.raises(ValueError, match=f"{name}='zip'"):
        connect("tcp://127.0.0.1:1", **{name: "zip"})  # type: ignore[arg-type]
