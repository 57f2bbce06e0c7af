"""Keeping Taichi from the terminal while it is imported and asked for devices."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from typing import Any


@contextlib.contextmanager
def silenced(ti: Any) -> Iterator[None]:
    """The runtime logs a missing driver straight to the terminal; here that is an answer, not a fault."""
    ti._logging.set_logging_level("critical")
    try:
        yield
    finally:
        ti._logging.set_logging_level("error")


@contextlib.contextmanager
def quiet_environment(wanted: Mapping[str, str]) -> Iterator[None]:
    """While the module is imported: no banner, no call home, and kernel prints go to the real stdout.

    Taichi turns on a print buffer of its own when ``sys.stdout`` is replaced at import, which loses prints.
    """
    before = {key: os.environ.get(key) for key in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for key, value in before.items():
            if key == "TI_SKIP_VERSION_CHECK":
                continue  # it is read at every ti.init, and a worker never calls home
            if value is None:
                del os.environ[key]
            else:
                os.environ[key] = value
