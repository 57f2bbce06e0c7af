"""Client and worker joined in memory, cut at every moment: each request runs once and is answered once."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from memory_disk import MemoryDisk
from memory_pair import MemoryPair
from tiremote.protocol.codec import read_header, request_from_header
from tiremote.protocol.errors import EngineCrashed
from tiremote.protocol.messages import Event, Ok, RequestId, Run
from tiremote.protocol.values import Name
from tiremote.worker.front.settings import Settings

REQUESTS = 40


def run(pair: MemoryPair, number: int) -> Run:
    """A run that the engine answers with its own number."""
    return Run(id=number, token=pair.core.token, target=Name(name="step"), args=(number,), events=True)


def text_of(events: list[Event]) -> str:
    """What was printed."""
    return "".join(event.text for event in events)


def kept(pair: MemoryPair) -> list[RequestId]:
    """Answers that the worker takes for not delivered."""
    (seat,) = next(iter(pair.front._sessions)).seats.values()
    return [request for request, _ in seat.record.uncollected()]


@pytest.mark.parametrize("seed", range(150))
def test_requests_run_once_and_tell_everything_once_however_the_connection_is_cut(seed: int) -> None:
    """Lost by a seeded chance with a connection or in a full queue, or late: requests, events and answers. No run is
    lost and none is repeated, and each line that one prints comes once, in order, before its answer."""
    chance = random.Random(seed)
    pair = MemoryPair(Settings(window=chance.choice([1, 3, 8])))
    full = chance.choice([0.0, 0.02])
    pair.undeliverable = lambda stands: chance.random() < (full if stands else 0.5)
    printed: Counter[int] = Counter()
    finished = 0

    def work() -> None:
        nonlocal finished
        if finished == len(pair.work):
            return
        for _ in range(chance.randrange(5)):
            pair.print(pair.work[finished], f"{finished} says {printed[finished]}\n")
            printed[finished] += 1
            pair.shuttle(chance.randrange(3))
        if chance.random() < 0.6:
            pair.done(pair.work[finished], value=finished)
            finished += 1

    for number in range(REQUESTS):
        pair.request(run(pair, number))
        pair.shuttle(chance.randrange(4))
        while finished < len(pair.work) and chance.random() < 0.6:
            work()
        if chance.random() < 0.3:
            pair.cut()
            pair.now += chance.random() * 3
            pair.join()
        pair.straggle(arrives=chance.random() < 0.5)
        pair.core.tick(pair.now)
    pair.undeliverable = lambda _: False
    pair.shuttle()
    while finished < REQUESTS:
        work()
        pair.now += 0.5
        pair.core.tick(pair.now)
        pair.shuttle()
    # An answer that was lost with the last connection comes with the next ping.
    for _ in range(3):
        pair.now += 3.0
        pair.core.tick(pair.now)
        pair.shuttle()
    assert len(pair.work) == REQUESTS
    values = {}
    for number in range(REQUESTS):
        (answer,) = pair.answers[number]
        assert isinstance(answer, Ok)
        values[number] = answer.result["value"]
        told = pair.events[number]
        assert text_of(told) == "".join(f"{values[number]} says {n}\n" for n in range(printed[values[number]]))
        assert [event.seq for event in told] == list(range(1, len(told) + 1))
    assert sorted(values.values()) == list(range(REQUESTS))
    assert kept(pair) == []
    assert pair.core.next_tick(pair.now) is None


@pytest.mark.parametrize("seed", range(40))
def test_requests_run_once_at_most_and_are_answered_once_however_the_worker_is_restarted(seed: int) -> None:
    """It is killed by a seeded chance, with requests on their way, waiting, with an engine, running, and answered. One
    that was running is told so; every other runs, in the end."""
    chance = random.Random(seed)
    pair = MemoryPair(Settings(window=chance.choice([1, 3, 8])), MemoryDisk())
    ran: Counter[RequestId] = Counter()
    begun: set[int] = set()
    finished = 0

    def look() -> None:
        for engine, job in pair.work:
            if job.key not in begun and pair.begun.get(engine, 0) >= job.key:
                begun.add(job.key)
                ran[request_from_header(read_header(job.header, [])).id] += 1

    def work(*, ends: bool) -> None:
        nonlocal finished
        if finished == len(pair.work):
            return
        engine, job = pair.work[finished]
        pair.begun[engine] = job.key
        look()
        if ends:
            pair.done(pair.work[finished], value=request_from_header(read_header(job.header, [])).id)
            finished += 1

    def restart() -> None:
        nonlocal finished
        look()
        begun.clear()
        pair.cut()
        pair.restart()
        finished = 0
        pair.now += chance.random() * 3
        pair.join()

    for number in range(REQUESTS):
        pair.request(run(pair, number))
        pair.shuttle(chance.randrange(4))
        while finished < len(pair.work) and chance.random() < 0.6:
            work(ends=chance.random() < 0.7)
            pair.shuttle(chance.randrange(3))
        if chance.random() < 0.2:
            restart()
        pair.core.tick(pair.now)
    for _ in range(REQUESTS * 3):
        pair.shuttle()
        work(ends=True)
        pair.now += 0.5
        pair.core.tick(pair.now)
    for number in range(REQUESTS):
        (answer,) = pair.answers[number]
        assert ran[number] == 1
        if isinstance(answer, Ok):
            assert answer.result["value"] == number
        else:
            assert isinstance(answer, EngineCrashed)
            assert answer.message == "the worker was restarted during run step"


def test_an_answer_that_is_lost_on_its_way_is_sent_again_and_nothing_else_is() -> None:
    """The client asks after what it waits for, and only what the worker no longer works on is sent again."""
    pair = MemoryPair()
    pair.request(run(pair, 1))
    pair.request(run(pair, 2))
    pair.shuttle()
    pair.done(pair.work[0], value="first")
    pair.cut()
    pair.join()
    pair.shuttle()
    assert len(pair.work) == 2
    assert [answer.result["value"] for answer in pair.answers[1] if isinstance(answer, Ok)] == ["first"]
    assert pair.answers[2] == []
    pair.done(pair.work[1], value="second")
    pair.shuttle()
    assert [answer.result["value"] for answer in pair.answers[2] if isinstance(answer, Ok)] == ["second"]
