"""Requests of before at the prompt: `:requests` and `:collect`."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import numpy as np
import pytest

from recording_session import RecordingSession
from tiremote.protocol.errors import KernelRuntimeError
from tiremote.protocol.results import RequestLine, RequestsResult
from tiremote.repl import collecting
from tiremote.repl.cells import read_command
from tiremote.repl.collecting import left_behind, requests_text
from tiremote.repl.commands import CommandError, Commands
from tiremote.repl.evaluate import Evaluator

RUNNING = RequestLine(
    request="a-1", op="run", target="run sim.drive", seat=1, state="running", seconds=61.0, client="me"
)
FAILED = RequestLine(request=7, op="run", target="run f", seat=2, state="answered", seconds=1.0, code="runtime")
DONE = RequestLine(request="a-2", op="run", target="run g", seat=1, state="answered", seconds=2.0, client="me")


class LeftBehind(RecordingSession):
    """Has requests of others; ``futures`` are what they come to."""

    def __init__(self, *lines: RequestLine) -> None:
        super().__init__()
        self.lines = lines
        self.futures = {line.request: Collected() for line in lines}
        self.collected: list[RequestLine] = []

    def requests(self) -> RequestsResult:
        return RequestsResult(requests=self.lines)

    def collect(self, line: RequestLine) -> Collected:
        self.collected.append(line)
        return self.futures[line.request]


class Collected(Future[Any]):
    """As `RequestFuture`, without a session."""

    def __init__(self) -> None:
        super().__init__()
        self.written: dict[int | str, Any] = {}


class Prompt:
    """Commands over such a session; ``said`` is what was shown."""

    def __init__(self, *lines: RequestLine) -> None:
        self.gpu = LeftBehind(*lines)
        self.said: list[Any] = []
        evaluator = Evaluator(self.gpu, show=lambda _: None, display=self.said.append)  # type: ignore[arg-type]
        self.names = evaluator.names.values
        self.commands = Commands(evaluator, self.said.append)

    def run(self, line: str) -> Any:
        self.said.clear()
        self.commands.run(read_command(line))
        return self.said[-1]


def test_requests_are_a_table_or_a_sentence() -> None:
    """With who sent each, since when it is so, and the code of an error."""
    assert Prompt().run(":requests").startswith("Nothing runs")
    assert Prompt(RUNNING, FAILED).run(":requests").split("\n") == [
        "id   does           sent by  state              for",
        "a-1  run sim.drive  me       running            1 min 1 s",
        "7    run f                   answered: runtime  1.00 s",
    ]
    assert requests_text(RequestsResult(requests=(RUNNING,), omitted=1200)).endswith("\nand 1,200 more")


def test_what_a_session_does_is_one_line_for_whoever_joins() -> None:
    """Nothing where it does nothing."""
    assert left_behind(RequestsResult()) == ""
    assert left_behind(RequestsResult(requests=(RUNNING,))) == "1 request runs or waits: see :requests and :collect"
    assert left_behind(RequestsResult(requests=(RUNNING, RUNNING, FAILED, DONE))) == (
        "2 requests run or wait, 2 answers wait to be collected: see :requests and :collect"
    )
    assert left_behind(RequestsResult(requests=(DONE,))).startswith("1 answer waits to be collected")


def test_a_collected_value_is_shown_and_is_the_last_value() -> None:
    """An id that is a number is typed as one."""
    prompt = Prompt(RUNNING, DONE, FAILED)
    prompt.gpu.futures["a-2"].set_result(42)
    assert prompt.run(":collect a-2") == 42
    assert prompt.names["_"] == 42
    prompt.gpu.futures[7].set_exception(KernelRuntimeError("on purpose"))
    with pytest.raises(KernelRuntimeError, match="on purpose"):
        prompt.run(":collect 7")
    assert prompt.gpu.collected == [DONE, FAILED]


def test_a_call_without_a_value_gives_what_it_wrote_or_is_done() -> None:
    """A kernel's arrays, by their position."""
    prompt = Prompt(DONE)
    future = prompt.gpu.futures["a-2"]
    future.written[0] = np.arange(3)
    future.set_result(None)
    assert prompt.run(":collect a-2")[0].tolist() == [0, 1, 2]
    future.written.clear()
    assert prompt.run(":collect a-2") == "a-2 is done"


def test_ctrl_c_ends_the_wait_and_not_the_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next :collect waits for the same, so that nothing is printed twice."""
    prompt = Prompt(RUNNING)

    def broken(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(collecting, "wait", broken)
        with pytest.raises(CommandError, match="a-1 goes on: :collect a-1 waits for it again"):
            prompt.run(":collect a-1")
    prompt.gpu.lines = ()
    prompt.gpu.futures["a-1"].set_result(1)
    assert prompt.run(":collect a-1") == 1
    assert prompt.gpu.collected == [RUNNING]


def test_what_cannot_be_collected_is_said() -> None:
    """No id, an unknown one, and one that two clients have."""
    prompt = Prompt(RUNNING, RUNNING)
    for typed, text in ((":collect", "say which request"), (":collect x", "'x' to be collected; there is a-1, a-1"),
                        (":collect a-1", "several clients have a request 'a-1'")):  # fmt: skip
        with pytest.raises(CommandError, match=text):
            prompt.run(typed)
