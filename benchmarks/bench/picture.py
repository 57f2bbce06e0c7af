"""The figures as a picture: for each a bar from floor to tiremote, and where the reach is. SVG by hand."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape

from bench.figures import Figure
from bench.page import number
from bench.results import Results

_WIDTH, _LEFT, _RIGHT, _ROW, _TOP = 960, 430, 110, 22, 64
_FONT = 'font-family="sans-serif"'
_TITLE = "how many times as good tiremote is as what it stands beside; the black line is what was to be reached"
#: Ratios beyond are drawn at the edge: of a hundred times the eye learns no more.
_FURTHEST = 100.0
_COLOURS = {"hit": "#2b8a3e", "missed": "#c92a2a", "": "#868e96", "too wide": "#e9b949"}


def drawn(results: Results, order: Sequence[str]) -> str:
    """One row for each figure that has a ratio; to the right is better than what it stands beside."""
    rows = [(name, figure) for name in order if name in results.groups for figure in _shown(results, name)]
    height = _TOP + _ROW * len(rows) + 24
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" {_FONT} font-size="12">',
        f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
        f'<text x="12" y="24" font-size="16">{escape(results.arch)}: {_TITLE}</text>',
    ]
    lines += _scale(height)
    for place, (_, figure) in enumerate(rows):
        lines += _row(_TOP + place * _ROW, figure)
    return "\n".join([*lines, "</svg>", ""])


def _shown(results: Results, name: str) -> list[Figure]:
    return [figure for figure in results.groups[name].figures if figure.ratio is not None]


def better(figure: Figure, ratio: float) -> float:
    """The ratio turned so that more is better, by the unit: speeds are, times and bytes are not."""
    return ratio if figure.unit.endswith("/s") else 1 / ratio if ratio else _FURTHEST


def _x(factor: float) -> float:
    bounded = min(max(factor, 1 / _FURTHEST), _FURTHEST)
    share = (math.log(bounded) / math.log(_FURTHEST) + 1) / 2
    return _LEFT + share * (_WIDTH - _LEFT - _RIGHT)


def _scale(height: int) -> Iterator[str]:
    for factor in (0.01, 0.1, 1.0, 10.0, 100.0):
        x = _x(factor)
        colour = "#495057" if factor == 1 else "#dee2e6"
        yield f'<line x1="{x:.1f}" y1="{_TOP - 10}" x2="{x:.1f}" y2="{height - 20}" stroke="{colour}"/>'
        yield f'<text x="{x:.1f}" y="{_TOP - 16}" text-anchor="middle" fill="#495057">{factor:g} x</text>'


def _row(y: int, figure: Figure) -> Iterator[str]:
    assert figure.ratio is not None
    factor = better(figure, figure.ratio.median)
    start, end = sorted((_x(1.0), _x(factor)))
    verdict = figure.verdict.rstrip("?")
    colour = _COLOURS[verdict]
    label = escape(f"{figure.what} / {figure.against}")
    yield f'<text x="{_LEFT - 10}" y="{y + 15}" text-anchor="end">{label}</text>'
    yield f'<rect x="{start:.1f}" y="{y + 4}" width="{max(end - start, 1):.1f}" height="{_ROW - 8}" fill="{colour}"/>'
    if figure.reach is not None:
        x = _x(better(figure, figure.reach.bound))
        yield f'<line x1="{x:.1f}" y1="{y + 1}" x2="{x:.1f}" y2="{y + _ROW - 1}" stroke="#000000" stroke-width="2"/>'
    value = escape(f"{number(figure.subject.median)} {figure.unit}")
    yield f'<text x="{_WIDTH - _RIGHT + 10}" y="{y + 15}" fill="{colour}">{value}</text>'
