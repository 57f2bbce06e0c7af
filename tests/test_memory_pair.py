"""Client and worker joined in memory, cut at every moment: each request runs once and is answered once."""

from __future__ import annotations

import random

import pytest

from memory_pair import MemoryPair
from tiremote.protocol.messages import Ok, Run
from tiremote.protocol.values import Name
from tiremote.worker.front.settings import Settings

REQUESTS = 40


def run(pair: MemoryPair, number: int) -> Run:
    """A run that the engine answers with its own number."""
    return Run(id=number, token=pair.core.token, target=Name(name="step"), args=(number,))


@pytest.mark.parametrize("seed", range(60))
def test_requests_run_once_and_are_answered_once_however_the_connection_is_cut(seed: int) -> None:
    """Cut while requests or answers are on their way, by a seeded chance: no run is lost and none is repeated."""
    chance = random.Random(seed)
    pair = MemoryPair(Settings(window=chance.choice([1, 3, 8])))
    finished = 0
    for number in range(REQUESTS):
        pair.request(run(pair, number))
        pair.shuttle(chance.randrange(4))
        while finished < len(pair.work) and chance.random() < 0.6:
            pair.done(pair.work[finished], value=finished)
            finished += 1
        if chance.random() < 0.3:
            pair.cut()
            pair.now += chance.random()
            pair.join()
    pair.shuttle()
    while finished < len(pair.work):
        pair.done(pair.work[finished], value=finished)
        finished += 1
        pair.shuttle()
    # An answer that was lost with the last connection comes with the next ping.
    pair.now += 60.0
    pair.core.tick(pair.now)
    pair.shuttle()
    assert len(pair.work) == REQUESTS
    values = []
    for number in range(REQUESTS):
        (answer,) = pair.answers[number]
        assert isinstance(answer, Ok)
        values.append(answer.result["value"])
    assert sorted(values) == list(range(REQUESTS))


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
