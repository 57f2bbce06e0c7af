"""docs/performance.md: what was measured between two markers, and around them what people wrote."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from bench.figures import Figure, Reach
from bench.results import Measured, Results
from bench.samples import Spread

BEGIN = "<!-- bench: written by `make bench`, not by hand -->"
END = "<!-- end of bench -->"

_HEAD = ("| figure | tiremote | beside | | ratio | reach | |", "|---|--:|---|--:|--:|--:|---|")


def replaced(text: str, tables: str) -> str:
    """A page's text with other tables between the markers. Raises `ValueError` where they are not there."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page has no place for the tables: the lines {BEGIN!r} and {END!r}")
    return f"{before}{BEGIN}\n\n{tables}\n\n{END}{after}"


def rendered(results: Sequence[Results], titles: Mapping[str, str]) -> str:
    """All archs, one after the other; ``titles`` has the groups in their order."""
    return "\n\n".join("\n\n".join(_machine(each, titles)) for each in results if each.groups)


def _machine(results: Results, titles: Mapping[str, str]) -> Iterator[str]:
    measured = [(name, results.groups[name]) for name in titles if name in results.groups]
    yield f"## On {results.arch.upper()}"
    common = _common([each.machine for _, each in measured])
    yield ", ".join(f"{kind} {told}" for kind, told in common.items()) + "."
    yield f"![The figures as a picture](performance-{results.arch}.svg)"
    yield _summary([figure for _, each in measured for figure in each.figures])
    for name, each in measured:
        yield f"### {titles[name]}"
        if each.figures:
            yield table(each.figures)
        yield _below(name, each, common)


def _common(machines: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """What all groups were measured on alike."""
    first = machines[0] if machines else {}
    return {kind: told for kind, told in first.items() if all(each.get(kind) == told for each in machines)}


def _summary(figures: Sequence[Figure]) -> str:
    judged = [figure.verdict for figure in figures if figure.reach is not None]
    hit, missed = (sum(verdict.startswith(word) for verdict in judged) for word in ("hit", "missed"))
    wide = judged.count("too wide")
    said = f"Of {len(judged)} figures with a reach {hit} hit it and {missed} miss it"
    return f"{said}; {wide} spread too far to say." if wide else f"{said}."


def _below(name: str, measured: Measured, common: Mapping[str, str]) -> str:
    own = [f"{kind} {told}" for kind, told in measured.machine.items() if kind not in common]
    said = [f"{measured.date}, {measured.rounds} rounds, {measured.seconds:.0f} s: `make bench BENCH={name}`"]
    return ". ".join([", ".join([*said, *own]), *measured.notes]) + "."


def table(figures: Sequence[Figure]) -> str:
    """Rows of Markdown."""
    return "\n".join([*_HEAD, *(_row(figure) for figure in figures)])


def _row(figure: Figure) -> str:
    verdict = f"**{figure.verdict}**" if figure.verdict.startswith("missed") else figure.verdict
    cells = (
        figure.what,
        _own(figure),
        figure.against,
        f"{number(figure.floor.median)} {figure.unit}" if figure.floor else "",
        _spread(figure.ratio) if figure.ratio else "",
        _reach(figure.reach),
        verdict,
    )
    return f"| {' | '.join(cells)} |"


def _own(figure: Figure) -> str:
    if figure.ratio is None:
        return f"{_spread(figure.subject)} {figure.unit}"
    return f"{number(figure.subject.median)} {figure.unit}"


def _spread(spread: Spread) -> str:
    return f"{number(spread.median)} ({number(spread.low)} to {number(spread.high)})"


def _reach(reach: Reach | None) -> str:
    return "" if reach is None else f"{'≤' if reach.side == 'most' else '≥'} {reach.bound:g}"


def number(value: float) -> str:
    """Three figures that count, and whole numbers above."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
