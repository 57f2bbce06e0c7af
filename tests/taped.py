"""Calls on a tape as one statement, for tests that expect an error of some of it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest


def taped(block: AbstractContextManager[object], *calls: Callable[[], object]) -> None:
    """Makes the calls in the block of a tape."""
    with block:
        for call in calls:
            call()


def failing(kind: type[Exception], call: Callable[[], object]) -> Callable[[], None]:
    """A call whose error the block catches."""

    def caught() -> None:
        with pytest.raises(kind):
            call()

    return caught
