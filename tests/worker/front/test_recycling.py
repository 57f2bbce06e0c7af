"""Engines that have leaked are replaced: when, and what happens to those who come in between."""

from __future__ import annotations

from typing import Any

import pytest

from front_bench import FrontBench
from tiremote.protocol.messages import Bye, Interrupt, Request, Status
from tiremote.protocol.packing import pack
from tiremote.worker.front.settings import Settings
from tiremote.worker.ledger import Ledger
from tiremote.worker.link import Done, Move

MB = 1 << 20
#: What may be leaked, in the sessions of this file.
BORNE = 10 * MB
FIRST = pack({"number": 0}, [])


class Bench(FrontBench):
    """A front with one session that has loaded a unit; its engine plays a move as it is told to."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(Settings(recycle_bytes=BORNE, **settings))
        self.token = self.hello()
        self.version = 0
        self.engine_memory(100)
        self.reload()
        self.old = self.engine

    @property
    def session(self) -> Any:
        return next(iter(self.front._sessions))

    @property
    def engine(self) -> int:
        """The engine that serves the session."""
        return int(self.session.engine.number)

    def engine_memory(self, megabytes: int) -> None:
        """The session's engine has so many resident megabytes when it is looked at next."""
        self.memory[self.engine] = megabytes * MB

    def reload(self, megabytes: int | None = None) -> None:
        """A unit is loaded, after which the engine has so much memory."""
        if megabytes is not None:
            self.engine_memory(megabytes)
        self.version += 1
        self.load_unit(self.token, version=self.version)
        self.wait(0.0)

    def status(self) -> Any:
        return self.result(self.ask(Status(id=f"status {len(self.sent)}", token=self.token)))["session"]

    def finish(self) -> None:
        """All requests that are with the session's engine end."""
        keys = [job.key for job in self.session.engine.inflight]
        for work in [each for each in self.work if each[1].key in keys]:
            self.done(work)
        self.wait(0.0)

    @property
    def steps(self) -> list[tuple[int, str]]:
        """What engines were asked for a move."""
        return [(number, move.step) for number, move, _ in self.moves]

    def answer_step(self, refused: str | None = None, buffers: tuple[bytes, ...] = (), **told: Any) -> str:
        """The first step that was not answered is; its name."""
        number, move, _ = self.moves[self.answered]
        self.answered += 1
        defaults: dict[str, Any] = {"survey": {"left": 0, "options": {}}, "give": {}}.get(move.step, {})
        body = pack({"refused": refused, **defaults, **told}, [])
        self.front.on_engine(number, Done(key=move.key, ok=True, body=body), list(buffers), self.now)
        self.pump()
        self.wait(0.0)
        return move.step

    answered = 0

    def unanswered(self) -> list[str]:
        return [move.step for _, move, _ in self.moves[self.answered :]]

    def play(self, until: str | None = None, pieces: int = 0) -> None:
        """Answers steps until that one has been asked for, or there is none any more."""
        while self.unanswered() and self.unanswered()[0] != until:
            first = self.unanswered()[0] == "give" and self.moves[self.answered][1].body == FIRST
            self.answer_step(**({"pieces": pieces} if first else {}))


def test_an_engine_that_has_leaked_is_replaced_while_its_session_rests() -> None:
    """After a second without work: units first, beside; then everything is carried, and the old engine goes."""
    bench = Bench()
    bench.reload(111)
    assert bench.status()["recycle"] == "due"
    bench.wait(0.9)
    assert bench.steps == []
    bench.wait(0.2)
    assert bench.steps == [(bench.old, "survey")]
    bench.answer_step(buffers=(b"blueprint",))
    heir = bench.moves[-1][0]
    assert bench.steps[-1] == (heir, "build")
    assert bench.moves[-1][2] == (b"blueprint",)
    assert heir != bench.old
    bench.answer_step()
    bench.wait(0.2)
    bench.answer_step(buffers=(b"estate",), pieces=1)
    # The next piece is read while the last one is written.
    assert bench.steps[-2:] == [(heir, "take"), (bench.old, "give")]
    assert bench.moves[-2][2] == (b"estate",)
    bench.play(until="settle")
    assert bench.engine == bench.old
    bench.memory[heir] = 101 * MB
    bench.answer_step()
    assert bench.engine == heir
    assert bench.dismissed == [bench.old]
    status = bench.status()
    assert (status["recycled"], status["recycle"], status["leaked"]) == (1, None, 0)
    assert bench.status()["generation"] == 2
    # What it calls most is compiled while nobody waits.
    assert bench.steps[-1] == (heir, "warm up")


