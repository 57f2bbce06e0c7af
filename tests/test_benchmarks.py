"""What `make bench` makes of its samples: numbers, verdicts, the page and the picture. Only the last test measures."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from bench import page, peak, picture
from bench.figures import Figure, Reach, at_least, at_most, compared, told
from bench.groups import GROUPS, Run, Skipped, group_of, picked
from bench.groups.memory import fitting
from bench.processes import Child, server
from bench.results import Measured, Results, load, save
from bench.samples import Samples, Spread, rate_of, speed_of, time_in
from bench.turns import in_turns, timed

REPOSITORY = Path(__file__).parent.parent
MACHINE = {"processor": "an abacus", "load before": "0.1"}


def samples(*rounds: float) -> Samples:
    """One sample in each round."""
    return Samples(rounds=tuple((each,) for each in rounds))


def figure(what: str = "small run", *, ratio: float = 2.0, reach: Reach | None = None, unit: str = "us") -> Figure:
    """One without any spread."""
    spread = {name: Spread(median=each, low=each, high=each) for name, each in (("subject", ratio), ("floor", 1.0))}
    return Figure(what=what, unit=unit, against="a floor", ratio=spread["subject"], reach=reach, **spread)


def results(**groups: tuple[Figure, ...]) -> Results:
    """Of those groups."""
    measured = {
        name: Measured(date="2026-12-01", seconds=3.0, rounds=7, machine=MACHINE, figures=figures, notes=("a note",))
        for name, figures in groups.items()
    }
    return Results(arch="cpu", groups=measured)


# Numbers


def test_a_spread_has_the_quartiles_around_the_median() -> None:
    """Of an odd number of values they are values themselves, and of one all three are that one."""
    assert Spread.of([5.0, 1.0, 3.0, 2.0, 4.0]) == Spread(median=3.0, low=2.0, high=4.0)
    assert Spread.of([7.0]) == Spread(median=7.0, low=7.0, high=7.0)
    assert Spread(median=10.0, low=9.0, high=14.0).width == 0.5


def test_a_floor_of_two_parts_is_their_medians_round_by_round() -> None:
    """A round trip and a launch together are what both take one after the other."""
    both = Samples(rounds=((1.0, 9.0, 2.0), (3.0,))) + samples(10.0, 20.0)
    assert both.medians == (12.0, 23.0)


def test_the_tail_is_taken_in_each_round() -> None:
    """The 99th of 100 samples stands for its round, and the only one of a round for that."""
    taken = Samples(rounds=(tuple(float(each) for each in range(100)), (5.0,)))
    assert taken.tail(0.99) == samples(99.0, 5.0)


@pytest.mark.parametrize(
    ("measure", "unit", "value"),
    [(time_in("us"), "us", 250_000.0), (speed_of(10**9), "GB/s", 4.0), (rate_of(100), "calls/s", 400.0)],
)
def test_seconds_are_told_in_the_figures_own_unit(measure: object, unit: str, value: float) -> None:
    """A quarter of a second is a time, or a speed or a rate of what was done in it."""
    shown = told("x", samples(0.25), measure=measure)  # type: ignore[arg-type]
    assert (shown.unit, shown.subject.median) == (unit, value)


def test_a_ratio_is_of_the_pairs_of_each_round() -> None:
    """A machine that gets slower from round to round slows both, and the ratio stays what it is."""
    shown = compared("x", samples(2.0, 20.0, 200.0), samples(1.0, 10.0, 100.0), against="y", measure=time_in("s"))
    assert shown.ratio == Spread(median=2.0, low=2.0, high=2.0)


def test_the_ratio_of_speeds_is_more_where_less_time_was_taken() -> None:
    """Half the seconds are twice the GB/s."""
    shown = compared("x", samples(1.0), samples(2.0), against="y", measure=speed_of(1 << 30))
    assert shown.ratio is not None
    assert shown.ratio.median == 2.0


@pytest.mark.parametrize(
    ("low", "median", "high", "reach", "verdict"),
    [
        (1.2, 1.3, 1.4, at_most(1.5), "hit"),
        (1.6, 1.7, 9.0, at_most(1.5), "missed"),
        (1.4, 1.45, 1.6, at_most(1.5), "hit?"),
        (0.85, 0.88, 0.95, at_least(0.9), "missed?"),
        (0.5, 1.0, 2.0, at_least(0.9), "too wide"),
        (0.5, 1.0, 2.0, None, "too wide"),
        (0.9, 1.0, 1.1, None, ""),
    ],
)
def test_a_verdict_says_how_sure_it_is(low: float, median: float, high: float, reach: Reach, verdict: str) -> None:
    """Where the quartiles lie on both sides of the bound it is in doubt, and where they are far apart there is none."""
    spread = Spread(median=median, low=low, high=high)
    assert Figure(what="x", unit="us", subject=spread, ratio=spread, reach=reach).verdict == verdict


# Taking samples


def test_each_has_its_turn_in_each_round_and_another_one_is_first() -> None:
    """Nobody always runs after the same other one; what came before the first round is not counted."""
    order: list[str] = []

    def turn(name: str) -> list[float]:
        order.append(name)
        return [float(len(order))]

    taken = in_turns({name: lambda name=name: turn(name) for name in "abc"}, rounds=2)  # type: ignore[misc]
    assert "".join(order) == "cababcbca"
    assert taken["a"] == samples(4.0, 9.0)


def test_a_turn_is_one_call_at_least_and_ends_with_its_seconds_or_its_number() -> None:
    """A call that takes longer than the turn is made once, a quick one as often as it may be."""
    calls: list[int] = []
    assert len(timed(lambda: calls.append(1))()) == 1
    assert len(timed(lambda: calls.append(1), seconds=60.0, most=5)()) == 5
    assert len(calls) == 6


def test_a_child_is_called_and_timed_in_its_own_process() -> None:
    """What it is asked comes back, an error by its name, and samples of a turn as they were taken there."""
    with Child(list) as child:
        child.call("append", 7)
        assert child.call("index", 7) == 0
        assert len(child.turn("append", 8, seconds=60.0, most=3)()) == 3
        assert child.call("count", 8) == 3
        with pytest.raises(RuntimeError, match=r"remove: ValueError"):
            child.call("remove", 9)


def test_a_server_that_ends_before_it_is_ready_is_an_error() -> None:
    """Nobody waits for an address that will not come."""
    with pytest.raises(RuntimeError, match=r"ended before it was ready"), server(_never_ready):
        raise AssertionError("it was never ready")


def _never_ready(_ready: object) -> None:
    """Returns at once."""


# Picking


def test_groups_are_picked_in_the_order_of_the_page() -> None:
    """None named are all; a name that is none is told with those there are."""
    assert picked(()) == GROUPS
    assert picked(("driver", "calls")) == ("calls", "driver")
    with pytest.raises(ValueError, match=r"no group is called speed; there are calls, pipelined"):
        picked(("speed",))


@pytest.mark.parametrize("name", GROUPS)
def test_every_group_can_be_imported_without_its_peers(name: str) -> None:
    """The page has its title wherever it is written; what a peer needs is imported when it starts."""
    assert group_of(name).title


@pytest.mark.parametrize(("available", "nbytes"), [(20 << 30, 4 << 30), (15 << 30, 2 << 30), (1 << 20, 256 << 20)])
def test_a_large_array_is_as_large_as_the_memory_has_room_for(available: int, nbytes: int) -> None:
    """4 GiB where four of them fit, and never less than 256 MiB."""
    assert fitting(available) == nbytes


def test_the_peak_of_a_process_is_counted_from_when_it_is_asked() -> None:
    """64 MiB that are touched and gone again are seen."""
    if not peak.available():
        pytest.skip("only Linux tells")
    before = peak.restart("self")
    np.ones(64 << 20, np.uint8)
    assert 60 << 20 < peak.most("self") - before < 96 << 20
    assert peak.restart("self") - before < 32 << 20
    assert peak.most("self") - before < 32 << 20


def test_what_is_about_a_gpu_is_left_out_without_one() -> None:
    """With the reason."""
    with pytest.raises(Skipped, match="CUDA"):
        next(group_of("pinned").measure(Run(arch="cpu", rounds=1)))


# What is kept, and the page


def test_what_is_saved_is_loaded_alike(tmp_path: Path) -> None:
    """Another run of one group keeps the figures of the others."""
    path = tmp_path / "results" / "cpu.json"
    assert load(path, "cpu") == Results(arch="cpu")
    before = results(calls=(figure(reach=at_most(1.5)),), driver=(figure(),))
    save(before, path)
    assert load(path, "cpu") == before
    after = before.with_group("driver", results(driver=(figure("another"),)).groups["driver"])
    assert after.groups["calls"] == before.groups["calls"]
    assert after.groups["driver"].figures[0].what == "another"


def test_a_file_of_another_making_is_refused(tmp_path: Path) -> None:
    """The error says what to do with it."""
    path = tmp_path / "cpu.json"
    path.write_text('{"groups": {"calls": {"figures": []}}}')
    with pytest.raises(ValueError, match=r"remove it and run again"):
        load(path, "cpu")


def test_the_page_keeps_what_people_wrote_around_the_tables() -> None:
    """Only what is between the markers is replaced, however often."""
    text = f"# Title\n\n{page.BEGIN}\nold\n{page.END}\n\nBy hand.\n"
    for table in ("one", "two"):
        text = page.replaced(text, table)
    assert text == f"# Title\n\n{page.BEGIN}\n\ntwo\n\n{page.END}\n\nBy hand.\n"
    with pytest.raises(ValueError, match="has no place for the tables"):
        page.replaced("# Title\n", "one")


def test_a_table_shows_figure_floor_ratio_reach_and_verdict() -> None:
    """A miss is in bold; what has no floor has its own spread."""
    alone = told("memory", samples(0.5), measure=time_in("ms"), reach=at_most(1000))
    rows = page.table([figure(ratio=2.0, reach=at_most(1.5)), alone]).splitlines()
    assert rows[2] == "| small run | 2 us | a floor | 1 us | 2 (2 to 2) | ≤ 1.5 | **missed** |"
    assert rows[3] == "| memory | 500 (500 to 500) ms |  |  |  | ≤ 1000 | hit |"


def test_the_page_tells_how_many_figures_hit_and_how_to_repeat_them() -> None:
    """What all groups share of the machine is said once, and what is a group's own below its table."""
    found = results(calls=(figure(reach=at_most(3)), figure(reach=at_most(1))), driver=(figure(),))
    text = page.rendered([found], {"calls": "Calls", "pipelined": "Many", "driver": "Driver"})
    assert "Of 2 figures with a reach 1 hit it and 1 miss it." in text
    assert text.count("an abacus") == 1
    assert "2026-12-01, 7 rounds, 3 s: `make bench BENCH=calls`. a note." in text
    assert "Many" not in text


