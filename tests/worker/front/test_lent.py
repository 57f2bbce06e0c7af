"""Engines that are lent to a lane: what the front tells of them, of what it has never seen."""

from __future__ import annotations

import msgpack
import pytest

from front_bench import FrontBench
from tiremote.protocol.codec import read_header, request_from_header
from tiremote.protocol.messages import Fetch, Interrupt, Lend, Requests, Run, Status
from tiremote.protocol.results import Limits
from tiremote.protocol.values import Name
from tiremote.worker.page import Calls

STEP = Name(unit="sim", name="step")


def call(number: int, *numbers: float) -> Calls:
    """The engine is in a call of site 7, and has begun so many."""
    return Calls(calls=number, call=msgpack.packb([1, number, 7, list(numbers)]))


@pytest.fixture
def token(bench: FrontBench) -> str:
    """A client whose run of ``sim.step(2, x)`` is remembered as site 7, and whose engine is lent."""
    token = bench.hello()
    bench.load_unit(token, "sim", name="x", kind="field")
    bench.ask(Run(id="run", token=token, target=STEP, args=(2, Name(unit="sim", name="x")), site=7))
    bench.done(bench.work[-1])
    bench.ask(Lend(id="lend", token=token, number=1))
    number, work = bench.work[-1]
    bench.begun[number] = work.key
    return token


def test_status_tells_the_call_and_nothing_between_two(bench: FrontBench, token: str) -> None:
    """As the run that it stands for."""
    number, _ = bench.work[-1]
    bench.calls[number] = call(3, 5)
    session = bench.result(bench.ask(Status(id="busy", token=token)))["session"]
    assert (session["state"], session["running"]["target"]) == ("busy", "run sim.step")
    assert session["queued"] == 0
    bench.calls[number] = Calls(calls=3)
    session = bench.result(bench.ask(Status(id="idle", token=token)))["session"]
    assert (session["state"], session["running"], session["queued"]) == ("idle", None, 0)


def test_a_lend_is_nothing_to_collect(bench: FrontBench, token: str) -> None:
    """Neither while it lasts nor when it was answered."""
    during = bench.result(bench.ask(Requests(id="during", token=token)))["requests"]
    bench.done(bench.work[-1])
    after = bench.result(bench.ask(Requests(id="after", token=token)))["requests"]
    assert {each["op"] for each in (*during, *after)} == {"run", "compile"}


def test_an_engine_that_dies_in_a_call_dies_in_the_run_that_it_stands_for(bench: FrontBench, token: str) -> None:
    """The lend fails with that, and what is kept to explain it has the numbers of that call."""
    number, _ = bench.work[-1]
    bench.calls[number] = call(4, 11)
    bench.die(number)
    bench.loaded(bench.loads[-1])
    failure = bench.error(Lend(id="lend", token=token, number=1))
    assert (failure.code, "during run sim.step" in failure.message) == ("crashed", True)
    kept = next(iter(bench.front.scheduler.copies._sessions.values())).crash
    assert kept is not None
    assert kept.message is not None
    run = request_from_header(read_header(kept.message[0], (), Limits()))
    assert isinstance(run, Run)
    assert run.args == (11, Name(unit="sim", name="x"))


def test_an_engine_that_dies_between_two_calls_is_told_by_the_next_request(bench: FrontBench, token: str) -> None:
    """The lend is over, with no error: whoever sent a call has it sent again, and hears what was lost by that."""
    number, _ = bench.work[-1]
    bench.put_into(token, Name(unit="sim", name="x"), b"1234")
    bench.calls[number] = Calls(calls=4)
    bench.die(number)
    assert bench.result(Lend(id="lend", token=token, number=1)) == {"calls": 4}
    later = bench.ask(Fetch(id="later", token=token, target=Name(unit="sim", name="x")))
    bench.loaded(bench.loads[-1])
    bench.put_back_all()
    assert "while nothing ran" in bench.error(later).message


def test_an_interrupt_names_the_run(bench: FrontBench, token: str) -> None:
    """Code that does not stop by itself costs the engine, as ever."""
    number, _ = bench.work[-1]
    bench.calls[number] = call(1, 1)
    bench.ask(Interrupt(id="stop", token=token))
    bench.wait(1.0)
    bench.die(number, -9)
    bench.loaded(bench.loads[-1])
    assert bench.error(Lend(id="lend", token=token, number=1)).message.startswith("run sim.step was interrupted")


def test_between_two_calls_an_interrupt_finds_nothing(bench: FrontBench, token: str) -> None:
    """And leaves the engine with whom it is."""
    bench.calls[bench.work[-1][0]] = Calls(calls=1)
    assert bench.result(bench.ask(Interrupt(id="stop", token=token))) == {"stopped": None}
    bench.wait(1.0)
    assert bench.killed == []
    bench.done(bench.work[-1])