def test_requests_go_to_the_engine_that_has_everything() -> None:
    """To the old one until the new one has all, whatever was prepared; then to the new one."""
    bench = Bench()
    bench.reload(111)
    bench.wait(1.1)
    bench.play(until="build")
    bench.run(bench.token)
    assert bench.work[-1][0] == bench.old
    bench.done(bench.work[-1])
    bench.answer_step()
    bench.wait(0.2)
    bench.play()
    assert bench.engine != bench.old
    request = bench.run(bench.token)
    assert bench.work[-1][0] == bench.engine
    bench.done(bench.work[-1])
    assert bench.result(request)["value"] is None


def test_arrays_explain_memory() -> None:
    """What the engine's arrays take is no leak."""
    bench = Bench()
    bench.keep_array(bench.token, nbytes=50 * MB)
    bench.reload(150)
    assert bench.status()["leaked"] == 0
    bench.reload(159)
    assert bench.status()["recycle"] is None
    bench.reload(161)
    assert bench.status()["recycle"] == "due"


def test_what_is_kept_of_what_clients_sent_explains_memory() -> None:
    """As arrays do."""
    bench = Bench()
    bench.session.ledger = Ledger(chunk_bytes=50 * MB)
    bench.reload(150)
    assert bench.status()["leaked"] == 0
    assert bench.status()["chunk_bytes"] == 50 * MB


def test_without_loads_nothing_leaks() -> None:
    """An engine's memory may grow for other reasons: it is looked at after loads alone."""
    bench = Bench()
    bench.engine_memory(500)
    bench.run(bench.token)
    bench.done(bench.work[-1])
    bench.wait(10.0)
    assert bench.status()["leaked"] == 0
    assert bench.steps == []


def test_zero_is_never() -> None:
    """``--recycle 0``."""
    bench = FrontBench(Settings(recycle_bytes=0))
    token = bench.hello()
    bench.memory[1] = 100 * MB
    bench.load_unit(token, version=1)
    bench.memory[1] = 900 * MB
    bench.load_unit(token, version=2)
    bench.wait(10.0)
    assert bench.moves == []
    assert bench.result(bench.ask(Status(id="s", token=token)))["session"]["recycle"] == "off"


def test_somebody_who_comes_while_it_is_carried_does_not_wait() -> None:
    """The move is put off, the request runs at once where it is, and later everything is carried anew."""
    bench = Bench()
    bench.reload(111)
    bench.wait(1.1)
    bench.play(until="give")
    bench.wait(0.2)
    bench.answer_step(pieces=9)
    bench.answer_step()
    request = bench.run(bench.token)
    assert bench.work[-1][0] == bench.old
    while bench.unanswered():
        bench.answer_step(pieces=9)
    # What was asked for before is all.
    assert bench.steps.count((bench.old, "give")) == 3
    bench.done(bench.work[-1])
    assert bench.result(request)["value"] is None
    bench.wait(0.2)
    numbers = [number for number, step in bench.steps if step == "give"]
    assert bench.steps[-1] == (numbers[-1], "give")
    bench.play()
    assert bench.engine != bench.old
    assert bench.status()["recycled"] == 1


def test_at_twice_as_much_it_is_moved_between_two_requests() -> None:
    """In a session that never rests: its units are loaded beside its work, which then waits for a moment."""
    bench = Bench()
    bench.wait(5.0)
    requests = [bench.run(bench.token)]
    bench.reload(121)
    assert bench.status()["recycle"] == "under way"
    requests.append(bench.run(bench.token))
    bench.play(until="build")
    requests.append(bench.run(bench.token))
    assert {number for number, _ in bench.work} == {bench.old}
    bench.answer_step()
    # All is prepared: what comes now waits, and what is with the engine ends there.
    sent = len(bench.work)
    requests.append(bench.run(bench.token))
    assert len(bench.work) == sent
    assert bench.unanswered() == []
    bench.finish()
    bench.play()
    assert bench.engine != bench.old
    bench.finish()
    assert bench.work[-1][0] == bench.engine
    for request in requests:
        assert bench.result(request)["value"] is None


