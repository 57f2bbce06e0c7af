"""``python -m bench [GROUP ...]``: measures, keeps what it found, and writes docs/performance.md and its pictures."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from bench import page, picture
from bench.groups import GROUPS, Run, Skipped, group_of, picked
from bench.machine import described
from bench.results import Measured, Results, load, save

REPOSITORY = Path(__file__).parents[2]
RESULTS = REPOSITORY / "benchmarks" / "results"
PAGE_FILE = REPOSITORY / "docs" / "performance.md"

PACKAGES = ("taichi", "numpy", "pyzmq", "rpyc", "Pyro5", "ipyparallel", "distributed", "ray", "pyarrow")


def measured(name: str, run: Run) -> Measured:
    """One group, with what it told on the way as lines on standard output. Raises `Skipped`."""
    group, machine = group_of(name), described(run.arch, PACKAGES)
    date, started = datetime.now(UTC).strftime("%Y-%m-%d"), time.perf_counter()
    print(f"\n{group.title}\n", flush=True)
    figures = []
    for figure in group.measure(run):
        figures.append(figure)
        print(page.table([figure]).splitlines()[-1], flush=True)
    return Measured(
        date=date,
        seconds=time.perf_counter() - started,
        rounds=run.rounds,
        machine=machine,
        figures=tuple(figures),
        notes=tuple(run.notes),
    )


def write_page(folder: Path, target: Path) -> None:
    """Of all archs of which there are results, with their pictures beside it."""
    found = [load(path, path.stem) for path in sorted(folder.glob("*.json"))]
    titles = {name: group_of(name).title for name in GROUPS}
    text = page.replaced(target.read_text(encoding="utf-8"), page.rendered(found, titles))
    target.write_text(text, encoding="utf-8")
    for results in found:
        drawn = picture.drawn(results, GROUPS)
        target.with_name(f"performance-{results.arch}.svg").write_text(drawn, encoding="utf-8")
    print(f"\nWritten: {target}")


def main(arguments: Sequence[str] | None = None) -> int:
    """The number of groups that failed."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("groups", nargs="*", metavar="GROUP", help=f"all, or some of: {', '.join(GROUPS)}")
    parser.add_argument("--rounds", type=int, default=7, help="turns of each contender, 7 unless told otherwise")
    parser.add_argument("--arch", default=os.environ.get("TIREMOTE_BENCH_ARCH") or "cpu", help="Taichi's: cpu, cuda")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the folder where figures are kept, as JSON")
    parser.add_argument("--page", type=Path, default=PAGE_FILE, help="the page that is written")
    parser.add_argument("--page-only", action="store_true", help="measure nothing, write the page anew")
    given = parser.parse_args(arguments)
    if given.rounds < 1:
        parser.error(f"--rounds={given.rounds}: at least one is needed")
    try:
        names = () if given.page_only else picked(given.groups)
    except ValueError as error:
        parser.error(str(error))
    path = given.results / f"{given.arch}.json"
    results: Results = load(path, given.arch)
    failed = 0
    for name in names:
        try:
            results = results.with_group(name, measured(name, Run(arch=given.arch, rounds=given.rounds)))
        except Skipped as why:
            print(f"{name} is left out: {why}", flush=True)
            continue
        except Exception as error:
            # One that fails keeps nobody else from being measured; its earlier figures stay.
            failed += 1
            print(f"{name} failed: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
            continue
        save(results, path)
    write_page(given.results, given.page)
    return failed


if __name__ == "__main__":
    sys.exit(main())