def test_the_repositorys_own_page_has_a_place_for_the_tables() -> None:
    """`make bench` can write it."""
    text = (REPOSITORY / "docs/performance.md").read_text(encoding="utf-8")
    assert page.replaced(text, "x") != text


@pytest.mark.parametrize(("unit", "ratio", "factor"), [("us", 4.0, 0.25), ("GB/s", 4.0, 4.0), ("us", 0.0, 100.0)])
def test_in_the_picture_to_the_right_is_better(unit: str, ratio: float, factor: float) -> None:
    """Times are turned around, speeds are not."""
    assert picture.better(figure(unit=unit), ratio) == factor


def test_the_picture_has_a_row_for_each_figure_with_a_ratio() -> None:
    """It is well-formed also with odd names, and has a line where the reach is."""
    found = results(calls=(figure("a < b & c", reach=at_most(1.5)), told("x", samples(1.0), measure=time_in("s"))))
    root = ElementTree.fromstring(picture.drawn(found, ("calls",)))
    texts = [each.text for each in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "a < b & c / a floor" in texts
    assert not [text for text in texts if text is not None and text.startswith("x /")]
    assert len([each for each in root.iter("{http://www.w3.org/2000/svg}line") if each.get("stroke-width") == "2"]) == 1


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_run_of_one_group_measures_and_writes(tmp_path: Path, arch: str) -> None:
    """With real workers and floors: figures are kept, and the page has them."""
    target = tmp_path / "page.md"
    target.write_text(f"{page.BEGIN}\n{page.END}\n")
    command = [sys.executable, "-m", "bench", "calls", "driver", "--rounds", "1", "--arch", arch]
    done = subprocess.run(
        [*command, "--results", str(tmp_path), "--page", str(target)],
        cwd=REPOSITORY / "benchmarks",
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join((str(REPOSITORY / "tests"), os.environ.get("PYTHONPATH", ""))),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert set(load(tmp_path / f"{arch}.json", arch).groups) == {"calls", "driver"}
    assert "small run, p50" in target.read_text()
    assert (tmp_path / f"performance-{arch}.svg").exists()