def test_in_a_hail_of_loads_they_wait_from_the_beginning() -> None:
    """Units that were loaded beside would be others before everything is there."""
    bench = Bench()
    bench.reload(121)
    bench.wait(0.0)
    assert bench.steps == [(bench.old, "survey")]
    bench.ask(_compile(bench.token))
    assert bench.session.queue
    bench.play()
    assert bench.engine != bench.old
    assert bench.work[-1][0] == bench.engine


def _compile(token: str) -> Request:
    from tiremote.protocol.code_requests import Compile

    return Compile(id="later", token=token, source="x = 3", unit="sim")


def test_a_load_meanwhile_makes_what_was_prepared_useless() -> None:
    """The next engine has other texts: it goes, and the move begins again with another."""
    bench = Bench()
    bench.reload(111)
    bench.wait(1.1)
    bench.play(until="build")
    heir = bench.moves[-1][0]
    bench.reload(112)
    bench.wait(0.0)
    assert heir in bench.killed
    assert bench.status()["recycle"] == "due"
    bench.front.on_exit(heir, -9, 0, bench.now)
    bench.pump()
    bench.answered = len(bench.moves)
    bench.wait(2.5)
    assert bench.unanswered() == ["survey"]
    bench.play(until="give")
    bench.wait(0.2)
    bench.play()
    assert bench.engine not in (bench.old, heir)


@pytest.mark.parametrize("step", ["survey", "build", "give", "take", "settle"])
def test_what_cannot_be_moved_stays(step: str) -> None:
    """Whoever finds it out: the session goes on where it is, the status says why, and it is not tried again at once."""
    bench = Bench()
    bench.reload(111)
    bench.wait(1.1)
    while bench.unanswered()[0] != step:
        bench.answer_step()
        bench.wait(0.2)
    bench.answer_step(refused="a thread runs: worker")
    assert bench.engine == bench.old
    assert bench.status()["recycle"] == "not possible: a thread runs: worker"
    request = bench.run(bench.token)
    assert bench.work[-1][0] == bench.old
    bench.done(bench.work[-1])
    assert bench.result(request)["value"] is None
    bench.answered = len(bench.moves)
    bench.wait(10.0)
    assert bench.unanswered() == []
    bench.wait(21.0)
    assert bench.unanswered() == ["survey"]
    bench.answer_step(refused="a thread runs: worker")
    bench.wait(31.0)
    assert bench.unanswered() == []
    bench.wait(31.0)
    assert bench.unanswered() == ["survey"]


@pytest.mark.parametrize("step", ["build", "take", "settle"])
def test_a_next_engine_that_dies_is_nobodys_loss(step: str) -> None:
    """Work that waited goes on in the old engine; no crash is counted."""
    bench = Bench()
    bench.reload(121)
    request = bench.run(bench.token)
    while bench.unanswered()[0] != step:
        bench.answer_step()
    heir = bench.moves[bench.answered][0]
    bench.front.on_exit(heir, -11, 0, bench.now)
    bench.pump()
    bench.wait(0.0)
    assert bench.work[-1][0] == bench.old
    bench.done(bench.work[-1])
    assert bench.result(request)["value"] is None
    assert bench.status()["recycle"] == "not possible: the next engine died of SIGSEGV"
    assert bench.result(bench.ask(Status(id="all", token=bench.token)))["crashes"] == 0


@pytest.mark.parametrize("step", ["survey", "build", "give", "take", "settle"])
def test_an_old_engine_that_dies_is_replaced_as_ever(step: str) -> None:
    """What the next one had so far is of no use: the session is restored in another, from its copies."""
    bench = Bench()
    bench.reload(121)
    while bench.unanswered()[0] != step:
        bench.answer_step()
    heirs = {number for number, _ in bench.steps} - {bench.old}
    bench.die(bench.old)
    bench.wait(0.0)
    assert heirs <= set(bench.killed)
    assert bench.engine not in heirs | {bench.old}
    assert bench.loads
    bench.loaded(bench.loads[-1])
    request = bench.run(bench.token)
    assert bench.work[-1][0] == bench.engine
    bench.done(bench.work[-1])
    assert bench.result(request)["value"] is None


