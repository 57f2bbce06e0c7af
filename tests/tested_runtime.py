"""The runtime of the tests that are about no other: ``taichi`` unless TIREMOTE_TEST_RUNTIME names another."""

from __future__ import annotations

import os

RUNTIME = os.environ.get("TIREMOTE_TEST_RUNTIME") or "taichi"
