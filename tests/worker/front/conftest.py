"""Fixtures of the front's tests."""

from __future__ import annotations

import pytest

from front_bench import FrontBench


@pytest.fixture
def bench() -> FrontBench:
    """A front with one engine ready."""
    return FrontBench()