def test_a_session_that_ends_takes_both_engines_along() -> None:
    """Also while it is on its way."""
    bench = Bench()
    bench.reload(111)
    bench.wait(1.1)
    bench.play(until="build")
    heir = bench.moves[-1][0]
    bench.ask(Bye(id="bye", token=bench.token, end=True))
    bench.wait(0.0)
    assert heir in bench.killed
    assert bench.old in bench.dismissed


def test_clients_do_not_wait_for_an_engine_to_start() -> None:
    """Without a spare one is started, and nothing else is done before it is ready."""
    bench = Bench(spares=0)
    bench.ready = False
    bench.reload(121)
    bench.wait(0.0)
    assert bench.moves == []
    assert len(bench.spawned) == 2
    bench.run(bench.token)
    assert bench.work[-1][0] == bench.old
    bench.wait(1.0)
    assert len(bench.spawned) == 2


def test_a_move_that_takes_too_long_is_given_up() -> None:
    """A text may never come to an end where it is loaded again; work waits for some seconds at most."""
    bench = Bench()
    bench.reload(121)
    request = bench.run(bench.token)
    bench.play(until="build")
    heir = bench.moves[-1][0]
    bench.wait(14.0)
    assert not bench.killed
    bench.wait(2.0)
    assert heir in bench.killed
    assert bench.work[-1][0] == bench.old
    bench.done(bench.work[-1])
    assert bench.result(request)["value"] is None


def test_where_it_brings_nothing_it_is_done_less_often() -> None:
    """An engine that is as large again, with nothing leaked, was large for another reason."""
    bench = Bench()
    bench.reload(121)
    bench.play(until="settle")
    heir = next(number for number, step in bench.steps if step == "build")
    bench.memory[heir] = 120 * MB
    bench.answer_step()
    assert bench.engine == heir
    bench.play()
    bench.reload(135)
    assert bench.status()["recycle"] is None
    bench.reload(141)
    assert bench.status()["recycle"] == "due"


def test_an_interrupt_of_nothing_leaves_a_move_alone() -> None:
    """Nothing of a client's runs while its session is carried."""
    bench = Bench()
    bench.reload(121)
    assert bench.unanswered() == ["survey"]
    bench.ask(Interrupt(id="i", token=bench.token))
    assert bench.killed == []
    bench.play()
    assert bench.engine != bench.old


def test_options_of_the_next_engine_may_differ() -> None:
    """Where the old one says so: other random numbers, and everything else as the session has it."""
    bench = Bench()
    bench.reload(111)
    bench.wait(1.1)
    bench.answer_step(options={"random_seed": 5}, buffers=(b"b",))
    assert bench.opens[-1][1].options == {**bench.session.taichi_options(), "random_seed": 5}
    assert bench.opens[-1][1].generation == 2


def test_steps_know_their_message() -> None:
    """A move's messages carry the key under which they are answered."""
    bench = Bench()
    bench.reload(121)
    assert all(isinstance(move, Move) and move.key for _, move, _ in bench.moves)


def test_whoever_comes_often_is_given_more_time() -> None:
    """Each time that somebody came in between, the session has to rest twice as long before it is carried."""
    bench = Bench()
    bench.reload(111)
    bench.wait(1.1)
    bench.play(until="give")
    bench.wait(0.11)
    for moment in (0.2, 0.4, 0.8):
        assert bench.unanswered() == ["give"]
        bench.run(bench.token)
        bench.wait(0.0)
        bench.answer_step(pieces=5)
        bench.finish()
        bench.wait(moment - 0.01)
        assert bench.unanswered() == []
        bench.wait(0.02)
    assert bench.status()["recycle"] == "under way"


def test_a_session_for_which_there_is_no_time_keeps_its_engine_for_now() -> None:
    """What was prepared is not kept for ever: it is tried again later, and nobody is told that it is not possible."""
    bench = Bench()
    bench.reload(111)
    bench.wait(1.1)
    bench.play(until="give")
    heir = next(number for number, step in bench.steps if step == "build")
    for _ in range(700):
        bench.run(bench.token)
        bench.wait(0.05)
        while bench.unanswered():
            bench.answer_step(pieces=5)
        bench.finish()
        bench.wait(0.05)
    assert heir in bench.killed
    assert bench.status()["recycle"] == "due"
    assert bench.engine == bench.old
