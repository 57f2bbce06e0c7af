"""What a new engine gets of the arrays that the last one held."""

from __future__ import annotations

import numpy as np
import pytest

from front_bench import FrontBench, whole
from tiremote.protocol.errors import KernelArgumentError
from tiremote.protocol.messages import Alloc, Describe, Event, Put
from tiremote.protocol.receipts import ArrayHolding
from tiremote.protocol.values import Handle, Name, wire_array
from tiremote.worker.front import refill
from tiremote.worker.front.settings import Settings
from tiremote.worker.host_copy import Moved, Piece
from tiremote.worker.link import Changes

X, Y = Handle(kind="ndarray", id="s.1.1"), Handle(kind="ndarray", id="s.1.2")
POS = Name(unit="sim", name="pos")


def held(bench: FrontBench, token: str) -> list[str]:
    """The ids of the handles that the session holds."""
    description = bench.result(bench.ask(Describe(id=f"d{bench.now}{len(bench.sent)}", token=token)))
    return [one["handle"].id for one in description["arrays"]]


def test_arrays_come_back_under_their_handles_after_the_units(bench: FrontBench) -> None:
    """First the units are loaded, then what was put is put back: what waits behind it runs on that."""
    token = bench.hello()
    bench.load_unit(token, name="pos", kind="field")
    bench.put_array(token, b"abc")
    bench.put_into(token, POS, b"field")
    lost, waiting = bench.run(token), bench.run(token)
    bench.die(1)
    assert bench.put_backs == []
    bench.loaded(bench.loads[0])
    assert {message.target: data for (_, message), data in zip(bench.put_backs, bench.put_back_bytes, strict=True)} == {
        X: [b"abc"],
        POS: [b"field"],
    }
    assert not bench.replies(lost)
    work = len(bench.work)
    bench.put_back_all()
    assert held(bench, token) == [X.id]
    assert bench.error(lost).data["lost"] == []
    assert len(bench.work) == work + 1
    bench.done(bench.work[-1])
    assert bench.result(waiting)


def test_only_so_many_arrays_are_under_way(bench: FrontBench) -> None:
    """Each is held twice meanwhile: by the front, and in the memory that it is sent in."""
    token = bench.hello()
    for number in range(40):
        bench.put_array(token, b"abc", f"s.1.{number}")
    bench.run(token)
    bench.die(1)
    assert len(bench.put_backs) == refill._MOST_MESSAGES
    bench.put_back(bench.put_backs[0])
    assert len(bench.put_backs) == refill._MOST_MESSAGES + 1
    bench.put_back_all()
    assert len(held(bench, token)) == 40


