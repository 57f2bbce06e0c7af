"""Earlier versions of units: listed, shown, loaded again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from front_bench import FrontBench
from tiremote.protocol.codec import read_header, request_from_header
from tiremote.protocol.messages import Compare, Compile, CompileAll, Describe, History, Rollback, Side, Status, UnitText
from tiremote.protocol.receipts import UnitHolding
from tiremote.protocol.results import Limits
from tiremote.protocol.values import Name, wire_array
from tiremote.worker.front.history import UnitHistory, line_changes
from tiremote.worker.front.settings import Settings
from tiremote.worker.link import Changes


def test_versions_are_listed_with_what_each_changed(bench: FrontBench) -> None:
    """The history tells who loaded each version and how many lines it added and removed."""
    token = bench.hello()
    first = bench.load_unit(token, source="a\nb\n")
    second = bench.load_unit(token, source="a\nc\nd\n", version=2)
    told = bench.result(bench.ask(History(id="h", token=token, unit="sim")))
    assert told["current"] == 2
    assert [
        (one["version"], one["loaded_by"], one["lines_added"], one["lines_removed"]) for one in told["versions"]
    ] == [
        (1, first.id, 2, 0),
        (2, second.id, 2, 1),
    ]
    assert all(one["source"] is None for one in told["versions"])


def test_one_version_is_shown_with_its_text(bench: FrontBench) -> None:
    """The text of an earlier version can be read."""
    token = bench.hello()
    bench.load_unit(token, source="first")
    bench.load_unit(token, source="second", version=2)
    told = bench.result(bench.ask(History(id="h", token=token, unit="sim", version=1)))
    assert [one["source"] for one in told["versions"]] == ["first"]


def test_a_rollback_compiles_the_earlier_text(bench: FrontBench) -> None:
    """The engine is sent a compile of the old text, and what it loads is a new version of it."""
    token = bench.hello()
    bench.load_unit(token, source="first")
    bench.load_unit(token, source="second", version=2)
    request = bench.ask(Rollback(id="back", token=token, unit="sim", version=1, keep=False))
    sent = request_from_header(read_header(bench.work[-1][1].header, []))
    assert isinstance(sent, Compile)
    assert (sent.id, sent.source, sent.unit, sent.keep) == ("back", "first", "sim", False)
    bench.loaded_as(request, "sim", 3)
    told = bench.result(bench.ask(History(id="h", token=token, unit="sim", version=3)))
    assert (told["current"], told["versions"][0]["source"]) == (3, "first")
    bench.die(1)
    assert bench.loads[-1][1].source == "first"


def test_a_version_or_unit_that_is_not_there_is_named(bench: FrontBench) -> None:
    """A rollback to nothing says what there is, and nothing is sent to the engine."""
    token = bench.hello()
    bench.load_unit(token)
    sent = len(bench.work)
    error = bench.error(bench.ask(Rollback(id="a", token=token, unit="sim", version=9)))
    assert (error.code, error.data["known"]) == ("unknown-name", ["1"])
    error = bench.error(bench.ask(Rollback(id="b", token=token, unit="sun", version=1)))
    assert (error.code, error.data["known"]) == ("unknown-name", ["sim"])
    assert bench.error(bench.ask(History(id="c", token=token, unit="sun"))).code == "unknown-name"
    assert len(bench.work) == sent


def test_the_history_is_bounded() -> None:
    """Beyond the limit the oldest versions are forgotten, the current one never."""
    bench = FrontBench(Settings(history=3))
    token = bench.hello()
    for version in range(1, 6):
        bench.load_unit(token, source=f"text {version}", version=version)
    told = bench.result(bench.ask(History(id="h", token=token, unit="sim")))
    assert [one["version"] for one in told["versions"]] == [3, 4, 5]
    large = UnitHistory("sim", 100, max_bytes=10)
    large.add(1, "x" * 8, None)
    large.add(2, "y" * 20, None)
    assert [one.version for one in large.all()] == [2]


def test_a_unit_rebuilt_for_another_keeps_its_text_and_place(bench: FrontBench) -> None:
    """When a load has other units executed anew, those are not the newest, and not taken for its text."""
    token = bench.hello()
    bench.load_unit(token, "user", source="uses helper")
    bench.load_unit(token, "helper", source="first")
    request = bench.ask(Compile(id="c", token=token, source="second", unit="helper"))
    changes = Changes(
        units=(
            UnitHolding(unit="user", version=1, loaded_by=1),
            UnitHolding(unit="helper", version=2, loaded_by=request.id),
        )
    )
    bench.done(bench.work[-1], changes=changes)
    assert bench.result(bench.ask(Describe(id="d", token=token)))["newest"] == "helper"
    bench.die(1)
    assert [(load.unit, load.source) for _, load in bench.loads] == [("user", "uses helper"), ("helper", "second")]


FIRST, SECOND, THIRD = (
    Side(version=version, source=source) for version, source in enumerate(("first", "second", "third"), 1)
)


@pytest.mark.parametrize(
    ("asked", "before", "after"),
    [
        ({}, SECOND, Side()),
        ({"before": Side(version=1)}, FIRST, Side()),
        ({"before": Side(version=1), "after": Side(version=2)}, FIRST, SECOND),
        ({"after": Side(version=2)}, FIRST, SECOND),
        ({"after": Side(source="text")}, Side(), Side(source="text")),
        ({"before": Side(source="text"), "after": Side(version=3)}, Side(source="text"), THIRD),
    ],
)
def test_a_comparison_is_sent_with_its_texts(bench: FrontBench, asked: Any, before: Side, after: Side) -> None:
    """The front knows earlier versions, the engine what is loaded; arrays go along whatever their order was."""
    token = bench.hello()
    for each in (FIRST, SECOND, THIRD):
        bench.load_unit(token, source=each.source or "", version=each.version or 0)
    args = (wire_array(np.arange(3)), [wire_array(np.ones(2))])
    bench.ask(Compare(id="c", token=token, target=Name(unit="sim", name="f"), args=args, repeats=3, **asked))
    work = bench.work[-1][1]
    sent = request_from_header(read_header(work.header, bench.buffers[work.key]))
    assert isinstance(sent, Compare)
    assert (sent.before, sent.after, sent.repeats, sent.target) == (before, after, 3, Name(unit="sim", name="f"))
    assert [sent.args[0].view().tolist(), sent.args[1][0].view().tolist()] == [[0, 1, 2], [1, 1]]


def test_a_comparison_with_nothing_is_refused_by_the_front(bench: FrontBench) -> None:
    """One version has none before it, and a side is a version or a text; a large text is over the limit."""
    bench = FrontBench(Settings(limits=Limits(source_bytes=100)))
    token = bench.hello()
    target = Name(name="f")
    assert bench.error(bench.ask(Compare(id="a", token=token, target=target))).code == "unknown-name"
    bench.load_unit(token)
    sent = len(bench.work)
    for number, (code, asked) in enumerate(
        [
            ("unknown-name", {}),
            ("unknown-name", {"before": Side(version=7)}),
            ("protocol", {"before": Side(version=1, source="x")}),
            ("too-large", {"before": Side(source="x" * 60), "after": Side(source="x" * 60)}),
        ]
    ):
        assert bench.error(bench.ask(Compare(id=f"c{number}", token=token, target=target, **asked))).code == code
    assert len(bench.work) == sent


def test_the_texts_of_several_units_are_told_apart(bench: FrontBench) -> None:
    """Each unit that one request loads has its own text in its history and after a crash, in the order they need."""
    token = bench.hello()
    texts = (UnitText(unit="sim", source="uses lib"), UnitText(unit="lib", source="first"))
    request = bench.ask(CompileAll(id="c", token=token, units=texts))
    status = bench.result(bench.ask(Status(id="s", token=token)))["session"]
    assert status["running"]["target"] == "compile_all sim, lib"
    loaded = tuple(UnitHolding(unit=unit, version=1, loaded_by=request.id) for unit in ("lib", "sim"))
    bench.done(bench.work[-1], changes=Changes(units=loaded))
    for each in texts:
        told = bench.result(bench.ask(History(id=each.unit, token=token, unit=each.unit, version=1)))
        assert told["versions"][0]["source"] == each.source
    assert bench.result(bench.ask(Describe(id="d", token=token)))["newest"] == "sim"
    bench.die(1)
    assert [(load.unit, load.source) for _, load in bench.loads] == [("lib", "first"), ("sim", "uses lib")]


def test_the_texts_of_one_request_are_limited_together() -> None:
    """Several texts that are each small enough are refused where their sum is not."""
    bench = FrontBench(Settings(limits=Limits(source_bytes=100)))
    token = bench.hello()
    texts = tuple(UnitText(unit=f"u{n}", source="x" * 60) for n in range(2))
    error = bench.error(bench.ask(CompileAll(id="c", token=token, units=texts)))
    assert (error.code, error.data) == ("too-large", {"size": 120, "limit": 100})
    bench.ask(CompileAll(id="d", token=token, units=texts[:1]))
    assert len(bench.work) == 1


def test_line_changes_count_as_a_diff_does() -> None:
    """A changed line is one removed and one added."""
    assert line_changes("", "a\nb") == (2, 0)
    assert line_changes("a\nb\nc", "a\nx\nc") == (1, 1)
    assert line_changes("a", "a") == (0, 0)
