"""One number into one primitive type: exact, or refused. Nothing wraps round, saturates or becomes infinite."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from tiremote.protocol.dtypes import DTYPES

Number = bool | int | float

#: From this size on a finite number rounds to infinity: half a unit above the largest finite one.
_ROUNDS_TO_INFINITY = {"f16": 65520.0, "f32": float(2**128 - 2**103)}

_LONG = 60


class Mismatch(Exception):
    """A value that a type does not take: ``came`` says what it was, ``hint`` what to do."""

    def __init__(self, came: str, hint: str, inside: str = "") -> None:
        super().__init__(came)
        self.came = came
        self.hint = hint
        #: Where in a compound value it was, such as ``[2]`` or ``.radius``.
        self.inside = inside

    def within(self, place: str) -> Mismatch:
        """The same, seen from the value that holds it."""
        return Mismatch(self.came, self.hint, place + self.inside)


def shown(value: object) -> str:
    """A value and its type for an error sentence, cut to a readable length."""
    text = " ".join(repr(value).split())
    if len(text) > _LONG:
        text = text[: _LONG - 3] + "..."
    return f"{text} ({type(value).__name__})"


@cache
def bounds(dtype: str) -> tuple[int, int]:
    """The smallest and the largest value of an integer dtype; bool counts as one."""
    if dtype == "bool":
        return 0, 1
    info = np.iinfo(DTYPES[dtype])
    return int(info.min), int(info.max)


def is_real(dtype: str) -> bool:
    """Whether the dtype holds floating-point numbers."""
    return dtype in ("f16", "f32", "f64")


@cache
def scalar_taker(dtype: str) -> Callable[[Any], Number]:
    """What turns a value into a Python number that ``dtype`` holds. The function raises `Mismatch`."""
    return _real_taker(dtype) if is_real(dtype) else _integer_taker(dtype)


def _integer_taker(dtype: str) -> Callable[[Any], int]:
    low, high = bounds(dtype)

    def take(value: Any) -> int:
        number = value
        if type(number) is not int:
            if not isinstance(value, (int, np.integer, np.bool_)):
                hint = "convert it with int()" if isinstance(value, (float, np.floating)) else "pass an integer"
                raise Mismatch(shown(value), hint)
            number = int(value)
        if low <= number <= high:
            return number
        raise Mismatch(shown(value), f"{dtype} holds {low} to {high}")

    return take


def _real_taker(dtype: str) -> Callable[[Any], float]:
    limit = _ROUNDS_TO_INFINITY.get(dtype, np.inf)

    def take(value: Any) -> float:
        number = value
        if type(number) is not float:
            if not isinstance(value, (float, int, np.floating, np.integer, np.bool_)) or isinstance(
                value, np.longdouble
            ):
                raise Mismatch(shown(value), "pass a number")
            try:
                number = float(value)
            except OverflowError:
                raise Mismatch(shown(value), f"it is beyond the range of {dtype}") from None
        # What is infinite or NaN already stays so; only a finite number must not become infinite.
        if -limit < number < limit or number - number != 0.0:
            return number
        raise Mismatch(shown(value), f"it is beyond the range of {dtype}")

    return take