def test_an_array_of_many_pieces_goes_in_several_messages(bench: FrontBench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each piece may take a descriptor, and one after the other they take no more memory than one."""
    monkeypatch.setattr(refill, "_MOST_PIECES", 2)
    token = bench.hello()
    bench.put_array(token, b"abcde")
    for at in range(4):
        piece = Piece(dtype="u8", shape=(1,), flat=(at, at + 1))
        data = bytes([at])
        bench.ask(
            Put(id=f"p{at}", token=token, target=X, flat=(at, at + 1), array=wire_array(np.frombuffer(data, np.uint8)))
        )
        bench.done(bench.work[-1], moved=Moved(target=X, dtype="u8", shape=(5,), piece=piece))
    bench.run(token)
    bench.die(1)
    assert len(bench.put_backs) == 1
    bench.put_back_all()
    assert [len(data) for data in bench.put_back_bytes] == [2, 2, 1]
    assert bench.put_back_bytes[0] == [b"abcde", b"\0"]
    assert held(bench, token) == [X.id]


def test_an_array_that_does_not_come_back_is_lost_alone(bench: FrontBench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing more of it is sent, its handle is gone, and the others are there."""
    monkeypatch.setattr(refill, "_MOST_PIECES", 1)
    token = bench.hello()
    bench.put_array(token, b"abc", X.id, label="x")
    bench.ask(Put(id="p", token=token, target=X, flat=(0, 1), array=wire_array(np.frombuffer(b"z", np.uint8))))
    bench.done(
        bench.work[-1], moved=Moved(target=X, dtype="u8", shape=(3,), piece=Piece(dtype="u8", shape=(1,), flat=(0, 1)))
    )
    bench.put_array(token, b"def", Y.id, label="y")
    lost = bench.run(token)
    bench.die(1)
    first = next(one for one in bench.put_backs if one[1].target == X)
    bench.put_back(first, KernelArgumentError("it has 4 numbers now"))
    bench.put_back_all()
    assert [message.target for _, message in bench.put_backs].count(X) == 1
    assert held(bench, token) == [Y.id]
    assert bench.error(lost).data["lost"][0].startswith("x")


def test_a_handle_of_a_units_own_array_stands_for_what_the_unit_made_again(bench: FrontBench) -> None:
    """With a copy of the array or without one."""
    token = bench.hello()
    bench.load_unit(token, name="pos", kind="field")
    holding = ArrayHolding(handle=Handle(kind="field", id="s.1.7"), place=POS)
    bench.run(token)
    bench.done(bench.work[-1], changes=Changes(arrays=(holding,)))
    bench.run(token)
    bench.die(1)
    bench.loaded(bench.loads[0])
    ((_, message),) = bench.put_backs
    assert (message.holding, message.pieces) == (holding, ())
    bench.put_back_all()
    assert held(bench, token) == ["s.1.7"]


def test_an_array_that_kills_two_engines_is_given_up(bench: FrontBench) -> None:
    """The others are put back by the third."""
    token = bench.hello()
    bench.put_array(token, b"abc", X.id, label="x")
    bench.put_array(token, b"def", Y.id, label="y")
    lost = bench.run(token)
    for engine in (1, 2, 3):
        bench.die(engine, -9)
    assert [message.target for number, message in bench.put_backs if number == 4] == [Y]
    for sent in bench.put_backs:
        if sent[0] == 4:
            bench.put_back(sent)
    (told,) = bench.error(lost).data["lost"]
    assert told.startswith("x (the engine died of SIGKILL while it was put back")


def test_engines_that_die_of_this_and_that_come_to_an_end(bench: FrontBench) -> None:
    """Whatever they die of, in the end there is an engine, with what does not kill it."""
    token = bench.hello()
    bench.load_unit(token)
    for number in range(3):
        bench.put_array(token, b"abc", f"s.1.{number}")
    bench.run(token)
    bench.die(1)
    for _ in range(20):
        engine = next(e for e in bench.front.scheduler.pool.engines.values() if e.session is not None)
        if not engine.chores:
            break
        # Every second one gets a step further before it dies.
        loads = [load for load in bench.loads if load[0] == engine.number]
        if engine.number % 2 and loads:
            bench.loaded(loads[0])
        bench.die(engine.number, -9)
    else:
        pytest.fail("it goes on for ever")


def test_an_engine_killed_by_chance_hours_later_costs_nothing(bench: FrontBench) -> None:
    """Only deaths one after the other speak against an array."""
    token = bench.hello()
    bench.put_array(token, b"abc")
    bench.die(1)
    bench.die(2, -9)
    bench.put_back(next(one for one in bench.put_backs if one[0] == 3))
    bench.die(3)
    bench.die(4, -9)
    assert [message.target for number, message in bench.put_backs if number == 5] == [X]


def test_a_copy_that_goes_while_it_is_put_back_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another session needs the room: what was on its way comes back, what was not is named with the reason."""
    monkeypatch.setattr(refill, "_MOST_MESSAGES", 2)
    bench = FrontBench(Settings(copies_bytes=20_000))
    token, other = bench.hello(), bench.hello(b"other")
    for number in range(30):
        bench.put_array(token, b"a" * 8, f"s.1.{number}", label=f"x{number}")
    lost = bench.run(token)
    bench.die(1)
    large = b"b" * 9_000
    bench.ask(Put(id="large", token=other, array=wire_array(np.frombuffer(large, np.uint8))), b"other")
    bench.done(bench.work[-1], moved=whole(Y, large))
    bench.put_back_all()
    gone = bench.error(lost).data["lost"]
    assert {each.partition(" ")[2] for each in gone} == {"(another session needed the room that its copy took)"}
    assert len(held(bench, token)) == 30 - len(gone) == len(bench.error(lost).data["as_of"])


def test_what_is_on_its_way_for_long_is_named_as_that(bench: FrontBench) -> None:
    """The answer says soon that it waits, and does not wait for ever; what it names is there before anything runs."""
    token = bench.hello()
    bench.load_unit(token)
    bench.put_array(token, b"abc", X.id, label="x")
    bench.put_array(token, b"abc", Y.id, label="y")
    bench.keep_array(token, "s.1.3", label="z")
    lost = bench.run(token, events=True)
    bench.die(1)
    bench.wait(Settings().hint - 0.1)
    assert bench.replies(lost) == []
    bench.wait(0.1)
    (hint,) = bench.replies(lost)
    assert isinstance(hint, Event)
    assert (hint.event, hint.text) == (
        "warning",
        "the engine died of SIGSEGV during run step; what was there is brought back",
    )
    bench.wait(Settings().mourning)
    told = bench.error(lost).data
    assert (told["restored"], told["coming"], told["lost"]) == (["sim"], ["sim", "x", "y"], ["z"])
    bench.loaded(bench.loads[0])
    bench.put_back_all()
    ran = bench.run(token)
    bench.done(bench.work[-1])
    assert bench.result(ran)


def test_what_did_not_come_after_all_is_told_to_everybody(bench: FrontBench) -> None:
    """To who was told that it is on its way, and to who was told nothing, because it would hold what it held."""
    token, other = bench.hello(session="lab"), bench.hello(b"other", session="lab")
    bench.put_array(token, b"abc", X.id, label="x")
    bench.put_array(token, b"abc", Y.id, label="y")
    lost = bench.run(token)
    bench.die(1)
    bench.wait(Settings().mourning + 0.1)
    assert bench.error(lost).data["coming"] == ["x", "y"]
    first, second = bench.run(token), bench.run(token)
    bench.put_back(bench.put_backs[0], KernelArgumentError("no more memory"))
    work = len(bench.work)
    bench.put_back(bench.put_backs[1])
    told = bench.error(first)
    assert told.message == "could not be put back: x (no more memory); this request was not run"
    assert told.data["lost"] == ["x (no more memory)"]
    assert "not run" in bench.error(second).message
    assert len(bench.work) == work
    elsewhere = bench.error(bench.run(other, identity=b"other"))
    assert elsewhere.data["lost"] == ["x (no more memory)"]
    ran = bench.run(token)
    bench.done(bench.work[-1])
    assert bench.result(ran)


def test_a_copy_that_is_fetched_in_pieces_is_not_named_as_lost(bench: FrontBench) -> None:
    """The client makes it for one transfer, and its user never sees it."""
    token = bench.hello()
    bench.put_array(token, b"abc", label="x")
    copy = ArrayHolding(handle=Handle(kind="array", id="s.1.8"))
    bench.ask(Alloc(id="copy", token=token, kind="array", copy_of=X))
    bench.done(bench.work[-1], changes=Changes(arrays=(copy,)), moved=whole(X, b"abc"))
    lost = bench.run(token)
    bench.die(1)
    bench.put_back_all()
    assert bench.error(lost).data["lost"] == []


def test_the_description_tells_what_was_put_back_until_it_is_put_anew(bench: FrontBench) -> None:
    """As of when, before the loss; by its handle or its name."""
    token = bench.hello()
    bench.load_unit(token, name="pos", kind="field")
    bench.put_array(token, b"abc", X.id)
    bench.put_into(token, POS, b"field")
    bench.wait(5.0)
    bench.run(token)
    bench.die(1)
    bench.loaded(bench.loads[0])
    bench.put_back_all()

    def told() -> dict[str, float]:
        description = bench.result(bench.ask(Describe(id=f"told{len(bench.sent)}", token=token)))
        return {one["target"]: one["seconds"] for one in description["as_of"]}

    assert told() == {X.id: 5.0, "sim.pos": 5.0}
    bench.put_into(token, X, b"new")
    assert told() == {"sim.pos": 5.0}
    bench.load_unit(token, version=2, name="pos", kind="field")
    bench.run(token)
    bench.done(bench.work[-1], changes=Changes(reset=(POS,)))
    assert told() == {}
