"""The groups of figures, in the order of the page. Each is a module with ``TITLE`` and ``measure(run)``."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from bench.figures import Figure

GROUPS = (
    "calls",
    "pipelined",
    "driver",
    "peers",
    "transfers",
    "same_machine",
    "local_taichi",
    "pinned",
    "fields",
    "reload",
    "memory",
    "sessions",
    "slow_link",
)


class Skipped(Exception):
    """A group that cannot be measured here, and why."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """What a group is told, and where it leaves what is to be said beside the figures."""

    arch: str
    rounds: int
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Group:
    """One of `GROUPS`. ``measure`` raises `Skipped`."""

    name: str
    title: str
    measure: Callable[[Run], Iterator[Figure]]


def group_of(name: str) -> Group:
    """Imports it."""
    module = importlib.import_module(f"bench.groups.{name}")
    return Group(name=name, title=module.TITLE, measure=module.measure)


def picked(names: Sequence[str]) -> tuple[str, ...]:
    """Those groups in their own order, all where none is named. Raises `ValueError` for a name that is none."""
    unknown = [name for name in names if name not in GROUPS]
    if unknown:
        raise ValueError(f"no group is called {', '.join(unknown)}; there are {', '.join(GROUPS)}")
    return tuple(name for name in GROUPS if not names or name in names)
