"""The one runtime of this process: a second ``ti.init`` would take away what the first one made."""

from __future__ import annotations

import warnings

import pytest

from tested_runtime import RUNTIME
from tiremote.worker.engine.runtime import TaichiRuntime


@pytest.fixture(scope="session")
def runtime(arch: str) -> TaichiRuntime:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what Taichi's own import calls is deprecated
        made = TaichiRuntime(RUNTIME)
    made.init({"arch": arch})
    return made
