"""`tiremote.protocol.coding`, and arrays that travel in a coding."""

from __future__ import annotations

import contextlib
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from array_zoo import ZOO
from tiremote.protocol.codec import decode_reply, decode_request, encode
from tiremote.protocol.coding import chosen, decoded, encoded, known_codings
from tiremote.protocol.errors import PayloadTooLarge, ProtocolError, TiremoteError
from tiremote.protocol.messages import Fetch, Ok, Put, Run
from tiremote.protocol.packing import pack, unpack
from tiremote.protocol.results import Limits
from tiremote.protocol.values import ArrayDescriptor, Handle, Name, WireArray, wire_array

CODINGS = known_codings()
SMOOTH = np.sin(np.linspace(0, 6, 1 << 14)).astype("f4")
TARGET = Handle(kind="ndarray", id="s.1.1")


def in_coding(array: np.ndarray, coding: str) -> WireArray:
    """The array in that coding, whether it pays or not."""
    wire = wire_array(array)
    data = encoded(wire.data, array.itemsize, coding)
    return WireArray(replace(wire.descriptor, coding=coding), data)


def claimed(shape: tuple[int, ...], frame: bytes, dtype: str = "f4") -> WireArray:
    """What says that it is an array of that shape."""
    name = {"f4": "f32", "f8": "f64"}[dtype]
    return WireArray(ArrayDescriptor(dtype=name, shape=shape, coding=CODINGS[0]), frame)


def test_there_is_zstd_where_the_tests_run() -> None:
    """All codings are known: what is tested here is not left out."""
    assert CODINGS == ("shuffle-zstd", "delta-shuffle-zstd", "delta2-shuffle-zstd")


@pytest.mark.parametrize("coding", CODINGS)
@pytest.mark.parametrize("name", ZOO)
def test_an_array_of_the_zoo_reads_back_bit_by_bit(name: str, coding: str) -> None:
    """Every odd array survives every coding, through a message and back, in its order, NaN and -0.0 included."""
    plain = wire_array(ZOO[name]())
    came = decode_reply(encode(Ok(id=1, result=in_coding(ZOO[name](), coding)))).result
    assert came.descriptor == replace(plain.descriptor, coding=coding, buffer=0)
    assert came.view().tobytes("A") == plain.view().tobytes("A")
    assert came.copy().flags.writeable


