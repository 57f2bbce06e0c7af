"""The README's table holds what tests/features declares, and every row of it is tested."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from features.rows import GROUPS, RUNTIMES, every_row
from features.table import (
    BEGIN,
    CROSS,
    END,
    LACKING,
    Outcome,
    between_markers,
    cells_of,
    load,
    parsed,
    rendered,
    replaced,
)

ROOT = Path(__file__).parents[1]


def test_the_readme_shows_every_row_on_every_runtime() -> None:
    """Rows, their order and the runtimes are those declared; no row failed, and only those lacking are marked so."""
    runtimes, cells = parsed(between_markers((ROOT / "README.md").read_text()))
    assert runtimes == RUNTIMES
    declared = {(group, row.name): row for group, row in every_row()}
    assert list(cells) == list(declared)
    for key, marks in cells.items():
        assert CROSS not in marks
        lacking = {name for name, mark in zip(runtimes, marks, strict=True) if mark == LACKING}
        assert lacking == set(declared[key].lacking)


def test_every_row_has_a_test_that_it_works_and_one_of_a_wrong_value(tmp_path: Path) -> None:
    """On each runtime that has it; a mistake, and what is lacking, has a test of the refusal."""
    file = tmp_path / "collected.json"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "tests/features", "--collect-only", "-q"],
        cwd=ROOT,
        env={**os.environ, "TIREMOTE_FEATURES": str(file)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    collected = load(file)
    runtimes = {one.runtime for one in collected}
    tested = {(one.group, one.row, one.runtime, one.kind) for one in collected}
    expected = {
        (group, row.name, runtime, kind)
        for group, row in every_row()
        for runtime in runtimes
        for kind in row.kinds(runtime)
    }
    assert tested == expected


def outcomes(outcome: str = "passed") -> list[Outcome]:
    """One of each row and runtime."""
    return [
        Outcome(group=group, row=row.name, kind="works", runtime=runtime, test="", outcome=outcome)
        for group, row in every_row()
        for runtime in RUNTIMES
    ]


def test_a_table_can_be_read_again() -> None:
    """What is rendered is parsed to the same marks."""
    runtimes, cells = cells_of(outcomes())
    assert parsed(rendered(runtimes, cells)) == (runtimes, cells)


def test_one_failure_is_a_cross() -> None:
    """A row of which any test failed has no tick on that runtime, and others keep theirs."""
    (group, row), *_ = every_row()
    failed = Outcome(group=group, row=row.name, kind="wrong", runtime=RUNTIMES[0], test="", outcome="failed")
    _, cells = cells_of([*outcomes(), failed])
    assert [key for key, marks in cells.items() if marks[0] == CROSS] == [(group, row.name)]


def test_what_was_skipped_is_no_outcome() -> None:
    """A test whose package is not there leaves the row's mark as it is, and a row of such tests alone is untested."""
    all_passed = outcomes()
    skipped = replace(all_passed[0], outcome="skipped")
    assert cells_of([*all_passed, skipped]) == cells_of(all_passed)
    with pytest.raises(ValueError, match=skipped.row):
        cells_of([skipped, *all_passed[1:]])


def test_no_table_is_made_of_a_part_of_the_tests() -> None:
    """A row without an outcome is an error that names it."""
    *some, last = outcomes()
    with pytest.raises(ValueError, match=last.row):
        cells_of(some)


def test_only_what_is_between_the_markers_is_replaced() -> None:
    """The text around stays, and a text without markers is refused."""
    text = f"before\n{BEGIN}\nold\n{END}\nafter\n"
    new = replaced(text, "| new |")
    assert new.startswith("before\n")
    assert new.endswith("\nafter\n")
    assert between_markers(new) == "| new |"
    with pytest.raises(ValueError, match="no place"):
        replaced("before\n", "| new |")


def test_names_of_rows_can_share_a_line() -> None:
    """No name holds what stands between names or cells, and none is there twice in its group."""
    for group, rows in GROUPS.items():
        names = [row.name for row in rows]
        assert len(set(names)) == len(names), group
        assert not [name for name in names if "·" in name or "|" in name]
