"""A case in the manner of Taichi's own tests: a source, calls of it through the client, and what they must give."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from features.rows import feature
from tiremote.client import Session
from tiremote.protocol.errors import TiremoteError

#: Calls something of the loaded unit; the second is the session.
Call = Callable[[Any, Session], Any]


@dataclass(frozen=True, slots=True)
class Fails:
    """An expected error: its type, and what its message holds."""

    error: type[TiremoteError]
    said: str


@dataclass(frozen=True, slots=True)
class Case:
    """``of`` names the test of Taichi's suite whose facts it takes; ``gives`` are calls with their results."""

    of: str
    source: str
    gives: Sequence[tuple[Call, Any]]


def case(of: str, row: str, source: str, *gives: tuple[Call, Any], wrong: bool = False) -> Any:
    """A parameter of a test: one case, of a row ``group: name``."""
    group, _, name = row.partition(": ")
    return pytest.param(Case(of, source, gives), id=of, marks=feature(group, name, wrong=wrong))


def shared(of: str, row: str, call: Call, expected: Any) -> Any:
    """A parameter of a test whose cases share one unit: a call of it, and what that must give."""
    group, _, name = row.partition(": ")
    return pytest.param(call, expected, id=of, marks=feature(group, name))


def placed(gpu: Session, dtype: str, *values: Any) -> Any:
    """A 0-d field for one value, a field of one axis for several."""
    field = gpu.ti.field(dtype, () if len(values) == 1 else len(values))
    field.from_numpy(np.array(values[0] if len(values) == 1 else values, field.dtype))
    return field


def check(gpu: Session, of_suite: Case) -> None:
    """Loads the source and makes each call."""
    for call, expected in of_suite.gives:
        if call is load:
            with pytest.raises(expected.error, match=expected.said):
                gpu.compile_and_load(of_suite.source, "case")
            return
    unit = gpu[gpu.compile_and_load(of_suite.source, "case").unit]
    for call, expected in of_suite.gives:
        if isinstance(expected, Fails):
            with pytest.raises(expected.error, match=expected.said):
                call(unit, gpu)
        else:
            same(call(unit, gpu), expected)


def load(*_: Any) -> None:
    """In the place of a call: loading is what fails."""


def after(kernel: Any, *args: Any) -> Any:
    """What the arrays among the arguments hold after a call; one alone as it is."""
    kernel(*args)
    held = [arg if isinstance(arg, np.ndarray) else arg.to_numpy() for arg in args if hasattr(arg, "shape")]
    return held[0] if len(held) == 1 else held


def same(came: Any, expected: Any) -> None:
    """Equal in kind and number: reals to single precision, all else exactly."""
    if isinstance(expected, dict):
        assert came.keys() == expected.keys()
        for name, value in expected.items():
            same(came[name], value)
    elif isinstance(expected, (list, tuple)) and not isinstance(came, np.ndarray):
        assert len(came) == len(expected)
        for one, value in zip(came, expected, strict=True):
            same(one, value)
    elif expected is None or isinstance(expected, str):
        assert came == expected
    else:
        kind = np.asarray(expected).dtype.kind
        (np.testing.assert_allclose if kind == "f" else np.testing.assert_array_equal)(came, expected, **_CLOSE[kind])


_CLOSE: dict[str, dict[str, float]] = {"f": {"rtol": 1e-5}, "i": {}, "u": {}, "b": {}}
