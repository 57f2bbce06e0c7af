"""Hypothesis measures no time here: a busy machine is no failure."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("tiremote", deadline=None)
settings.load_profile("tiremote")