@given(
    st.integers(0, 3).flatmap(lambda power: st.tuples(st.just(1 << power), st.binary(max_size=400))),
    st.sampled_from(CODINGS),
)
def test_any_bytes_come_back(sized: tuple[int, bytes], coding: str) -> None:
    """Whatever the elements are, of 1 to 8 bytes, from none to many."""
    itemsize, data = sized
    data = data[: len(data) // itemsize * itemsize]
    assert decoded(encoded(data, itemsize, coding), itemsize, coding, len(data)).tobytes() == data


@given(st.binary(max_size=200), st.sampled_from(CODINGS), st.integers(0, 100))
def test_no_bytes_are_anything_but_an_array_or_a_clear_error(data: bytes, coding: str, count: int) -> None:
    """A frame that is none, in any way, is a `ProtocolError`."""
    with contextlib.suppress(ProtocolError):
        assert decoded(data, 4, coding, 4 * count).nbytes == 4 * count


@given(st.integers(0, 1 << 16), st.integers(1, 255))
def test_a_bit_that_is_changed_on_the_way_is_an_error_or_other_contents_of_that_size(at: int, flip: int) -> None:
    """Never more, and never anything but a `ProtocolError`."""
    frame = bytearray(encoded(SMOOTH.data.cast("B"), 4, "shuffle-zstd"))
    frame[at % len(frame)] ^= flip
    with contextlib.suppress(ProtocolError):
        assert decoded(bytes(frame), 4, "shuffle-zstd", SMOOTH.nbytes).nbytes == SMOOTH.nbytes


@pytest.mark.parametrize("cut", [0, 1, 4, 10, -1])
def test_a_frame_that_is_cut_off_is_refused(cut: int) -> None:
    """Wherever it ends, also where all its contents are there but the end of the frame is not."""
    frame = encoded(bytes(40_000), 4, "shuffle-zstd")
    with pytest.raises(ProtocolError):
        decoded(frame[:cut], 4, "shuffle-zstd", 40_000)


def test_what_follows_the_frame_is_refused() -> None:
    """One byte or another frame: an array is one frame."""
    frame = encoded(bytes(40_000), 4, "shuffle-zstd")
    for more in (b"x", frame):
        with pytest.raises(ProtocolError, match="follow the frame"):
            decoded(frame + more, 4, "shuffle-zstd", 40_000)


@pytest.mark.parametrize("size", [0, 39_996, 40_004, 1 << 40])
def test_a_frame_of_another_size_than_the_array_is_refused_before_it_is_decoded(size: int) -> None:
    """Both sizes are in the error."""
    with pytest.raises(ProtocolError, match=f"is {size} bytes.*40000"):
        decoded(encoded(bytes(40_000), 4, "shuffle-zstd"), 4, "shuffle-zstd", size)


def test_a_frame_whose_header_lies_is_never_decoded_beyond_what_it_says() -> None:
    """A frame of 64 MiB of zeros that says it is of 4 KiB gives an error, not 64 MiB."""
    bomb = bytearray(encoded(bytes(64 << 20), 4, "shuffle-zstd"))
    # Its size is in four bytes, behind the magic number and the byte that says so.
    assert bomb[4] >> 6 == 2
    place = 5 + (not bomb[4] >> 5 & 1)
    assert int.from_bytes(bomb[place : place + 4], "little") == 64 << 20
    bomb[place : place + 4] = (4096).to_bytes(4, "little")
    with pytest.raises(ProtocolError):
        decoded(bytes(bomb), 4, "shuffle-zstd", 4096)


def test_a_coded_array_above_the_limit_of_a_buffer_is_refused_unread() -> None:
    """By what it would be: its frame may be small, and is not looked at."""
    frames = encode(Put(id=1, token="t", target=TARGET, array=claimed((1 << 20,), b"no frame")))
    assert decode_request(frames).id == 1
    with pytest.raises(PayloadTooLarge) as caught:
        decode_request(frames, Limits(buffer_bytes=1 << 20))
    assert (caught.value.size, caught.value.limit) == (4 << 20, 1 << 20)


def test_the_coded_arrays_of_a_message_are_together_within_what_a_session_may_wait_with() -> None:
    """Many small frames that share a buffer do not make the engine take more than plain ones could."""
    limits = Limits(session_bytes=10 << 20)
    array = claimed((1 << 20,), b"no frame")
    allowed, refused = (Run(id=1, token="t", target=Name(name="f"), args=(array,) * n) for n in (2, 3))
    assert decode_request(encode(allowed), limits).id == 1
    with pytest.raises(PayloadTooLarge):
        decode_request(encode(refused), limits)


def test_an_unknown_coding_is_refused() -> None:
    """With those that there are."""
    with pytest.raises(ProtocolError, match=r"one of shuffle-zstd, .*not str 'zip'"):
        ArrayDescriptor(dtype="f32", shape=(1,), coding="zip")


def test_an_array_is_coded_where_a_sample_shrinks() -> None:
    """Smooth contents are, by the coding that suits them; random bits are not, and small arrays are not."""
    noise = np.random.default_rng(0).integers(0, 1 << 32, 1 << 16, dtype="u4")
    assert chosen(SMOOTH.data.cast("B"), 4, CODINGS) == "delta2-shuffle-zstd"
    assert chosen(SMOOTH.data.cast("B"), 4, CODINGS[:1]) == "shuffle-zstd"
    assert chosen(noise.data.cast("B"), 4, CODINGS) is None
    assert chosen(SMOOTH[:1000].data.cast("B"), 4, CODINGS) is None
    assert chosen(SMOOTH.data.cast("B"), 4, ("of-next-year",)) is None


@pytest.mark.parametrize("dtype", ["?", "i1", "u2", "i4", "f4", "i8", "f8"])
def test_a_packed_value_has_its_arrays_coded_where_that_was_asked_for(dtype: str) -> None:
    """Deep in a value too, and reads back as it was; where it was not asked for no array is coded."""
    array = (np.arange(20_000) // 500).astype(dtype)
    for codings in ((), CODINGS):
        buffers: list[object] = []
        head = pack({"a": [array, 1]}, buffers, codings)
        came = unpack(head, buffers)["a"][0]
        assert (came.descriptor.coding is not None) == bool(codings)
        assert (len(buffers[0]) < array.nbytes) == bool(codings)  # type: ignore[arg-type]
        np.testing.assert_array_equal(came.view(), array)


def test_a_request_that_is_made_again_keeps_its_coding() -> None:
    """What was coded is not coded twice, and what was decoded is sent again as it came."""
    put = Put(id=1, token="t", target=TARGET, array=wire_array(SMOOTH).coded(CODINGS))
    came = decode_request(encode(put))
    assert isinstance(came, Put)
    assert came.array is not None
    np.testing.assert_array_equal(came.array.view(), SMOOTH)
    assert came.array.coded(CODINGS) is came.array
    assert encode(came)[1:] == encode(put)[1:]


def test_a_fetch_of_an_older_client_asks_for_no_coding() -> None:
    """The field may be left out."""
    made = decode_request(encode(Fetch(id=1, token="t", target=TARGET)))
    assert isinstance(made, Fetch)
    assert made.codings == ()


def test_a_coded_array_that_does_not_decode_says_so_when_it_is_read() -> None:
    """The message is read all the same: whoever does not look at the array is not concerned."""
    came = decode_request(encode(Put(id=1, token="t", target=TARGET, array=claimed((100,), b"nothing"))))
    assert isinstance(came, Put)
    assert came.array is not None
    with pytest.raises(TiremoteError, match="does not decode"):
        came.array.view()
