"""Printed bytes to text: whole lines, whose they are, and where the flood is cut."""

from __future__ import annotations

import pytest

from tiremote.worker.front.output import Demultiplexer, Output
from tiremote.worker.link import marker


def test_characters_cut_in_the_middle_arrive_whole() -> None:
    """A character of several bytes that comes in two reads is one character."""
    output = Output(1000)
    data = "Grüße\n".encode()
    texts = [output.feed("stdout", data[n : n + 1], 0.0) for n in range(len(data))]
    assert "".join(texts) == "Grüße\n"


def test_bytes_that_are_no_text_do_no_harm() -> None:
    """What is not UTF-8 arrives with the replacement character."""
    assert Output(1000).feed("stdout", b"\xff\xfe\n", 0.0) == "\ufffd\ufffd\n"


def test_the_two_streams_do_not_mix() -> None:
    """A line begun on one stream is not ended by the other."""
    output = Output(1000)
    assert output.feed("stdout", b"out", 0.0) == ""
    assert output.feed("stderr", b"err\n", 0.0) == "err\n"
    assert output.feed("stdout", b"put\n", 0.0) == "output\n"


@pytest.mark.parametrize("size", [1, 7, 1000, 65536])
def test_a_cut_counts_every_line_and_byte(size: int) -> None:
    """However the bytes come, what was sent and what was counted add up to what was printed."""
    data = b"".join(b"line %d\n" % n for n in range(5000))
    output = Output(10_000)
    sent = "".join(output.feed("stdout", data[n : n + size], 0.0) for n in range(0, len(data), size))
    sent += "".join(text for _, text in output.flush())
    told = output.finish()
    assert told is not None
    assert data.startswith(sent.encode())
    assert len(sent) <= 10_000
    assert f"({len(data) - len(sent):,} bytes)" in told
    assert f"{5000 - sent.count(chr(10)):,} more lines" in told


def test_output_within_the_limit_is_not_commented() -> None:
    """Nothing is said where nothing was cut."""
    output = Output(10)
    output.feed("stdout", b"0123456789", 0.0)
    assert output.finish() is None


@pytest.mark.parametrize("size", [1, 2, 17, 18, 19, 100])
def test_the_stream_is_cut_at_its_markers_however_it_is_read(size: int) -> None:
    """Each request gets what was printed behind its marker, also where a read ends inside one."""
    data = b"early" + marker(1) + b"one\x1e" + marker(2) + marker(0) + b"late" + marker(3) + b"three"
    found: dict[int, bytes] = {}
    cut = Demultiplexer()
    for start in range(0, len(data), size):
        for key, piece in cut.feed(data[start : start + size]):
            found[key] = found.get(key, b"") + piece
    assert found == {0: b"earlylate", 1: b"one\x1e", 3: b"three"}


def test_a_flood_of_the_markers_first_character_is_cheap_and_arrives() -> None:
    """A user who prints that character a million times keeps the front no busier than any other."""
    data = b"\x1e\n" * 30_000 + b"\x1eabc\n"
    cut = Demultiplexer()
    assert list(cut.feed(marker(1) + data)) == [(1, data)]
    assert list(cut.feed(marker(2))) == []


def test_a_request_may_begin_without_a_marker() -> None:
    """What was held back as the beginning of a marker is the earlier request's; all that comes then is the later's."""
    cut = Demultiplexer()
    assert list(cut.feed(marker(1) + b"one\x1e0")) == [(1, b"one")]
    assert cut.begin(2) == (1, b"\x1e0")
    assert list(cut.feed(b"two" + marker(3) + b"three")) == [(2, b"two"), (3, b"three")]
