"""The line below what a running cell prints."""

from __future__ import annotations

import io
import sys
import threading

from tiremote.repl.busy import BusyLine, progress_text


class Screen(io.StringIO):
    """Tells when the line was drawn."""

    def __init__(self) -> None:
        super().__init__()
        self.drawn = threading.Event()

    def write(self, text: str) -> int:
        if "\x1b[7m" in text:
            self.drawn.set()
        return super().write(text)


def test_what_is_printed_goes_above_the_line() -> None:
    """The line is wiped before, drawn again after, and gone at the end."""
    screen = Screen()
    with BusyLine(lambda _: "runs", lambda: 80, screen, after=0.0, every=0.01):
        assert screen.drawn.wait(30)
        print("printed")
        screen.drawn.clear()
        assert screen.drawn.wait(30)
    text = screen.getvalue()
    assert "\x1b[7mruns\x1b[0m\r" in text
    assert "\r\x1b[Kprinted\n" in text
    assert text.endswith("\r\x1b[K")
    assert sys.stdout is not screen


def test_an_unfinished_line_is_not_drawn_over() -> None:
    """A prompt of input() stays readable."""
    screen = Screen()
    with BusyLine(lambda _: "runs", lambda: 80, screen, after=0.0, every=0.01) as line:
        assert screen.drawn.wait(30)
        print("name? ", end="", flush=True)
        screen.drawn.clear()
        assert not screen.drawn.wait(0.1)
        line.write("\n")
        assert screen.drawn.wait(30)


def test_a_transfer_has_bar_rate_and_time_left() -> None:
    """In bytes that people read."""
    assert progress_text(1 << 20, 4 << 20, 2.0) == (
        "[#####...............]  25% 1.0 MiB of 4.0 MiB, 512.0 KiB/s, 6.00 s left"
    )


def test_a_transfer_takes_the_place_of_the_line_until_it_is_done() -> None:
    """What runs is told again afterwards."""
    screen = Screen()
    with BusyLine(lambda _: "runs", lambda: 80, screen, after=0.0, every=0.01) as line:
        line.progress(1, 4)
        screen.drawn.clear()
        assert screen.drawn.wait(30)
        screen.drawn.clear()
        assert screen.drawn.wait(30)
        assert "25%" in screen.getvalue().split("\x1b[7m")[-1]
        line.progress(4, 4)
        for _ in range(2):
            screen.drawn.clear()
            assert screen.drawn.wait(30)
        assert screen.getvalue().split("\x1b[7m")[-1].startswith("runs")
