"""The one runtime of this process: a second ``ti.init`` would take away what the first one made."""

from __future__ import annotations

import os
import warnings

import pytest

from tiremote.worker.engine.runtime import TaichiRuntime


@pytest.fixture(scope="session")
def runtime(arch: str) -> TaichiRuntime:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what Taichi's own import calls is deprecated
        made = TaichiRuntime(os.environ.get("TIREMOTE_TEST_RUNTIME") or "taichi")
    made.init({"arch": arch})
    return made
