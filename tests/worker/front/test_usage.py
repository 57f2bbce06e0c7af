"""Who made what a session holds, and when it was used last, as `describe` tells it."""

from __future__ import annotations

from typing import Any

from front_bench import FrontBench
from tiremote.protocol.messages import Alloc, Describe
from tiremote.protocol.receipts import ArrayHolding, Definition, UnitHolding
from tiremote.protocol.values import Handle, Name
from tiremote.worker.link import Changes

X = Handle(kind="ndarray", id="s.1.1")


def described(bench: FrontBench, token: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Units by name, arrays by handle."""
    told = bench.result(bench.ask(Describe(id=f"d{bench.now}-{len(bench.sent)}", token=token)))
    return {one["unit"]: one for one in told["units"]}, {one["handle"].id: one for one in told["arrays"]}


def test_what_was_made_has_an_owner() -> None:
    """Units and arrays carry the name of the client that made them; another client of the session sees it."""
    bench = FrontBench()
    mine = bench.hello(session="lab", client="ada")
    other = bench.hello(session="lab", client="bob")
    bench.load_unit(mine, "sim")
    bench.load_unit(other, "tools")
    bench.keep_array(other, X.id)
    units, arrays = described(bench, mine)
    assert {name: one["owner"] for name, one in units.items()} == {"sim": "ada", "tools": "bob"}
    assert arrays[X.id]["owner"] == "bob"


def test_a_unit_belongs_to_whoever_loaded_it_last() -> None:
    """A unit that another's load had built again stays its owner's."""
    bench = FrontBench()
    mine = bench.hello(session="lab", client="ada")
    other = bench.hello(session="lab", client="bob")
    first = bench.load_unit(mine, "sim")
    bench.load_unit(mine, "helpers")
    request = bench.ask(_compile("helpers", other))
    definitions = (Definition(name="step", kind="kernel"),)
    changed = UnitHolding(unit="helpers", version=2, definitions=definitions, loaded_by=request.id)
    rebuilt = UnitHolding(unit="sim", version=1, definitions=definitions, loaded_by=first.id)
    bench.done(bench.work[-1], changes=Changes(units=(rebuilt, changed)))
    units, _ = described(bench, mine)
    assert {name: one["owner"] for name, one in units.items()} == {"sim": "ada", "helpers": "bob"}


def test_a_request_uses_what_it_names() -> None:
    """The target, and handles among the arguments, inside lists too; what is not named grows old."""
    bench = FrontBench()
    token = bench.hello()
    bench.load_unit(token, "sim")
    bench.load_unit(token, "other")
    for number in range(1, 4):
        bench.keep_array(token, f"s.1.{number}")
    bench.wait(100.0)
    bench.run(token, args=({"deep": [X]},))
    bench.done(bench.work[-1])
    bench.ask(Alloc(id="copy", token=token, kind="array", copy_of=Handle(kind="ndarray", id="s.1.2")))
    bench.done(bench.work[-1])
    bench.wait(7.0)
    units, arrays = described(bench, token)
    # The name without a unit was the newest's.
    assert {name: one["unused"] for name, one in units.items()} == {"sim": 107.0, "other": 7.0}
    assert {name: one["unused"] for name, one in arrays.items()} == {"s.1.1": 7.0, "s.1.2": 7.0, "s.1.3": 107.0}


def test_what_runs_is_in_use() -> None:
    """While a request runs for an hour, what it names was used just now."""
    bench = FrontBench()
    token = bench.hello()
    bench.load_unit(token, "sim")
    bench.keep_array(token, X.id)
    bench.run(token, args=(X,))
    number, work = bench.work[-1]
    bench.begun[number] = work.key
    bench.wait(3600.0)
    units, arrays = described(bench, token)
    assert units["sim"]["unused"] == 0.0
    assert arrays[X.id]["unused"] == 0.0


def test_what_was_dropped_is_forgotten() -> None:
    """No record stays of units and arrays that were cleaned up."""
    bench = FrontBench()
    token = bench.hello()
    bench.load_unit(token, "sim")
    bench.keep_array(token, X.id)
    bench.run(token)
    bench.done(bench.work[-1], changes=Changes(dropped_units=("sim",), dropped=(X.id,)))
    session = next(iter(bench.front._sessions))
    assert not session.usage.units
    assert not session.usage.arrays


def test_an_array_is_made_once() -> None:
    """A handle that a later request of another client gives again stays its maker's."""
    bench = FrontBench()
    mine = bench.hello(session="lab", client="ada")
    other = bench.hello(session="lab", client="bob")
    bench.keep_array(mine, X.id)
    bench.run(other)
    bench.done(bench.work[-1], changes=Changes(arrays=(ArrayHolding(handle=X, nbytes=40),)))
    _, arrays = described(bench, mine)
    assert arrays[X.id]["owner"] == "ada"


def _compile(unit: str, token: str) -> Any:
    from tiremote.protocol.code_requests import Compile

    return Compile(id="again", token=token, source="y = 2", unit=unit)


def test_a_name_of_another_unit_uses_that() -> None:
    """``sim.step`` uses sim, whichever unit is the newest."""
    bench = FrontBench()
    token = bench.hello()
    bench.load_unit(token, "sim")
    bench.load_unit(token, "other")
    bench.wait(10.0)
    bench.run(token, args=(Name(unit="sim", name="x"),))
    bench.done(bench.work[-1])
    units, _ = described(bench, token)
    assert units["sim"]["unused"] == 0.0
