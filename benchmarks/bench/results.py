"""What is kept of the last run of each group on a machine, in one file for each arch."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from bench.figures import Figure, Reach
from bench.samples import Spread


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One group's run. ``machine`` has words for it by kind: what it is, and versions."""

    date: str
    seconds: float
    rounds: int
    machine: Mapping[str, str]
    figures: tuple[Figure, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Results:
    """Of one arch, by group."""

    arch: str
    groups: Mapping[str, Measured] = field(default_factory=dict)

    def with_group(self, name: str, measured: Measured) -> Results:
        """The same with that group's newest run."""
        return replace(self, groups={**self.groups, name: measured})


def save(results: Results, path: Path) -> None:
    """Writes it as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(asdict(results), indent=1) + "\n", encoding="utf-8")


def load(path: Path, arch: str) -> Results:
    """What was saved there, or nothing yet. Raises `ValueError` for what `save` did not write."""
    if not path.exists():
        return Results(arch=arch)
    found = json.loads(path.read_text(encoding="utf-8"))
    try:
        groups = {name: _measured(each) for name, each in found["groups"].items()}
        return Results(arch=found["arch"], groups=groups)
    except (KeyError, TypeError) as error:
        raise ValueError(f"{path} is not what this version writes ({error!r}): remove it and run again") from error


def _measured(found: dict[str, Any]) -> Measured:
    figures = tuple(_figure(each) for each in found.pop("figures"))
    return Measured(**{**found, "notes": tuple(found["notes"])}, figures=figures)


def _figure(found: dict[str, Any]) -> Figure:
    spreads = {key: Spread(**found[key]) if found[key] else None for key in ("subject", "floor", "ratio")}
    reach = Reach(**found["reach"]) if found["reach"] else None
    return Figure(**{**found, **spreads, "reach": reach})
