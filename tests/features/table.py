"""The feature table as Markdown: made from what the tests found, read again, and put between two markers.

``python -m features.table OUTCOMES README.md`` rewrites it in a file. Rows of a group that are alike share a line.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path

from features.rows import GROUPS, RUNTIMES, Kind, every_row

BEGIN = "<!-- features: written by `make features`, not by hand -->"
END = "<!-- end of features -->"

TICK, CROSS, LACKING = "✓", "✗", "–"

#: Between rows that share a line.
_BETWEEN = " · "

Cells = Mapping[tuple[str, str], tuple[str, ...]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """What one test of a row found on one runtime; ``outcome`` is pytest's, or ``collected`` where none ran."""

    group: str
    row: str
    kind: Kind
    runtime: str
    test: str
    outcome: str


def save(outcomes: Iterable[Outcome], path: Path) -> None:
    path.write_text(json.dumps([asdict(one) for one in outcomes], indent=1), encoding="utf-8")


def load(path: Path) -> list[Outcome]:
    return [Outcome(**one) for one in json.loads(path.read_text(encoding="utf-8"))]


def cells_of(outcomes: Sequence[Outcome]) -> tuple[tuple[str, ...], Cells]:
    """The runtimes that the tests ran on, and for each row a mark for each of them; what was skipped says nothing.

    Raises ValueError where a row was not tested, so that no table is made of a part of the tests.
    """
    runtimes = tuple(name for name in RUNTIMES if any(one.runtime == name for one in outcomes))
    found: dict[tuple[str, str, str], list[bool]] = {}
    for one in (each for each in outcomes if each.outcome != "skipped"):
        found.setdefault((one.group, one.row, one.runtime), []).append(one.outcome == "passed")
    cells: dict[tuple[str, str], tuple[str, ...]] = {}
    for group, row in every_row():
        marks = []
        for runtime in runtimes:
            passed = found.get((group, row.name, runtime))
            if not passed:
                raise ValueError(f"nothing has tested {group}: {row.name} on {runtime}; run all of tests/features")
            marks.append(CROSS if not all(passed) else LACKING if runtime in row.lacking else TICK)
        cells[group, row.name] = tuple(marks)
    return runtimes, cells


def rendered(runtimes: Sequence[str], cells: Cells) -> str:
    """The table, and the reasons for what is lacking."""
    lines = [f"| | | {' | '.join(runtimes)} |", f"|---|---|{':-:|' * len(runtimes)}"]
    for (group, marks), keys in groupby(cells, lambda key: (key[0], cells[key])):
        lines.append(f"| {group} | {_BETWEEN.join(row for _, row in keys)} | {' | '.join(marks)} |")
    reasons: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for _, row in every_row():
        for reason in dict.fromkeys(row.lacking.values()):
            there = tuple(name for name in runtimes if row.lacking.get(name) == reason)
            if there:
                reasons.setdefault((reason, there), []).append(row.name)
    if reasons:
        lines += ["", f"{LACKING} means that the runtime does not have it, and that the worker says so:", ""]
        lines += [f"- {', '.join(names)} ({', '.join(there)}): {reason}" for (reason, there), names in reasons.items()]
    return "\n".join(lines)


def parsed(text: str) -> tuple[tuple[str, ...], Cells]:
    """The runtimes and the marks of each row of a table that `rendered` made."""
    lines = [_cells(line) for line in text.splitlines() if line.startswith("|")]
    cells: dict[tuple[str, str], tuple[str, ...]] = {}
    for group, members, *marks in lines[2:]:
        for row in members.split(_BETWEEN):
            cells[group, row] = tuple(marks)
    return tuple(lines[0][2:]), cells


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def between_markers(text: str) -> str:
    """What a file's text has between the two markers."""
    return text.partition(BEGIN)[2].partition(END)[0].strip()


def replaced(text: str, table: str) -> str:
    """A file's text with another table between the markers. Raises ValueError where they are not there."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the text has no place for the table: the lines {BEGIN!r} and {END!r}")
    return f"{before}{BEGIN}\n\n{table}\n\n{END}{after}"


def main(outcomes: str, target: str) -> None:
    """Rewrites the table in the file ``target`` from the file that the tests wrote."""
    path = Path(target)
    table = rendered(*cells_of(load(Path(outcomes))))
    path.write_text(replaced(path.read_text(encoding="utf-8"), table), encoding="utf-8")
    print(f"{target}: {len(list(every_row()))} rows in {len(GROUPS)} groups")


if __name__ == "__main__":
    main(*sys.argv[1:])
